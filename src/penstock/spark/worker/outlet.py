"""From the engine of a task to the writers: items and the signals among them, in their order again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

import pyarrow as pa

from penstock.engine.build import Runner
from penstock.engine.run import Run
from penstock.engine.scheduler import Scheduler
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.spark.wire import SenderOrigin
from penstock.spark.worker.block_writer import BlockWriter
from penstock.spark.worker.program import Program, ResultWriter
from penstock.spark.worker.stage_input import FileByFile


class WriterOutlet:
    """Puts the items of one output and the signals among them in their order again, on the way to a writer.

    The engine delivers a signal at once, with how many items lie before it, and hands out items when there are many.
    """

    def __init__(self, writer: BlockWriter | ResultWriter) -> None:
        self.writer = writer
        self.signals: deque[tuple[int, Signal]] = deque()
        self.rows = 0

    @property
    def bytes(self) -> int:
        return getattr(self.writer, "bytes", 0)

    def begin_file(self, origin: SenderOrigin, first_item: int) -> None:
        if isinstance(self.writer, BlockWriter):
            self.writer.begin_file(origin, first_item)

    def deliver(self, place: int, signal: Signal) -> None:
        self.signals.append((place, signal))

    def send(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        sent = 0
        while self.signals and self.signals[0][0] <= self.rows + rows.num_rows:
            place, signal = self.signals.popleft()
            count = place - self.rows - sent
            if count:
                yield from self.writer.send(rows.slice(sent, count))
                sent += count
            assert isinstance(self.writer, BlockWriter)
            yield from self.writer.signal(signal)
        if sent < rows.num_rows:
            yield from self.writer.send(rows.slice(sent))
        self.rows += rows.num_rows

    def finish(self) -> Iterator[pa.RecordBatch]:
        for place, signal in self.signals:
            if place != self.rows or not isinstance(self.writer, BlockWriter):
                raise InternalError(f"a signal stands behind item {place} of {self.rows} that were sent")
            yield from self.writer.signal(signal)
        yield from self.writer.finish()

    def abort(self) -> None:
        if not isinstance(self.writer, BlockWriter):
            self.writer.abort()


Outlets = Mapping[n.Send, WriterOutlet]


def send_all(run: Run, scheduler: Runner, outlets: Outlets) -> Iterator[pa.RecordBatch]:
    """Run, and send the results; the rows that leave."""
    for _, output in scheduler.run():
        for delivery in output.deliveries:
            node = run.plan.tree.nodes[delivery.node]
            if isinstance(node, n.Send):
                outlets[node].deliver(delivery.place, delivery.signal)
        for leaf, rows in output.batches:
            assert isinstance(leaf, n.Send)
            yield from outlets[leaf].send(rows)


def send_by_file(
    program: Program, run: Run, scheduler: Runner, outlets: Outlets, files: FileByFile
) -> Iterator[pa.RecordBatch]:
    """The same, one file after the other."""
    assert isinstance(scheduler, Scheduler)
    goes_on = True
    while goes_on:
        for outlet in outlets.values():
            outlet.begin_file(program.files[files.file], files.base)
        yield from send_all(run, scheduler, outlets)
        goes_on = files.go_on()
        scheduler.resume()
