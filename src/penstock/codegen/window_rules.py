"""The code of windows of time: items into their windows, watermarks that close them, and items that come too late.

All open windows of a node, of all keys, lie in a heap in the order in which they are to close: by their number, which
is the order of their ends and starts, then by the rank of their key, which is the order of the keys' first items. So a
watermark closes those at the top for as long as they end at or before it, and may stop between any two for room.

A cell is found by a hash of the key and the window's number. Cells are taken from a pool, to which those of closed
windows go back, and which the engine enlarges where it may not do for the next item.
"""

from __future__ import annotations

from penstock.codegen.end_rules import arriving, index_of_windows, note_end
from penstock.codegen.generated import Stop, Where
from penstock.codegen.key_records import slot_of
from penstock.codegen.keyed_rules import KeyedFold
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.outlets import Buffer
from penstock.codegen.signal_rules import handle_signal
from penstock.codegen.site import Level, Local, Site
from penstock.codegen.travel import Boundary, SignalAt
from penstock.codegen.traverse import hand_on, is_advanced_by, send
from penstock.graph import nodes as n
from penstock.graph.faults import FaultKind
from penstock.graph.needs import key_field
from penstock.graph.window import TimeWindow


class Limit:
    """The variables of a loop that say which windows of a node have closed: those before a number, if there is one."""

    def __init__(self, loop: LoopContext, window: TimeWindow, first: str, is_known: str) -> None:
        self.loop, self.window, self.first, self.is_known = loop, window, first, is_known

    def advance(self, signal: SignalAt) -> None:
        """Take a watermark, if it is this one's, and further than those before."""
        out, window = self.loop.out, self.window
        with out.block(f'if as_int({signal.array}["of"][{signal.at}]) == {window.clock}'):
            newest = f'{"as_float" if window.is_float else "as_int"}({signal.array}["at"][{signal.at}])'
            number = self.loop.calls.assign(first_open(window, newest), "q").name
            with out.block(f"if {self.is_known} == 0 or {number} > {self.first}"):
                out.line(f"{self.first} = {number}")
                out.line(f"{self.is_known} = 1")

    def closed(self, number: str) -> str:
        """The test whether a window is closed."""
        return f"{self.is_known} != 0 and {number} < {self.first}"


class TimedFold(KeyedFold):
    """One aggregate by windows of time in one loop."""

    window: TimeWindow

    def __init__(self, loop: LoopContext, node: n.KeyedAggregate) -> None:
        super().__init__(loop, node)
        counts = f"{self.cells.name}_counts"
        self.limit = Limit(loop, self.window, f"{counts}[4]", f"{counts}[5]") if self.window.closes else None
        self.pool: Buffer = loop.carried.buffer(f"{self.cells.name}p")

    def item(self, site: Site) -> None:
        slot, name, out = slot_of(self.loop, self.node, site), self.cells.name, self.loop.out
        with arriving(self.loop, self.node, slot, site):
            out.line(f"{self._held(slot)} = {name}_counts[1]")
            out.line(f"{name}_counts[1] += 1")
        first, last = span_of(self.loop, self.node, self.window, site)
        start = first
        if self.limit is not None:
            start = self.loop.calls.assign(first, "q").name
            with out.block(f"if {self.limit.is_known} != 0 and {self.limit.first} > {first}"):
                out.line(f"{start} = {self.limit.first}")
            with out.block(f"if {start} > {last} and {first} <= {last}"):
                if self.window.on_late == "error":
                    self.loop.calls.fault(FaultKind.LATE_ITEM, self.node, self.window.field)
                out.line(f"{name}_counts[2] += 1")
        number = out.fresh("q")
        self.pool.reserve(site, self.window.at_once)
        with out.block(f"for {number} in range({start}, {last} + 1)"):
            self._find(slot, number)
            self._add_timed(slot, number, site.fork())

    def _find(self, slot: str, number: str) -> None:
        """The cell of a window: its own, or one that is free."""
        out, name, place, cell = self.loop.out, self.cells.name, self.loop.out.fresh(), self.loop.out.fresh("c")
        out.line(f"{place} = cell_place({name}_table, {name}_s, {name}_q, {slot}, {number})")
        out.line(f"{cell} = as_int({name}_table[{place}]) - 1")
        with out.block(f"if {cell} < 0"):
            with out.block(f"if {name}_counts[3] > 0"):
                out.line(f"{cell} = as_int({name}_heap[len({name}_heap) - {name}_counts[3]])")
                out.line(f"{name}_counts[3] -= 1")
            with out.block("else"):
                out.line(f"{cell} = {self.pool.count}")
                out.line(f"{self.pool.count} += 1")
            out.line(f"{name}_table[{place}] = {cell} + 1")
        self.cells.cell = cell

    def _add_timed(self, slot: str, number: str, site: Site) -> None:
        out, name, cell, field = self.loop.out, self.cells.name, self.cells.cell, self.cells.field
        with out.block(f"if {field('n')} == 0"):
            out.line(f"{field('q')} = {number}")
            out.line(f"{field('s')} = {slot}")
            out.line(f"{field('r')} = {self._held(slot)}")
            out.line(f"heap_push({name}_heap, {name}_counts, {name}_q, {name}_r, {cell})")
            self.accumulator.begin(self._key_site(slot, site.fork()))
        out.line(f"{field('n')} += 1")
        self.accumulator.add(site)

    # Windows that close

    def advance(self, signal: SignalAt) -> None:
        """A watermark has come: close what it closes."""
        assert self.limit is not None
        out, name = self.loop.out, self.cells.name
        self.limit.advance(signal)
        test = f"{name}_counts[0] > 0 and {self.limit.is_known} != 0 and {name}_q[{name}_heap[0]] < {self.limit.first}"
        with out.block(f"while {test}"):
            phase = f"mark_close{self.loop.number(self.node)}"
            self.loop.room.checked(phase, lambda: self._close(phase, {}), Stop.ROWS)

    def end_all(self) -> None:
        """The end of the stream: close all that is open, in a step of its own."""
        loop, name, phase = self.loop, self.cells.name, f"end{self.loop.number(self.node)}"
        loop.end.begin()
        loop.out.comment(f"{self.node.label}: its windows close with the stream")
        with loop.out.block(f"while {name}_counts[0] > 0"):
            loop.room.checked(phase, lambda: self._close_at_end(phase), Stop.END)
        loop.calls.note_where(Where.MARK, "mark")
        loop.end.begin()

    def _close_at_end(self, phase: str) -> None:
        name = self.cells.name
        note_end(self.loop, self.node, f"{name}_s[{name}_heap[0]]")
        self._close(phase, index_of_windows(self.loop, self.node))

    def _close(self, phase: str, index: Level) -> None:
        """Close the window at the top of the heap."""
        out, name, assign = self.loop.out, self.cells.name, self.loop.calls.assign
        cell = assign(f"as_int({name}_heap[0])").name
        slot = assign(f"as_int({name}_s[{cell}])").name
        number = assign(f"as_int({name}_q[{cell}])").name
        self.cells.cell = cell
        key = self.node.given.key
        assert key is not None
        own: Level = {**index, key_field(self.loop.tree, key): Local(slot)}
        start = f"{number} * {self.window.every!r}"
        bounds = self._bounds(start, f"{start} + {self.window.length!r}")
        out.line(f"heap_pop({name}_heap, {name}_counts, {name}_q, {name}_r)")
        self._give(slot, bounds, Site((own,), phase=phase))
        out.line(f"{self.cells.field('n')} = 0")
        out.line(f"free_cell({name}_table, {name}_heap, {name}_counts, {name}_s, {name}_q, {cell})")


def span_of(loop: LoopContext, node: n.GraphNode, window: TimeWindow, site: Site) -> tuple[str, str]:
    """Variables with the numbers of the first and the last window of an item; in none, the first is greater."""
    time = loop.calls.local(window.field, site).name
    if not loop.tree.is_guarded:  # else the rule around it has left out such items
        with loop.out.block(f"if {has_no_bounds(loop, window, site)}"):
            loop.calls.fault(FaultKind.BAD_TIME, node, window.field)
    kind, zero = ("float_", 0.0) if window.is_float else ("", 0)
    first = loop.calls.assign(f"first_{kind}window({time}, {window.every!r}, {window.length!r}, {zero!r})", "q")
    last = loop.calls.assign(f"last_{kind}window({time}, {window.every!r})", "q")
    return first.name, last.name


def has_no_bounds(loop: LoopContext, window: TimeWindow, site: Site) -> str:
    """The test whether the time of an item is NaN, or so far from 0 that its windows have no bounds."""
    time = loop.calls.local(window.field, site).name
    return f"not {window.least_time!r} <= {time} <= {window.greatest_time!r}"


def first_open(window: TimeWindow, newest: str) -> str:
    """The number of the first window that is open once the time where its watermark begins has come to `newest`."""
    kind = "float_" if window.is_float else ""
    return f"first_{kind}window({newest}, {window.every!r}, {window.length!r}, {window.offset!r})"


# The rules


def fold_of(loop: LoopContext, node: n.KeyedAggregate) -> KeyedFold:
    """What writes an aggregate by key, in all places where it stands in the loop."""
    return loop.part(_fold, node)


def _fold(loop: LoopContext, node: n.GraphNode) -> KeyedFold:
    assert isinstance(node, n.KeyedAggregate)
    return TimedFold(loop, node) if isinstance(node.window, TimeWindow) else KeyedFold(loop, node)


def keyed_aggregate_item(loop: LoopContext, node: n.KeyedAggregate, site: Site) -> None:
    fold_of(loop, node).item(site)


def keyed_aggregate_close(loop: LoopContext, node: n.KeyedAggregate, boundary: Boundary, site: Site) -> None:
    if boundary.region is None and node.has_end:
        fold_of(loop, node).end_all()
    hand_on(loop, node, boundary, site)


def keyed_aggregate_signal(loop: LoopContext, node: n.KeyedAggregate, signal: SignalAt) -> None:
    handle_signal(loop, node, signal)
    if is_advanced_by(node, loop.signals[signal.number]):
        fold = fold_of(loop, node)
        assert isinstance(fold, TimedFold)
        fold.advance(signal)


def tide_item(loop: LoopContext, node: n.EmitWatermark, site: Site) -> None:
    """Emit a watermark after an item with which the newest time passes the end of a window."""
    send(loop, node, site)
    out, number = loop.out, loop.number(node)
    time, bound = loop.calls.local(node.field, site).name, node.greatest_time
    is_known = loop.carried.integer(f"tk{number}")
    newest = loop.carried.floating(f"tn{number}") if node.is_float else loop.carried.integer(f"tn{number}")
    with out.block(f"if {-bound!r} <= {time} <= {bound!r} and ({is_known} == 0 or {time} > {newest})"):
        grids = dict.fromkeys((first_open(each, time), first_open(each, newest)) for each in node.windows)
        with out.block(f"if {is_known} == 0 or {' or '.join(f'{a} != {b}' for a, b in grids)}"):
            inner, name = site.fork(aligned=False, is_behind=True), f"em{number}"
            loop.code.emitted[name] = node.first
            out.line(f'{name}["at"][0] = {time}')
            hand_on(loop, node, SignalAt(loop.signals.index(node.signal), name, "0"), inner)
        out.line(f"{newest} = {time}")
        out.line(f"{is_known} = 1")


def late_item(loop: LoopContext, node: n.LateItems, site: Site) -> None:
    first, last = span_of(loop, node, node.window, site)
    if not node.window.closes:
        return
    test = _limit(loop, node).closed(last)
    with loop.out.block(f"if {first} <= {last} and {test}"):
        send(loop, node, site.fork(aligned=False))


def late_signal(loop: LoopContext, node: n.LateItems, signal: SignalAt) -> None:
    if is_advanced_by(node, loop.signals[signal.number]):
        _limit(loop, node).advance(signal)


def _limit(loop: LoopContext, node: n.LateItems) -> Limit:
    number = loop.number(node)
    return Limit(loop, node.window, loop.carried.integer(f"wl{number}"), loop.carried.integer(f"wk{number}"))
