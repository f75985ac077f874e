"""What runs inside a task of Spark: one stage of the graph, on a split of the source or on the blocks of a bucket.

A task gives block rows: what its stage sends on, its results, what was counted, and what went wrong. A mistake in the
data or in a user's function is such a row too and not an exception, because Spark would try the task again, in vain.
"""

from __future__ import annotations

import pickle
import resource
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from penstock.engine.build import Runner
from penstock.engine.enough import items_at_a_time
from penstock.engine.intake import Arrival, Batch, arriving, no_items
from penstock.engine.run import Run
from penstock.engine.scheduler import Scheduler
from penstock.engine.statistics import Statistics
from penstock.errors import InternalError, PenstockError, hide_values
from penstock.graph import nodes as n
from penstock.graph.letters import Letter, first_of_each
from penstock.graph.needs import needs
from penstock.graph.record import Signal
from penstock.graph.split import with_bad
from penstock.graph.tree import Tree
from penstock.plan.stages import Exchange, Output, Stage
from penstock.spark.worker.align_blocks import met
from penstock.spark.worker.block import Block, BlockWriter, Origin, blocks, row, schema_of
from penstock.spark.worker.inbox import Inbox, in_order, merged
from penstock.spark.worker.share import shared
from penstock.spark.worker.task_failure import FAILED, Failed, Origins, failed, failed_in, named

if TYPE_CHECKING:
    from penstock.graph.source import Split

SIDE_BITS = 40
"""The number of a sender is that of a side, then so many bits for that of the task."""
RESULT, COUNTED, SKIPPED = -1, -2, -4
"""What stands in the column `stage` of rows that are no blocks: a result, what was counted, letters of items that were
skipped; or `FAILED`, an error."""


@dataclass(frozen=True)
class Counted:
    """What a task counted: where it was, what came in and went out (`rows`, `bytes`), and what its engine counted."""

    stage: int
    sender: int
    items: int
    rows: int
    bytes: int
    bytes_in: int
    seconds: float
    peak_bytes: int
    statistics: Statistics
    state: Mapping[str, int] = field(default_factory=dict)
    """Of a stage of a running stream: how many keys it knows, in how many pages, and how many it has touched."""
    origins: tuple[Origin, ...] = ()
    """What it has read of a running stream."""
    busy_s: tuple[float, ...] = ()
    """How long each of its cores was at work."""
    read: Mapping[int, int] = field(default_factory=dict)
    """How many items it has read of each split."""
    skipped: int = 0
    """How many letters it has written."""


@dataclass(frozen=True)
class Skipped:
    """A letter as it travels: the split of the item, None for the end of the stream, and its index there."""

    split: int | None
    offset: int
    letter: Letter
    label: str | None = None
    """What was read, where a task of a running stream knows it."""


class Keeper(Protocol):
    """Keeps what a stage of a running stream remembers from one run to the next."""

    origins: list[Origin]
    """What has arrived."""

    def received(self, stage: Stage, inbox: Inbox, origins: Origins) -> Iterator[Batch]:
        """What has arrived, in the stream's order, as batches that do not end it."""

    def noted(self, arrivals: Iterator[Arrival]) -> Iterator[Arrival]:
        """The same, while it is seen what must be remembered."""

    def resume(self, run: Run) -> None:
        """Let a run, which has not begun, go on from what is remembered."""

    def afterwards(self, run: Run) -> Iterator[tuple[Run, Runner]]:
        """What is to be run behind the items, when the run has come to a pause: the end of keys that are idle."""

    def keep(self, run: Run) -> Mapping[str, int]:
        """Remember what the run does, which has come to a pause; what that is, in numbers."""

    def label(self, split: int) -> str:
        """What a split of this run is called in messages."""


class Placer(Protocol):
    """Finds the places of signals as items come; it sees them all, in order."""

    @property
    def fields(self) -> Sequence[str]:
        """The fields that it looks at."""

    def among(self, rows: pa.RecordBatch) -> list[tuple[int, Signal]]:
        """The signals among the next items: each before the one at an offset."""


class ResultWriter(Protocol):
    """Takes the result of one leaf from one sender, and gives rows about it."""

    def send(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]: ...

    def finish(self) -> Iterator[pa.RecordBatch]: ...

    def abort(self) -> None: ...


@dataclass(frozen=True)
class Program:
    """All that tasks need to know of a job. It travels to them once.

    `targets` are the partitions that the buckets of each stage are, `senders` those that send to it (empty where only
    what arrives tells who they were). `signals` has for each split what is placed in it from outside, by offset, and
    `bases` the index of its first item. `options` has the `hash_seed` that all tasks share.
    """

    stages: tuple[Stage, ...]
    targets: Mapping[int, tuple[int, ...]]
    senders: Mapping[int, tuple[int, ...]]
    results: Callable[[int, int], ResultWriter]
    options: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[int, tuple[tuple[int, Signal], ...]] = field(default_factory=dict)
    bases: Mapping[int, int] = field(default_factory=dict)
    splits: int = 1
    origin: Origin | None = None
    """In a running stream: which piece of the source a task is at."""
    files: tuple[Origin, ...] = ()
    """The same, where it reads several files one after the other; `origin` is the first of them."""
    placer: Placer | None = None
    """In a running stream: finds the places of signals among the items as these are read."""
    cores: Mapping[int, int] = field(default_factory=dict)
    """By stage, on how many cores a task runs it; on one, unless said. Never more than one in a running stream."""
    slots: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """In a running stream, by stage: under which numbers is kept what its nodes remember; unless said, from 0 on."""
    hides_values: bool = False
    """Whether messages of tasks quote no values of the data."""
    is_measured: bool = False
    """Whether tasks with several cores measure what their nodes cost, however few items arrive."""

    def writer(self, stage: Stage, output: Output, sender: int) -> BlockWriter | ResultWriter:
        if output.stage is None:
            assert output.leaf is not None
            return self.results(output.leaf, sender)
        receiver = self.stages[output.stage]
        assert receiver.reads is not None
        targets = self.targets[receiver.number]
        exchange = receiver.sides[output.side] if receiver.sides else receiver.reads
        number, is_indexed = sender_of(output, sender), stage.reads is None
        seed = self.options["hash_seed"]
        return BlockWriter(
            exchange,
            receiver.number,
            targets,
            number,
            self.splits,
            self.origin,
            is_indexed=is_indexed,
            hash_seed=seed,
        )


def sender_of(output: Output, task: int) -> int:
    """The number of a sender: of a task and, where streams meet that it sends to, of a side."""
    return output.side << SIDE_BITS | task


def run_split(program: Program, number: int, split: Split) -> Iterator[pa.RecordBatch]:
    """Run the first stage on a split."""
    stage = program.stages[0]
    return _guarded(program, stage, number, lambda: _splits_in(program, [(number, split)]))


def run_files(program: Program, sender: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """Run the first stage of a running stream on the files that the program names, as one sender.

    What comes of each leaves before the next is read, so that all that is sent is known to be of its file.
    """
    return _guarded(program, program.stages[0], sender, lambda: _files_in(program, splits))


def run_open(program: Program, splits: Sequence[tuple[int, Split]], keeper: Keeper) -> Iterator[pa.RecordBatch]:
    """Run the first stage of a running stream on more splits, one after the other."""
    return _guarded(program, program.stages[0], 0, lambda: _splits_in(program, splits, keeper), keeper)


def run_whole(program: Program, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """Run the first stage on all splits, one after the other."""
    return _guarded(program, program.stages[0], 0, lambda: _splits_in(program, list(enumerate(splits))))


def _read_columns(program: Program) -> list[str]:
    """The fields of the source that are read: those that the first stage uses, and those that a placer looks at."""
    used, placer = used_columns(Tree(program.stages[0].leaves)), program.placer
    return used if placer is None else list(dict.fromkeys([*used, *placer.fields]))


def _splits_in(
    program: Program,
    splits: Sequence[tuple[int, Split]],
    keeper: Keeper | None = None,
    base: int | None = None,
    used: list[str] | None = None,
) -> Given:
    source, placer = program.stages[0].leaves[0].source, program.placer
    most = SPLIT_ITEMS if used is not None else items_at_a_time(Tree(program.stages[0].leaves), SPLIT_ITEMS)
    used = _read_columns(program) if used is None else used
    at_most = program.options.get("batch_items") or most
    is_guarded = program.options.get("on_error") == "skip"
    if base is None:
        base = program.bases.get(splits[0][0], 0) if splits else 0
    origins = Origins()

    def arrivals() -> Iterator[Arrival]:
        begin = base
        for number, split in splits:
            origins.begin(number, begin)
            placed, offset = list(program.signals.get(number, ())), 0
            for rows in split.read(with_bad(split, used) if is_guarded else used, at_most):
                here = [(at - offset, signal) for at, signal in placed if at < offset + rows.num_rows]
                del placed[: len(here)]
                if placer is not None:
                    here += placer.among(rows)
                yield Arrival(rows, tuple(here))
                offset += rows.num_rows
            origins.counts[number] = offset
            if placed:
                yield Arrival(no_items(source), tuple((0, signal) for _, signal in placed))
            begin += offset

    size = sum(split.bytes for _, split in splits)
    if keeper is not None:
        return Given(arriving(source, keeper.noted(arrivals()), base, is_open=True), lambda: size, origins)
    return Given(arriving(source, arrivals(), base), lambda: size, origins)


def _files_in(program: Program, splits: Sequence[Split]) -> Given:
    source, origins = Tree(program.stages[0].leaves).source, Origins()
    legs = Legs(source, program, splits, origins)
    size = sum(split.bytes for split in splits)
    return Given(legs, lambda: size, origins, legs)


class Legs:
    """The batches of several files. It pauses behind each of them, until `go_on`.

    Invariant: `file` is the number of the file that is read, and `base` the index of its first item.
    """

    def __init__(self, source: n.Source, program: Program, splits: Sequence[Split], origins: Origins) -> None:
        self.source, self.program, self.splits, self.origins = source, program, splits, origins
        self.file, self.base, self.items = 0, 0, 0
        self.used = _read_columns(program)
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
        read = _splits_in(self.program, [(self.file, self.splits[self.file])], base=self.base, used=self.used)
        self.origins.begin(self.file, self.base)
        return read.batches if self.file + 1 == len(self.splits) else _unended(read.batches)


def _unended(batches: Iterator[Batch]) -> Iterator[Batch]:
    return (replace(batch, is_last=False) for batch in batches)


def used_columns(tree: Tree) -> list[str]:
    """The fields of the source that a graph uses, in their order."""
    needed = needs(tree)[tree.source]
    return [name for name in tree.source.items.fields if name in needed]


@dataclass(frozen=True)
class Given:
    """What comes into a stage, how many bytes that was in the end, and which splits it came from."""

    batches: Iterator[Batch]
    bytes: Callable[[], int]
    origins: Origins
    legs: Legs | None = None
    """Where these are several files."""


SPLIT_ITEMS = 1 << 18
"""How many items of a split are taken at a time, unless said: enough to be fast, and little memory."""


def run_nothing(program: Program) -> Iterator[pa.RecordBatch]:
    """What a split without items and before all others would send: so every stage has a sender, whatever there is."""
    for stage in program.stages:
        if stage.level == 1:
            assert stage.reads is not None
            yield from BlockWriter(stage.reads, stage.number, program.targets[stage.number], -1, 1).finish()


def run_received(program: Program, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the stage whose blocks arrive, on all of them in order. What is no block is handed on as it is."""
    arriving = (pair for rows in batches for pair in zip(rows.column(0).to_pylist(), blocks(rows), strict=True))
    return run_blocks(program, arriving)


def run_blocks(
    program: Program, arriving: Iterator[tuple[int, Block]], keeper: Keeper | None = None
) -> Iterator[pa.RecordBatch]:
    """The same, of blocks with their targets; with a keeper, as the stage of a running stream."""
    mail = _Mail(arriving)
    stage_number = mail.first_stage()
    if stage_number is not None:
        stage = program.stages[stage_number]
        bucket = program.targets[stage_number].index(mail.target)
        yield from _guarded(program, stage, bucket, lambda: _received(program, stage, mail, keeper), keeper)
    yield from mail.rest()


def _received(program: Program, stage: Stage, mail: _Mail, keeper: Keeper | None) -> Given:
    exchange = stage.reads
    assert exchange is not None
    if keeper is not None:
        inbox, origins = Inbox(mail.blocks()), Origins(has_places=exchange.is_numbered)
        return Given(keeper.received(stage, inbox, origins), lambda: inbox.received, origins)
    inbox, senders = Inbox(mail.blocks()), program.senders[stage.number]
    origins = Origins(has_places=exchange.is_numbered and exchange.tells_split)
    if stage.meeting is not None:
        sides = [[each for each in senders if each >> SIDE_BITS == side] for side in range(len(stage.sides))]
        arrivals = met(stage.meeting, [_arrivals(inbox, *pair) for pair in zip(sides, stage.sides, strict=True)])
    else:
        arrivals = _arrivals(inbox, senders or inbox.senders(), exchange, origins if exchange.tells_split else None)
    return Given(arriving(Tree(stage.leaves).source, arrivals), lambda: inbox.received, origins)


def _arrivals(
    inbox: Inbox, senders: Sequence[int], exchange: Exchange, origins: Origins | None = None
) -> Iterator[Arrival]:
    how = merged if exchange.is_merged else in_order
    return how(inbox, senders, schema_of(exchange), exchange.signals, origins)


class Aborted(Exception):
    """A sender failed, so that what it would have sent will never arrive."""


class _Mail:
    """The rows that arrive at a task: blocks for its stage, and others to hand on."""

    def __init__(self, arriving: Iterator[tuple[int, Block]]) -> None:
        self.arriving = arriving
        self.kept: list[Block] = []
        self.others: list[Block] = []
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
        while self.kept:
            yield self.kept.pop()
        for target, block in self.arriving:
            if block.stage < 0:
                self.others.append(block)
                if block.stage == FAILED:
                    raise Aborted
                continue
            if self.target not in (-1, target):
                raise InternalError(f"one task got the blocks of the partitions {self.target} and {target}")
            self.target = target
            yield block

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What is to be handed on; blocks that nobody needs any more are left out."""
        self.others += [block for _, block in self.arriving if block.stage < 0]
        for block in self.others:
            yield row(0, block.stage, block.sender, block.sequence, block.is_last, block.head, block.payload)


def _guarded(
    program: Program, stage: Stage, sender: int, given: Callable[[], Given], keeper: Keeper | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a run and, where it fails by a mistake of the user's or of the data, rows that say so."""
    origins = Origins()
    hide_values(program.hides_values)
    try:
        arrived = given()
        origins = arrived.origins
        yield from _run(program, stage, sender, arrived, keeper)
    except Aborted:
        return
    except PenstockError as error:
        found = failed(stage.number, sender, error, origins, is_split=stage.reads is None)
        if program.files and found.split is not None:
            found = named(found, program.files[found.split].label)
        elif program.origin is not None:
            found = named(found, program.origin.label)
        elif keeper is not None and found.split is not None:
            found = named(found, keeper.label(found.split))
        yield from failing(program, found)


def _origins(program: Program, keeper: Keeper | None) -> tuple[Origin, ...]:
    if program.origin is not None:
        return program.files or (program.origin,)
    return () if keeper is None else tuple(keeper.origins)


def failing(program: Program, found: Failed) -> Iterator[pa.RecordBatch]:
    """Rows that tell of a failure: to all tasks of the next stages, which need not wait for what will not come."""
    level, told = program.stages[found.stage].level, pickle.dumps(found)
    later = [target for s in program.stages if s.level == level + 1 for target in program.targets[s.number]]
    for target in later or [0]:
        yield row(target, FAILED, found.sender, 0, True, told)


def _run(
    program: Program, stage: Stage, sender: int, given: Given, keeper: Keeper | None = None
) -> Iterator[pa.RecordBatch]:
    """Run a stage on what comes in; the rows that leave it."""
    started = time.perf_counter()
    is_open = keeper is not None or given.legs is not None
    cores = 1 if is_open else program.cores.get(stage.number, 1)
    made = shared(stage.leaves, given.batches, cores, program.options, is_asked=program.is_measured)
    options = {**program.options, **made.options}
    slots = program.slots.get(stage.number)
    run = Run(stage.leaves, batches_in=made.batches, is_open=is_open, places=made.places, slots=slots, **options)
    scheduler = run.scheduler()
    if keeper is not None:
        keeper.resume(run)
    outlets = {output.send: _Outlet(program.writer(stage, output, sender)) for output in stage.outputs}
    try:
        if given.legs is not None:
            yield from _sent_by_file(program, run, scheduler, outlets, given.legs)
        else:
            yield from _sent(run, scheduler, outlets)
        endings = []
        for more, scheduled in keeper.afterwards(run) if keeper is not None else ():
            endings.append(more)
            yield from _sent(more, scheduled, outlets)
        state = keeper.keep(run) if keeper is not None else {}
        for outlet in outlets.values():
            yield from outlet.finish()
    except BaseException:
        for outlet in outlets.values():
            outlet.abort()
        raise
    skipped = _skipped(program, run, endings, given.origins)
    if skipped:
        yield row(0, SKIPPED, sender, stage.number, True, pickle.dumps(skipped))
    statistics = run.statistics()
    items = sum(node.items for node in statistics.nodes[:1])
    rows_out = sum(outlet.rows for outlet in outlets.values())
    bytes_out = sum(outlet.bytes for outlet in outlets.values())
    seconds, peak = time.perf_counter() - started, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counted = Counted(
        stage.number,
        sender,
        items,
        rows_out,
        bytes_out,
        given.bytes(),
        seconds,
        peak,
        statistics,
        state,
        _origins(program, keeper),
        _busy(run),
        dict(given.origins.counts),
        len(skipped),
    )
    yield row(0, COUNTED, sender, stage.number, True, pickle.dumps(counted))


def _skipped(program: Program, run: Run, endings: Sequence[Run], origins: Origins) -> list[Skipped]:
    """The letters of a run, and of those that ended idle keys."""
    label = None if program.origin is None else program.origin.label
    found = []
    for each in first_of_each(run.memory.letters):
        if each.index is None:
            found.append(Skipped(None, 0, each))
        else:
            found.append(Skipped(*origins.place_of(each.index), each, label))
    last = [each for ending in endings for each in ending.memory.letters]
    return found + [Skipped(None, 0, each) for each in first_of_each(last)]


def _busy(run: Run) -> tuple[float, ...]:
    """How long each core was at work."""
    found: dict[int, float] = {}
    for node in run.parts.nodes:
        found[node.core] = found.get(node.core, 0.0) + node.counter.seconds
    return tuple(found.get(core, 0.0) for core in range(1 + max(found, default=0)))


def _sent(run: Run, scheduler: Runner, outlets: Mapping[n.Send, _Outlet]) -> Iterator[pa.RecordBatch]:
    """Run, and send what comes of it; the rows that leave."""
    for _, output in scheduler.run():
        for delivery in output.deliveries:
            node = run.plan.tree.nodes[delivery.node]
            if isinstance(node, n.Send):
                outlets[node].deliver(delivery.place, delivery.signal)
        for leaf, rows in output.batches:
            assert isinstance(leaf, n.Send)
            yield from outlets[leaf].send(rows)


def _sent_by_file(
    program: Program, run: Run, scheduler: Runner, outlets: Mapping[n.Send, _Outlet], legs: Legs
) -> Iterator[pa.RecordBatch]:
    """The same, one file after the other."""
    assert isinstance(scheduler, Scheduler)
    goes_on = True
    while goes_on:
        for outlet in outlets.values():
            outlet.begin_file(program.files[legs.file], legs.base)
        yield from _sent(run, scheduler, outlets)
        goes_on = legs.go_on()
        scheduler.resume()


def answered(number: int, work: Callable[[], Any]) -> Iterator[pa.RecordBatch]:
    """What a task of a first pass gives about a split: one row with what its work found, or with its error."""
    try:
        found = work()
    except PenstockError as error:
        yield row(0, FAILED, number, 0, True, pickle.dumps(failed_in(number, error)))
        return
    yield row(0, RESULT, number, 0, True, pickle.dumps(found))


def raise_failed(rows: pa.RecordBatch) -> None:
    """Raise the error that block rows tell of, where they do."""
    for kind, head in zip(rows.column(1).to_pylist(), rows.column(5).to_pylist(), strict=True):
        if kind == FAILED:
            raise pickle.loads(head).error


class _Outlet:
    """Puts the items of one output and the signals among them in their order again, on the way to a writer.

    The engine tells a signal at once, with how many items lie before it, and hands out items when there are many.
    """

    def __init__(self, writer: BlockWriter | ResultWriter) -> None:
        self.writer = writer
        self.signals: deque[tuple[int, Signal]] = deque()
        self.rows = 0

    @property
    def bytes(self) -> int:
        return getattr(self.writer, "bytes", 0)

    def begin_file(self, origin: Origin, first_item: int) -> None:
        if isinstance(self.writer, BlockWriter):
            self.writer.begin_file(origin, first_item)

    def deliver(self, place: int, signal: Signal) -> None:
        self.signals.append((place, signal))

    def send(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        done = 0
        while self.signals and self.signals[0][0] <= self.rows + rows.num_rows:
            place, signal = self.signals.popleft()
            count = place - self.rows - done
            if count:
                yield from self.writer.send(rows.slice(done, count))
                done += count
            assert isinstance(self.writer, BlockWriter)
            yield from self.writer.signal(signal)
        if done < rows.num_rows:
            yield from self.writer.send(rows.slice(done))
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
