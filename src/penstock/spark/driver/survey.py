"""Where the signals from outside stand: in which split, before which of its items.

Where the splits cannot tell how many items they have, or a signal is placed by the value of a field, a first pass of
tasks counts the items, and looks at that field alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.graph.record import Signal
from penstock.graph.signal_indices import (
    FieldSummary,
    IndexSearch,
    fields_of,
    in_order,
    together,
    values_of,
    with_indices,
)
from penstock.graph.tree import At, never_reached
from penstock.spark.worker.block import Block

if TYPE_CHECKING:
    from penstock.spark.driver.batch import BatchJob

Sought = Mapping[str, tuple[Any, ...]]
"""The values that are looked for, by field."""


PLACED = "placement binary"
"""The column that a first pass in the plan of a DataFrame gives."""


@dataclass(frozen=True)
class Placement:
    """For each split the index of its first item, where that is known, and the signals in it by offset."""

    bases: Mapping[int, int] = field(default_factory=dict)
    signals: Mapping[int, tuple[tuple[int, Signal], ...]] = field(default_factory=dict)


def placement(job: BatchJob) -> Placement:
    """Place the signals of a job."""
    if not needs_pass(job):
        return placed(in_order(job.control), job.counts, job.skipped) if job.counts is not None else Placement()
    return placed_by(job.control, job.survey(sought_by(job)), job.skipped)


def needs_pass(job: BatchJob) -> bool:
    """Whether a first pass over the items has to tell where the signals stand."""
    return bool(job.control) and (job.counts is None or bool(fields_of(job.control)))


def sought_by(job: BatchJob) -> Sought:
    return {name: values_of(job.control, name, job.tree.source) for name in fields_of(job.control)}


def placed_by(
    control: Sequence[At], seen: Mapping[int, Mapping[str, FieldSummary]], skipped: Mapping[int, int]
) -> Placement:
    """Place signals by what a first pass has seen in each split."""
    given = list(control)
    for name in fields_of(control):
        indices = together([seen[number][name] for number in sorted(seen)], name)
        given = with_indices(given, name, indices)
    return placed(in_order(given), {number: found[""].count for number, found in seen.items()}, skipped)


def seen_in(batches: Iterator[pa.RecordBatch], label: str, sought: Sought) -> dict[str, FieldSummary]:
    """What is seen in some items: of the fields that are sought, and under no name how many there are."""
    looks = {name: IndexSearch(name, values, label) for name, values in sought.items()}
    count = 0
    for batch in batches:
        count += batch.num_rows
        for look in looks.values():
            look.add(batch)
    return {name: look.summary() for name, look in looks.items()} | {"": FieldSummary(count)}


def gathered(arrived: Sequence[Block]) -> dict[int, Any]:
    """What all tasks of the first pass saw, by the number of the split."""
    return {block.sender: pickle.loads(block.head) for block in arrived}


def placed(control: Sequence[At], counts: Mapping[int, int], skipped: Mapping[int, int]) -> Placement:
    """Place signals in splits of so many items, some of them behind others that were left out.

    At the edge of two splits a signal stands in the earlier one: so a region that ends there ends behind it, as it
    does for one thread, which sees the end of a region with the next item.
    """
    bases: dict[int, int] = {}
    total = 0
    for number in sorted(counts):
        bases[number] = total = total + skipped.get(number, 0)
        total += counts[number]
    signals: dict[int, tuple[tuple[int, Signal], ...]] = {}
    for given in control:
        if given.index > total:
            raise never_reached(given, total)
        number = max((number for number, base in bases.items() if base < given.index), default=min(bases))
        signals[number] = (*signals.get(number, ()), (given.index - bases[number], given.signal))
    return Placement(bases, signals)
