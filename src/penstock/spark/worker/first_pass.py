"""A first pass over the items of the splits: where regions begin, how many items there are, and where signals stand.

Where the splits cannot tell how many items they have, or a signal is placed by the value of a field, tasks count the
items and look at that field alone, before the job or as a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.errors import ControlError, PenstockError
from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.graph.signal_indices import ITEMS, FieldSummary, IndexSearch, fields_of, in_order, together, with_indices
from penstock.graph.split import Split
from penstock.graph.tree import At, never_reached
from penstock.spark.files.region_splits import first_beginning
from penstock.spark.wire import Beginning, Failed, Message, PlacedSignals, Survey, decode, encode
from penstock.spark.worker.task_failure import failure_before, failure_in, raise_first

Sought = Mapping[str, tuple[Any, ...]]
"""The values that are looked for, by field."""


@dataclass(frozen=True)
class Placement:
    """For each split the index of its first item, where that is known, and the signals in it by offset."""

    bases: Mapping[int, int] = field(default_factory=dict)
    signals: Mapping[int, tuple[tuple[int, Signal], ...]] = field(default_factory=dict)


def find_beginning(number: int, split: Split, send: n.Send, by: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The row of a task that looks where the first region of a split surely begins."""
    # The first split begins with the stream, wherever its first region surely begins.
    return _answer(number, lambda: Beginning(number, first_beginning(send, by, split) if number else 0))


def survey_split(number: int, split: Split, sought: Sought) -> Iterator[pa.RecordBatch]:
    """The row of a task that counts the items of a split, and looks for values in it."""
    return _answer(number, lambda: Survey(number, _look(split.read(list(sought), ITEMS), split.label, sought)))


def _answer(number: int, look: Callable[[], Beginning | Survey]) -> Iterator[pa.RecordBatch]:
    try:
        record: Beginning | Survey | Failed = look()
    except PenstockError as error:
        record = failure_in(number, error)
    yield encode(record)


def _look(batches: Iterator[pa.RecordBatch], label: str, sought: Sought) -> dict[str, FieldSummary]:
    """What is seen in some items: of the fields that are sought, and under no name how many there are."""
    looks = {name: IndexSearch(name, values, label) for name, values in sought.items()}
    count = 0
    for batch in batches:
        count += batch.num_rows
        for look in looks.values():
            look.add(batch)
    return {name: look.summary() for name, look in looks.items()} | {"": FieldSummary(count)}


def place_surveyed(control: Sequence[At], surveys: Iterable[Survey], skipped: Mapping[int, int]) -> Placement:
    """Place signals by what a first pass has seen in each split."""
    seen = {survey.split: survey.fields for survey in surveys}
    indexed = list(control)
    for name in fields_of(control):
        indices = together([seen[number][name] for number in sorted(seen)], name)
        indexed = with_indices(indexed, name, indices)
    return place_counted(in_order(indexed), {number: fields[""].count for number, fields in seen.items()}, skipped)


def place_counted(control: Sequence[At], counts: Mapping[int, int], skipped: Mapping[int, int]) -> Placement:
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
    for at in control:
        if at.index > total:
            raise never_reached(at, total)
        number = max((number for number, base in bases.items() if base < at.index), default=min(bases))
        signals[number] = (*signals.get(number, ()), (at.index - bases[number], at.signal))
    return Placement(bases, signals)


# As a part of the job


def place_arrived(
    control: Sequence[At], arrived: Sequence[Message], skipped: Mapping[int, int], *, is_frame: bool
) -> PlacedSignals:
    """The places of all signals, or why there are none, from the rows of a first pass."""
    try:
        raise_first(decode(arrived, Failed), lambda failed: failed.error)
        surveys = list(decode(arrived, Survey))
        if is_frame:  # a partition without rows would not hear of its signals
            surveys = [survey for survey in surveys if survey.fields[""].count]
            if not surveys:
                raise ControlError("control: a DataFrame without rows has no place for a signal; got none")
        placement = place_surveyed(control, surveys, skipped)
    except PenstockError as error:
        return PlacedSignals(failure=failure_before(0, 0, error))
    numbers = {id(at.signal): number for number, at in enumerate(control)}
    places = {
        split: tuple((offset, numbers[id(signal)]) for offset, signal in signals)
        for split, signals in placement.signals.items()
    }
    return PlacedSignals(placement.bases, places)


def placement_of(placed: PlacedSignals, control: Sequence[At]) -> Placement:
    """The same with the signals themselves. Raises why there are none."""
    if placed.failure is not None:
        raise placed.failure.error
    signals = {
        split: tuple((offset, control[number].signal) for offset, number in places)
        for split, places in placed.places.items()
    }
    return Placement(placed.bases, signals)
