"""The plan of a run: everything that is decided before it starts, and why.

A plan is made by the passes of `plan/passes`, each of which adds what it decides. The engine makes the running parts
of it, and decides nothing itself but what only a run can know; reports and the model read it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.graph import nodes as n
from penstock.graph.needs import Names, needed_of
from penstock.graph.record import Signal
from penstock.graph.tree import Tree
from penstock.plan.heartbeat.clocks import Clocks
from penstock.plan.heartbeat.reasons import Heartbeats
from penstock.plan.request import BATCH_ITEMS, WIDTH, PlanRequest
from penstock.plan.segment import Segment

if TYPE_CHECKING:
    from penstock.codegen.generated import GeneratedLoop
    from penstock.codegen.outlets import Sink

T = TypeVar("T")


@dataclass(frozen=True)
class Decision(Generic[T]):
    """What was decided, and why."""

    value: T
    reason: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many items and marks a channel holds, and the threshold of its credit; None for queued credit."""

    items: int
    signals: int
    threshold: int | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """What all loops and channels go by: how many items are taken of the source at a time, and of a channel.

    On several cores a `block` bounds these. A channel holds so `many` ensembles, where no `capacity` is asked for.
    """

    source_items: int = BATCH_ITEMS
    channel_items: int = WIDTH
    block: int | None = None
    capacity: int | None = None
    many: int = 1
    reason: str = "as usual"


@dataclass(frozen=True, slots=True)
class BeatPlan:
    """How often a node reports to a channel how far it has come by a clock: when it is further than `interval` ahead.

    `counter` is the number of the loop's variable that counts the items, where the loop itself numbers them.
    """

    clock: str
    interval: int
    counter: int | None
    is_asked_for: bool


@dataclass(frozen=True)
class LoopPlan:
    """A loop: how many items it takes at a time, and its core, with those of its copies.

    Without `spans` no ensemble of the source has items from both sides of a signal.
    """

    segment: Segment
    width: Decision[int]
    core: Decision[int] = Decision(0, "there is one core")
    copies: tuple[int, ...] = ()
    spans: bool = True

    @property
    def cores(self) -> tuple[int, ...]:
        """The core of the loop itself, and those of its copies."""
        return (self.core.value, *self.copies)


@dataclass(frozen=True, slots=True)
class SideSharing:
    """How the sides of a flexible join are shared out: by one split, which is `central`, or by one for each side.

    Those downstream want to know by some `clocks` how far the join has come. Where it `is_late`, signals that all sides
    have may stand behind an item.
    """

    is_central: bool
    reason: str
    clocks: tuple[str, ...]
    is_late: bool


@dataclass(frozen=True)
class ChannelPlan:
    """A channel, by the loop or side that it feeds: what it holds, how regions travel on it, and from core to core.

    The context is "auto" where the run chooses by what it sees. `items` and `marks` are the most that one item sends.
    """

    fed: Segment
    sink: Sink
    items: int
    marks: int
    bounds: Decision[Bounds]
    context: Decision[str] = Decision("lane", "no region is open here")
    beats: tuple[BeatPlan, ...] = ()
    sender_core: int = 0
    receiver_core: int = 0

    @property
    def feeder(self) -> Segment:
        """The loop that writes into it."""
        assert self.fed.feeder is not None
        return self.fed.feeder

    @property
    def crosses(self) -> bool:
        """Whether it leads from one core to another."""
        return self.sender_core != self.receiver_core


@dataclass(frozen=True)
class Plan:
    """A run as it was planned. Segments are in the order of the stream, feeders first; channels in that of senders.

    Invariant: what is empty here was not decided yet; a field that a pass has filled no later pass changes, but for
    loops and channels, to which each adds its own part.
    """

    request: PlanRequest
    tree: Tree
    clocks: Clocks
    segments: tuple[Segment, ...] = ()
    needed: dict[n.GraphNode, Names] = field(default_factory=dict)
    signals: tuple[type[Signal], ...] = ()
    codes: Mapping[Segment, GeneratedLoop] = field(default_factory=dict)
    sizes: Sizes = Sizes()
    loops: Mapping[Segment, LoopPlan] = field(default_factory=dict)
    channels: Mapping[Segment, ChannelPlan] = field(default_factory=dict)
    heartbeats: tuple[Heartbeats, ...] = ()
    sharings: Mapping[Segment, SideSharing] = field(default_factory=dict)

    @classmethod
    def of(cls, leaves: tuple[n.GraphNode, ...], request: PlanRequest) -> Plan:
        """A plan in which nothing is decided yet."""
        tree = Tree(leaves, is_guarded=request.is_guarded)
        return cls(request, tree, Clocks(tree, ()))

    @property
    def columns(self) -> Names:
        """The fields of the source that are used."""
        return self.needed[self.tree.source]

    @property
    def cores(self) -> dict[Segment, int]:
        """The core of each loop."""
        return {segment: loop.core.value for segment, loop in self.loops.items()}

    def needed_at(self, edge: n.GraphNode) -> Names:
        """The fields of the items after a node that results and the loops downstream of it need."""
        loops = {node for segment in self.segments for node in (*segment.nodes, segment.entry)}
        after = [needed_of(edge, child, self.needed) for child in self.tree.children[edge] if child in loops]
        own = [frozenset(edge.shape.fields)] if edge in self.tree.leaves else []
        return frozenset().union(*after, *own)

    def width(self, fed: Segment) -> int:
        """How many items a loop takes at a time, or what streams meet at takes of a side."""
        return self.loops[fed].width.value if fed in self.loops else self.sizes.channel_items

    def receiver(self, fed: Segment) -> Segment:
        """What takes from a channel: a loop, or the node at which its stream meets others."""
        return next(segment for segment in self.segments if fed is segment or fed in segment.sides)

    def cuts(self) -> Iterator[tuple[Segment, Sink]]:
        """The cuts of all loops, in order, each with the loop or side that it feeds."""
        for segment in self.segments:
            for sink in self.codes[segment].sinks if segment in self.codes else ():
                if sink.feeds is not None:
                    yield sink.feeds, sink

    def leaving(self, segment: Segment) -> list[ChannelPlan]:
        """The channels that a loop writes into."""
        return [channel for channel in self.channels.values() if channel.fed.feeder is segment]
