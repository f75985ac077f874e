"""What the rules of one loop share while it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.codegen.calls import Calls
from penstock.codegen.carried import Carried
from penstock.codegen.emitter import Emitter
from penstock.codegen.end_steps import EndSteps
from penstock.codegen.exits import Exits
from penstock.codegen.generated import GeneratedLoop
from penstock.codegen.meetings import Meeting
from penstock.codegen.room import Room
from penstock.codegen.travel import Rules, RuleTable
from penstock.graph import nodes as n
from penstock.plan.plan import Plan
from penstock.plan.segment import Segment, fed_segments, opened_at

T = TypeVar("T")


class LoopContext:
    """One segment's loop while it is written: what was planned for it, and what has been written so far."""

    def __init__(self, plan: Plan, segment: Segment, leaves: frozenset[n.GraphNode], rules: RuleTable) -> None:
        """At `leaves` the loop gives results."""
        self.segment, self.leaves, self.rules = segment, leaves, rules
        self.tree, self.clocks, self.needed, self.signals = plan.tree, plan.clocks, plan.needed, plan.signals
        self.trace = plan.request.trace
        """Whether every signal that is handed to a node is logged with its index."""
        self.cuts = [fed for fed in fed_segments(plan.segments) if fed.feeder is segment]
        """The segments that this one feeds."""
        self.members = set(segment.nodes)
        self.out, self.code = Emitter(), GeneratedLoop(segment, self.clocks.at(self.segment.edge))
        self.carried = Carried(self.out, self.code)
        self.calls = Calls(self.out, self.code, self.carried)
        self.room = Room(self.out, self.code, self.carried)
        self.exits = Exits(self)
        self.end = EndSteps(self)
        self.meetings: dict[n.Meet, Meeting] = {}
        """What has come, at this point, to where streams meet."""
        self.done_once: list[str] = []
        """Carried flags of what was done with the watermark that the loop is at."""
        self._parts: dict[tuple[object, n.GraphNode], object] = {}
        opened = [node for fed in self.cuts for node in opened_at(self.segment, fed.edge)]
        self.by_piece = self.segment.resumable if self.segment.resumable in opened else None
        """The first node, where its elements may leave piece by piece."""
        # How many items come of one is known beforehand, or from totals, of all other kinds of nodes.
        self.code.counts_outputs = isinstance(self.segment.only, (n.FlatMap, n.Through, n.Enumerate, n.KeyedAggregate))

    @property
    def is_logged(self) -> bool:
        """Whether signals are logged in this loop."""
        return self.trace or any(isinstance(node, n.Send) and node.signals for node in self.segment.nodes)

    def may_fail(self, node: n.GraphNode) -> bool:
        """Whether an item may fail at a node."""
        rules = self.rules[type(node)]
        return isinstance(rules, Rules) and rules.may_fail

    def part(self, make: Callable[[LoopContext, n.GraphNode], T], node: n.GraphNode) -> T:
        """What `make` makes for a node, once in this loop, wherever the node stands in it."""
        if (make, node) not in self._parts:
            self._parts[make, node] = make(self, node)
        return self._parts[make, node]  # type: ignore[return-value]

    def number(self, node: n.GraphNode) -> int:
        return self.tree.number[node]
