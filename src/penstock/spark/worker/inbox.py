"""The blocks that a task receives, in the order of the stream, whatever order Spark hands them out in.

Blocks that come too early wait in memory and, when that is much, in a file on the local disk. So a bucket is a stream
of blocks, however large it is: nothing is gathered.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import IO

import numpy as np
import pyarrow as pa

from penstock.engine.intake import Arrival
from penstock.errors import InternalError
from penstock.graph.record import Signal
from penstock.spark.wire import Block, SenderEnd
from penstock.spark.worker.block_columns import SPLIT_BITS, arrival
from penstock.spark.worker.task_failure import SplitIndex

HELD_BYTES = 64 << 20
"""How many bytes of blocks that came too early wait in memory."""


class Inbox:
    """Blocks by sender and sequence, taken from an iterator as far as is needed.

    Invariant: a block is in `waiting` from when it arrived until it is asked for, once.
    """

    def __init__(self, arriving: Iterator[Block], held_bytes: int = HELD_BYTES) -> None:
        self.arriving, self.room = arriving, held_bytes
        self.waiting: dict[tuple[int, int], Block | tuple[Block, int, int]] = {}
        self.held = self.received = 0
        self.file: IO[bytes] | None = None
        self.written = 0

    def take(self, sender: int, sequence: int) -> Block:
        """The block of a sender with a number."""
        wanted = (sender, sequence)
        while wanted not in self.waiting:
            arrived = next(self.arriving, None)
            if arrived is None:
                raise InternalError(f"block {sequence} of sender {sender} never arrived; was part of the shuffle lost?")
            self._keep(arrived)
        block = self.waiting.pop(wanted)
        if isinstance(block, Block):
            self.held -= _size(block)
            return block
        return self._read(*block)

    def senders(self) -> list[int]:
        """Who has sent anything. Everything has arrived then, and waits."""
        for block in self.arriving:
            self._keep(block)
        return sorted({sender for sender, _ in self.waiting})

    def ends(self) -> dict[int, SenderEnd]:
        """The end of every sender, once everything has arrived. The blocks stay."""
        senders = self.senders()
        waiting = [block if isinstance(block, Block) else block[0] for block in self.waiting.values()]
        ends = {block.sender: block.end for block in waiting if block.end is not None}
        if len(ends) < len(senders):
            raise InternalError(f"not all of {len(senders)} senders sent a last block; was part of the shuffle lost?")
        return ends

    def _keep(self, block: Block) -> None:
        size = _size(block)
        self.received += size
        if self.held + size > self.room and self.waiting:
            if self.file is None:
                self.file = tempfile.TemporaryFile(dir=_local_folder())  # noqa: SIM115 - it lives as long as the task
            os.pwrite(self.file.fileno(), block.payload, self.written) if size else 0
            self.waiting[block.sender, block.sequence] = (replace(block, payload=b""), self.written, size)
            self.written += size
        else:
            self.held += size
            self.waiting[block.sender, block.sequence] = block

    def _read(self, block: Block, start: int, size: int) -> Block:
        assert self.file is not None
        return replace(block, payload=pa.py_buffer(os.pread(self.file.fileno(), size, start)))


def _size(block: Block) -> int:
    return len(block.payload)


def _local_folder() -> str | None:
    """Where Spark lets its tasks keep what does not fit into memory."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((folder for folder in folders if folder and os.path.isdir(folder)), None)


def chain_senders(
    inbox: Inbox,
    senders: Sequence[int],
    schema: pa.Schema,
    signals: Sequence[type[Signal]],
    index: SplitIndex | None = None,
) -> Iterator[Arrival]:
    """What all senders sent, one sender after the other. Where the items of each begin is noted."""
    count = 0
    for sender in senders:
        if index is not None:
            index.begin(sender, count)
        for block in blocks_of(inbox, sender, schema, signals):
            count += block.rows.num_rows
            yield block if block.places is None else replace(block, start=sender << SPLIT_BITS)


def blocks_of(inbox: Inbox, sender: int, schema: pa.Schema, signals: Sequence[type[Signal]]) -> Iterator[Arrival]:
    """What one sender sent, block by block."""
    sequence, is_last = 0, False
    while not is_last:
        block = inbox.take(sender, sequence)
        sequence, is_last = sequence + 1, block.end is not None
        arrived = arrival(block, schema, signals)
        if arrived.rows.num_rows or arrived.signals:
            yield arrived


def merge_senders(
    inbox: Inbox,
    senders: Sequence[int],
    schema: pa.Schema,
    signals: Sequence[type[Signal]],
    index: SplitIndex | None = None,
) -> Iterator[Arrival]:
    """What all senders sent, merged by place.

    The places of each sender go up, and items of one place come from one sender, so their order is known. Of every
    sender one block is at hand: whatever lies before the least of their ends can be put in order and handed on.
    """
    streams = {sender: blocks_of(inbox, sender, schema, signals) for sender in senders}
    heads: dict[int, Arrival] = {}
    for sender in list(streams):
        _advance(streams, heads, sender)
    while heads:
        bound = min(int(_places(head)[-1]) for head in heads.values())
        parts = []
        for sender, head in list(heads.items()):
            count = int(np.searchsorted(_places(head), bound, side="right"))
            if count:
                parts.append(_slice(head, 0, count))
                heads[sender] = _slice(head, count, head.rows.num_rows)
            if heads[sender].rows.num_rows == 0:
                _advance(streams, heads, sender)
        yield _sort(parts)


def _advance(streams: dict[int, Iterator[Arrival]], heads: dict[int, Arrival], sender: int) -> None:
    head = next(streams[sender], None)
    if head is None:
        heads.pop(sender, None)
    else:
        heads[sender] = head


def _places(arrived: Arrival) -> np.ndarray:
    assert arrived.places is not None
    return arrived.places


def _slice(arrived: Arrival, start: int, stop: int) -> Arrival:
    return Arrival(arrived.rows.slice(start, stop - start), (), _places(arrived)[start:stop])


def _sort(parts: list[Arrival]) -> Arrival:
    if len(parts) == 1:
        return parts[0]
    places = np.concatenate([_places(part) for part in parts])
    order = np.argsort(places, kind="stable")
    rows = pa.concat_batches([part.rows for part in parts]).take(pa.array(order))
    return Arrival(rows, (), places[order])
