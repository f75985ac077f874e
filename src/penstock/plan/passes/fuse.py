"""Cut a graph into segments: subtrees that each become one loop.

A segment takes batches of items (with the regions and signals that lie in them) from the node it is entered from, and
gives batches at its cuts and results at its leaves. A graph is cut only where a loop cannot go on:

- a function over whole columns needs them, so `map_columns` stands at the entry of a segment;
- keys are numbered a column at a time, so `key_by` needs its fields as they entered the segment;
- a list that is computed has no length before the loop, so `enumerate` needs its list as it entered the segment;
- a list may have more elements than a channel holds, so an `enumerate` whose elements leave through a cut is the first
  node of its segment, where the loop can stop between two elements and go on later;
- a function that does not compile runs interpreted, in a segment of its own;
- a watermark may close any number of windows, so it enters a loop as a mark, and the one it comes from ends there;
- a node that is at work on another core than the one before begins a loop there, and a flexible one is a loop by
  itself, as its copies are;
- where streams meet, the loop goes on if all of them come from it; else they meet as channels do, at the entry of a
  segment (`codegen/join_rules.py` tells which).

Unfused, every node is a segment of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.graph import nodes as n
from penstock.graph.needs import needs
from penstock.graph.tree import Tree
from penstock.plan.heartbeat.clocks import Clocks, met_as_channels
from penstock.plan.plan import Plan
from penstock.plan.segment import CLEANING, Segment, fed_segments, opened_at
from penstock.plan.unchanged import is_enumerable, unchanged_columns

LONGEST, BLOCK = 60, 5
"""Python compiles at most 20 loops and 100 blocks one inside the other."""
READS, MEETS, GIVES, FLEXIBLE = (
    "it reads the source",
    "streams meet here",
    "it gives the result",
    "the join is flexible",
)
IN_ORDER = "what copies give is put in order before it is a result"


def fuse(plan: Plan) -> Plan:
    """Cut the tree into segments.

    Requires a tree whose nodes have the cores and copies that were asked for.
    Ensures the segments, feeders first, each with the reason why it begins; the clocks by which streams meet that come
    from several of them; and the fields that each node needs.
    """
    found = segments(plan.tree, is_fused=plan.request.fuse)
    clocks = Clocks(plan.tree, met_as_channels(found))
    return replace(plan, segments=found, clocks=clocks, needed=needs(plan.tree, clocks.meets))


def segments(tree: Tree, *, is_fused: bool = True) -> tuple[Segment, ...]:
    """The segments of a tree, feeders first. Every node but those that clean the source lies in exactly one."""
    leaving: frozenset[n.GraphNode] = frozenset()
    while True:
        found = _Cutter(tree, is_fused, leaving).segments()
        stopping = {node for fed in fed_segments(found) for node in opened_at(fed.feeder, fed.edge)}  # type: ignore[arg-type]
        if stopping <= leaving:
            return found
        leaving |= stopping


@dataclass(frozen=True)
class CutCandidate:
    """A node that may be taken into a segment; `fields` are the columns that are there as they entered."""

    segment: Segment
    node: n.GraphNode
    fields: frozenset[str]

    @property
    def is_first(self) -> bool:
        """Whether there is nothing in the segment yet, not even a function over columns at its entry."""
        return not self.segment.nodes and self.segment.entry is self.segment.edge


class _Cutter:
    """Cuts a tree; `leaving` are the nodes that must be first in a segment, and alone behind its entry."""

    def __init__(self, tree: Tree, is_fused: bool, leaving: frozenset[n.GraphNode]) -> None:
        self.tree, self.is_fused, self.leaving = tree, is_fused, leaving
        self.found: list[Segment] = []

    def segments(self) -> tuple[Segment, ...]:
        for node in self.tree.nodes:
            if isinstance(node, CLEANING):
                following = [child for child in self.tree.children[node] if not isinstance(child, CLEANING)]
                if following or node in self.tree.leaves:
                    self._enter(node, node, following, READS, None)
        for node in self.tree.nodes:
            if isinstance(node, n.Meet) and not any(node in segment.nodes for segment in self.found):
                self._join(node)
        return tuple(self._renumbered())

    def _join(self, meet: n.Meet) -> None:
        """Streams meet that come from several loops: channels lead to them, and what follows is a loop again."""
        reason, copies = MEETS, self.tree.copies(meet)
        sides = tuple(Segment(-1, side, side, reason, self._home(side), [], meet, (), copies) for side in meet.sides)
        joint = Segment(len(self.found), meet, meet, reason, None, [], meet, sides, copies)
        self.found.append(joint)
        if copies and joint.has_functions:
            self._cases(joint)
            return
        children = list(self.tree.children[meet])
        if meet in self.tree.leaves and any(each in self.leaving or self.tree.copies(each) for each in children):
            # A loop that stops within a list comes to its item several times, and would give it as often; and copies
            # give no results.
            self._enter(meet, meet, [], GIVES, joint)
        self._enter(meet, meet, children, reason, joint)

    def _cases(self, joint: Segment) -> None:
        """The functions of a flexible join, each for a set of sides, are one loop: its copies go with those of it."""
        loop = Segment(len(self.found), joint.entry, joint.entry, FLEXIBLE, joint, copies=joint.copies)
        self.found.append(loop)
        for node in self.tree.below(joint.entry):
            loop.nodes.append(node)
            if self.tree.copies(node):
                break
        self._give_in_order(loop, node)
        self._extend(loop, list(self.tree.children[node]), frozenset())

    def _home(self, node: n.GraphNode) -> Segment:
        """Where a node is: in a loop, or at its entry; streams that meet have a segment of their own.

        A loop that stops within a list does not give items to where streams meet as well: it would wait there for room
        before it goes on with the list, while those who make it wait for the end of that list.
        """
        inside = (segment for segment in self.found if node in segment.nodes or segment.meet is node)
        at_entry = (s for s in self.found if node is s.entry and s.resumable not in self.leaving)
        found = next(inside, None) or next(at_entry, None)
        if found is None:
            self._enter(node, node, [], READS, None)
            found = self.found[-1]
        return found

    def _renumbered(self) -> Iterator[Segment]:
        """Without a loop behind the source that has nothing to do, because all nodes there begin loops of their own."""
        loops = [s for s in self.found if not s.sides]
        idle = [s for s in loops if not s.nodes and s.entry is s.edge and s.entry not in self.tree.leaves]
        feeders = [fed.feeder for fed in fed_segments(self.found)]
        used = [s for s in self.found if s not in idle or s in feeders]
        made: dict[Segment | None, Segment | None] = {None: None}
        for number, s in enumerate(used):
            found: dict[str, Any] = {"number": number, "is_guarded": self.tree.is_guarded}
            sides = tuple(replace(side, feeder=made[side.feeder], **found) for side in s.sides)
            copies = self.tree.copies(s.only) if s.only is not None else s.copies
            made[s] = replace(s, feeder=made[s.feeder], sides=sides, copies=copies, **found)
            yield made[s]  # type: ignore[misc]

    def _enter(
        self, entry: n.GraphNode, edge: n.GraphNode, following: list[n.GraphNode], reason: str, feeder: Segment | None
    ) -> None:
        """Begin a segment behind `entry` with these of the nodes behind it."""
        segment = Segment(len(self.found), entry, edge, reason, feeder)
        self.found.append(segment)
        if entry is not edge:
            self._give_in_order(segment, entry)
        self._extend(segment, following, frozenset(entry.shape.scope))

    def _give_in_order(self, segment: Segment, node: n.GraphNode) -> None:
        """Where a flexible node is a result, begin a loop behind its copies that gives it."""
        if self.tree.copies(node) and node in self.tree.leaves:
            self._enter(node, node, [], IN_ORDER, segment)

    def _extend(self, segment: Segment, following: list[n.GraphNode], fields: frozenset[str]) -> None:
        """Take nodes into the segment as far as they can be; `fields` still are columns that entered, row by row."""
        for node in following:
            if isinstance(node, n.Meet) and (node in segment.nodes or not self._meets_in(segment, node)):
                continue  # it is taken behind the last of its sides, if that is in this segment too
            reason = None if isinstance(node, n.Meet) else self._cut(segment, node, fields)
            if reason is None:
                segment.nodes.append(node)
                self._give_in_order(segment, node)
                self._extend(segment, list(self.tree.children[node]), unchanged_columns(node, fields))
            else:
                # A sibling that cannot join the segment's first nodes is fed by the same cut, not through the segment.
                edge = node.inputs[0]
                passes = segment.feeder is None and self._is_apart(segment, node)  # the source has no channel
                through = self._reader(segment) if passes and edge is segment.edge else segment
                feeder = segment.feeder if edge is segment.edge and not passes else through
                whole = isinstance(node, n.MapColumns)
                entry, after = (node, list(self.tree.children[node])) if whole else (edge, [node])
                self._enter(entry, edge, after, reason, feeder)

    def _reader(self, segment: Segment) -> Segment:
        """The loop that reads the source for what a channel leads to: this one, unless it stops within a list.

        One that does comes to its item several times, and would give it as often.
        """
        if self.leaving.isdisjoint(self.tree.children[segment.entry]):
            return segment
        idle = (each for each in self.found if each.entry is segment.entry and not each.nodes and each is not segment)
        found = next((each for each in idle if each.feeder is None and each.meet is None), None)
        if found is None:
            self._enter(segment.entry, segment.entry, [], READS, None)
            found = self.found[-1]
        return found

    # Why a node cannot be taken into a segment: each rule gives a reason, or None

    def _cut(self, segment: Segment, node: n.GraphNode, fields: frozenset[str]) -> str | None:
        """Why this node cannot be taken into the segment, by the first rule that has a reason, or None."""
        at = CutCandidate(segment, node, fields)
        return next((reason for rule in RULES if (reason := rule(self, at)) is not None), None)

    def is_flexible(self, at: CutCandidate) -> str | None:
        if self.tree.copies(at.node) and (at.segment.feeder is None or not at.is_first):
            return f"{at.node.label} is flexible, and its copies are loops like its own"
        return None

    def follows_copies(self, at: CutCandidate) -> str | None:
        if self._has_copies(at.segment) and not at.is_first:
            return "the loop before is flexible: what its copies give is put in order here"
        return None

    def is_elsewhere(self, at: CutCandidate) -> str | None:
        if self._is_elsewhere(at.segment, at.node) and not at.is_first:
            return f"{at.node.label} is at work on core {self.tree.core(at.node)}"
        return None

    def is_unfused(self, at: CutCandidate) -> str | None:
        return "every node is a loop of its own" if not self.is_fused and not at.is_first else None

    def stops_within_lists(self, at: CutCandidate) -> str | None:
        alone = [each for each in (at.node, *at.segment.behind[:1]) if each in self.leaving]
        if alone and not at.is_first and (at.node in alone or at.node.inputs[0] is at.segment.entry):
            return f"{alone[0].label} hands its elements on piece by piece, alone behind the entry of its loop"
        return None

    def follows_watermark(self, at: CutCandidate) -> str | None:
        inside = at.segment.nodes
        tide = next((each for each in at.node.inputs if isinstance(each, n.EmitWatermark) and each in inside), None)
        if tide is not None and self._closes_windows(tide):
            return f"windows close behind {tide.label}, and each may give any number of items"
        return None

    def emits_after_windows(self, at: CutCandidate) -> str | None:
        windows = next((each for each in at.node.inputs if n.timed_of(each) and each in at.segment.nodes), None)
        if windows is not None and any(isinstance(each, n.Emit) for each in (at.node, *self.tree.below(at.node))):
            return f"signals are emitted behind {windows.label}, whose rows come between items"
        return None

    def is_long(self, at: CutCandidate) -> str | None:
        if self._length(at.segment, at.node) > LONGEST:
            return f"a loop of {LONGEST} steps, one inside the other, is long enough"
        return None

    def takes_columns(self, at: CutCandidate) -> str | None:
        return f"{at.node.label} takes whole columns" if isinstance(at.node, n.MapColumns) else None

    def numbers_keys(self, at: CutCandidate) -> str | None:
        if isinstance(at.node, n.KeyBy) and not at.fields.issuperset(at.node.names):
            label = at.node.label
            return f"{label} numbers its keys a column at a time, and its fields are made in the loop before"
        return None

    def opens_made_list(self, at: CutCandidate) -> str | None:
        if isinstance(at.node, n.Enumerate) and not is_enumerable(at.node, at.fields):
            label = at.node.label
            return f"{label} opens a list that is made in the loop before, so that its length is not known there"
        return None

    def is_interpreted(self, at: CutCandidate) -> str | None:
        uncompiled = next((each for each in at.node.functions if each.reason is not None), None)
        return f"{uncompiled.where} does not compile" if uncompiled is not None and at.segment.nodes else None

    def compiles_again(self, at: CutCandidate) -> str | None:
        if at.segment.is_interpreted and all(each.reason is None for each in at.node.functions):
            return "the loop before is interpreted, and from here on everything compiles"
        return None

    def _closes_windows(self, tide: n.EmitWatermark) -> bool:
        """Whether windows downstream of where a watermark begins close by it, and not only in another stage."""
        windows = [n.timed_of(node) for node in self.tree.below(tide)]
        return any(window is not None and window.clock == tide.clock for window in windows)

    def _has_copies(self, segment: Segment) -> bool:
        """Whether there is a flexible node in a segment."""
        at_entry = [segment.entry] if segment.entry is not segment.edge else []
        return any(self.tree.copies(each) for each in (*at_entry, *segment.nodes))

    def _is_apart(self, segment: Segment, node: n.GraphNode) -> bool:
        """Whether a channel must lead to a node: to be split, or to another core."""
        return bool(self.tree.copies(node)) or self._is_elsewhere(segment, node)

    def _is_elsewhere(self, segment: Segment, node: n.GraphNode) -> bool:
        core = self.tree.core(node)
        return core is not None and core != self._core(segment)

    def _core(self, segment: Segment) -> int:
        """The core of a segment: that of its nodes, or of the loop before."""
        at_entry = [segment.entry] if segment.meet or segment.entry is not segment.edge else []
        for node in (*at_entry, *segment.nodes):
            core = self.tree.core(node)
            if core is not None:
                return core
        before = segment.sides[0].feeder if segment.sides else segment.feeder
        return 0 if before is None else self._core(before)

    def _meets_in(self, segment: Segment, node: n.Meet) -> bool:
        """Whether streams meet within a loop: it makes all of them, and at most one signal of an item waits for them.

        So a signal that is emitted within a list, of which there may be many for an item, keeps them apart.
        """
        if not self.is_fused or self._is_apart(segment, node) or self._has_copies(segment):
            return False
        if not {segment.entry, *segment.nodes}.issuperset(node.sides):
            return False
        fork = self.tree.fork[node]
        between = [each for each in self.tree.below(fork) if node in self.tree.below(each)]
        emits = [each for each in between if isinstance(each, n.Emit)]
        if any(isinstance(each, n.EmitWatermark) and self._closes_windows(each) for each in between):
            return False
        is_short = self._length(segment, node) <= LONGEST
        return is_short and all(n.stem(each) is n.stem(node.sides[0]) for each in emits)

    def _length(self, segment: Segment, node: n.GraphNode) -> int:
        """How many steps lead to a node from the entry of the segment; those that are a loop weigh more."""
        length = 0
        while node is not segment.entry:
            length += BLOCK if isinstance(node, _LOOPS) else 1 + self.tree.is_guarded
            node = self.tree.fork[node] if isinstance(node, n.Meet) else node.inputs[0]
        return length


RULES = (
    _Cutter.is_flexible,
    _Cutter.follows_copies,
    _Cutter.is_elsewhere,
    _Cutter.is_unfused,
    _Cutter.stops_within_lists,
    _Cutter.follows_watermark,
    _Cutter.emits_after_windows,
    _Cutter.is_long,
    _Cutter.takes_columns,
    _Cutter.numbers_keys,
    _Cutter.opens_made_list,
    _Cutter.is_interpreted,
    _Cutter.compiles_again,
)
"""All ways for a node to begin a segment of its own, in the order in which they are tried."""


_LOOPS = (n.FlatMap, n.Through, n.Enumerate, n.KeyedAggregate, n.Merge)
