"""What comes into a stage: items of splits that the task reads, or of blocks that arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.enough import items_at_a_time
from penstock.engine.intake import Arrival, Batch, arriving, no_items
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.graph.needs import needs
from penstock.graph.split import with_bad
from penstock.graph.tree import Tree
from penstock.plan.stages import Exchange, Stage
from penstock.spark.wire import Block, Kind, Message
from penstock.spark.worker.align_blocks import align_sides
from penstock.spark.worker.block_columns import schema_of
from penstock.spark.worker.inbox import Inbox, chain_senders, merge_senders
from penstock.spark.worker.program import SIDE_BITS, Keeper, Program
from penstock.spark.worker.task_failure import SplitIndex

if TYPE_CHECKING:
    from penstock.graph.source import Split

SPLIT_ITEMS = 1 << 18
"""How many items of a split are taken at a time by default: enough to be fast, and little memory."""


@dataclass(frozen=True)
class StageInput:
    """What comes into a stage, how many bytes that was in the end, and which splits it came from."""

    batches: Iterator[Batch]
    bytes: Callable[[], int]
    index: SplitIndex
    files: FileByFile | None = None
    """Where these are several files."""


def used_columns(tree: Tree) -> list[str]:
    """The fields of the source that a graph uses, in their order."""
    needed = needs(tree)[tree.source]
    return [name for name in tree.source.items.fields if name in needed]


# Splits


def read_splits(program: Program, splits: Sequence[tuple[int, Split]], keeper: Keeper | None = None) -> StageInput:
    """The items of some splits, by number, one after the other."""
    source, index = _source(program), SplitIndex()
    base = program.bases.get(splits[0][0], 0) if splits else 0
    at_most = items_at_a_time(Tree(program.stages[0].leaves), SPLIT_ITEMS)
    arrivals = _arrivals_of(program, splits, index, base, _read_columns(program), at_most)
    size = sum(split.bytes for _, split in splits)
    if keeper is not None:
        return StageInput(arriving(source, keeper.noted(arrivals), base, is_open=True), lambda: size, index)
    return StageInput(arriving(source, arrivals, base), lambda: size, index)


def _source(program: Program) -> n.Source:
    return program.stages[0].leaves[0].source


def _read_columns(program: Program) -> list[str]:
    """The fields of the source that are read: those that the first stage uses, and those that a placer looks at."""
    used, placer = used_columns(Tree(program.stages[0].leaves)), program.placer
    return used if placer is None else list(dict.fromkeys([*used, *placer.fields]))


def _arrivals_of(
    program: Program, splits: Sequence[tuple[int, Split]], index: SplitIndex, base: int, used: list[str], most: int
) -> Iterator[Arrival]:
    """Items as they are read, with the signals among them. Where each split begins, and its count, is noted."""
    placer = program.placer
    at_most = program.options.get("batch_items") or most
    for number, split in splits:
        index.begin(number, base)
        waiting, offset = list(program.signals.get(number, ())), 0
        for rows in split.read(with_bad(split, used) if program.is_guarded else used, at_most):
            here = [(at - offset, signal) for at, signal in waiting if at < offset + rows.num_rows]
            del waiting[: len(here)]
            if placer is not None:
                here += placer.among(rows)
            yield Arrival(rows, tuple(here))
            offset += rows.num_rows
        index.counts[number] = offset
        if waiting:
            yield Arrival(no_items(_source(program)), tuple((0, signal) for _, signal in waiting))
        base += offset


def read_files(program: Program, splits: Sequence[Split]) -> StageInput:
    """The items of several files of a running stream, with a pause behind each."""
    index = SplitIndex()
    files = FileByFile(program, splits, index)
    size = sum(split.bytes for split in splits)
    return StageInput(files, lambda: size, index, files)


class FileByFile:
    """The batches of several files. It pauses behind each of them, until `go_on`.

    Invariant: `file` is the number of the file that is read, and `base` the index of its first item.
    """

    def __init__(self, program: Program, splits: Sequence[Split], index: SplitIndex) -> None:
        self.program, self.splits, self.index = program, splits, index
        self.source, self.used = _source(program), _read_columns(program)
        self.file, self.base, self.items = 0, 0, 0
        self.batches = self._batches()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = next(self.batches)
        self.items += batch.rows.num_rows
        return replace(batch, is_first=batch.is_first and self.file == 0)

    def go_on(self) -> bool:
        """Go on with the next file; whether there is one."""
        self.file, self.base = self.file + 1, self.items
        self.batches = self._batches()
        return self.file < len(self.splits)

    def _batches(self) -> Iterator[Batch]:
        if self.file >= len(self.splits):
            return iter(())
        split = [(self.file, self.splits[self.file])]
        arrivals = _arrivals_of(self.program, split, self.index, self.base, self.used, SPLIT_ITEMS)
        batches = arriving(self.source, arrivals, self.base)
        is_last = self.file + 1 == len(self.splits)
        return batches if is_last else (replace(batch, is_last=False) for batch in batches)


# Blocks


class Aborted(Exception):
    """A sender failed, so that what it would have sent will never arrive."""


class Mail:
    """The messages that arrive at a task: blocks for its stage, and others to hand on.

    Invariant: a block is in `kept` from when it was looked at until it is asked for.
    """

    def __init__(self, arriving: Iterator[Message]) -> None:
        self.arriving = arriving
        self.kept: list[Block] = []
        self.others: list[Message] = []
        self.target = -1

    def first_stage(self) -> int | None:
        """The stage of the first block, or None where there is none."""
        try:
            block = next(self.blocks(), None)
        except Aborted:
            return None
        if block is None:
            return None
        self.kept.append(block)
        return block.stage

    def blocks(self) -> Iterator[Block]:
        """The blocks, all of one target. Raises `Aborted` where a failure arrives among them."""
        while self.kept:
            yield self.kept.pop()
        for message in self.arriving:
            if message.kind != Kind.BLOCK:
                self.others.append(message)
                if message.kind == Kind.FAILED:
                    raise Aborted
                continue
            if self.target not in (-1, message.target):
                raise InternalError(f"one task got the blocks of the partitions {self.target} and {message.target}")
            self.target = message.target
            yield message.decode()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What is to be handed on; blocks that nobody needs any more are left out."""
        self.others += [message for message in self.arriving if message.kind != Kind.BLOCK]
        for message in self.others:
            yield message.row(target=0)


def receive(program: Program, stage: Stage, mail: Mail, keeper: Keeper | None) -> StageInput:
    """The items of the blocks of a stage; with a keeper, of a running stream."""
    exchange, inbox = stage.reads, Inbox(mail.blocks())
    assert exchange is not None
    if keeper is not None:
        index = SplitIndex(has_places=exchange.is_numbered)
        return StageInput(keeper.received(stage, inbox, index), lambda: inbox.received, index)
    senders = program.senders[stage.number]
    index = SplitIndex(has_places=exchange.is_numbered and exchange.tells_split)
    if stage.meeting is not None:
        sides = [[each for each in senders if each >> SIDE_BITS == side] for side in range(len(stage.sides))]
        arrivals = align_sides(
            stage.meeting, [_arrivals(inbox, *pair) for pair in zip(sides, stage.sides, strict=True)]
        )
    else:
        arrivals = _arrivals(inbox, senders or inbox.senders(), exchange, index if exchange.tells_split else None)
    return StageInput(arriving(Tree(stage.leaves).source, arrivals), lambda: inbox.received, index)


def _arrivals(
    inbox: Inbox, senders: Sequence[int], exchange: Exchange, index: SplitIndex | None = None
) -> Iterator[Arrival]:
    bring_together = merge_senders if exchange.is_merged else chain_senders
    return bring_together(inbox, senders, schema_of(exchange), exchange.signals, index)
