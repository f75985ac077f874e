"""Splits that begin where a region begins, so that regions found in the stream never span two of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.intake import Arrival, arriving
from penstock.engine.run import Run
from penstock.graph import nodes as n
from penstock.graph.signal_indices import ITEMS
from penstock.graph.split import Joined, NoItems, Split
from penstock.graph.tree import Tree
from penstock.spark.worker.stage_input import used_columns

HEAD_ITEMS = 1 << 12
"""How many items are looked at at a time: a region mostly begins soon."""


@dataclass(frozen=True, slots=True)
class SplitSpan(Split):
    """The items of a split from one on, up to another (None: to its end)."""

    split: Split
    start: int
    stop: int | None

    @property
    def label(self) -> str:
        return self.split.label

    @property
    def bytes(self) -> int:
        return self.split.bytes if self.start == 0 or self.stop is None else 0

    @property
    def rows(self) -> int | None:
        if self.stop is not None:
            return self.stop - self.start
        return None if self.split.rows is None else self.split.rows - self.start

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        if self.stop is not None:
            at_most = min(at_most, max(self.stop, 1))
        at = 0
        for batch in self.split.read(columns, at_most):
            stop = batch.num_rows if self.stop is None else min(batch.num_rows, self.stop - at)
            start = min(max(self.start - at, 0), stop)
            if start < stop:
                yield batch.slice(start, stop - start)
            at += batch.num_rows
            if self.stop is not None and at >= self.stop:
                return


@dataclass(frozen=True, slots=True)
class Aligned(Split):
    """A split from its first sure beginning on, and what follows up to the next one, in the splits behind it."""

    spans: tuple[SplitSpan, ...]

    @property
    def label(self) -> str:
        return self.spans[0].label

    @property
    def bytes(self) -> int:
        return self.spans[0].bytes

    @property
    def rows(self) -> int | None:
        counts = [span.rows for span in self.spans]
        return None if None in counts else sum(count for count in counts if count is not None)

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        for span in self.spans:
            yield from span.read(columns, at_most)


def align_splits(splits: Sequence[Split], first: Mapping[int, int | None]) -> list[Split]:
    """The same items in splits that begin with a region. `first` has where one surely begins, by the split's number."""
    starts = [number for number in range(len(splits)) if number == 0 or first.get(number) is not None]
    made: list[Split] = []
    for at, number in enumerate(starts):
        after = starts[at + 1] if at + 1 < len(starts) else len(splits)
        spans = [SplitSpan(splits[number], (first[number] or 0) if number else 0, None)]
        spans += [SplitSpan(splits[between], 0, None) for between in range(number + 1, after)]
        if after < len(splits):
            spans.append(SplitSpan(splits[after], 0, first[after]))
        made.append(Aligned(tuple(span for span in spans if span.stop != 0)))
    return made


def align_split(number: int, splits: Sequence[Split], send: n.Send, by: Sequence[str]) -> Split:
    """One of the same splits, found without the others: for a task that must align its own.

    It begins with its first sure beginning and ends before the next one, in whatever split that lies. A split in which
    no region surely begins belongs to an earlier one as a whole, and is empty here.
    """
    start = first_beginning(send, by, splits[number]) if number else 0
    if start is None:
        return NoItems()
    spans = [SplitSpan(splits[number], start, None)]
    for split in splits[number + 1 :]:
        stop = first_beginning(send, by, split)
        spans.append(SplitSpan(split, 0, stop))
        if stop is not None:
            break
    return Aligned(tuple(span for span in spans if span.stop != 0))


def first_beginning(send: n.Send, by: Sequence[str], split: Split) -> int | None:
    """How many items of a split lie before the first sure beginning of a region; None where there is none."""
    tree = Tree((send,))
    arrivals = (Arrival(rows) for rows in split.read(used_columns(tree), HEAD_ITEMS))
    last: pa.RecordBatch | None = None
    for (found,) in Run((send,), batches_in=arriving(tree.source, arrivals)).batches():
        if not found.num_rows:
            continue
        if not by:
            return int(found.column(n.PLACE)[0].as_py())
        given = found if last is None else pa.concat_batches([last, found])
        changed = np.zeros(given.num_rows - 1, bool)
        for name in by:
            column = given.column(name)
            changed |= pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
        if changed.any():
            return int(given.column(n.PLACE)[int(np.argmax(changed)) + 1].as_py())
        last = given.slice(given.num_rows - 1)
    return None


def locate(split: Split, offset: int) -> tuple[str, int]:
    """The piece of a split in which an item lies, for messages, and the item's place there.

    Where the pieces cannot tell how many items they have, they are read and counted.
    """
    if isinstance(split, SplitSpan):
        return locate(split.split, split.start + offset)
    left = offset
    for part in split.parts if isinstance(split, Joined) else split.spans if isinstance(split, Aligned) else ():
        count = _count(part)
        if left < count:
            return locate(part, left)
        left -= count
    return split.label, offset


def _count(split: Split) -> int:
    if split.rows is not None:
        return split.rows
    return sum(batch.num_rows for batch in split.read((), ITEMS))
