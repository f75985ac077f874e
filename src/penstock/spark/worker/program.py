"""What travels to the tasks of a job, once, and what it lets others do in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from penstock.engine.build import Runner
from penstock.engine.intake import Arrival, Batch
from penstock.engine.run import Run
from penstock.graph.record import Signal
from penstock.plan.stages import Stage, StageOutput
from penstock.spark.wire import SenderOrigin
from penstock.spark.worker.block_writer import BlockWriter

if TYPE_CHECKING:
    from penstock.spark.worker.inbox import Inbox
    from penstock.spark.worker.task_failure import SplitIndex

SIDE_BITS = 40
"""The number of a sender is that of a side, then so many bits for that of the task."""


class Keeper(Protocol):
    """Keeps what a stage of a running stream remembers from one run to the next."""

    origins: list[SenderOrigin]
    """What has arrived."""

    def received(self, stage: Stage, inbox: Inbox, index: SplitIndex) -> Iterator[Batch]:
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
    what arrives shows who they were). `signals` has for each split what is placed in it from outside, by offset, and
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
    origin: SenderOrigin | None = None
    """In a running stream: which piece of the source a task is at."""
    files: tuple[SenderOrigin, ...] = ()
    """The same, where it reads several files one after the other; `origin` is the first of them."""
    placer: Placer | None = None
    """In a running stream: finds the places of signals among the items as these are read."""
    cores: Mapping[int, int] = field(default_factory=dict)
    """By stage, on how many cores a task runs it; by default one. Never more than one in a running stream."""
    slots: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """In a running stream, by stage: under which numbers is kept what its nodes remember; by default from 0 on."""
    hides_values: bool = False
    """Whether messages of tasks quote no values of the data."""
    is_measured: bool = False
    """Whether tasks with several cores measure what their nodes cost, however few items arrive."""

    @property
    def is_guarded(self) -> bool:
        """Whether items on which a step fails are skipped."""
        return self.options.get("on_error") == "skip"

    def writer(self, stage: Stage, output: StageOutput, sender: int) -> BlockWriter | ResultWriter:
        """What takes an output of a task of a stage."""
        if output.stage is None:
            assert output.leaf is not None
            return self.results(output.leaf, sender)
        receiver = self.stages[output.stage]
        assert receiver.reads is not None
        return BlockWriter(
            receiver.sides[output.side] if receiver.sides else receiver.reads,
            receiver.number,
            self.targets[receiver.number],
            sender_of(output, sender),
            self.splits,
            self.origin,
            is_indexed=stage.reads is None,
            hash_seed=self.options["hash_seed"],
        )


def sender_of(output: StageOutput, task: int) -> int:
    """The number of a sender: of a task and, where streams meet that it sends to, of a side."""
    return output.side << SIDE_BITS | task
