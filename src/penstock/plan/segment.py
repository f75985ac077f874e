"""A segment: a subtree of the graph that becomes one loop, or where streams meet that come from several loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.graph import nodes as n


@dataclass(frozen=True, eq=False)
class Segment:
    """One loop: the node whose items enter, the nodes in it, and why it begins here.

    Invariant: `nodes` is connected below `entry`, in the order of the tree. The stream is cut after `edge`, in the
    segment `feeder` (None for the source). `edge` is `entry`, or the node before it where `entry` is a function over
    columns that has yet to be called.
    """

    number: int
    entry: n.GraphNode
    edge: n.GraphNode
    reason: str
    feeder: Segment | None
    nodes: list[n.GraphNode] = field(default_factory=list)
    meet: n.Meet | None = None
    """Where this is no loop: the node at which streams meet, or to which it is a side."""
    sides: tuple[Segment, ...] = ()
    """The sides, where streams meet: each is fed by the loop that its stream comes from."""
    copies: int = 0
    """How many copies help this loop."""
    is_guarded: bool = False
    """Whether items that fail are skipped, so that any node may leave some out."""

    @property
    def behind(self) -> list[n.GraphNode]:
        """The nodes of the segment right behind its entry."""
        return [node for node in self.nodes if self.entry in node.inputs]

    @property
    def takers(self) -> list[n.GraphNode]:
        """The nodes that take what enters: a function over columns, or those right behind the entry."""
        if self.meet is not None and not self.sides:
            return [self.meet]
        return [self.entry] if self.entry is not self.edge else self.behind

    @property
    def only(self) -> n.GraphNode | None:
        """The one node of the segment, where there is just one."""
        found = [*([self.entry] if self.entry is not self.edge else []), *self.nodes]
        return found[0] if len(found) == 1 else None

    @property
    def name(self) -> str:
        """What stands for the segment in reports: its nodes."""
        if self.meet is not None:
            return self.meet.heading
        whole = [self.entry] if isinstance(self.entry, n.MapColumns) else []
        labels = [node.heading for node in [*whole, *self.nodes]] or [self.entry.heading]
        return labels[0] if len(labels) == 1 else f"{labels[0]} … {labels[-1]}"

    @property
    def has_functions(self) -> bool:
        """Whether this is where streams meet, and all that follows is a function for each set of sides."""
        return isinstance(self.meet, n.Join) and self.meet.cases > 0

    @property
    def joint(self) -> Segment | None:
        """The flexible join whose functions are called here, so that copies of it and of this go together."""
        return self.feeder if self.copies and self.feeder is not None and self.feeder.has_functions else None

    @property
    def resumable(self) -> n.Enumerate | None:
        """The node whose elements may leave piece by piece: an `enumerate` that is all there is behind the entry."""
        only = self.takers[0] if len(self.takers) == 1 else None
        return only if isinstance(only, n.Enumerate) else None

    @property
    def is_interpreted(self) -> bool:
        """Whether a function here does not compile, so that the loop runs as plain Python."""
        return any(function.reason is not None for node in self.nodes for function in node.functions)


CLEANING = (n.Source, n.DropNulls, n.FillNull)


def fed_segments(segments: Sequence[Segment]) -> list[Segment]:
    """All that a channel leads to: loops, and the sides of streams that meet."""
    return [fed for each in segments for fed in (*each.sides, each) if fed.feeder is not None]


def opened_at(segment: Segment, edge: n.GraphNode) -> Iterator[n.GraphNode]:
    """The `enumerate` nodes of a segment of whose elements each may send something through a cut after `edge`.

    That is an item, unless an aggregate closes the region in between, or a signal.
    """
    # Of each node, on the ways from it to the edge: whether a signal is emitted, and which regions are closed.
    ways: dict[n.GraphNode, set[tuple[bool, frozenset[n.GraphNode]]]] = {edge: {(False, frozenset())}}
    for node in reversed(segment.nodes):
        for emits, closed in ways.pop(node, ()):
            emits = emits or isinstance(node, n.Emit)
            if isinstance(node, n.Aggregate):
                closed |= {node.region.opener}
            if isinstance(node, n.Enumerate) and (emits or node not in closed):
                yield node
            for before in node.inputs:
                ways.setdefault(before, set()).add((emits, closed))


def inside(segment: Segment) -> list[n.GraphNode]:
    """The nodes of a loop, with that at its entry where it belongs to it."""
    at_entry = segment.sides or segment.entry is not segment.edge
    return [*([segment.entry] if at_entry else []), *segment.nodes]
