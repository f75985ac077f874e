"""Loops that skip what fails: the rules for an item where a failure leaves it out, with a letter, and ends nothing.

Only with `on_error="skip"` are these written. A function is called through a guard (`kernels/guard.py`), which reports
whether it raised. What the node's functions changed of its record is put back then, a row of the node's letters notes
the item, and all that follows the node is in the branch that such an item does not take.

Two forms of guard. Of a function that returns scalars the guard returns these too. Of any other, a generator above all,
the guard only *tries* the call to its end; then the record is put back, and the call is made once more, now for what it
gives. Compiled functions see nothing but their arguments, so the second call does what the first did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.codegen.generated import Guard, GuardForm
from penstock.codegen.item_rules import unless
from penstock.codegen.key_records import hook_record, scratch, slot_of, state_array
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.site import Level, Local, Site
from penstock.codegen.travel import ItemRule, Rules
from penstock.codegen.traverse import send
from penstock.codegen.window_rules import has_no_bounds
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.faults import FaultKind
from penstock.graph.function import Function
from penstock.graph.record import Record
from penstock.graph.window import RegionWindow, TimeWindow


class Attempt:
    """What one node does with one item, up to where it hands something on."""

    def __init__(self, loop: LoopContext, node: n.GraphNode, site: Site) -> None:
        self.loop, self.node, self.site, self.out = loop, node, site, loop.out
        self.ok, self.which = loop.out.fresh("ok"), loop.out.fresh("bad")
        self.saved: str | None = None
        self.record: type[Record] | None = None
        self.records: dict[str, str] = {}
        self._own_record()
        self.out.line(f"{self.ok} = True")
        self.out.line(f"{self.which} = 0")

    def _own_record(self) -> None:
        """Save the record that the node's functions may change."""
        node, loop = self.node, self.loop
        self.name, self.array, self.slot = "state", "", "0"
        if isinstance(node, n.Through):
            self.name, self.array, self.record = "self", hook_record(loop, node, node.hooks), node.hooks
        elif isinstance(node, n.Stateful) and not isinstance(node, n.KeyedAggregate) and node.state is not None:
            self.array, self.slot, self.record = state_array(loop, node), slot_of(loop, node, self.site), node.state
        if self.record is None:
            return
        self.records = {self.name: f"{self.array}[{self.slot}]"}
        self.saved = scratch(loop, node, self.record, "s")
        loop.exits.letters[node].saved = self.record
        self.out.line(f"{self.saved}[0] = {self.array}[{self.slot}]")

    @contextmanager
    def _if_well(self) -> Iterator[Site]:
        with self.out.block(f"if {self.ok}"):
            yield self.site.fork()

    def call(self, names: tuple[str, ...], function: Function) -> Level:
        """Call a function; its results are there where all is well."""
        if not all(types.is_scalar(t) for t in function.returns):
            return self._call_twice(names, function)
        with self._if_well() as site:
            call = self.loop.calls.call(function, site, self.records)
            locals_ = [self.out.fresh() for _ in function.returns]
            self._guarded(call, function, GuardForm.RETURNS, locals_)
        return dict(zip(names, map(Local, locals_), strict=True))

    def _call_twice(self, names: tuple[str, ...], function: Function) -> Level:
        self.attempt(function, "t")
        with self._if_well() as site:
            call = self.loop.calls.call(function, site, self.records)
            results = self.loop.calls.results(self.node, names, function, call)
        return dict(zip(names, results, strict=True))

    def attempt(self, function: Function, suffix: str = "s") -> None:
        """Call a function to see whether it fails; then its node's record is as before."""
        saved = self.saved
        with self._if_well() as site:
            if self.record is not None and suffix != "s":  # other functions of the node may have changed it by now
                saved = scratch(self.loop, self.node, self.record, suffix)
                self.out.line(f"{saved}[0] = {self.array}[{self.slot}]")
            call = self.loop.calls.call(function, site, self.records)
            self._guarded(call, function, GuardForm.TRIES, [])
            if saved is not None:
                with self.out.block(f"if {self.ok}"):
                    self.out.line(f"again({self.array}, {self.slot}, {saved})")

    def _guarded(self, call: str, function: Function, form: GuardForm, results: list[str]) -> None:
        number = self.loop.code.functions.index(function)
        most = getattr(self.node, "at_most", 0) if function.is_generator else 0
        self.loop.code.guards[number] = Guard(form, function, most)
        self.out.line(f"{self.which} = {number}")
        if not function.is_generator:
            self.out.line(f"{', '.join([self.ok, *results])} = g{call.removeprefix('f')}")
            return
        pushed = self.out.fresh("n")
        self.out.line(f"{pushed} = g{call.removeprefix('f')}")
        self.out.line(f"{self.ok} = 0 <= {pushed} <= {most}")
        with self.out.block(f"if {pushed} > {most}"):
            self.out.line(f"{self.which} = -{self.loop.calls.fault_number(FaultKind.TOO_MANY, self.node)}")

    @contextmanager
    def passed(self) -> Iterator[Site]:
        """What follows where nothing failed; else the record is put back, and a letter written."""
        with self.out.block(f"if {self.ok}"):
            yield self.site.fork(aligned=False)
        with self.out.block("else"):
            if self.saved is not None:
                self.out.line(f"{self.array}[{self.slot}] = {self.saved}[0]")
            self.loop.exits.letter(self.node, self.site.fork(aligned=False), self.which, self.saved)


def map_item(loop: LoopContext, node: n.Map, site: Site) -> None:
    attempt = Attempt(loop, node, site)
    made: Level = {}
    for names, function in node.outputs:
        made |= attempt.call(names, function)
    with attempt.passed() as inner:
        send(loop, node, inner.with_own(inner.own | made))


def filter_item(loop: LoopContext, node: n.Filter, site: Site) -> None:
    attempt = Attempt(loop, node, site)
    (passes,) = attempt.call(("",), node.predicate).values()
    assert isinstance(passes, Local)
    with attempt.passed() as inner, loop.out.block(f"if {passes.name}"):
        send(loop, node, inner.fork())


def emit_item(loop: LoopContext, node: n.Emit, site: Site) -> None:
    attempt = Attempt(loop, node, site)
    (emits,) = attempt.call(("",), node.when).values()
    assert isinstance(emits, Local)
    with loop.out.block(f"if {attempt.ok} and {emits.name}"):
        for function in node.values.values():
            attempt.attempt(function)
    with attempt.passed() as inner:
        _plain_rule(loop, node, inner)


def _tried(function_of: Callable[[Any], Function | None]) -> ItemRule:
    """The rule of a node with one function: try it, and then what the node does where nothing can fail."""

    def rule(loop: LoopContext, node: Any, site: Site) -> None:
        function = function_of(node)
        if function is None:
            _plain_rule(loop, node, site)
            return
        attempt = Attempt(loop, node, site)
        attempt.attempt(function)
        with attempt.passed() as inner:
            _plain_rule(loop, node, inner)

    return rule


def _plain_rule(loop: LoopContext, node: n.GraphNode, site: Site) -> None:
    rules = loop.rules[type(node)]
    assert isinstance(rules, Rules)
    rules.item(loop, node, site)


def keyed_aggregate_item(loop: LoopContext, node: n.KeyedAggregate, site: Site) -> None:
    if isinstance(node.window, TimeWindow):
        timed_item(loop, node, site)
    else:
        _tried(_start)(loop, node, site)


def timed_item(loop: LoopContext, node: n.KeyedAggregate | n.LateItems, site: Site) -> None:
    """Items go by their times into windows: one whose time has none is skipped before its key is known of."""
    window = node.window
    assert isinstance(window, TimeWindow)
    with unless(loop, has_no_bounds(loop, window, site), FaultKind.BAD_TIME, node, site, window.field) as inner:
        _plain_rule(loop, node, inner)


def _start(node: n.KeyedAggregate) -> Function | None:
    return node.window.start if isinstance(node.window, RegionWindow) else None


flat_map_item = _tried(lambda node: node.function)
through_item = _tried(lambda node: node.run)
regions_item = _tried(lambda node: node.start)
