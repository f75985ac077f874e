"""What went wrong in a task, and how it is told: with the piece of the source that it lies in.

A task knows an item by its index: in its split or in the source, in its bucket, or by its place. Only the driver knows
the splits. So a task reports which split the item came from, and the driver puts that into the words of the message.
"""

from __future__ import annotations

import base64
import pickle
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.codegen.end_rules import AT_END
from penstock.errors import InternalError, JobError, OutputError, PenstockError
from penstock.spark.worker.block import SPLIT_BITS

FAILED = -3
"""What stands in the column `stage` of rows that tell of an error."""


@dataclass(frozen=True)
class Failed:
    """An error, and where in the stream it lies, so that the first can be told.

    `split` is the split that the item came from; None where it is about the whole stream. `item` is the index by which
    the message names an item, and `offset` its place in the split, where the task has read that itself.
    """

    stage: int
    sender: int
    error: PenstockError
    split: int | None = None
    item: int | None = None
    offset: int | None = None

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Smaller is earlier in the stream."""
        split = 1 << 62 if self.split is None else self.split
        return self.stage, split, self.item or 0, self.sender


class Unfinished(Exception):
    """Ends a task that keeps state, so that Spark does not keep what it has done; the error is in the text."""


_TOLD = re.compile(r"penstock-failed:([A-Za-z0-9+/=]+)")


def refuse_commit(rows: pa.RecordBatch) -> None:
    """Raise where the rows of a task tell of an error.

    Other tasks give such rows to the driver and end. One that keeps state must not: Spark would keep the state of the
    micro-batch as it is, and still have it when the micro-batch comes again, whatever that makes of it then.
    """
    for kind, head in zip(rows.column(1).to_pylist(), rows.column(5).to_pylist(), strict=True):
        if kind == FAILED:
            raise Unfinished(f"penstock-failed:{base64.b64encode(head).decode()}")


def told_in(text: str) -> PenstockError | None:
    """The error that a task was ended with, where the text of Spark's has it."""
    found = _TOLD.search(text)
    return None if found is None else pickle.loads(base64.b64decode(found[1])).error


class Origins:
    """Which split each item of a task came from: noted once a split, as its first item arrives.

    Invariant: `firsts` go up, and from each on the items are of the split beside it, up to the next.
    """

    def __init__(self, *, has_places: bool = False) -> None:
        self.has_places = has_places
        self.counts: dict[int, int] = {}
        """How many items each split has given, where the task reads them."""
        self.firsts: list[int] = []
        self.splits: list[int] = []

    def begin(self, split: int, first: int) -> None:
        self.firsts.append(first)
        self.splits.append(split)

    def place_of(self, index: int) -> tuple[int | None, int]:
        """The split of an item and its index there; None for what came at the end of the stream."""
        if not self.has_places:
            split, offset = self.of(index)
            return split, index if offset is None else offset
        if index >= AT_END:
            return None, 0
        return index >> SPLIT_BITS, index & ((1 << SPLIT_BITS) - 1)

    def of(self, item: int) -> tuple[int | None, int | None]:
        """The split of an item, and its place among those that came from there, where they are known."""
        if self.has_places:
            return item >> SPLIT_BITS, None
        at = bisect_right(self.firsts, item) - 1
        return (None, None) if at < 0 else (self.splits[at], item - self.firsts[at])


def failed(stage: int, sender: int, error: PenstockError, origins: Origins, *, is_split: bool) -> Failed:
    """An error as it travels, without what hangs on it. `is_split`: the task reads splits, and no blocks."""
    item = error.item
    if item is not None:
        split, offset = origins.of(item)
    else:
        split, offset = origins.splits[-1] if is_split and origins.splits else None, None
    return Failed(stage, sender, type(error)(str(error)), split, item, offset if is_split else None)


def failed_in(split: int, error: PenstockError) -> Failed:
    """An error of a first pass over the items of a split."""
    return Failed(0, split, type(error)(str(error)), split, error.item, error.item)


def named(failed: Failed, label: str) -> Failed:
    """The same in the words of the user, where the task itself knows what it read."""
    return replace(failed, error=told(failed, label, failed.offset, is_index=False))


def first(found: Iterable[Failed]) -> Failed:
    """The first in the stream's order."""
    return min(found, key=lambda each: each.order)


def told(failed: Failed, label: str, offset: int | None, *, is_index: bool) -> PenstockError:
    """The error that the user gets.

    `label` is the piece of the source that the item lies in, and `offset` its place there; None where it is not known,
    as of items behind an exchange. With `is_index` the message names the item by its index in the source already.
    """
    text, name = str(failed.error), f"item {failed.item}"
    if isinstance(failed.error, (OutputError, JobError, InternalError)):
        return failed.error
    if failed.item is None or name not in text or is_index:
        if label.split(",")[0] not in text:
            text = f"{text}; in {label}"
    elif offset is None:
        text = text.replace(name, f"an item of {label}", 1)
    else:
        text = text.replace(name, f"item {offset} of {label}", 1)
    return type(failed.error)(text)
