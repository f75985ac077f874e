"""Write the loop of a segment: the reference interpreter, turned into straight code.

The four things that travel in the interpreter (an item, the opening and the closing of a region, a signal) are four
methods here. Each writes, for a node, the code that handles that thing at the place where it happens, with all nodes
behind it inside: a filter is an `if`, a generator a `for`, an opened list a `for` over its elements. Accumulators are
local variables, and those that outlive a batch are carried in two arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from penstock.codegen.accumulate import Accumulator
from penstock.codegen.exits import origin_of
from penstock.codegen.generated import Code, Keys
from penstock.codegen.guarded_rules import GUARDED, write_letter
from penstock.codegen.join_rules import MeetWriter
from penstock.codegen.site import Column, Level, Local, Ref, Site, Value, cast
from penstock.codegen.window_rules import TideWriter, TimedFold
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.function import Function
from penstock.graph.needs import Names, at_field, key_field, needed_after, numbered_at
from penstock.graph.tree import Tree, signals_at
from penstock.plan.heartbeat.clocks import Clocks, counter_of
from penstock.plan.segment import CLEANING, Segment


def write_loop(
    tree: Tree,
    segment: Segment,
    needed: dict[n.GraphNode, Names],
    cuts: Sequence[Segment],
    leaves: frozenset[n.GraphNode],
    clocks: Clocks,
    *,
    trace: bool,
) -> Code:
    """The loop of a segment that feeds the segments `cuts` and gives results at `leaves`.

    With `trace`, every signal that is handed to a node is logged with its place.
    """
    return LoopWriter(tree, segment, needed, cuts, leaves, clocks, trace).write()


class LoopWriter(MeetWriter):
    """One segment's loop while it is written."""

    # An item

    def send(self, node: n.GraphNode, site: Site) -> None:
        """An item has left `node`: write it where the node is a result or a cut, and go on with the nodes behind."""
        site = self._numbered(node, site)
        for sink in self.sinks.get(node, ()):
            self.write_item(sink, site)
        with self.parting(node, site):
            for child in self.tree.children[node]:
                if child not in self.members:
                    continue
                if isinstance(child, n.Meet):
                    self.meet_item(child, node, site)
                else:
                    self.item(child, site)

    def _numbered(self, node: n.GraphNode, site: Site) -> Site:
        """The item with its index, where that counts the items that leave this node."""
        if isinstance(node, AT_ENTRY) or node is self.segment.entry:
            return site
        needed = needed_after(self.tree, node, self.needed)
        for stem in numbered_at(node):
            clock = at_field(self.tree, stem)
            if clock in needed:
                counter = self.integer(counter_of(self.tree, node, stem))
                self.out.line(f"{counter} += 1")
                site = site.with_own(site.own | {clock: Local(counter)})
        return site

    def item(self, node: n.GraphNode, site: Site) -> None:
        if self._is_logged(node) and signals_at(node):
            self.out.line(f"{self.integer(f'seen{self.tree.number[node]}')} += 1")
        rules = GUARDED if self.tree.is_guarded and type(node) in GUARDED else ITEM
        rules[type(node)](self, node, site)

    @contextmanager
    def unless(self, condition: str, kind: str, node: n.GraphNode, site: Site, what: str = "") -> Iterator[Site]:
        """What is done with an item that has no fault. One that has stops the run, or is skipped with a letter."""
        with self.out.block(f"if {condition}"):
            if not self.tree.is_guarded:
                self.fault(kind, node, what)
            else:
                write_letter(self, node, site.fork(aligned=False), f"-{self.fault_number(kind, node, what)}")
        if not self.tree.is_guarded:
            yield site
            return
        with self.out.block("else"):
            yield site.fork(aligned=False)

    def _map(self, node: n.Map, site: Site) -> None:
        made: Level = {}
        for names, function in node.outputs:
            call = self.call(function, site, self.state_record(node, site))
            results = self.results(node, names, function, call)
            made |= dict(zip(names, results, strict=True))
        self.send(node, site.with_own(site.own | made))

    def _filter(self, node: n.Filter, site: Site) -> None:
        with self.out.block(f"if {self.call(node.predicate, site, self.state_record(node, site))}"):
            self.send(node, site.fork(aligned=False))

    def _flat_map(self, node: n.FlatMap, site: Site) -> None:
        given = site.own
        if node.has_end:
            slot = self.slot_of(node, site)
            with self.arriving(node, slot, site):
                pass
            given = given | (self.key_level(node, slot) if node.keep else {})
        own = {name: value for name, value in given.items() if name in node.keep or name.startswith("#")}
        records = self.state_record(node, site)
        if node.function.returns:
            self.push(node, node.function, site, records, own)
        else:
            self.out.line(self.call(node.function, site, records))

    def _keyed_aggregate(self, node: n.KeyedAggregate, site: Site) -> None:
        self.keyed_fold(node).item(site)

    def push(self, node: Any, function: Function, site: Site, records: dict[str, str], own: Level) -> None:
        """Run a generator, and send what it yields, up to the number that was declared."""
        given, pushed = self.out.fresh("y"), self.out.fresh("n")
        call = self.call(function, site, records)
        self.out.line(f"{pushed} = 0")
        with self.out.block(f"for {given} in {call}"):
            with self.out.block(f"if {pushed} == {node.at_most}"):
                self.fault("too_many", node)
            self.out.line(f"{pushed} += 1")
            inner = site.fork(factor=site.factor * node.at_most, aligned=False)
            names = node.to if isinstance(node.to, tuple) else (node.to,)
            results = self.results(node, names, function, given)
            self.send(node, inner.with_own(own | dict(zip(names, results, strict=True))))
            self.note(function)  # the generator goes on from here, after others have run

    def _through(self, node: n.Through, site: Site) -> None:
        self._hook(node, node.run, site)

    def _hook(self, node: n.Through, hook: Function | None, site: Site) -> None:
        if hook is None:
            return
        records = {"self": f"{self.record(node.hooks, node)}[0]"}
        hidden = {name: value for name, value in site.own.items() if name.startswith("#")}
        if hook.returns:
            self.push(node, hook, site, records, hidden)
        else:
            self.out.line(self.call(hook, site, records))

    def _enumerate(self, node: n.Enumerate, site: Site) -> None:
        out = self.out
        self._preload(node, site)
        lists = [(out.fresh("j"), *self._list(node, site.find(name)[1])) for name, _ in node.elements]
        _, column, index = lists[0]
        if len(lists) > 1:
            differ = [f"{_length(column, index)} != {_length(other, at)}" for _, other, at in lists[1:]]
            with self.unless(" or ".join(differ), "unequal_lengths", node, site) as inner:
                self._open_lists(node, lists, inner)
        else:
            self._open_lists(node, lists, site)

    def _open_lists(self, node: n.Enumerate, lists: list[tuple[str, Column, str]], site: Site) -> None:
        out, region, (j, column, index) = self.out, node.shape.regions[-1], lists[0]
        if node is self.by_piece:
            self._enumerate_by_piece(node, lists, site)
            return
        self.hand_on(self.open, node, region, site)
        lo = out.fresh("lo")
        # Unsigned, because an index that cannot be negative is what lets the compiler use vector instructions.
        out.line(f"{lo} = unsigned({column.first(index)})")
        with out.block(f"for {j} in range({lo}, unsigned({column.first(f'after({index})')}))"):
            self._others(lists, lo)
            self._element(node, lists, lo, site.opened(lists))
        self.hand_on(self.close, node, region, site)

    def _others(self, lists: list[tuple[str, Column, str]], lo: str) -> None:
        """Where the element lies in the lists that are opened together with the first."""
        j = lists[0][0]
        for other_j, other, at in lists[1:]:
            self.out.line(f"{other_j} = unsigned({other.first(at)}) + {j} - {lo}")

    def _element(self, node: n.Enumerate, lists: list[tuple[str, Column, str]], lo: str, site: Site) -> None:
        """Send one element, of which `lo` is the first of its list."""
        j = lists[0][0]
        names = [name for _, name in node.elements]
        own: Level = {name: Ref(c.elements, i) for name, (i, c, _) in zip(names, lists, strict=True)}
        if node.index is not None:
            own[node.index] = Local(f"as_int({j} - {lo})")
        self.send(node, replace(site, levels=(*site.fork().levels, own)))

    def _enumerate_by_piece(self, node: n.Enumerate, lists: list[tuple[str, Column, str]], site: Site) -> None:
        """Open a list so that the loop may stop between any two elements where room is short, and go on there later.

        A carried variable is 0 for a list that is yet to be opened, else one more than the elements that are done.
        """
        out, region, (j, column, index) = self.out, node.shape.regions[-1], lists[0]
        done, lo, hi = self.integer(f"e{self.tree.number[node]}"), out.fresh("lo"), out.fresh("hi")
        with out.block(f"if {done} == 0"):
            opening = replace(site, phase="opening")
            self.checked("opening", lambda: self.hand_on(self.open, node, region, opening))
            out.line(f"{done} = 1")
        out.line(f"{lo} = unsigned({column.first(index)})")
        out.line(f"{hi} = unsigned({column.first(f'after({index})')})")
        with out.aside() as body:
            out.depth += 2
            self._element(node, lists, lo, replace(site, phase="elements", aligned=False))
            out.depth -= 2
        fixed = self.fixed_in("elements")
        if fixed:  # room is checked for as many elements as surely fit, and then again for those that are left
            room, stop = out.fresh("room"), out.fresh("hi")
            with out.block(f"while {done} <= as_int({hi} - {lo})"):
                out.line(f"{room} = as_int({hi} - {lo}) - ({done} - 1)")
                for buffer, number in fixed:
                    out.line(f"{room} = min({room}, {buffer.left(number)})")
                with out.block(f"if {room} <= 0"):
                    self.stop_short("elements", 1)
                out.line(f"{stop} = {lo} + unsigned({done} - 1 + {room})")
                with out.block(f"for {j} in range({lo} + unsigned({done} - 1), {stop})"):
                    self._others(lists, lo)
                    self.grow_heaps("elements")
                    out.lines += body
                out.line(f"{done} += {room}")
        else:
            with out.block(f"for {j} in range({lo} + unsigned({done} - 1), {hi})"):
                self._others(lists, lo)
                self.grow_heaps("elements")
                if self.written_in("elements"):
                    with out.block(f"if {self.is_short('elements')}"):
                        out.line(f"{done} = as_int({j} - {lo}) + 1")
                        self.stop_short("elements", 1)
                out.lines += [line.removeprefix("    ") for line in body]
            out.line(f"{done} = as_int({hi} - {lo}) + 1")
        closing = replace(site, phase="closing")
        self.checked("closing", lambda: self.hand_on(self.close, node, region, closing))
        self.count_outputs(f"as_int({hi} - {lo})")
        out.line(f"{done} = 0")

    def _preload(self, node: n.GraphNode, site: Site) -> None:
        """Load, before a loop over elements, what is needed in it: scalars, and arrays that functions take whole."""
        here = {name for level in site.levels for name in level}
        for name in sorted(needed_after(self.tree, node, self.needed) & here):
            value = self.scalar_or_ref(name, site)
            if isinstance(value, Ref) and value.whole is None and self.users(name) and types.view(value.column.type):
                whole = self.out.fresh("x")
                self.out.line(f"{whole} = {value.elements}")
                site.find(name)[0][name] = replace(value, whole=whole)

    def _list(self, node: n.GraphNode, value: Value) -> tuple[Column, str]:
        if not isinstance(value, Ref) or value.column.is_heap:
            raise InternalError(f"{node.label}: a computed list was not cut off before it is opened")
        return value.column, value.index

    def _regions(self, node: n.Regions, site: Site) -> None:
        number = self.tree.number[node]
        is_open, region = self.integer(f"r{number}"), node.shape.regions[-1]
        parent = self._found_parent(node)
        site = replace(site, aligned=False)
        indices = {name: value for name, value in site.own.items() if name.startswith("#at")}
        for name in node.by:
            self.scalar_or_ref(name, site)
        for old in node.keep.values():
            self.scalar_or_ref(old, site)
        if node.start is not None:
            begins = self.out.fresh("b")
            self.out.line(f"{begins} = {self.call(node.start, site, {})}")
            tests = [begins]
        else:
            tests = [f"not {self._equal(parent[name], site.find(name)[1])}" for name in node.by]
        with self.out.block(f"if {is_open} == 0 or {' or '.join(tests)}"):
            inner = site.fork()
            with self.out.block(f"if {is_open} != 0"):
                around = (*inner.fork().levels[:-1], parent | indices)
                self.hand_on(self.close, node, region, replace(inner, levels=around))
            for name, old in [*((name, name) for name in node.by), *node.keep.items()]:
                self.capture(parent[name], inner.find(old)[1])
            self.out.line(f"{is_open} = 1")
            around = (*inner.fork().levels[:-1], parent | indices)
            self.hand_on(self.open, node, region, replace(inner, levels=around))
        own = {name: value for name, value in site.own.items() if name not in node.by}
        self.send(node, replace(site, levels=(*site.levels[:-1], dict(parent), own)))

    def _found_parent(self, node: n.Regions) -> Level:
        """The carried variables that hold the fields of a found region's parent."""
        if node not in self.found_parents:
            number = self.tree.number[node]
            fields = node.shape.regions[-1].fields.items()
            self.found_parents[node] = {name: self.keeper(f"r{number}_{at}", t) for at, (name, t) in enumerate(fields)}
        return self.found_parents[node]

    def _equal(self, a: Value, b: Value) -> str:
        if isinstance(a, Local) and isinstance(b, Local):
            return f"{a.name} == {b.name}"
        assert isinstance(a, Ref) and isinstance(b, Ref)
        return f"same({a.elements}, {b.elements})"

    def _aggregate(self, node: n.Aggregate, site: Site) -> None:
        self._accumulator(node).add(site)

    def _accumulator(self, node: n.Aggregate) -> Accumulator:
        if node not in self.accumulators:
            opener = node.region.opener
            inside = isinstance(opener, n.Enumerate) and opener in self.members and opener is not self.by_piece
            self.accumulators[node] = Accumulator(self, node, is_carried=not inside)
        return self.accumulators[node]

    def _close(self, node: n.Close, site: Site) -> None:
        parent = site.levels[-2]
        kept = {name: value for name, value in parent.items() if name in node.keep or name.startswith("#")}
        self.send(node, replace(site, levels=(*site.levels[:-2], kept | site.own), aligned=False))

    def _key_by(self, node: n.KeyBy, site: Site) -> None:
        """Take the number of the item's key, which the engine finds for a whole column before the loop runs."""
        name, slot = f"k{self.tree.number[node]}", self.out.fresh()
        origins = [origin_of(site.find(field)[1]) for field in node.names]
        inputs = [next((given for given in self.code.inputs if o and given.column == o.column), None) for o in origins]
        if any(given is None for given in inputs):
            raise InternalError(f"{node.label}: a computed key was not cut off before it is numbered")
        levels = [given.level for given in inputs if given is not None]
        level = None if None in levels else max(d for d in levels if d is not None)
        self.code.keys[name] = Keys(node, tuple(g for g in inputs if g is not None), level)
        self.out.line(f"{slot} = as_int({name}[{'u' if level is None else f'q{level}'}])")
        with self.unless(f"{slot} < 0", "nan_key", node, site, " or ".join(map(repr, node.names))) as inner:
            self.send(node, inner.with_own(inner.own | {key_field(self.tree, node): Local(slot)}))

    def _emit(self, node: n.Emit, site: Site) -> None:
        self.send(node, site)
        with self.out.block(f"if {self.call(node.when, site, {})}"):
            inner = site.fork(aligned=False, is_behind=True)
            name = f"em{self.tree.number[node]}"
            self.code.emitted[name] = node.first
            for field_name, function in node.values.items():
                value = f"{cast(function.returns[0])}({self.call(function, inner, {})})"
                self.out.line(f'{name}["{field_name}"][0] = {value}')
            self.hand_on(self.signal, node, self.signals.index(node.signal), name, "0", inner)

    def _select(self, node: n.Select, site: Site) -> None:
        own = {name: site.own[old] for name, old in node.names.items() if old in site.own}
        self.send(node, site.with_own(own | {name: v for name, v in site.own.items() if name.startswith("#")}))

    def _send_on(self, node: n.Send, site: Site) -> None:
        self.send(node, site)

    # Regions and signals

    def open(self, node: n.GraphNode, region: n.Region | None, site: Site) -> None:
        if isinstance(node, n.Aggregate) and node.region is region:
            self._accumulator(node).begin(site)
            return
        if isinstance(node, n.Close) and node.given.regions[-1] is region:
            return
        self.hand_on(self.open, node, region, site)
        if isinstance(node, n.Through) and _innermost(node) is region:
            name = self.record(node.hooks, node)
            self.out.line(f"{name}[0] = {name}_0[0]")
            self._hook(node, node.begin, replace(site, levels=(*site.levels, {})))

    def close(self, node: n.GraphNode, region: n.Region | None, site: Site) -> None:
        if region is None:
            site = replace(site, phase=self.steps[-1][0])
        if isinstance(node, n.Aggregate) and node.region is region:
            own = self._accumulator(node).finish(site)
            self.send(node, replace(site, levels=(*site.levels[:-1], own)))
            return
        if isinstance(node, n.Close) and node.given.regions[-1] is region:
            return
        if isinstance(node, n.Through) and _innermost(node) is region:
            self._hook(node, node.end, replace(site, levels=(*site.levels, {}), aligned=False))
        if isinstance(node, n.Regions) and _innermost(node) is region:
            self._close_found(node, site)
        if isinstance(node, n.Stateful) and node.has_end and region is None:
            self.end_keys(node)
        self.hand_on(self.close, node, region, site)

    def _close_found(self, node: n.Regions, site: Site) -> None:
        is_open = self.integer(f"r{self.tree.number[node]}")
        with self.out.block(f"if {is_open} != 0"):
            inner = site.fork(aligned=False)
            parent = dict(self._found_parent(node))
            self.hand_on(self.close, node, node.shape.regions[-1], replace(inner, levels=(*inner.levels, parent)))
            self.out.line(f"{is_open} = 0")

    def signal(self, node: n.GraphNode, number: int, array: str, at: str, site: Site) -> None:
        if isinstance(node, n.Stateful):
            handlers = [h for h in node.handlers if h.signal is self.signals[number]]
            for handler in handlers:
                self._handle(node, handler, f"{array}[{at}]")
        window = n.timed_of(node)
        if window is not None and window.closes and self.signals[number] is window.signal:
            self._advance(node, array, at)
        elif self._is_logged(node) and self.signals[number] in signals_at(node):
            if self.is_tide(self.signal, number, site):
                self.once(lambda site: self._log(node, number, f"{array}[{at}]", site), site)
            else:
                self._log(node, number, f"{array}[{at}]", site)
        self.hand_on(self.signal, node, number, array, at, site)

    def _handle(self, node: n.Stateful, handler: n.Handler, signal: str) -> None:
        """Every record handles the signal: of a key, of keys yet to come, and the one that new keys start from."""
        name, each = self.state_array(node), self.out.fresh("each")
        for array, block in ((name, f"for {each} in range(len({name}))"), (f"{name}_0", f"for {each} in range(1)")):
            with self.out.block(block):
                call = self.call(handler.function, Site(({},)), {"state": f"{array}[{each}]", "signal": signal})
                if handler.field is None:
                    self.out.line(call)
                else:
                    self.out.line(f'{array}["{handler.field}"][{each}] = {cast(handler.function.returns[0])}({call})')

    def _advance(self, node: n.GraphNode, array: str, at: str) -> None:
        """A watermark has come to windows that close by it, or to where items are known that come too late."""
        fold = self.keyed_fold(node) if isinstance(node, n.KeyedAggregate) else None
        if isinstance(fold, TimedFold):
            fold.advance(array, at)
        elif isinstance(node, n.LateItems):
            TideWriter(self).limit(node).advance(array, at)

    def _tide(self, node: n.Tide, site: Site) -> None:
        self.send(node, site)
        TideWriter(self).tide(node, site)

    def _late_items(self, node: n.LateItems, site: Site) -> None:
        TideWriter(self).late_items(node, site)

    def _is_logged(self, node: n.GraphNode) -> bool:
        """Whether signals that reach the node are noted with their places."""
        return self.trace or isinstance(node, n.Send)

    def _log(self, node: n.GraphNode, number: int, signal: str, site: Site) -> None:
        log = self.code.log
        assert log is not None
        log.reserve(site)
        seen = self.integer(f"seen{self.tree.number[node]}")
        for at, value in enumerate((str(self.tree.number[node]), seen, str(number))):
            self.out.line(f"log[{log.count}, {at}] = {value}")
        self.out.line(f"log_{number}[{log.count}] = {signal}")
        self.out.line(f"{log.count} += 1")


def _length(column: Column, index: str) -> str:
    return f"as_int({column.first(f'after({index})')} - {column.first(index)})"


def _innermost(node: n.Step) -> n.Region | None:
    return node.given.regions[-1] if node.given.regions else None


ITEM: dict[type[n.GraphNode], Callable[..., None]] = {
    n.Map: LoopWriter._map,
    n.Filter: LoopWriter._filter,
    n.FlatMap: LoopWriter._flat_map,
    n.Through: LoopWriter._through,
    n.Enumerate: LoopWriter._enumerate,
    n.Regions: LoopWriter._regions,
    n.Aggregate: LoopWriter._aggregate,
    n.Close: LoopWriter._close,
    n.KeyedAggregate: LoopWriter._keyed_aggregate,
    n.KeyBy: LoopWriter._key_by,
    n.Emit: LoopWriter._emit,
    n.Tide: LoopWriter._tide,
    n.LateItems: LoopWriter._late_items,
    n.Select: LoopWriter._select,
    n.Send: LoopWriter._send_on,
}
"""How an item is handled, for every kind of node that lies inside a segment. The others stand at an entry."""

AT_ENTRY = (*CLEANING, n.Received, n.MapColumns)
