"""What all running nodes have: a name, a core, counters, and what they tell the channels behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.engine.channel import Channel
from penstock.engine.statistics import Counter, Firing
from penstock.plan.heartbeat.clocks import BEFORE, STEPS, finished
from penstock.plan.plan import BeatPlan
from penstock.plan.segment import Segment


@dataclass
class Beat:
    """What a node is to tell a channel: how far it has come by a clock, when it is further than `interval` ahead.

    It has come as far as its input; or, where the loop itself numbers the items, as far as it has counted.
    """

    channel: Channel
    clock: str
    interval: int
    counter: int | None
    is_asked_for: bool = False
    """Whether the interval was chosen by hand, and may not be safe."""

    @classmethod
    def of(cls, channel: Channel, planned: BeatPlan) -> Beat:
        """As it was planned for a channel."""
        return cls(channel, planned.clock, planned.interval, planned.counter, planned.is_asked_for)

    def place(self, node: Any) -> int:
        if self.counter is not None:
            return STEPS * (int(node.loop.integers[self.counter]) + 1) + BEFORE
        return int(node.input.reached(self.clock))

    def is_due(self, node: Any) -> bool:
        return finished(self.place(node)) - finished(self.channel.progress.told[self.clock]) > self.interval

    def tell(self, node: Any) -> None:
        """Tell the channel, if that is due."""
        if self.is_due(node):
            self.channel.tell(self.clock, self.place(node))


class Actor:
    """The base of running nodes. One that is no loop reads no source, and has said nothing first."""

    core = 0
    role = "loop"
    """What it is among the parts of a flexible node: the split, a loop or a merge."""
    reads_source = is_first = is_held = False
    """A node is held that would take from the source what its core has no memory for."""
    is_gentle = False
    """Whether first ensembles and last blocks are smaller than the others, so that cores begin and end together."""
    leads: Sequence[tuple[Channel, int]] = ()
    """The channels to other cores that it writes into, and those of all that comes behind it on its own core; with
    each, how many items in it keep its receiver at work."""
    has_work: bool
    has_room: bool

    def __init__(
        self, segment: Segment, name: str, width: int, clock: Callable[[], float], trace: list[Firing] | None
    ) -> None:
        self.segment, self.name, self.width, self.clock, self.trace = segment, name, width, clock, trace
        self.is_finished = False
        self.counter = Counter()
        self.beats: list[Beat] = []

    @property
    def has_to_tell(self) -> bool:
        """Whether it is to tell a channel how far it has come, though it has nothing to send."""
        return not self.is_finished and any(beat.is_due(self) for beat in self.beats)

    @property
    def is_awaited(self) -> bool:
        """Whether it leads to another core that has too little to work on."""
        return any(channel.data.stop - channel.data.start < enough for channel, enough in self.leads)

    @property
    def is_fireable(self) -> bool:
        return (self.has_work and self.has_room) or self.has_to_tell

    def tell(self) -> None:
        """Tell the channels behind it how far it has come, where that is due."""
        for beat in self.beats:
            beat.tell(self)

    def tell_all(self) -> None:
        """From now on, tell at once how far it has come."""
        self.beats = [replace(beat, interval=0) for beat in self.beats]

    def count(self, started: float, items: int, is_full: bool, marks: int, outputs: int, kernel_s: float = 0.0) -> None:
        """Count a firing that ends now, and note it where firings are traced."""
        seconds = self.clock() - started
        self.counter.add(items, is_full, marks, outputs, seconds)
        if self.trace is not None:
            self.trace.append(Firing(self.name, started, seconds, items, marks, outputs, self.core, kernel_s))

    def letters(self) -> list[Any]:
        """What it has to say to others; only a split has."""
        return []

    def outputs_per_input(self) -> dict[str, int]:
        """The items that entered by how many left for each, where this is one node of the graph."""
        return {}


class Several:
    """Several channels as one input."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self.channels = list(channels)

    def check(self) -> None:
        for channel in self.channels:
            channel.check()

    @property
    def consumed_marks(self) -> int:
        return sum(channel.consumed_marks for channel in self.channels)
