"""What runs inside a task of Spark: one stage of the graph, on a split of the source or on the blocks of a bucket.

A task gives rows: what its stage sends on, its results, what was counted, and what went wrong. A mistake in the data or
in a user's function is such a row too and not an exception, because Spark would try the task again, in vain.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.run import Run
from penstock.errors import PenstockError, hide_values
from penstock.graph.letters import first_of_each
from penstock.plan.stages import Stage
from penstock.spark.wire import (
    Failed,
    Message,
    SenderOrigin,
    SkippedItem,
    SkippedItems,
    TaskCounts,
    encode,
    messages,
)
from penstock.spark.worker.block_writer import BlockWriter
from penstock.spark.worker.outlet import WriterOutlet, send_all, send_by_file
from penstock.spark.worker.program import Keeper, Program
from penstock.spark.worker.share import share_cores
from penstock.spark.worker.stage_input import Aborted, Mail, StageInput, read_files, read_splits, receive
from penstock.spark.worker.task_failure import SplitIndex, failure_of, with_label

if TYPE_CHECKING:
    from penstock.graph.source import Split


def run_split(program: Program, number: int, split: Split) -> Iterator[pa.RecordBatch]:
    """Run the first stage on a split."""
    return _guard(program, program.stages[0], number, lambda: read_splits(program, [(number, split)]))


def run_files(program: Program, sender: int, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """Run the first stage of a running stream on the files that the program names, as one sender.

    The output of each leaves before the next is read, so that all that is sent is known to be of its file.
    """
    return _guard(program, program.stages[0], sender, lambda: read_files(program, splits))


def run_open(program: Program, splits: Sequence[tuple[int, Split]], keeper: Keeper) -> Iterator[pa.RecordBatch]:
    """Run the first stage of a running stream on more splits, one after the other."""
    return _guard(program, program.stages[0], 0, lambda: read_splits(program, splits, keeper), keeper)


def run_whole(program: Program, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """Run the first stage on all splits, one after the other."""
    return _guard(program, program.stages[0], 0, lambda: read_splits(program, list(enumerate(splits))))


def run_nothing(program: Program) -> Iterator[pa.RecordBatch]:
    """What a split without items and before all others would send: so every stage has a sender, whatever there is."""
    for stage in program.stages:
        if stage.level == 1:
            assert stage.reads is not None
            yield from BlockWriter(stage.reads, stage.number, program.targets[stage.number], -1, 1).finish()


def run_received(program: Program, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the stage whose blocks arrive, on all of them in order. What is no block is handed on as it is."""
    return run_blocks(program, messages(batches))


def run_blocks(program: Program, arriving: Iterator[Message], keeper: Keeper | None = None) -> Iterator[pa.RecordBatch]:
    """The same, of messages; with a keeper, as the stage of a running stream."""
    mail = Mail(arriving)
    number = mail.first_stage()
    if number is not None:
        stage = program.stages[number]
        bucket = program.targets[number].index(mail.target)
        yield from _guard(program, stage, bucket, lambda: receive(program, stage, mail, keeper), keeper)
    yield from mail.rest()


def _guard(
    program: Program, stage: Stage, sender: int, take: Callable[[], StageInput], keeper: Keeper | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a run and, where it fails by a mistake of the user's or of the data, rows that say so."""
    index = SplitIndex()
    hide_values(program.hides_values)
    try:
        taken = take()
        index = taken.index
        yield from _run(program, stage, sender, taken, keeper)
    except Aborted:
        return
    except PenstockError as error:
        failed = failure_of(stage.number, sender, error, index, is_split=stage.reads is None)
        yield from failure_rows(program, _label(program, failed, keeper))


def _label(program: Program, failed: Failed, keeper: Keeper | None) -> Failed:
    """A failure in the words of the user, where a task of a running stream knows what it read."""
    if program.files and failed.split is not None:
        return with_label(failed, program.files[failed.split].label)
    if program.origin is not None:
        return with_label(failed, program.origin.label)
    if keeper is not None and failed.split is not None:
        return with_label(failed, keeper.label(failed.split))
    return failed


def failure_rows(program: Program, failed: Failed) -> Iterator[pa.RecordBatch]:
    """Rows with a failure: to all tasks of the next stages, which need not wait for what will not come."""
    level = program.stages[failed.stage].level
    later = [target for s in program.stages if s.level == level + 1 for target in program.targets[s.number]]
    for target in later or [0]:
        yield encode(failed, target)


def _run(
    program: Program, stage: Stage, sender: int, taken: StageInput, keeper: Keeper | None = None
) -> Iterator[pa.RecordBatch]:
    """Run a stage on what comes in; the rows that leave it."""
    started = time.perf_counter()
    run = _prepare(program, stage, taken, is_open=keeper is not None or taken.files is not None)
    scheduler = run.scheduler()
    if keeper is not None:
        keeper.resume(run)
    outlets = {output.send: WriterOutlet(program.writer(stage, output, sender)) for output in stage.outputs}
    endings: list[Run] = []
    try:
        if taken.files is not None:
            yield from send_by_file(program, run, scheduler, outlets, taken.files)
        else:
            yield from send_all(run, scheduler, outlets)
        for ending, scheduled in keeper.afterwards(run) if keeper is not None else ():
            endings.append(ending)
            yield from send_all(ending, scheduled, outlets)
        state = keeper.keep(run) if keeper is not None else {}
        for outlet in outlets.values():
            yield from outlet.finish()
    except BaseException:
        for outlet in outlets.values():
            outlet.abort()
        raise
    skipped = _skipped_items(program, run, endings, taken.index)
    if skipped:
        yield encode(SkippedItems(stage.number, sender, skipped))
    statistics = run.statistics()
    yield encode(
        TaskCounts(
            stage.number,
            sender,
            sum(node.items for node in statistics.nodes[:1]),
            sum(outlet.rows for outlet in outlets.values()),
            sum(outlet.bytes for outlet in outlets.values()),
            taken.bytes(),
            time.perf_counter() - started,
            1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            statistics,
            state,
            _origins(program, keeper),
            _busy_s(run),
            taken.index.counts,
            len(skipped),
        )
    )


def _prepare(program: Program, stage: Stage, taken: StageInput, *, is_open: bool) -> Run:
    """The engine of a stage, on the cores that its tasks have. With `is_open`, more may come later."""
    cores = 1 if is_open else program.cores.get(stage.number, 1)
    shared = share_cores(stage.leaves, taken.batches, cores, program.options, is_asked=program.is_measured)
    options = {**program.options, **shared.options}
    slots = program.slots.get(stage.number)
    return Run(stage.leaves, batches_in=shared.batches, is_open=is_open, places=shared.places, slots=slots, **options)


def _origins(program: Program, keeper: Keeper | None) -> tuple[SenderOrigin, ...]:
    """What a task of a running stream has read."""
    if program.origin is not None:
        return program.files or (program.origin,)
    return () if keeper is None else tuple(keeper.origins)


def _skipped_items(program: Program, run: Run, endings: Sequence[Run], index: SplitIndex) -> tuple[SkippedItem, ...]:
    """The letters of a run, and of those that ended idle keys."""
    label = None if program.origin is None else program.origin.label
    items = []
    for letter in first_of_each(run.memory.letters):
        if letter.index is None:
            items.append(SkippedItem(None, 0, letter))
        else:
            items.append(SkippedItem(*index.place_of(letter.index), letter, label))
    last = first_of_each(letter for ending in endings for letter in ending.memory.letters)
    return (*items, *(SkippedItem(None, 0, letter) for letter in last))


def _busy_s(run: Run) -> tuple[float, ...]:
    """How long each core was at work."""
    seconds: dict[int, float] = {}
    for node in run.parts.nodes:
        seconds[node.core] = seconds.get(node.core, 0.0) + node.counter.seconds
    return tuple(seconds.get(core, 0.0) for core in range(1 + max(seconds, default=0)))
