"""Where a graph is cut into stages, and why.

An edge is cut by key before a `key_by`, or the stream is gathered behind a node. All that lies between two cuts is one
stage. Streams that part and meet again must meet in the stage that all of them come from. Where a cut on the way keeps
them apart they meet by place, in a stage of their own, if items can be numbered and no signals pass with them; else the
stream is gathered before they part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.graph.tree import Tree, above, handled_signals

Kind = Literal["key", "whole", "order"]
CLEANING = (n.Source, n.DropNulls, n.FillNull)
MANY = (n.FlatMap, n.Close, n.Through, n.KeyedAggregate, n.Merge)
"""Nodes behind which several items may have come of one."""


@dataclass(frozen=True, eq=False)
class Cutting:
    """A cut behind a node, on the edges to some of the nodes that follow it, with the reason."""

    kind: Kind
    before: n.GraphNode
    nodes: tuple[n.GraphNode, ...]
    reason: str


Home = Cutting | None
"""The cut that a node lies behind; None in the first stage."""


class Cuts:
    """Finds the edges to cut.

    Invariant, once made: of all edges to a node, each is cut by the same cut or none is; all sides of a `Meet` have the
    same home. Behind a cut that gathers there is no other, and before it none either.
    """

    def __init__(
        self,
        tree: Tree,
        given: set[type[Signal]],
        places: bool,
        aligned: Collection[n.GraphNode],
        *,
        meets_by_place: bool = False,
    ) -> None:
        self.tree, self.given, self.places, self.aligned = tree, given, places, aligned
        self.meets_by_place = meets_by_place
        self.whole: list[Cutting] = []
        self.keyed: dict[n.GraphNode, Cutting] = {}
        self.met: dict[n.GraphNode, Cutting] = {}
        """Where streams of several stages meet by place: cuts on all edges to these nodes."""
        for node in tree.nodes[1:]:
            if isinstance(node, n.Step):
                self._look_at(node)
        for node in list(self.keyed):
            reason = self._imprecise(node)
            if reason is not None:
                self._gather(node, reason)
        while self._settle():
            pass
        self.at_source = next((cut.reason for cut in self.whole if isinstance(cut.before, CLEANING)), None)
        """The reason to run everything in one task, where a stream is gathered right behind its source."""

    def clear(self) -> None:
        """Cut nothing."""
        self.whole.clear()
        self.keyed.clear()
        self.met.clear()

    def on(self, before: n.GraphNode, node: n.GraphNode) -> Cutting | None:
        """The cut on the edge between two nodes."""
        return self._split_on(before, node) or self.met.get(node)

    def _split_on(self, before: n.GraphNode, node: n.GraphNode) -> Cutting | None:
        gathering = (cut for cut in self.whole if cut.before is before and node in cut.nodes)
        return next(gathering, None) or self.keyed.get(node)

    # What each node needs

    def _look_at(self, node: n.Step) -> None:
        if isinstance(node, n.Filter) and node.limit is not None and node.limit.is_by_task:
            return
        if isinstance(node, n.KeyedAggregate) or (isinstance(node, n.Stateful) and node.state is not None):
            key = node.given.key
            if key is None:
                self._gather(node, _of_all(node))
            else:
                self._look_at_key(node, key, "a state for each key")
        elif isinstance(node, n.LateItems) and node.given.key is not None:
            self._look_at_key(node, node.given.key, "the watermark of the whole stream")
        elif isinstance(node, n.Regions) and node not in self.aligned and not self._in_split(node):
            self._gather(node, f"{node.label} are found in the stream's own order")
        elif isinstance(node, n.Through) and not self._in_split(node):
            self._gather(node, f"{node.label} sees the whole stream")

    def _in_split(self, node: n.Step) -> bool:
        """Whether the node lies in a region that never spans two splits."""
        return any(not region.is_found or region.opener in self.aligned for region in node.given.regions)

    def _look_at_key(self, node: n.GraphNode, key: n.KeyBy, has: str) -> None:
        if key.given.depth:
            self._gather(node, f"{key.label} stands inside a region, whose items must stay together")
        else:
            self.keyed[key] = Cutting("key", key.before, (key,), f"{node.label} has {has}")

    def _gather(self, node: n.GraphNode, reason: str) -> None:
        """Cut before this node, or before the region around it or the key that it has, so that all comes together.

        Streams that meet come together before they part.
        """
        while True:
            before = self.tree.fork[node] if isinstance(node, n.Meet) else node.inputs[0]
            if not before.shape.depth and before.shape.key is None:
                break
            node = before
        leading = [each for each in self.tree.children[before] if each is node or node in self.tree.below(each)]
        self._gather_behind(before, leading, reason)

    def _gather_behind(self, before: n.GraphNode, nodes: Collection[n.GraphNode], reason: str) -> None:
        """Gather the stream on some edges behind a node, together with those that are gathered there already."""
        same = [cut for cut in self.whole if cut.before is before and not set(nodes).isdisjoint(cut.nodes)]
        found = {*nodes, *(each for cut in same for each in cut.nodes)}
        together = tuple(each for each in self.tree.children[before] if each in found)
        why = same[0].reason if same else reason
        self.whole = [cut for cut in self.whole if cut not in same] + [Cutting("whole", before, together, why)]

    # What signals and order need

    def _imprecise(self, key: n.GraphNode) -> str | None:
        """Why the stream cannot be spread over buckets at this key, because signals would lose their places."""
        timed = self._windows_behind(key) if self.orders_again(key) else None
        if timed is not None:
            return f"{timed.label} closes windows of several keys at once, whose order would be lost behind {key.label}"
        for node in self.tree.below(key):
            if isinstance(node, n.Emit):
                return f"{node.label} places signals that all keys must see, and it stands behind {key.label}"
            if node in self.keyed and self._signals_into(node):
                return f"signals pass both {key.label} and {node.label}"
            if node in self.keyed and self.orders_again(node):
                many = self.makes_many(key, node)
                if many is not None:
                    return f"{many.label} makes several items of one, whose order would be lost behind {node.label}"
        return None

    def _windows_behind(self, key: n.GraphNode) -> n.GraphNode | None:
        """An aggregate by windows of time of this key."""
        timed = (node for node in self.tree.below(key) if n.timed_of(node) and isinstance(node, n.KeyedAggregate))
        return next((node for node in timed if node.given.key is key), None)

    def makes_many(self, first: n.GraphNode, last: n.GraphNode) -> n.GraphNode | None:
        """A node between two others that may make several items of one."""
        before = above(last)
        return next((node for node in self.tree.below(first) if node in before and isinstance(node, MANY)), None)

    def orders_again(self, key: n.GraphNode) -> bool:
        """Whether items are put in the stream's order again behind the buckets of a key."""
        below = list(self.tree.below(key))
        return any(node in self.keyed or node in self.met for node in below) or (
            self.places and any(node in self.tree.leaves for node in [key, *below])
        )

    def meets_behind(self, node: n.GraphNode) -> bool:
        """Whether what leaves this node meets others by place, further on."""
        return any(below in self.met for below in self.tree.below(node))

    def _signals_into(self, node: n.GraphNode) -> set[type[Signal]]:
        return handled_signals([node, *self.tree.below(node)]) & (self.given | emitted_before(node))

    # What cuts need of each other

    def homes(self) -> dict[n.GraphNode, set[Home]]:
        """The cut that each node lies behind: one, once all is settled, but for where streams meet until then."""
        found: dict[n.GraphNode, set[Home]] = {self.tree.source: {None}}
        for node in self.tree.nodes[1:]:
            found[node] = set()
            for before in node.inputs:
                cut = self.on(before, node)
                found[node] |= found[before] if cut is None else {cut}
        return found

    def _settle(self) -> bool:
        """Change one cut that contradicts others, from the source on; whether there was one."""
        homes = self.homes()
        for node in self.tree.nodes[1:]:
            for before in node.inputs:
                cut = self.on(before, node)
                if cut is not None and self._contradicts(cut, homes):
                    return True
            if len(homes[node]) > 1:
                assert isinstance(node, n.Meet)
                self._bring_together(node, homes)
                return True
        return False

    def _contradicts(self, cut: Cutting, homes: dict[n.GraphNode, set[Home]]) -> bool:
        """Where the whole stream is in one task already, nothing behind is cut; and nothing keyed lies above it."""
        if cut.kind == "order":
            return self._no_longer_meets(cut, homes)
        (home,) = homes[cut.before]
        if cut.kind == "whole":
            for node in cut.nodes:
                self.keyed.pop(node, None)
        if home is not None and home.kind == "whole":
            self.whole = [each for each in self.whole if each is not cut]
            self.keyed = {node: each for node, each in self.keyed.items() if each is not cut}
            return True
        if cut.kind == "whole" and home is not None and home.kind == "key":
            outer = home
            while (further := next(iter(homes[outer.before]))) is not None and further.kind == "key":
                outer = further
            self._gather_behind(outer.before, outer.nodes, cut.reason)
            return True
        return False

    # Streams that meet and come from several stages

    def _bring_together(self, meet: n.Meet, homes: dict[n.GraphNode, set[Home]]) -> None:
        reason = self._apart(meet, homes)
        if self._may_meet_by_place(meet, homes):
            self.met[meet] = Cutting("order", meet.sides[0], (meet,), reason)
        else:
            self._gather(meet, reason)

    def _may_meet_by_place(self, meet: n.Meet, homes: dict[n.GraphNode, set[Home]]) -> bool:
        """Whether items can be sent on with their places in the source, and brought together by these.

        Each must have one of its own, and no signal may have to pass with them.
        """
        shape = meet.shape
        is_whole = any(home is not None and home.kind == "whole" for home in self._homes_of_sides(meet, homes))
        is_numbered = n.stem(meet.sides[0]) is self.tree.source and not shape.depth and shape.key is None
        return self.meets_by_place and is_numbered and not is_whole and not self._signals_into(meet)

    def _no_longer_meets(self, cut: Cutting, homes: dict[n.GraphNode, set[Home]]) -> bool:
        """Take back a cut before streams that meet, where they come from one stage now, or may not any more."""
        (meet,) = cut.nodes
        assert isinstance(meet, n.Meet)
        if len(set(self._homes_of_sides(meet, homes))) > 1 and self._may_meet_by_place(meet, homes):
            return False
        del self.met[meet]
        return True

    def _homes_of_sides(self, meet: n.Meet, homes: dict[n.GraphNode, set[Home]]) -> list[Home]:
        """For each side, the cut that lies between it and where they meet, or that it lies behind."""
        return [self._split_on(side, meet) or next(iter(homes[side])) for side in meet.sides]

    def _apart(self, meet: n.Meet, homes: dict[n.GraphNode, set[Home]]) -> str:
        """Why streams that meet would not come from one stage."""
        cuts = self._homes_of_sides(meet, homes)
        whole = [cut for cut in cuts if cut is not None and cut.kind == "whole"]
        if whole:
            return f"{meet.label} brings together streams of which not all are gathered, and {whole[0].reason}"
        keys = [cut.nodes[0] for cut in dict.fromkeys(cuts) if cut is not None and cut.kind == "key"]
        if not keys:
            return f"{meet.label} brings together streams of which some were brought together before"
        deepest = max(keys, key=self.tree.number.__getitem__)
        count = sum(cut is not None and cut.nodes[0] is deepest for cut in cuts)
        if len(keys) == 1 or any(deepest in self.tree.below(key) for key in keys):
            some = "one is" if count == 1 else "some are"
            return f"{meet.label} brings together streams of which only {some} spread by {deepest.label}"
        labels = " and ".join(key.label for key in keys)
        return f"{meet.label} brings together streams that are spread each by itself, by {labels}"


def _of_all(node: n.GraphNode) -> str:
    """Why a node needs all items of the stream."""
    if n.is_global_limit(node):
        return f"{node.label} counts the items of the whole stream"
    if isinstance(node, n.KeyedAggregate):
        return f"{node.label} takes all items of the stream"
    return f"the state of {node.label} has no key, so every item may change it"


def emitted_before(node: n.GraphNode) -> set[type[Signal]]:
    """The signals that are emitted before a node."""
    return set(_emitted(above(node)))


def emitted_until(node: n.GraphNode) -> set[type[Signal]]:
    """The signals that leave a node and were emitted in the stream."""
    return set(_emitted({node, *above(node)}))


def _emitted(nodes: Collection[n.GraphNode]) -> Iterator[type[Signal]]:
    return (node.signal for node in nodes if isinstance(node, n.Emit))
