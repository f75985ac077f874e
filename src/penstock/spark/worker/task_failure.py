"""What went wrong in a task, and how it is reported: with the piece of the source that it lies in.

A task knows an item by its index: in its split or in the source, in its bucket, or by its place. Only the driver knows
the splits. So a task reports which split the item came from, and the driver puts that into the words of the message.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from penstock.codegen.end_rules import AT_END
from penstock.errors import InternalError, JobError, OutputError, PenstockError
from penstock.spark.record_head import read_record
from penstock.spark.wire import Failed, Kind, decode, messages
from penstock.spark.worker.block_columns import SPLIT_BITS


class Unfinished(Exception):
    """Ends a task that keeps state, so that Spark does not keep what it has done; the error is in the text."""


_IN_TEXT = re.compile(r"penstock-failed:([A-Za-z0-9+/=]+)")


def refuse_commit(rows: pa.RecordBatch) -> None:
    """Raise where the rows of a task hold a failure.

    Other tasks give such rows to the driver and end. One that keeps state must not: Spark would keep the state of the
    micro-batch as it is, and still have it when the micro-batch comes again, whatever that makes of it then.
    """
    for each in messages([rows]):
        if each.kind == Kind.FAILED:
            raise Unfinished(f"penstock-failed:{base64.b64encode(each.head).decode()}")


def error_in(text: str) -> PenstockError | None:
    """The error that a task was ended with, where the text of Spark's has it."""
    match = _IN_TEXT.search(text)
    if match is None:
        return None
    failed: Failed = read_record(Failed, base64.b64decode(match[1]))
    return failed.error


class SplitIndex:
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


def failure_of(stage: int, sender: int, error: PenstockError, index: SplitIndex, *, is_split: bool) -> Failed:
    """The failure of a task. `is_split`: the task reads splits, and no blocks."""
    split, offset = index.splits[-1] if is_split and index.splits else None, None
    if error.item is not None:
        split, offset = index.of(error.item)
    return Failed(stage, sender, *_words(error), split, error.item, offset if is_split else None)


def failure_before(stage: int, sender: int, error: PenstockError) -> Failed:
    """The failure of a task that has not come to its items."""
    return Failed(stage, sender, *_words(error))


def failure_in(split: int, error: PenstockError) -> Failed:
    """The failure of a first pass over the items of a split."""
    return Failed(0, split, *_words(error), split, error.item, error.item)


def _words(error: PenstockError) -> tuple[str, str]:
    own = next(each for each in type(error).__mro__ if each.__module__ == PenstockError.__module__)
    return own.__name__, str(error)


def with_label(failed: Failed, label: str) -> Failed:
    """The same in the words of the user, where the task itself knows what it read."""
    error_class, text = _words(user_error(failed, label, failed.offset, is_index=False))
    return replace(failed, error_class=error_class, text=text)


def first_failure(failures: Iterable[Failed]) -> Failed:
    """The first in the stream's order."""
    return min(failures, key=lambda each: each.order)


def raise_first(failures: Iterable[Failed], error_of: Callable[[Failed], PenstockError]) -> None:
    """Raise the first failure in the stream's order, where there is one."""
    listed = list(failures)
    if listed:
        raise error_of(first_failure(listed))


def raise_failed(batches: Iterable[pa.RecordBatch]) -> None:
    """Raise the first failure among some rows, where there is one."""
    for failed in decode(messages(batches), Failed):
        raise failed.error


def user_error(failed: Failed, label: str, offset: int | None, *, is_index: bool) -> PenstockError:
    """The error that the user gets.

    `label` is the piece of the source that the item lies in, and `offset` its place there; None where it is not known,
    as of items behind an exchange. With `is_index` the message names the item by its index in the source already.
    """
    error, text, name = failed.error, failed.text, f"item {failed.item}"
    if isinstance(error, (OutputError, JobError, InternalError)):
        return error
    if failed.item is None or name not in text or is_index:
        if label.split(",")[0] not in text:
            text = f"{text}; in {label}"
    elif offset is None:
        text = text.replace(name, f"an item of {label}", 1)
    else:
        text = text.replace(name, f"item {offset} of {label}", 1)
    return type(error)(text)
