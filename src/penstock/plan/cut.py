"""Cut a graph into stages: the parts that run side by side on pieces of the stream, and how items pass between them.

The first stage runs on splits of the source, one copy on each. That is right for a node that looks at one item at a
time, and for regions that are opened from one item. Other nodes need more of the stream in one place:

- a state by key needs all items of its key, in order: the stream is cut at `key_by`, and every bucket of keys is whole;
- a state without a key, hooks of the whole stream, and regions found in it need all items, in order: the stream is cut
  before them, and what follows runs as one task. It is right, and it does not scale.

A cut lies only where no region is open. Signals pass a cut at their places, to every bucket. A stage behind a bucket of
keys has no order of its own, so items that must be in the stream's order again carry their places.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.needs import Names, needs
from penstock.graph.record import Signal
from penstock.graph.source import Items
from penstock.graph.tree import Tree, handled
from penstock.plan.idle import Idle, Wanted, idle_of

Kind = Literal["key", "whole", "order"]


@dataclass(frozen=True, eq=False)
class Exchange:
    """How items pass from one stage to the next.

    By "key", each goes to the bucket of its key. With "whole", all go to one task. With "order", each goes to where its
    part of the stream is put in order again. `has_places` says whether they carry their places.
    """

    kind: Kind
    send: n.Send
    reason: str
    keys: tuple[str, ...] = ()
    has_places: bool = False
    """Whether items carry their places. The first stage numbers them as they leave; a bucket of keys hands on those
    that it received."""
    is_merged: bool = False
    """Whether the senders are buckets of keys, so that what they send must be merged by place."""
    idle: Idle | None = None
    """How the keys behind it go idle, in a running stream."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that are handed over."""
        return self.send.names

    @property
    def signals(self) -> tuple[type[Signal], ...]:
        return self.send.signals


@dataclass(frozen=True, eq=False)
class Output:
    """What leaves a stage: for another stage, or as the result of a leaf. With `has_places` it must be put in order."""

    send: n.Send
    stage: int | None = None
    leaf: int | None = None

    @property
    def has_places(self) -> bool:
        return self.send.has_places


@dataclass(eq=False)
class Stage:
    """A part of the graph, with a source of its own. `level` is how many exchanges lie before it."""

    number: int
    level: int
    reads: Exchange | None
    outputs: list[Output] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What stands for the stage in reports."""
        return f"stage {self.number + 1} ({'source' if self.reads is None else self.reads.kind})"

    @property
    def is_keyed(self) -> bool:
        return self.reads is not None and self.reads.kind == "key"

    @property
    def leaves(self) -> tuple[n.GraphNode, ...]:
        return tuple(output.send for output in self.outputs)


@dataclass(frozen=True)
class Cut:
    """All stages, senders first. With `is_whole`, the first stage reads all splits in one task, for the `reason`."""

    stages: tuple[Stage, ...]
    is_whole: bool
    reason: str = ""

    @property
    def exchanges(self) -> list[Exchange]:
        return [stage.reads for stage in self.stages if stage.reads is not None]

    @property
    def levels(self) -> int:
        return 1 + max(stage.level for stage in self.stages)

    def explain(self) -> str:
        """The stages and exchanges as text, with the reason of each."""
        lines = []
        for stage in self.stages:
            nodes = [node.label for node in Tree(stage.leaves).nodes if not isinstance(node, n.STAGE_KINDS)]
            listed = ", ".join(nodes) or "nothing but handing on"
            if stage.reads is None:
                over = f"all splits in one task, because {self.reason}" if self.is_whole else "every split by itself"
            else:
                over = _OVER[stage.reads.kind] + f", because {stage.reads.reason}"
            lines.append(f"stage {stage.number + 1}, over {over}: {listed}")
        return "\n".join(lines)


_OVER = {
    "key": "every bucket of keys by itself",
    "whole": "the whole stream in one task",
    "order": "parts of the stream in order",
}


def cut(
    leaves: Sequence[n.GraphNode],
    given_signals: Sequence[type[Signal]] = (),
    *,
    places: bool = False,
    is_ordered: bool = False,
    aligned: Collection[n.GraphNode] = (),
    is_gathered_at_source: bool = True,
    idle: Wanted | None = None,
) -> Cut:
    """Cut the graph of some leaves.

    `given_signals` are the kinds of signals that will be placed from outside. With `places`, results that leave buckets
    of keys carry their places; with `is_ordered` they pass one more exchange that puts them in order. No region
    of the nodes `aligned` spans two splits. Without `is_gathered_at_source` no task can read all splits. `idle` is what
    is wanted of keys that go idle, where the stream is a running one.
    """
    tree = Tree(tuple(leaves))
    cuts = _Cuts(tree, set(given_signals), places or is_ordered, aligned)
    if not is_gathered_at_source:
        cuts.at_source = None
    return _Builder(tree, cuts, set(given_signals), places or is_ordered, is_ordered, idle).build()


# Where


class _Cuts:
    """Finds the edges to cut, each named by the node behind it, with the kind of exchange and the reason."""

    def __init__(self, tree: Tree, given: set[type[Signal]], places: bool, aligned: Collection[n.GraphNode]) -> None:
        self.tree, self.given, self.places, self.aligned = tree, given, places, aligned
        self.whole: dict[n.GraphNode, str] = {}
        self.keyed: dict[n.GraphNode, str] = {}
        for node in tree.nodes[1:]:
            self._look_at(node)
        for node in list(self.keyed):
            reason = self._imprecise(node)
            if reason is not None:
                self._gather(node, reason)
        self._drop_nested()
        self.at_source = self._at_source()

    def _look_at(self, node: n.GraphNode) -> None:
        assert isinstance(node, n.Step)
        if isinstance(node, n.KeyedAggregate) or (isinstance(node, n.Stateful) and node.state is not None):
            key = node.given.key
            if key is None:
                self._gather(node, f"the state of {node.label} has no key, so every item may change it")
            else:
                self._look_at_key(node, key, "a state for each key")
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
            self.keyed[key] = f"{node.label} has {has}"

    def _gather(self, node: n.GraphNode, reason: str) -> None:
        """Cut before this node, or before the region around it or the key that it has, so that all comes together."""
        while node.inputs[0].shape.depth or node.inputs[0].shape.key is not None:
            (node,) = node.inputs
        self.whole.setdefault(node, reason)

    def _imprecise(self, key: n.GraphNode) -> str | None:
        """Why the stream cannot be spread over buckets at this key, because signals would lose their places."""
        below = list(self.tree.below(key))
        for node in below:
            if isinstance(node, n.Emit):
                return f"{node.label} places signals that all keys must see, and it stands behind {key.label}"
            if node in self.keyed and self._signals_into(node):
                return f"signals pass both {key.label} and {node.label}"
            if node in self.keyed and self.orders_again(node):
                many = next((step for step in _between(key, node) if isinstance(step, _MANY)), None)
                if many is not None:
                    return f"{many.label} makes several items of one, whose order would be lost behind {node.label}"
        return None

    def orders_again(self, key: n.GraphNode) -> bool:
        """Whether items are put in the stream's order again behind the buckets of a key."""
        below = list(self.tree.below(key))
        return any(node in self.keyed for node in below) or (
            self.places and any(node in self.tree.leaves for node in [key, *below])
        )

    def _signals_into(self, node: n.GraphNode) -> set[type[Signal]]:
        return handled([node, *self.tree.below(node)]) & (self.given | emitted_before(node))

    def _drop_nested(self) -> None:
        """Where the whole stream is in one task already, nothing behind is cut; and nothing keyed lies above it."""
        for node in list(self.whole):
            above = _above(node)
            keyed = [other for other in above if other in self.keyed]
            if keyed:
                self.whole.setdefault(keyed[-1], self.whole[node])
        for node in [*self.whole, *self.keyed]:
            if any(other in self.whole for other in _above(node)):
                self.whole.pop(node, None)
                self.keyed.pop(node, None)
        for node in self.whole:
            self.keyed.pop(node, None)

    def _at_source(self) -> str | None:
        """The reason to run everything in one task, where a stream is gathered right behind its source."""
        cleaning = (n.Source, n.DropNulls, n.FillNull)
        return next((why for node, why in self.whole.items() if isinstance(node.inputs[0], cleaning)), None)


def _above(node: n.GraphNode) -> list[n.GraphNode]:
    """The nodes before this one, nearest first."""
    found: list[n.GraphNode] = []
    while node.inputs:
        (node,) = node.inputs
        found.append(node)
    return found


_MANY = (n.FlatMap, n.Close, n.Through, n.KeyedAggregate)
"""Nodes behind which several items may have come of one."""


def _between(first: n.GraphNode, last: n.GraphNode) -> list[n.GraphNode]:
    above = _above(last)
    return above[: above.index(first)]


def emitted_before(node: n.GraphNode) -> set[type[Signal]]:
    return {above.signal for above in _above(node) if isinstance(above, n.Emit)}


# How


class _Builder:
    """Builds the stages: every node on a new node before it, down from a source of its stage."""

    def __init__(
        self,
        tree: Tree,
        cuts: _Cuts,
        given: set[type[Signal]],
        places: bool,
        is_ordered: bool,
        idle: Wanted | None,
    ) -> None:
        self.tree, self.cuts, self.given = tree, cuts, given
        self.places, self.is_ordered, self.idle = places, is_ordered, idle
        self.needed: dict[n.GraphNode, Names] = needs(tree)
        self.stages: list[Stage] = []
        self.waiting: list[tuple[Stage, n.GraphNode | int]] = []
        """Stages to be built, with the first node of each; one that only puts a result in order has its leaf."""

    def build(self) -> Cut:
        reason = self.cuts.at_source
        if reason is not None:
            self.cuts.whole.clear()
            self.cuts.keyed.clear()
        first = Stage(0, 0, None)
        self.stages.append(first)
        # Without its items, because the stages travel and these need not.
        source = self.tree.source
        self._extend(first, source, without_items(source))
        for stage, behind in self.waiting:  # which grows meanwhile
            assert stage.reads is not None
            received = self._source(stage.reads)
            if isinstance(behind, int):
                stage.outputs.append(Output(n.Send(received, stage.reads.names), None, behind))
            else:
                self._child(stage, behind, received)
        return Cut(tuple(self.stages), reason is not None, reason or "")

    def _source(self, exchange: Exchange) -> n.Received:
        """The source of the stage behind an exchange: all fields are declared, those that are used arrive."""
        fields = dict(exchange.send.given.fields)
        items = Items(fields, _nothing)
        return n.Received(items, self.tree.source.name, exchange.has_places, exchange.signals)

    def _extend(self, stage: Stage, node: n.GraphNode, made: n.GraphNode) -> None:
        """Go on below a node, of which `made` is the copy in this stage."""
        if node in self.tree.leaves:
            self._result(stage, node, made)
        for child in self.tree.children[node]:
            kind = self._kind(child)
            if kind is None:
                self._child(stage, child, made)
            else:
                self._exchange(stage, child, made, kind)

    def _child(self, stage: Stage, node: n.GraphNode, before: n.GraphNode) -> None:
        self._extend(stage, node, moved(node, before))

    def _kind(self, node: n.GraphNode) -> Kind | None:
        return "whole" if node in self.cuts.whole else "key" if node in self.cuts.keyed else None

    def _result(self, stage: Stage, node: n.GraphNode, made: n.GraphNode) -> None:
        names = tuple(node.shape.fields)
        has_places = self.places and stage.is_keyed
        for leaf, each in enumerate(self.tree.leaves):
            if each is not node:
                continue
            send = n.Send(made, names, has_places)
            if has_places and self.is_ordered:
                reason = "the result is to be in the stream's order"
                self._send(stage, leaf, Exchange("order", send, reason, has_places=True, is_merged=True))
            else:
                stage.outputs.append(Output(send, None, leaf))

    def _exchange(self, stage: Stage, node: n.GraphNode, made: n.GraphNode, kind: Kind) -> None:
        arriving = self.given | emitted_before(node)
        below = handled([node, *self.tree.below(node)])
        signals = tuple(sorted(below & arriving, key=lambda s: (s.__module__, s.__qualname__)))
        idle = self._idle(node) if kind == "key" else None
        names = self._names(node, made.shape.fields, None if idle is None else idle.time)
        has_places = stage.is_keyed or (kind == "key" and self.cuts.orders_again(node))
        send = n.Send(made, names, stage.is_keyed, signals)
        keys = node.names if kind == "key" and isinstance(node, n.KeyBy) else ()
        reason = self.cuts.whole[node] if kind == "whole" else self.cuts.keyed[node]
        self._send(stage, node, Exchange(kind, send, reason, keys, has_places, stage.is_keyed, idle))

    def _idle(self, node: n.GraphNode) -> Idle | None:
        return idle_of(node, self.tree, self.idle) if self.idle is not None and isinstance(node, n.KeyBy) else None

    def _send(self, stage: Stage, behind: n.GraphNode | int, exchange: Exchange) -> None:
        receiver = Stage(len(self.stages), stage.level + 1, exchange)
        self.stages.append(receiver)
        stage.outputs.append(Output(exchange.send, receiver.number, None))
        self.waiting.append((receiver, behind))

    def _names(self, node: n.GraphNode, fields: Any, time: str | None) -> tuple[str, ...]:
        """The fields that a node and all behind it need, and the time; at least one, so that there are rows."""
        names = tuple(name for name in fields if name in self.needed[node] or name == time)
        if names:
            return names
        return (min(fields, key=lambda name: not types.is_scalar(fields[name])),)


def _nothing(*_: Any) -> Sequence[Any]:
    return ()


def without_items(source: n.Source) -> n.Source:
    return n.Source(Items(source.items.fields, _nothing), source.name)


def moved_to(leaf: n.GraphNode, source: n.Source) -> Any:
    """The same path of nodes from another source of the same fields."""
    return source if isinstance(leaf, n.Source) else moved(leaf, moved_to(leaf.inputs[0], source))


def moved(node: n.GraphNode, before: n.GraphNode) -> Any:
    """The same node behind another one of the same shape. Its functions stay bound as they are."""
    made = object.__new__(type(node))
    made.__dict__.update(node.__dict__)
    made.__dict__.pop("shape", None)
    object.__setattr__(made, "before", before)
    _ = made.shape
    return made
