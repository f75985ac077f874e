"""Cut a graph into stages: the parts that run side by side on pieces of the stream, and how items pass between them.

The first stage runs on splits of the source, one copy on each. That is right for a node that looks at one item at a
time, and for regions that are opened from one item. Other nodes need more of the stream in one place:

- a state by key needs all items of its key, in order: the stream is cut at `key_by`, and every bucket of keys is whole;
- a state without a key, hooks of the whole stream, and regions found in it need all items, in order: the stream is cut
  before them, and what follows runs as one task. It is right, and it does not scale;
- streams that meet and come from several stages are sent, by their places in the source, to where each part of the
  stream is put in order, and meet there.

A cut lies only where no region is open. Signals pass a cut at their places, to every bucket. A stage behind a bucket of
keys has no order of its own, so items that must be in the stream's order again carry their places. Where the cuts lie
is found in `plan/cuts.py`; here the stages are built.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.needs import Names, needed_of, needs
from penstock.graph.rebase import rebase
from penstock.graph.record import Signal
from penstock.graph.source import Items
from penstock.graph.tree import Tree, above, handled_signals
from penstock.graph.watermarks import with_watermarks
from penstock.plan.cuts import CLEANING, MANY, Cuts, Cutting, emitted_until
from penstock.plan.idle import IdleLimit, idle_of
from penstock.plan.moving import nothing, without_items
from penstock.plan.stages import Cut, Exchange, Stage, StageMeeting, StageOutput


def cut(
    leaves: Sequence[n.GraphNode],
    given_signals: Sequence[type[Signal]] = (),
    *,
    places: bool = False,
    is_ordered: bool = False,
    aligned: Collection[n.GraphNode] = (),
    is_gathered_at_source: bool = True,
    idle: IdleLimit | None = None,
    meets_by_place: bool = False,
    is_guarded: bool = False,
) -> Cut:
    """Cut the graph of some leaves.

    `given_signals` are the kinds of signals that will be placed from outside. With `places`, results that leave buckets
    of keys carry their places; with `is_ordered` they pass one more exchange that puts them in order. No region
    of the nodes `aligned` spans two splits. Without `is_gathered_at_source` no task can read all splits. `idle` is what
    is wanted of keys that go idle, where the stream is a running one. With `meets_by_place`, streams that come from
    several stages may meet in one of their own. With `is_guarded` items that fail are skipped: all carry their indices
    in the split, so that letters have them, and nodes their numbers in the graph.
    """
    leaves, made = with_watermarks(leaves)
    tree, aligned = Tree(leaves), [made.get(node, node) for node in aligned]
    by_place = meets_by_place and not is_guarded
    cuts = Cuts(tree, set(given_signals), places or is_ordered, aligned, meets_by_place=by_place)
    if is_guarded:
        _gather_for_letters(cuts, is_gathered_at_source)
    if not is_gathered_at_source:
        cuts.at_source = None
        _refuse_nulls(cuts)
    return _StageBuilder(tree, cuts, set(given_signals), places or is_ordered, is_ordered, idle, is_guarded).build()


def _gather_for_letters(cuts: Cuts, is_gathered_at_source: bool) -> None:
    """Run all in one task where streams meet by an index that is not that of the source, behind an exchange.

    There several items may come of one, and carry its index; they need others to meet by.
    """
    tree = cuts.tree
    for found in [*cuts.whole, *cuts.keyed.values()]:
        many = next((node for node in {found.before, *above(found.before)} if isinstance(node, MANY)), None)
        below = {each for node in found.nodes for each in (node, *tree.below(node))}
        meet = next((node for node in below if isinstance(node, n.Meet)), None)
        if many is None or meet is None or cuts.at_source is not None:
            continue
        if not is_gathered_at_source:
            raise GraphError(
                f"run: on_error='skip' cannot tell the indices of items where {many.label} makes several of one, which "
                f"are spread over tasks, and meet at {meet.label}; leave out on_error=, or read files"
            )
        cuts.at_source = f"letters have the indices of the source, and streams meet at {meet.label} by others"


def _refuse_nulls(cuts: Cuts) -> None:
    """Refuse to hand over nulls, which blocks do not hold."""
    for found in cuts.whole:
        cleaned = next((node for node in found.nodes if isinstance(node, CLEANING)), None)
        if cleaned is not None:
            raise GraphError(
                f"{cleaned.label}: streams must part behind it here, because {found.reason}, so that the rows of the "
                f"DataFrame are sent to one task; they part before; clean the rows once, before they part"
            )


class _StageBuilder:
    """Builds the stages: every node on a new node before it, down from a source of its stage."""

    def __init__(
        self,
        tree: Tree,
        cuts: Cuts,
        given: set[type[Signal]],
        places: bool,
        is_ordered: bool,
        idle: IdleLimit | None,
        is_guarded: bool,
    ) -> None:
        self.is_guarded = is_guarded
        self.tree, self.cuts, self.given = tree, cuts, given
        self.places, self.is_ordered, self.idle = places, is_ordered, idle
        self.needed: dict[n.GraphNode, Names] = needs(tree)
        self.stages: list[Stage] = []
        self.made: dict[tuple[int, n.GraphNode], n.GraphNode] = {}
        """The copy of a node in a stage, by the number of the stage."""
        self.entered: dict[int, Cutting] = {}
        """The cut before a stage, by the number of the stage."""
        self.arrived: dict[n.GraphNode, dict[n.GraphNode, tuple[Stage, n.GraphNode]]] = {}
        """What has come so far to where streams meet by place: of each side its stage, and its copy there."""
        self.waiting: list[tuple[Stage, Cutting | int]] = []
        """Stages to be built, with the cut before each; one that only puts a result in order has its leaf."""

    def build(self) -> Cut:
        reason = self.cuts.at_source
        if reason is not None:
            self.cuts.clear()
        first = Stage(0, 0, None)
        self.stages.append(first)
        # Without its items, because the stages travel and these need not.
        source = self.tree.source
        self._extend(first, source, without_items(source))
        for stage, behind in self.waiting:  # which grows meanwhile
            assert stage.reads is not None
            received = self._source(stage)
            if isinstance(behind, int):
                stage.outputs.append(StageOutput(n.Send(received, stage.reads.names), None, behind))
            elif behind.kind == "order":
                self._extend(stage, behind.nodes[0], received)
            else:
                self.made[stage.number, behind.before] = received
                for node in behind.nodes:
                    self._child(stage, node)
        return Cut(tuple(self.stages), reason is not None, reason or "")

    def _source(self, stage: Stage) -> n.Received:
        """The source of a stage behind an exchange: all fields are declared, those that are used arrive."""
        exchange = stage.reads
        assert exchange is not None
        is_met = stage.meeting is not None
        shape = self.entered[stage.number].nodes[0].shape if is_met else exchange.send.given
        items = Items(dict(shape.fields), nothing)
        return n.Received(items, self.tree.source.name, exchange.is_numbered, exchange.signals)

    def _extend(self, stage: Stage, node: n.GraphNode, made: n.GraphNode) -> None:
        """Go on below a node, of which `made` is the copy in this stage."""
        self.made[stage.number, node] = made
        if node in self.tree.leaves:
            self._result(stage, node, made)
        cuts: dict[Cutting, None] = {}
        for child in self.tree.children[node]:
            found = self.cuts.on(node, child)
            if found is None:
                self._child(stage, child)
            elif found.kind == "order":
                self._arrive(stage, found, node, made)
            elif found not in cuts:
                cuts[found] = None
                self._exchange(stage, found, made)

    def _child(self, stage: Stage, node: n.GraphNode) -> None:
        """Go on with a node, once: where streams meet, when all of them are there."""
        inputs = [self.made.get((stage.number, before)) for before in node.inputs]
        here = [before for before in inputs if before is not None]
        if len(here) == len(inputs) and (stage.number, node) not in self.made:
            made = rebase(node, *here)
            made.__dict__["numbered"] = self.tree.number[node]
            self._extend(stage, node, made)

    def _result(self, stage: Stage, node: n.GraphNode, made: n.GraphNode) -> None:
        names = tuple(node.shape.fields)
        has_places = self.places and stage.is_keyed
        for leaf, each in enumerate(self.tree.leaves):
            if each is not node:
                continue
            send = n.Send(made, names, has_places)
            if has_places and self.is_ordered:
                reason = "the result is to be in the stream's order"
                exchange = Exchange("order", send, reason, has_places=True, is_merged=True, is_numbered=True)
                self._send(stage, leaf, exchange)
            else:
                stage.outputs.append(StageOutput(send, None, leaf))

    def _exchange(self, stage: Stage, found: Cutting, made: n.GraphNode) -> None:
        made = self._limited(stage, found, made)
        arriving = self.given | emitted_until(found.before)
        below = handled_signals([*found.nodes, *(below for node in found.nodes for below in self.tree.below(node))])
        signals = tuple(sorted(below & arriving, key=lambda s: (s.__module__, s.__qualname__)))
        key = found.nodes[0] if found.kind == "key" else None
        idle = idle_of(key, self.tree, self.idle) if self.idle is not None and isinstance(key, n.KeyBy) else None
        names = self._names(found, made.shape.fields, None if idle is None else idle.time)
        orders = key is not None and self.cuts.orders_again(key)
        has_places = stage.is_keyed or orders or self.is_guarded
        keeps_places = stage.is_keyed or self.is_guarded or (key is not None and self.cuts.meets_behind(key))
        self._send(
            stage,
            found,
            Exchange(
                found.kind,
                n.Send(made, names, keeps_places, signals),
                found.reason,
                key.names if isinstance(key, n.KeyBy) else (),
                has_places,
                is_merged=stage.is_keyed,
                is_numbered=has_places and (orders or self.is_guarded or not self._repeats_places(stage, found)),
                idle=idle,
                tells_split=stage.reads is None or keeps_places,
            ),
        )

    def _limited(self, stage: Stage, found: Cutting, made: n.GraphNode) -> n.GraphNode:
        """Send no more of each split than a limit downstream lets pass, so that no task reads more than that."""
        limits = [node.limit.most for node in found.nodes if isinstance(node, n.Filter) and node.limit is not None]
        if self.idle is not None or stage.is_keyed or len(limits) < len(found.nodes):
            return made
        limited = n.limit(made, max(limits), is_by_task=True)
        limited.__dict__["numbered"] = self.tree.number[found.nodes[0]]
        return limited

    def _repeats_places(self, stage: Stage, found: Cutting) -> bool:
        """Whether several items that leave a bucket of keys may have one place."""
        entered = self.entered.get(stage.number)
        if entered is None or not stage.is_keyed:
            return False
        return self.cuts.makes_many(entered.nodes[0], found.nodes[0]) is not None

    # Streams that meet by place

    def _arrive(self, stage: Stage, found: Cutting, side: n.GraphNode, made: n.GraphNode) -> None:
        """One of the streams has come to where they meet. With the last of them, their stage is made."""
        (meet,) = found.nodes
        assert isinstance(meet, n.Meet)
        here = self.arrived.setdefault(meet, {})
        here[side] = stage, made
        if len(here) < len(set(meet.sides)):
            return
        level = max(1, *(stage.level for stage, _ in here.values()))
        names = {side: self._names_of(side, [meet], side.shape.fields) for side in here}
        relayed = {side: self._relayed(*here[side], names[side], level, found.reason) for side in here}
        receiver = Stage(len(self.stages), level + 1, None)
        receiver.meeting = StageMeeting.of(meet, {name for each in names.values() for name in each})
        sides = []
        for at, each in enumerate(meet.sides):
            sender, last = relayed[each]
            send = n.Send(last, names[each], True)
            sides.append(self._by_place(sender, send, found.reason, is_numbered=isinstance(meet, n.Join)))
            sender.outputs.append(StageOutput(send, receiver.number, None, at))
        receiver.reads, receiver.sides = sides[0], tuple(sides)
        self.stages.append(receiver)
        self.entered[receiver.number] = found
        self.waiting.append((receiver, found))

    def _relayed(
        self, stage: Stage, made: n.GraphNode, names: tuple[str, ...], level: int, reason: str
    ) -> tuple[Stage, n.GraphNode]:
        """The same items at a level: every shuffle takes what it is given to the next one, and no further."""
        while stage.level < level:
            exchange = self._by_place(stage, n.Send(made, names, True), reason)
            receiver = Stage(len(self.stages), stage.level + 1, exchange)
            self.stages.append(receiver)
            stage.outputs.append(StageOutput(exchange.send, receiver.number, None))
            stage, made = receiver, self._source(receiver)
        return stage, made

    def _by_place(self, stage: Stage, send: n.Send, reason: str, *, is_numbered: bool = True) -> Exchange:
        return Exchange("order", send, reason, (), True, stage.is_keyed, is_numbered, tells_split=is_numbered)

    def _send(self, stage: Stage, behind: Cutting | int, exchange: Exchange) -> None:
        receiver = Stage(len(self.stages), stage.level + 1, exchange)
        self.stages.append(receiver)
        stage.outputs.append(StageOutput(exchange.send, receiver.number, None))
        self.waiting.append((receiver, behind))
        if isinstance(behind, Cutting):
            self.entered[receiver.number] = behind

    def _names(self, found: Cutting, fields: Any, time: str | None) -> tuple[str, ...]:
        """The fields that the nodes behind a cut need, and the time."""
        return self._names_of(found.before, found.nodes, fields, time)

    def _names_of(
        self, before: n.GraphNode, nodes: Sequence[n.GraphNode], fields: Any, time: str | None = None
    ) -> tuple[str, ...]:
        """The fields that some nodes need of the one before them; at least one, so that there are rows."""
        needed = {name for node in nodes for name in needed_of(before, node, self.needed)}
        names = tuple(name for name in fields if name in needed or name == time)
        if names:
            return names
        return (min(fields, key=lambda name: not types.is_scalar(fields[name])),)
