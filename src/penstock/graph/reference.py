"""What a graph means: an interpreter that takes one item at a time.

This is the oracle of every test, so it is written to be believed by reading it. There are no batches, no queues and no
NumPy here. Four things travel down the graph, each handed from a node to the nodes behind it: an item, the opening of a
region, its closing, and a signal. Where streams meet they wait until the node at which these parted has handed on all
that it was given. An item is a dict of its own fields beside the tuple of its parents' dicts, outermost
first. An aggregate remembers every value of its region and computes at the end.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isgenerator
from itertools import islice
from typing import Any

import pyarrow as pa

from penstock.errors import GraphError, PenstockError, cause_of
from penstock.graph import nodes as n
from penstock.graph.column_function import call_on_columns
from penstock.graph.faults import (
    bad_time,
    function_error,
    key_place,
    nan_key,
    too_many,
    unequal_lengths,
)
from penstock.graph.function import Function
from penstock.graph.letters import Letter, fault_text, first_of_each, letter, reason
from penstock.graph.needs import Names, needs
from penstock.graph.record import Record, Signal
from penstock.graph.reference_folds import KEY, Accumulators, OpenWindows, Own, Parents, key_fields, merge_fields
from penstock.graph.signal_indices import resolve_indices
from penstock.graph.source import beyond_error, fill_plain, from_plain, null_error, to_plain
from penstock.graph.split import BAD
from penstock.graph.tree import At, Delivery, Tree, check_signals, never_reached
from penstock.graph.types import INT64_MAX
from penstock.graph.watermarks import with_watermarks
from penstock.graph.window import WATERMARKS, TimeWindow


@dataclass(frozen=True, slots=True)
class Result:
    """A table for each result, and every signal in the order in which it was handed to a node."""

    tables: tuple[pa.Table, ...]
    signals: tuple[Delivery, ...]
    letters: tuple[Letter, ...] = ()


def run(
    leaves: Sequence[n.GraphNode], control: Sequence[At] = (), *, is_open: bool = False, on_error: str = "stop"
) -> Result:
    """The results of the leaves, as one thread produces them by reading the source from first to last.

    With `is_open` more may come: what only the end of a stream gives is left out.
    """
    tree = Tree(with_watermarks(leaves)[0])
    interpreter = Interpreter(tree, resolve_indices(check_signals(tree, control), tree.source))
    interpreter.skips = on_error == "skip"
    interpreter.run(is_open=is_open)
    tables = [_table(leaf, interpreter.collected[leaf]) for leaf in tree.leaves]
    return Result(tuple(tables), tuple(interpreter.deliveries), tuple(first_of_each(interpreter.letters)))


class Failure(Exception):
    """An item failed at a node: the error that stops a run, and what a letter says where the item is skipped."""

    def __init__(self, error: PenstockError, function: Function | None, message: str) -> None:
        super().__init__(str(error))
        self.error, self.function, self.message = error, function, message


def _table(leaf: n.GraphNode, items: list[Own]) -> pa.Table:
    fields = leaf.shape.fields
    return pa.table({name: from_plain([item[name] for item in items], t) for name, t in fields.items()})


class Interpreter:
    """One run. `memory` holds what each node remembers; `collected` the items that reached each leaf."""

    def __init__(self, tree: Tree, control: Sequence[At], sink: Callable[[Own, Parents], None] | None = None) -> None:
        self.tree = tree
        self.control = list(control)
        self.sink = sink
        self.collected: dict[n.GraphNode, list[Own]] = {leaf: [] for leaf in tree.leaves}
        self.deliveries: list[Delivery] = []
        self.memory: dict[n.GraphNode, Any] = {}
        self.received: dict[n.GraphNode, int] = dict.fromkeys(tree.nodes, 0)
        self.waiting = {meet: AlignedIndex(meet) for meet in tree.fork}
        self.meets = {node: tree.meets_at(node) for node in tree.nodes}
        self.birth: n.Emit | None = None
        """Where the signal that travels was emitted; None where it came with the source."""
        self.needed = needs(tree)
        self.newest: dict[n.GraphNode, Any] = {}
        """How far the time has come: where it is read, and at each node whose windows close by it."""
        self.index = 0
        self.skips = False
        """Whether an item that fails at a node is left out there, with a letter; else it ends the run."""
        self.letters: list[Letter] = []

    def run(self, at_most: int | None = None, *, is_open: bool = False) -> None:
        try:
            self._read(at_most, is_open)
        except Failure as failure:
            raise failure.error from failure.error.__cause__

    def _read(self, at_most: int | None, is_open: bool) -> None:
        source = self.tree.source
        # Every node adds a few frames to the stack when it hands something on.
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + 10 * len(self.tree.nodes)))
        self.open(source, None, ())
        for row in source.items.rows(is_tolerant=self.skips):
            if self.index == at_most:
                break
            self._signals_here()
            told = row.pop(BAD, None)
            if told is None:
                self.item(source, row, ())
            else:
                self._skip_record(told)
            self.index += 1
        self._signals_here()
        if is_open:
            return
        if self.control:
            raise never_reached(self.control[0], self.index)
        self.close(source, None, ())

    def _skip_record(self, told: str) -> None:
        """A record of a file is malformed: it uses up an index, and no more."""
        message, file, position, record = json.loads(told)
        made = letter(self.index, 0, self.tree.source, None, message, {"record": record})
        self.letters.append(replace(made, file=file, position=position))

    def _signals_here(self) -> None:
        while self.control and self.control[0].index == self.index:
            self.signal(self.tree.source, self.control.pop(0).signal)

    # The four things that travel

    def item(self, node: n.GraphNode, own: Own, parents: Parents) -> None:
        self.received[node] += 1
        _ITEM[type(node)](self, node, own, parents)

    def send(self, node: n.GraphNode, own: Own, parents: Parents) -> None:
        """Hand an item that left `node` to whatever follows it."""
        children = self.tree.children[node]
        if isinstance(node, _ENTERING) and not self._try(node, own, parents, lambda: self._refuse_nulls(node, own)):
            children = tuple(child for child in children if isinstance(child, _CLEANING))
        elif node in self.collected:
            self.collected[node].append(own)
            if self.sink is not None:
                self.sink(own, parents)
        for child in children:
            if isinstance(child, n.Meet):
                self.waiting[child].items.setdefault(node, (own, parents))
            else:
                self.item(child, own, parents)
        self._settle(node)

    def open(self, node: n.GraphNode, region: n.Region | None, parents: Parents) -> None:
        """A region begins. Nodes behind this one hear of it before this one pushes anything into it."""
        if isinstance(node, n.Aggregate) and node.region is region:
            self.memory[node] = Accumulators(self, node, parents)
            return
        if isinstance(node, n.Close) and node.given.regions[-1] is region:
            return
        self._hand_on(node, self.open, region, parents)
        if isinstance(node, n.Through) and _innermost(node) is region:
            self.memory[node] = node.hooks()
            self._send_all(node, self._hook(node, node.begin, {}, parents), {}, parents)

    def close(self, node: n.GraphNode, region: n.Region | None, parents: Parents) -> None:
        """A region ends. What this node still pushes into it arrives before the nodes behind hear of the end."""
        if isinstance(node, n.Aggregate) and node.region is region:
            self.send(node, self.memory.pop(node).finish(parents), parents[:-1])
            return
        if isinstance(node, n.Close) and node.given.regions[-1] is region:
            return
        if isinstance(node, n.Through) and _innermost(node) is region:
            self._send_all(node, self._hook(node, node.end, {}, parents), {}, parents)
        if isinstance(node, n.Regions) and _innermost(node) is region:
            self._close_found(node, parents)
        if isinstance(node, n.FlatMap) and node.end is not None and region is None:
            self._end_flat_map(node, node.end)
        if isinstance(node, n.KeyedAggregate) and node.has_end and region is None:
            by_key = list(self.memory.pop(node, {}).values())
            if node.given.key is None and not by_key:  # a stream without items has its row too
                by_key = [OpenWindows(self, node, None)]
                by_key[0].begin(0)
            if isinstance(node.window, TimeWindow):
                self._close_windows(node, by_key, math.inf)
                by_key = []
            for windows in by_key:
                for number in sorted(windows.open):
                    self.send(node, windows.close(number), parents)
        self._hand_on(node, self.close, region, parents)

    def signal(self, node: n.GraphNode, signal: Signal) -> None:
        if isinstance(node, n.Stateful):
            self._handle(node, signal)
        window = n.timed_of(node)
        if window is not None and isinstance(signal, WATERMARKS) and signal.of == window.clock:
            self._advance(node, signal.at)
        self._hand_on(node, self.signal, signal)

    def _hand_on(self, node: n.GraphNode, travel: Callable[..., None], *given: Any) -> None:
        """Hand an opening, a closing or a signal to whatever follows a node."""
        for child in self.tree.children[node]:
            if not isinstance(child, n.Meet):
                travel(child, *given)
            elif isinstance(given[0], Signal):
                self.waiting[child].signals[node].append((given[0], self.birth))
            elif node is child.sides[0]:  # all sides have the same regions
                waiting = self.waiting[child]
                waiting.marks += [(self._signal_from, each) for each in waiting.in_order()]  # they have come before
                waiting.marks.append((travel, given))
        self._settle(node)

    # Where streams meet

    def _settle(self, node: n.GraphNode) -> None:
        """All streams that part at a node have come to where they meet again, with what it has handed on."""
        for meet in self.meets[node]:
            waiting = self.waiting[meet]
            if not (waiting.items or waiting.marks or n.stem(node) is n.stem(meet.sides[0])):
                continue  # what meets are regions, and this one goes on
            self.waiting[meet] = AlignedIndex(meet)
            for travel, given in waiting.marks:
                travel(meet, *given)
            signals = waiting.in_order()
            for signal, birth in signals:
                if not _is_behind(birth, meet):
                    self._signal_from(meet, signal, birth)
            if isinstance(meet, n.Join):
                self._join(meet, waiting)
            else:
                for side in meet.sides:
                    if side in waiting.items:
                        own, parents = waiting.items[side]
                        self.item(meet, _with_key_of(meet, own), parents)
            for signal, birth in signals:
                if _is_behind(birth, meet):
                    self._signal_from(meet, signal, birth)

    def _signal_from(self, node: n.GraphNode, signal: Signal, birth: n.Emit | None) -> None:
        before, self.birth = self.birth, birth
        self.signal(node, signal)
        self.birth = before

    def _join(self, meet: n.Join, aligned: AlignedIndex) -> None:
        has = [side in aligned.items for side in meet.sides]
        if not (any(has) if meet.is_outer else all(has)):
            return
        fields: Own = {name: to_plain(value)[0] for name, value in meet.fill.items()}
        for side in reversed(meet.sides):
            fields |= aligned.items[side][0] if side in aligned.items else {}
        parents = next(parents for _, parents in aligned.items.values())
        self.item(meet, _with_key_of(meet, fields) | dict(zip(meet.present, has, strict=False)), parents)

    # What each kind of node does with an item

    def _pass(self, node: n.GraphNode, own: Own, parents: Parents) -> None:
        self.send(node, own, parents)

    def _refuse_nulls(self, node: n.GraphNode, own: Own) -> bool:
        """That an item which comes from the source, or is cleaned, has no nulls for those who are to have it now."""
        source, needed = self.tree.source.label, self._needed_at(node)
        for name, value in own.items():
            if name in needed and _has_null(value):
                kind = "null" if value is None else "null_element"
                raise self.fault(null_error(source, name, self.index, value is not None), kind, node, name)
        for name, value in own.items():
            if name in needed and _is_beyond(value):
                raise self.fault(beyond_error(source, name, self.index), "beyond", node, name)
        return True

    def _needed_at(self, node: n.GraphNode) -> Names:
        """The fields of an item that must be whole: where it enters, for all that do not clean it; else for a node."""
        if not isinstance(node, _ENTERING):
            return self.needed[node]
        taken = [child for child in self.tree.children[node] if not isinstance(child, _CLEANING)]
        own = frozenset(node.shape.fields if node in self.tree.leaves else ())
        return own.union(*(self.needed[child] for child in taken))

    # Items that fail

    def fault(self, error: PenstockError, kind: str, node: n.GraphNode, what: str = "") -> Failure:
        return Failure(error, None, fault_text(kind, node, what))

    def _try(self, node: n.GraphNode, own: Own, parents: Parents, work: Callable[[], Any]) -> Any:
        """What a node makes of an item, before it hands anything on; None where it fails and is skipped.

        Then what the node remembers is as if the item had not come.
        """
        if not self.skips:
            return work()
        undo = self._undo(node, merge_fields(own, parents).get(KEY))
        try:
            return work()
        except Failure as failure:
            undo()
            scope, needed, number = merge_fields(own, parents), self._needed_at(node), self.tree.number[node]
            names = node.shape.scope if isinstance(node, _ENTERING) else node.inputs[0].shape.scope
            fields = {name: scope[name] for name in names if name in needed}
            self.letters.append(letter(self.index, number, node, failure.function, failure.message, fields))
            return None

    def _undo(self, node: n.GraphNode, key: Any) -> Callable[[], None]:
        """How to make a node forget what is yet to come: put back what it knows of a key now."""
        memory: dict[Any, Any]
        before: Any
        at: Any
        if isinstance(node, n.Through):
            memory, at = self.memory, node
            before = _copy_record(memory[node])
        elif isinstance(node, n.KeyedAggregate):
            memory, at = self.memory[node], key
            before = memory.get(key)
        elif isinstance(node, n.Stateful) and node.state is not None:
            memory, at = self._states(node).by_key, key
            before = _copy_record(memory[key]) if key in memory else None
        else:
            return lambda: None

        def undo() -> None:
            if before is None:
                memory.pop(at, None)
            else:
                memory[at] = before

        return undo

    def _drop_nulls(self, node: n.DropNulls, own: Own, parents: Parents) -> None:
        if not any(_has_null(own[name]) for name in node.names):
            self.send(node, own, parents)

    def _fill_null(self, node: n.FillNull, own: Own, parents: Parents) -> None:
        filled = {name: fill_plain(own[name], value, node.given.fields[name]) for name, value in node.values.items()}
        self.send(node, own | filled, parents)

    def _map(self, node: n.Map, own: Own, parents: Parents) -> None:
        def work() -> Own:
            scope, changed = self._scope(node, own, parents), dict(own)
            for names, function in node.outputs:
                changed |= dict(zip(names, self.call(function, scope), strict=True))
            return changed

        changed = self._try(node, own, parents, work)
        if changed is not None:
            self.send(node, changed, parents)

    def _filter(self, node: n.Filter, own: Own, parents: Parents) -> None:
        def work() -> bool:
            return bool(self.call(node.predicate, self._scope(node, own, parents))[0])

        if self._try(node, own, parents, work):
            self.send(node, own, parents)

    def _flat_map(self, node: n.FlatMap, own: Own, parents: Parents) -> None:
        given = own | key_fields(node, own.get(KEY)) if node.has_end else own
        kept = {name: given[name] for name in (*node.keep, KEY) if name in given}
        pushes = self._try(
            node, own, parents, lambda: self._pushes(node, node.function, self._scope(node, own, parents))
        )
        self._send_all(node, pushes or [], kept, parents)

    def _end_flat_map(self, node: n.FlatMap, end: Function) -> None:
        """The end of the stream: for every key that had an item, in the order of their first ones."""
        states = self._states(node)
        if node.given.key is None:
            states.of(None)
        for key, state in states.by_key.items():
            fields = key_fields(node, key)
            kept = {name: fields[name] for name in node.keep} | ({} if key is None else {KEY: key})
            pushes = self._pushes(node, end, fields | {"state": state}, place=key_place(fields))
            self._send_all(node, pushes, kept, ())

    def _through(self, node: n.Through, own: Own, parents: Parents) -> None:
        pushes = self._try(node, own, parents, lambda: self._hook(node, node.run, own, parents))
        self._send_all(node, pushes or [], {}, parents)

    def _enumerate(self, node: n.Enumerate, own: Own, parents: Parents) -> None:
        region, inside = node.shape.regions[-1], (*parents, own)

        def work() -> list[tuple[str, list[Any]]]:
            lists = [(name, _elements(own[field])) for field, name in node.elements]
            if len({len(elements) for _, elements in lists}) > 1:
                raise self.fault(unequal_lengths(node, self.index), "unequal_lengths", node)
            return lists

        lists = self._try(node, own, parents, work)
        if lists is None:
            return
        self._hand_on(node, self.open, region, inside)
        for at in range(len(lists[0][1])):
            element = {name: elements[at] for name, elements in lists}
            if node.index is not None:
                element[node.index] = at
            self.send(node, element, inside)
        self._hand_on(node, self.close, region, inside)

    def _regions(self, node: n.Regions, own: Own, parents: Parents) -> None:
        parent = self.memory.get(node)
        if node.start is not None:
            start = node.start  # asked of every item, the first too
            begins = self._try(node, own, parents, lambda: bool(self.call(start, merge_fields(own, parents))[0]))
            if begins is None:
                return
        else:
            begins = parent is not None and any(parent[name] != own[name] for name in node.by)
        if parent is None or begins:
            self._close_found(node, parents)
            parent = {name: own[name] for name in node.by} | {name: own[old] for name, old in node.keep.items()}
            self.memory[node] = parent
            self._hand_on(node, self.open, node.shape.regions[-1], (*parents, parent))
        inner = {name: value for name, value in own.items() if name not in node.by}
        self.send(node, inner, (*parents, parent))

    def _close_found(self, node: n.Regions, parents: Parents) -> None:
        parent = self.memory.pop(node, None)
        if parent is not None:
            self._hand_on(node, self.close, node.shape.regions[-1], (*parents, parent))

    def _aggregate(self, node: n.Aggregate, own: Own, parents: Parents) -> None:
        self.memory[node].add(own, parents)

    def _keyed_aggregate(self, node: n.KeyedAggregate, own: Own, parents: Parents) -> None:
        by_key = self.memory.setdefault(node, {})
        key = None if node.given.key is None else own[KEY]

        def work() -> Any:
            if isinstance(node.window, TimeWindow):
                self._must_have_bounds(node, own)
            if key not in by_key:
                by_key[key] = OpenWindows(self, node, key)
            return by_key[key].closed_by(own)

        closed = self._try(node, own, parents, work)
        if closed is None:
            return
        windows = by_key[key]
        for number in closed:
            self.send(node, windows.close(number), parents)
        for number in self._try(node, own, parents, lambda: windows.add(own)) or ():
            self.send(node, windows.close(number), parents)

    def _close(self, node: n.Close, own: Own, parents: Parents) -> None:
        parent = parents[-1]
        kept = {name: parent[name] for name in (*node.keep, KEY) if name in parent}
        self.send(node, kept | own, parents[:-1])

    def _key_by(self, node: n.KeyBy, own: Own, parents: Parents) -> None:
        scope = merge_fields(own, parents)

        def work() -> tuple[Any, ...]:
            for name in node.names:
                if scope[name] != scope[name]:
                    raise self.fault(nan_key(node, repr(name), self.index), "nan_key", node, _either(node.names))
            return tuple(scope[name] for name in node.names)

        key = self._try(node, own, parents, work)
        if key is not None:
            self.send(node, own | {KEY: key}, parents)

    def _emit(self, node: n.Emit, own: Own, parents: Parents) -> None:
        def work() -> tuple[Signal | None]:
            scope = merge_fields(own, parents)
            if not self.call(node.when, scope)[0]:
                return (None,)
            constant = dict(zip(node.signal.layout.initial, node.first.as_tuple(), strict=True))
            computed = {name: self.call(value, scope)[0] for name, value in node.values.items()}
            return (node.signal(**constant | computed),)

        if self.skips:  # asked first, because an item that fails here does not pass
            result = self._try(node, own, parents, work)
            if result is None:
                return
            self.send(node, own, parents)
        else:
            self.send(node, own, parents)
            result = work()
        (signal,) = result
        if signal is not None:
            before, self.birth = self.birth, node
            self._hand_on(node, self.signal, signal)
            self.birth = before

    # Time

    def _emit_watermark(self, node: n.EmitWatermark, own: Own, parents: Parents) -> None:
        """The newest time of all items here moves on with an item; what is downstream hears of it after the item."""
        self.send(node, own, parents)
        time, newest = merge_fields(own, parents)[node.field], self.newest.get(node)
        if -node.greatest_time <= time <= node.greatest_time and (newest is None or time > newest):
            self.newest[node] = time
            before, self.birth = self.birth, node
            self._hand_on(node, self.signal, node.signal(of=node.clock, at=time))
            self.birth = before

    def _advance(self, node: Any, newest: Any) -> None:
        """The time where the watermark of a node's windows begins has come to `newest`."""
        self.newest[node] = newest
        if isinstance(node, n.KeyedAggregate):
            self._close_windows(node, list(self.memory.get(node, {}).values()), newest)

    def _close_windows(self, node: n.KeyedAggregate, by_key: Sequence[OpenWindows], newest: Any) -> None:
        """Close all windows whose time has come, in the order of their ends, starts and the first items of the keys."""
        open_windows = [(number, rank) for rank, windows in enumerate(by_key) for number in windows.open]
        for number, rank in sorted(open_windows):
            if node.window.is_closed(number, newest):  # type: ignore[union-attr]
                self.send(node, by_key[rank].close(number), ())

    def windows_of(self, node: Any, own: Own) -> tuple[list[int], bool]:
        """The windows of an item that have not closed, and whether the item is late: it has some, and all have."""
        rule, newest = node.window, self.newest.get(node)
        mine = rule.windows_of(own[rule.field])
        numbers = [number for number in mine if newest is None or not rule.is_closed(number, newest)]
        return numbers, bool(mine) and not numbers

    def _must_have_bounds(self, node: Any, own: Own) -> bool:
        """Refuse an item whose time is in windows without bounds: NaN, or too far from 0."""
        rule = node.window
        if not rule.least_time <= own[rule.field] <= rule.greatest_time:
            raise self.fault(bad_time(node, rule.field, self.index), "bad_time", node, rule.field)
        return True

    def _late_items(self, node: n.LateItems, own: Own, parents: Parents) -> None:
        has_bounds = self._try(node, own, parents, lambda: self._must_have_bounds(node, own))
        if has_bounds and self.windows_of(node, own)[1]:
            self.send(node, own, parents)

    def _map_columns(self, node: n.MapColumns, own: Own, parents: Parents) -> None:
        scope = merge_fields(own, parents)
        columns = [from_plain([scope[name]], node.given.scope[name]) for name in node.names]
        made = call_on_columns(node, columns, 1)
        self.send(node, own | {name: to_plain(column)[0] for name, column in made.items()}, parents)

    def _select(self, node: n.Select, own: Own, parents: Parents) -> None:
        kept = {name: own[old] for name, old in node.names.items()}
        self.send(node, kept | {name: own[name] for name in (KEY,) if name in own}, parents)

    # State, signals and functions

    def _scope(self, node: n.Stateful, own: Own, parents: Parents) -> Mapping[str, Any]:
        """The fields that a function may name and, where the node has a state, this key's record."""
        scope = merge_fields(own, parents)
        if node.state is not None:
            scope["state"] = self._states(node).of(None if node.given.key is None else scope[KEY])
        return scope

    def _states(self, node: n.Stateful) -> _InterpretedStates:
        if node not in self.memory:
            assert node.state is not None
            self.memory[node] = _InterpretedStates(node.state)
        return self.memory[node]  # type: ignore[no-any-return]

    def _handle(self, node: n.Stateful, signal: Signal) -> None:
        """Every key has seen every signal, also a key whose first item is yet to come."""
        for handler in node.handlers:
            if handler.signal is type(signal):
                for state in self._states(node).all():
                    (*_, value) = (None, *self.call(handler.function, {"state": state, "signal": signal}))
                    if handler.field is not None:
                        setattr(state, handler.field, value)
        if any(handler.signal is type(signal) for handler in node.handlers):
            self.deliveries.append(Delivery(self.tree.number[node], self.received[node], signal))

    def _hook(self, node: n.Through, hook: Function | None, own: Own, parents: Parents) -> list[tuple[Any, ...]]:
        scope = merge_fields(own, parents) | {"self": self.memory[node]}
        return [] if hook is None else self._pushes(node, hook, scope)

    def _pushes(
        self, node: Any, function: Function, scope: Mapping[str, Any], place: str | None = None
    ) -> list[tuple[Any, ...]]:
        """All that a function pushes, none of which has been handed on yet."""
        if not function.returns:
            self.call(function, scope)
            return []
        pushes = self.call_generator(function, scope, node.at_most + 1, place)
        if len(pushes) > node.at_most:
            raise self.fault(too_many(node, self.index), "too_many", node)
        return pushes

    def _send_all(self, node: Any, pushes: list[tuple[Any, ...]], kept: Own, parents: Parents) -> None:
        names = node.to if isinstance(node.to, tuple) else (node.to,)
        for results in pushes:
            self.send(node, kept | dict(zip(names, results, strict=True)), parents)

    def call(self, function: Function, scope: Mapping[str, Any]) -> tuple[Any, ...]:
        arguments = function.arguments(scope)
        try:
            returned = function.call(*arguments)
            return function.results(returned) if function.returns else ()
        except Exception as error:
            told = function_error(function, error, self.index, scope)
            told.__cause__ = cause_of(error)
            raise Failure(told, function, reason(error)) from error

    def call_generator(
        self, function: Function, scope: Mapping[str, Any], at_most: int, place: str | None = None
    ) -> list[tuple[Any, ...]]:
        arguments = function.arguments(scope)
        try:
            return [function.results(returned) for returned in islice(function.call(*arguments), at_most)]
        except Exception as error:
            told = function_error(function, error, self.index, scope, place)
            told.__cause__ = cause_of(error)
            raise Failure(told, function, reason(error)) from error


class AlignedIndex:
    """What waits where streams meet, from one index: marks of regions, an item of each side, signals of each side.

    Where a region is under way on all sides, and signals have come before a mark, `marks` has these signals too.
    """

    def __init__(self, meet: n.Meet) -> None:
        self.marks: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.items: dict[n.GraphNode, tuple[Own, Parents]] = {}
        self.signals: dict[n.GraphNode, list[tuple[Signal, n.Emit | None]]] = {side: [] for side in meet.sides}

    def in_order(self) -> list[tuple[Signal, n.Emit | None]]:
        """Take all signals, each once: what several sides have when all of these have come to it, else side by side."""
        signals: list[tuple[Signal, n.Emit | None]] = []
        left = list(self.signals.values())
        while any(left):
            for side in left:
                holders = [other for other in left if side and any(each[0] is side[0][0] for each in other)]
                if side and all(other[0][0] is side[0][0] for other in holders):
                    signals.append(side[0])
                    for other in holders:
                        del other[0]
                    break
        return signals


class _InterpretedStates:
    """The records of a node: one a key. The record of a key without items is `fresh`, which sees every signal too."""

    def __init__(self, record: type[Record]) -> None:
        self.fresh = record()
        self.by_key: dict[Any, Record] = {}

    def of(self, key: Any) -> Record:
        if key not in self.by_key:
            self.by_key[key] = type(self.fresh)(*(getattr(self.fresh, name) for name in self.fresh.layout.initial))
        return self.by_key[key]

    def all(self) -> list[Record]:
        return [self.fresh, *self.by_key.values()]


def _with_key_of(meet: n.Meet, own: Own) -> Own:
    """The fields of an item, without the key where not all sides have the same."""
    return own if meet.shape.key is not None else {name: value for name, value in own.items() if name != KEY}


def _is_behind(birth: n.Emit | None, meet: n.Meet) -> bool:
    """Whether a signal stands behind the item of the same index, as it does that was emitted after that item."""
    return birth is not None and n.stem(birth) is n.stem(meet.sides[0])


def _innermost(node: n.Step) -> n.Region | None:
    return node.given.regions[-1] if node.given.regions else None


def _copy_record(record: Record) -> Record:
    return type(record)(*(getattr(record, name) for name in record.layout.initial))


def _either(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))


def _has_null(value: Any) -> bool:
    return value is None or (isinstance(value, list) and any(_has_null(element) for element in value))


def _is_beyond(value: Any) -> bool:
    if isinstance(value, list):
        return any(_is_beyond(element) for element in value)
    return isinstance(value, int) and value > INT64_MAX


def _elements(value: Any) -> list[Any]:
    """The elements of a list, or the bytes of a text."""
    return list(value.encode()) if isinstance(value, str) else list(value)


_CLEANING = (n.DropNulls, n.FillNull)
_ENTERING = (n.Source, *_CLEANING)

_ITEM: dict[type[n.GraphNode], Callable[..., None]] = {
    n.Source: Interpreter._pass,
    n.DropNulls: Interpreter._drop_nulls,
    n.FillNull: Interpreter._fill_null,
    n.Map: Interpreter._map,
    n.Filter: Interpreter._filter,
    n.FlatMap: Interpreter._flat_map,
    n.Through: Interpreter._through,
    n.Enumerate: Interpreter._enumerate,
    n.Regions: Interpreter._regions,
    n.Aggregate: Interpreter._aggregate,
    n.Close: Interpreter._close,
    n.KeyedAggregate: Interpreter._keyed_aggregate,
    n.KeyBy: Interpreter._key_by,
    n.Emit: Interpreter._emit,
    n.EmitWatermark: Interpreter._emit_watermark,
    n.LateItems: Interpreter._late_items,
    n.MapColumns: Interpreter._map_columns,
    n.Select: Interpreter._select,
    n.Join: Interpreter._pass,
    n.Merge: Interpreter._pass,
    n.Received: Interpreter._pass,
    n.Send: Interpreter._pass,
}


class _ErrorFound(Exception):
    """Carries the result out of the interpreter."""


def first_result(before: n.GraphNode, function: Function, records: Mapping[str, type[Record]]) -> Any:
    """What a function gives on the first of the first items that reach it, or None where none does."""
    fresh = {name: record() for name, record in records.items()}

    def try_it(own: Own, parents: Parents) -> None:
        try:
            returned = function.call(*function.arguments(merge_fields(own, parents) | fresh))
            returned = next(returned, None) if isgenerator(returned) else returned
        except Exception as error:
            told = function_error(function, error, interpreter.index, merge_fields(own, parents))
            raise GraphError(
                f"{told}; it was called as the run starts, to see the type of its result, because it does not compile: "
                f"{function.reason}; declare the type with ps.returns to run without this call"
            ) from cause_of(error)
        if returned is not None:
            raise _ErrorFound(returned)

    tree = Tree((before,))
    interpreter = Interpreter(tree, (), try_it)
    try:
        interpreter.run(at_most=100)
    except _ErrorFound as found:
        return found.args[0]
    return None
