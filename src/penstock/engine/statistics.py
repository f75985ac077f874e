"""What was counted in a run, as frozen records."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.graph.tree import Delivery
from penstock.text import table


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """One node. An ensemble is a firing with items; a full one has as many as the width allows.

    `outputs_per_input` counts the items that entered by how many left for each: '0', '1', '2-3', '4-7' and so on. What
    comes of signals and boundaries is not in it, and for a loop of several nodes there is none.
    """

    name: str
    firings: int
    ensembles: int
    full: int
    items: int
    occupancy: float
    signals: int
    outputs: int
    outputs_per_input: dict[str, int]
    seconds: float

    @property
    def full_share(self) -> float:
        """The share of full ensembles."""
        return self.full / self.ensembles if self.ensembles else 0.0


@dataclass(frozen=True, slots=True)
class EdgeStatistics:
    """One channel. `stalls` counts how often its sender had to stop because the channel was full.

    `heartbeats` counts how often the sender told how far it had come, and `switches` how often `auto` changed the
    context.
    """

    sender: str
    receiver: str
    context: str
    capacity_items: int
    capacity_signals: int
    highest_items: int
    highest_signals: int
    items: int
    credits: int
    credit_messages: int
    stalls: int
    heartbeats: int
    switches: int


@dataclass(frozen=True, slots=True)
class Firing:
    """One firing, for a timeline: when it began, how long it took, what went in and out, and on which core it was.

    Of its time, `kernel_s` went into the node's own loop, and the rest into taking items and handing them on.
    """

    node: str
    start_s: float
    seconds: float
    items: int
    signals: int
    outputs: int
    core: int = 0
    kernel_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HeldBlocks:
    """What a virtual core with a bounded memory held from a time on: blocks, by their number in the source."""

    start_s: float
    core: int
    blocks: tuple[int, ...]


@dataclass
class RunTrace:
    """What a run notes while it goes on: how long it took, and where that is asked for every signal and firing."""

    seconds: float = 0.0
    deliveries: list[Delivery] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)
    held: list[HeldBlocks] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Statistics:
    """A run: its nodes and channels from the source on, and with `trace=True` every firing.

    `late` is how many items came after their windows had closed. On virtual cores with a bounded memory, `held` is what
    each had in it from when on.
    """

    width: int
    seconds: float
    nodes: tuple[NodeStatistics, ...]
    edges: tuple[EdgeStatistics, ...]
    firings: tuple[Firing, ...] = ()
    held: tuple[HeldBlocks, ...] = ()
    late: int = 0
    skipped: int = 0
    """How many letters there are: items that were skipped, once for each node at which they failed."""

    def node(self, name: str) -> NodeStatistics:
        """The first node whose name begins so."""
        for node in self.nodes:
            if node.name.startswith(name):
                return node
        raise KeyError(f"statistics: no node's name begins with {name!r}; there are {[n.name for n in self.nodes]}")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def json(self) -> str:
        return json.dumps(self.as_dict())

    def __str__(self) -> str:
        lines = table(_NODE_HEAD, [_node_row(node) for node in self.nodes])
        if self.edges:
            lines += ["", *table(_EDGE_HEAD, [_edge_row(edge) for edge in self.edges])]
        if self.late:
            lines += ["", f"late items: {self.late:,}"]
        if self.skipped:
            lines += ["", f"{self.skipped:,} items skipped"]
        return "\n".join(lines)


_NODE_HEAD = ("node", "firings", "items", "full", "occupancy", "signals", "outputs", "ms")
_EDGE_HEAD = ("channel", "context", "items", "highest", "of", "signals", "of", "credits", "stalls")


def _node_row(node: NodeStatistics) -> tuple[str, ...]:
    return (
        node.name,
        f"{node.firings:,}",
        f"{node.items:,}",
        f"{node.full_share:.1%}",
        f"{node.occupancy:.1%}",
        f"{node.signals:,}",
        f"{node.outputs:,}",
        f"{1e3 * node.seconds:,.1f}",
    )


def _edge_row(edge: EdgeStatistics) -> tuple[str, ...]:
    numbers = (edge.items, edge.highest_items, edge.capacity_items, edge.highest_signals, edge.capacity_signals)
    counts = (*numbers, edge.credits, edge.stalls)
    return (f"{edge.sender} → {edge.receiver}", edge.context, *(f"{number:,}" for number in counts))


def bin_name(digits: int) -> str:
    """The bin of numbers with so many binary digits: '0', '1', '2-3', '4-7' and so on."""
    least, most = (1 << digits) >> 1, (1 << digits) - 1
    return str(most) if least == most or digits == 0 else f"{least}-{most}"


class Counter:
    """What a node counts while it runs."""

    def __init__(self) -> None:
        self.firings = self.ensembles = self.full = self.items = self.signals = self.outputs = 0
        self.seconds = 0.0

    def add(self, items: int, is_full: bool, signals: int, outputs: int, seconds: float) -> None:
        self.firings += 1
        self.signals += signals
        self.outputs += outputs
        self.seconds += seconds
        if items:
            self.ensembles += 1
            self.full += is_full
            self.items += items

    def record(self, name: str, width: int, histogram: dict[str, int]) -> NodeStatistics:
        occupancy = self.items / (self.ensembles * width) if self.ensembles else 0.0
        return NodeStatistics(
            name,
            self.firings,
            self.ensembles,
            self.full,
            self.items,
            occupancy,
            self.signals,
            self.outputs,
            histogram,
            self.seconds,
        )
