"""Write the loop of a segment: the reference interpreter, turned into straight code.

The four things that travel in the interpreter (an item, the opening and the closing of a region, a signal) are four
methods here. Each writes, for a node, the code that handles that thing at the place where it happens, with all nodes
behind it inside: a filter is an `if`, a generator a `for`, an opened list a `for` over its elements. Accumulators are
local variables, and those that outlive a batch are carried in two arrays.

The caller provides room for what the loop writes. Before each row (and each mark) the loop checks that the most that
can come of it still fits, and returns early where it does not, so that nothing inside needs a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa

from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.function import Function
from penstock.graph.record import Record, Signal
from penstock.graph.tree import Tree
from penstock.plan.code import Buffer, Column, Level, Local, Ref, Site, Value, Writer, cast, entered
from penstock.plan.fuse import CLEANING, Segment
from penstock.plan.needs import Names, key_field, needed_after
from penstock.plan.sink import CLOSE, OPEN, SIGNAL, Heap, OutColumn, Outlet, Sink


@dataclass(frozen=True)
class Fault:
    """Something that the loop found wrong in an item: what kind, and the node."""

    kind: str
    node: n.GraphNode
    what: str = ""


@dataclass(frozen=True)
class Input:
    """A column that the loop reads: of the items (`level` is None), or of the parents of a depth."""

    column: Column
    level: int | None
    field: str
    is_wide: bool = False
    is_plain: bool = False


@dataclass(frozen=True)
class Keys:
    """A key whose numbers the loop takes: the columns that it is made of, and the deepest level that they lie at."""

    node: n.KeyBy
    inputs: tuple[Input, ...]
    level: int | None


@dataclass
class Code:
    """A loop's source, and all that the engine must give it."""

    source: str = ""
    segment: Segment | None = None
    inputs: list[Input] = field(default_factory=list)
    keys: dict[str, Keys] = field(default_factory=dict)
    states: dict[str, n.Stateful] = field(default_factory=dict)
    records: dict[str, type[Record]] = field(default_factory=dict)
    signals_in: dict[str, int] = field(default_factory=dict)
    emitted: dict[str, type[Signal]] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    heaps: list[Heap] = field(default_factory=list)
    integers: list[str] = field(default_factory=list)
    floats: list[str] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    literals: list[tuple[Any, pa.DataType]] = field(default_factory=list)
    log: Buffer | None = None
    arguments: list[str] = field(default_factory=list)


def signal_types(tree: Tree) -> tuple[type[Signal], ...]:
    """All signals that some node handles, in a fixed order."""
    found = [h.signal for node in tree.nodes if isinstance(node, n.Stateful) for h in node.handlers]
    return tuple(dict.fromkeys(found))


def write_loop(
    tree: Tree, segment: Segment, needed: dict[n.GraphNode, Names], cuts: frozenset[n.GraphNode], leaves: frozenset[n.GraphNode], *, trace: bool
) -> Code:
    """The loop of a segment that cuts the stream after `cuts` and gives results at `leaves`.

    With `trace`, every signal that is handed to a node is logged with its place.
    """
    return LoopWriter(tree, segment, needed, cuts, leaves, trace).write()


class LoopWriter:
    """One segment's loop while it is written."""

    def __init__(self, tree: Tree, segment: Segment, needed: dict[n.GraphNode, Names], cuts: Any, leaves: Any, trace: bool) -> None:
        self.tree, self.segment, self.needed, self.trace = tree, segment, needed, trace
        self.out = Writer(count())
        self.code = Code(segment=segment)
        self.signals = signal_types(tree)
        self.members = set(segment.nodes)
        self.sinks: dict[n.GraphNode, list[Sink]] = {}
        for node in [segment.entry, *segment.nodes]:
            for kinds, is_cut in ((leaves, False), (cuts, True)):
                if node in kinds:
                    self._add_sink(node, is_cut)
        self.accumulators: dict[n.GraphNode, Any] = {}
        self.found_parents: dict[n.GraphNode, Level] = {}
        self.rooms: dict[str, Buffer] = {}
        self.halves: list[tuple[str, str]] = []
        """The carried sums in two halves, whose carry is moved up between batches so that they never overflow."""
        if trace:
            self.code.log = self.buffer("log")

    # The whole

    def write(self) -> Code:
        entry, out, regions = self.segment.entry, self.out, self.segment.entry.shape.regions
        parents = tuple(self._entry_level(depth) for depth in range(len(regions)))
        site = Site((*parents, self._entry_level(None)), aligned=True)
        out.depth = 1
        first = self._phase("first", lambda: self._children(self.open, entry, None, Site((), phase="first")), "if first", 0)
        out.depth = 3
        rows = self._phase("rows", lambda: self.send(entry, site.fork()), None, 1)
        out.depth = 2
        marks = self._phase("marks", lambda: self._marks(site, parents), None, 1)
        out.depth = 1
        last = self._phase("last", lambda: self._children(self.close, entry, None, Site((), phase="last")), "if last", 2)
        body = self._assemble(first, rows, marks, last)
        self.code.source = "\n".join([*self._header(), *body]) + "\n"
        return self.code

    def _phase(self, phase: str, write: Callable[[], None], header: str | None, progress: int) -> list[str]:
        """A part of the loop, with the check for room before it. `progress` is returned where room is short."""
        with self.out.aside() as lines:
            if header is None:
                write()
            else:
                with self.out.block(header):
                    write()
        with self.out.aside() as check:
            if header is not None:
                self.out.depth += 1
            self._check_room(phase, progress)
            if header is not None:
                self.out.depth -= 1
        return [lines[0], *check, *lines[1:]] if header is not None else [*check, *lines]

    def _check_room(self, phase: str, progress: int) -> None:
        short = [buffer for buffer in self.code.buffers if phase in buffer.terms]
        for heap in self.code.heaps:
            if heap.is_collected and phase in self._heap_room(heap).terms:
                term = self._heap_room(heap).term(phase)
                self.out.line(f"if {heap.name}_u + {term} > len({heap.name}_e):")
                self.out.line(f"    {heap.name}_e = grown({heap.name}_e, {heap.name}_u, {heap.name}_u + {term})")
        if not short:
            return
        tests = " or ".join(f"{b.count} + {b.term(phase)} > cap[{self.code.buffers.index(b)}]" for b in short)
        with self.out.block(f"if {tests}"):
            for buffer in short:
                self.out.line(f"need[{self.code.buffers.index(buffer)}] = {buffer.count} + {buffer.term(phase)}")
            self.out.line(f"@save {progress}")

    def _heap_room(self, heap: Heap) -> Buffer:
        return self.rooms.setdefault(heap.name, Buffer(heap.name))

    def _assemble(self, first: list[str], rows: list[str], marks: list[str], last: list[str]) -> list[str]:
        code, body, reopened = self.code, [], self._reopened()
        for buffer in code.buffers:
            body.append(f"    {buffer.count} = 0")
        body += [f"    {name} = ci[{at}]" for at, name in enumerate(code.integers)]
        body += [f"    {name} = cf[{at}]" for at, name in enumerate(code.floats)]
        for low, high in self.halves:
            body += [f"    {high} += {low} >> 32", f"    {low} &= 4294967295"]
        body += ["    i = i0", "    m = m0", *reopened, *first]
        body += ["    while True:", "        stop = n", "        if m < len(mk_at):", "            stop = mk_at[m]"]
        body += ["        for i in range(i, stop):", *(rows or ["            pass"]), "        i = stop"]
        body += ["        if m == len(mk_at):", "            break", *marks, "        m += 1", *last, "    @save 3"]
        return [line for text in body for line in self._saved(text)]

    def _saved(self, line: str) -> Iterator[str]:
        """Expand `@save progress`: carry the variables over, count what was written, and return."""
        text = line.lstrip()
        if not text.startswith("@save"):
            yield line
            return
        pad = line[: len(line) - len(text)]
        yield from (f"{pad}ci[{at}] = {name}" for at, name in enumerate(self.code.integers))
        yield from (f"{pad}cf[{at}] = {name}" for at, name in enumerate(self.code.floats))
        yield from (f"{pad}used[{at}] = {buffer.count}" for at, buffer in enumerate(self.code.buffers))
        heaps = "".join(f", {heap.name}_o, {heap.name}_e" for heap in self.code.heaps)
        yield f"{pad}return (i, m, {text.split()[1]}{heaps})"

    def _header(self) -> list[str]:
        code = self.code
        names = ["n", "first", "last", "i0", "m0", "mk_kind", "mk_at", "mk_ref", "ix", "p0", "w", "ci", "cf", "cap", "need", "used"]
        for given in code.inputs:
            names += [given.column.prefix] if given.is_plain else given.column.arrays
        names += [*code.keys]
        for name in code.states:
            names += [name, f"{name}_0"]
        for name in code.records:
            names += [name, f"{name}_0"]
        names += [*code.signals_in, *code.emitted]
        for heap in code.heaps:
            names += [f"{heap.name}_o", f"{heap.name}_e"]
        names += self.sink_arrays()
        if code.log is not None:
            names += ["log", *(f"log_{at}" for at in range(len(self.signals)))]
        code.arguments = names
        return [f"def kernel({', '.join(names)}):"]

    def sink_arrays(self) -> list[str]:
        names: list[str] = []
        for sink in self.code.sinks:
            for outlet in [sink.items, *sink.parents]:
                names += [column.array for column in outlet.columns if column.array is not None]
            if sink.marks is not None:
                names += [f"{sink.marks.name}_{part}" for part in ("kind", "at", "ref")]
            names += [buffer.name for buffer in sink.signals.values()]
        return names

    # What enters

    def _entry_level(self, depth: int | None) -> Level:
        """The fields of the items that enter, or of their parents at a depth, as columns."""
        entry = self.segment.entry
        shape = entry.shape
        fields = dict(shape.fields if depth is None else shape.regions[depth].fields)
        index = "i" if depth is None else f"q{depth}"
        after = needed_after(self.tree, entry, self.needed)
        level: Level = {}
        for name, t in fields.items():
            if name in after:
                prefix = f"c{'' if depth is None else depth}_{len(self.code.inputs)}"
                column = Column(prefix, t)
                self.code.inputs.append(Input(column, depth, name, self._is_wide(name, t), self._is_plain(name, t)))
                level[name] = Ref(column, index)
        for name in self._hidden(depth):
            column = Column(f"c{'' if depth is None else depth}_{len(self.code.inputs)}", pa.int64())
            self.code.inputs.append(Input(column, depth, name))
            level[name] = Ref(column, index)
        return level

    def _hidden(self, depth: int | None) -> list[str]:
        """The numbers of keys that were given before this segment and are needed in it."""
        shape = self.segment.entry.shape
        shape = shape if depth is None else shape.regions[depth].parent
        around = shape.regions[-1].parent.key if shape.regions else None
        if shape.key is None or shape.key is around:
            return []
        name = key_field(self.tree, shape.key)
        return [name] if name in needed_after(self.tree, self.segment.entry, self.needed) else []

    def _users(self, name: str) -> list[Function]:
        return [f for node in self.segment.nodes for f in node.functions if name in f.fields]

    def _is_wide(self, name: str, t: pa.DataType) -> bool:
        """Whether a list of 32-bit floats must be held as 64-bit ones, because a function takes it whole."""
        element = types.element_of(t)
        return element is not None and types.is_float(element) and element.bit_width == 32 and bool(self._users(name))

    def _is_plain(self, name: str, t: pa.DataType) -> bool:
        """Whether only plain Python can hold it: a nested list that a function takes whole."""
        return types.view(t) is None and any(f.reason is not None for f in self._users(name))

    def _marks(self, site: Site, parents: tuple[Level, ...]) -> None:
        """What to do at each kind of mark between two items."""
        entry, out = self.segment.entry, self.out
        site = replace(site, phase="marks", aligned=False)
        for depth, region in enumerate(entry.shape.regions):
            levels = parents[: depth + 1]
            with out.block(f"if mk_kind[m] == {2 * depth + OPEN}"):
                out.line(f"q{depth} = mk_ref[m]")
                self._children(self.open, entry, region, replace(site, levels=levels).fork())
            with out.block(f"if mk_kind[m] == {2 * depth + CLOSE}"):
                self._children(self.close, entry, region, replace(site, levels=levels).fork())
                out.line(f"q{depth} = -1")
        for at in range(len(self.signals)):
            self.code.signals_in[f"sg_{at}"] = at
            with out.block(f"if mk_kind[m] == {SIGNAL + at}"):
                self._children(self.signal, entry, at, f"sg_{at}", "mk_ref[m]", site)

    def _reopened(self) -> list[str]:
        """At the start of a call: the parents that are open, and their rows in every cut."""
        with self.out.aside() as lines:
            self.out.depth = 1
            for depth in range(len(self.segment.entry.shape.regions)):
                self.out.line(f"q{depth} = p0[{depth}]")
            for sink in [sink for sinks in self.sinks.values() for sink in sinks if sink.is_cut]:
                for depth, region in enumerate(sink.node.shape.regions):
                    self._reopen(sink, depth, region)
        return lines

    def _reopen(self, sink: Sink, depth: int, region: n.Region) -> None:
        entry_regions = self.segment.entry.shape.regions
        if region in entry_regions:
            level: Level = {given.field: Ref(given.column, f"q{depth}") for given in self.code.inputs if given.level == depth}
            is_open = f"q{depth} >= 0"
        elif region.opener in self.found_parents:
            level, is_open = self.found_parents[region.opener], f"r{self.tree.number[region.opener]} != 0"
        else:
            return
        with self.out.block(f"if {is_open}"):
            self._write_row(sink.parents[depth], level, Site((level,), phase="start"))

    # An item

    def send(self, node: n.GraphNode, site: Site) -> None:
        """An item has left `node`: write it where the node is a result or a cut, and go on with the nodes behind."""
        for sink in self.sinks.get(node, ()):
            self._write_item(sink, site)
        for child in self.tree.children[node]:
            if child in self.members:
                self.item(child, site)

    def item(self, node: n.GraphNode, site: Site) -> None:
        if self.trace and isinstance(node, n.Stateful) and node.handlers:
            self.out.line(f"{self.integer(f'seen{self.tree.number[node]}')} += 1")
        _ITEM[type(node)](self, node, site)

    def _map(self, node: n.Map, site: Site) -> None:
        own = dict(site.own)
        for names, function in node.outputs:
            results = self.results(function, self.call(function, site, self._records(node, site)), site)
            own |= dict(zip(names, results, strict=True))
        self.send(node, site.with_own(own))

    def _filter(self, node: n.Filter, site: Site) -> None:
        with self.out.block(f"if {self.call(node.predicate, site, self._records(node, site))}"):
            self.send(node, site.fork(aligned=False))

    def _flat_map(self, node: n.FlatMap, site: Site) -> None:
        own = {name: value for name, value in site.own.items() if name in node.keep or name.startswith("#")}
        self._push(node, node.function, site, self._records(node, site), own)

    def _push(self, node: Any, function: Function, site: Site, records: dict[str, str], own: Level) -> None:
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
            results = self.results(function, given, inner)
            self.send(node, inner.with_own(own | dict(zip(names, results, strict=True))))
            self._note(function)  # the generator goes on from here, after others have run

    def _through(self, node: n.Through, site: Site) -> None:
        self._hook(node, node.run, site)

    def _hook(self, node: n.Through, hook: Function | None, site: Site) -> None:
        if hook is None:
            return
        records = {"self": f"{self._record(node.hooks, node)}[0]"}
        hidden = {name: value for name, value in site.own.items() if name.startswith("#")}
        if hook.returns:
            self._push(node, hook, site, records, hidden)
        else:
            self.out.line(self.call(hook, site, records))

    def _enumerate(self, node: n.Enumerate, site: Site) -> None:
        region = node.shape.regions[-1]
        self._preload(node, site)
        lists = [site.find(name)[1] for name, _ in node.elements]
        column, index = self._list(node, lists[0])
        for other in lists[1:]:
            second, at = self._list(node, other)
            with self.out.block(f"if {self._length(column, index)} != {self._length(second, at)}"):
                self.fault("unequal_lengths", node)
        self._children(self.open, node, region, site)
        j, lo = self.out.fresh("j"), self.out.fresh("lo")
        self.out.line(f"{lo} = {column.first(index)}")
        with self.out.block(f"for {j} in range({lo}, {column.first(f'{index} + 1')})"):
            own: Level = {node.elements[0][1]: Ref(column.elements, j)}
            for (_, name), value in zip(node.elements[1:], lists[1:], strict=True):
                second, at = self._list(node, value)
                own[name] = Ref(second.elements, f"({second.first(at)} + {j} - {lo})")
            if node.index is not None:
                own[node.index] = Local(f"({j} - {lo})")
            inner = entered(replace(site, spans=site.opened(column, index), aligned=False), j)
            self.send(node, replace(inner, levels=(*inner.fork().levels, own)))
        self._children(self.close, node, region, site)

    def _preload(self, node: n.GraphNode, site: Site) -> None:
        """Load, before a loop over elements, the scalars that are needed in it."""
        for name in sorted(needed_after(self.tree, node, self.needed) & {name for level in site.levels for name in level}):
            self.scalar_or_ref(name, site)

    def _list(self, node: n.GraphNode, value: Value) -> tuple[Column, str]:
        if not isinstance(value, Ref) or value.column.is_heap:
            raise InternalError(f"{node.label}: a computed list was not cut off before it is opened")
        return value.column, value.index

    def _length(self, column: Column, index: str) -> str:
        return f"{column.first(f'{index} + 1')} - {column.first(index)}"

    def _regions(self, node: n.Regions, site: Site) -> None:
        number = self.tree.number[node]
        is_open, region = self.integer(f"r{number}"), node.shape.regions[-1]
        parent = self._found_parent(node)
        site = replace(site, aligned=False)
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
                self._children(self.close, node, region, replace(inner, levels=(*inner.fork().levels[:-1], dict(parent))))
            for name, old in [*((name, name) for name in node.by), *node.keep.items()]:
                self.capture(parent[name], inner.find(old)[1])
            self.out.line(f"{is_open} = 1")
            self._children(self.open, node, region, replace(inner, levels=(*inner.fork().levels[:-1], dict(parent))))
        own = {name: value for name, value in site.own.items() if name not in node.by}
        self.send(node, replace(site, levels=(*site.levels[:-1], dict(parent), own)))

    def _found_parent(self, node: n.Regions) -> Level:
        """The carried variables that hold the fields of a found region's parent."""
        if node not in self.found_parents:
            number = self.tree.number[node]
            fields = node.shape.regions[-1].fields.items()
            self.found_parents[node] = {
                name: self.keeper(f"r{number}_{at}", t) for at, (name, t) in enumerate(fields)
            }
        return self.found_parents[node]

    def _equal(self, a: Value, b: Value) -> str:
        if isinstance(a, Local) and isinstance(b, Local):
            return f"{a.name} == {b.name}"
        assert isinstance(a, Ref) and isinstance(b, Ref)
        return f"same({a.column.slice(a.index)}, {b.column.slice(b.index)})"

    def _aggregate(self, node: n.Aggregate, site: Site) -> None:
        self._accumulator(node).add(site)

    def _accumulator(self, node: n.Aggregate) -> Any:
        from penstock.plan.accumulate import Accumulator

        if node not in self.accumulators:
            inside = isinstance(node.region.opener, n.Enumerate) and node.region.opener in self.members
            self.accumulators[node] = Accumulator(self, node, is_carried=not inside)
        return self.accumulators[node]

    def _close(self, node: n.Close, site: Site) -> None:
        parent = site.levels[-2]
        kept = {name: value for name, value in parent.items() if name in node.keep or name.startswith("#")}
        self.send(node, replace(site, levels=(*site.levels[:-2], kept | site.own), aligned=False))

    def _key_by(self, node: n.KeyBy, site: Site) -> None:
        """Take the number of the item's key, which the engine finds for a whole column before the loop runs."""
        name, slot = f"k{self.tree.number[node]}", self.out.fresh()
        origins = [_origin(site.find(field)[1]) for field in node.names]
        inputs = [next((given for given in self.code.inputs if o and given.column == o.column), None) for o in origins]
        if any(given is None for given in inputs):
            raise InternalError(f"{node.label}: a computed key was not cut off before it is numbered")
        levels = [given.level for given in inputs if given is not None]
        level = None if None in levels else max(d for d in levels if d is not None)
        self.code.keys[name] = Keys(node, tuple(g for g in inputs if g is not None), level)
        self.out.line(f"{slot} = {name}[{'i' if level is None else f'q{level}'}]")
        with self.out.block(f"if {slot} < 0"):
            self.fault("nan_key", node, " or ".join(map(repr, node.names)))
        self.send(node, site.with_own(site.own | {key_field(self.tree, node): Local(slot)}))

    def _emit(self, node: n.Emit, site: Site) -> None:
        self.send(node, site)
        with self.out.block(f"if {self.call(node.when, site, {})}"):
            inner = site.fork(aligned=False)
            name = f"em{self.tree.number[node]}"
            self.code.emitted[name] = node.signal
            for field_name, function in node.values.items():
                value = f"{cast(function.returns[0])}({self.call(function, inner, {})})"
                self.out.line(f'{name}["{field_name}"][0] = {value}')
            self._children(self.signal, node, self.signals.index(node.signal), name, "0", inner)

    def _select(self, node: n.Select, site: Site) -> None:
        own = {name: site.own[old] for name, old in node.names.items() if old in site.own}
        self.send(node, site.with_own(own | {name: v for name, v in site.own.items() if name.startswith("#")}))

    # Regions and signals

    def _children(self, travel: Callable[..., None], node: n.GraphNode, *given: Any) -> None:
        """Hand an opening, a closing or a signal to the nodes behind, and to the cuts after this node."""
        for sink in self.sinks.get(node, ()):
            if sink.is_cut:
                _MARK[travel.__name__](self, sink, *given)
        for child in self.tree.children[node]:
            if child in self.members:
                travel(child, *given)

    def open(self, node: n.GraphNode, region: n.Region | None, site: Site) -> None:
        if isinstance(node, n.Aggregate) and node.region is region:
            self._accumulator(node).begin(site)
            return
        if isinstance(node, n.Close) and node.given.regions[-1] is region:
            return
        self._children(self.open, node, region, site)
        if isinstance(node, n.Through) and _innermost(node) is region:
            name = self._record(node.hooks, node)
            self.out.line(f"{name}[0] = {name}_0[0]")
            self._hook(node, node.begin, replace(site, levels=(*site.levels, {})))

    def close(self, node: n.GraphNode, region: n.Region | None, site: Site) -> None:
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
        self._children(self.close, node, region, site)

    def _close_found(self, node: n.Regions, site: Site) -> None:
        is_open = self.integer(f"r{self.tree.number[node]}")
        with self.out.block(f"if {is_open} != 0"):
            inner = site.fork(aligned=False)
            parent = dict(self._found_parent(node))
            self._children(self.close, node, node.shape.regions[-1], replace(inner, levels=(*inner.levels, parent)))
            self.out.line(f"{is_open} = 0")

    def signal(self, node: n.GraphNode, number: int, array: str, at: str, site: Site) -> None:
        if isinstance(node, n.Stateful):
            handlers = [h for h in node.handlers if h.signal is self.signals[number]]
            for handler in handlers:
                self._handle(node, handler, f"{array}[{at}]")
            if handlers and self.trace:
                self._log(node, number, f"{array}[{at}]", site)
        self._children(self.signal, node, number, array, at, site)

    def _handle(self, node: n.Stateful, handler: n.Handler, signal: str) -> None:
        """Every record handles the signal: of a key, of keys yet to come, and the one that new keys start from."""
        name, q = self._state(node), self.out.fresh("q")
        for array, block in ((name, f"for {q} in range(len({name}))"), (f"{name}_0", f"for {q} in range(1)")):
            with self.out.block(block):
                call = self.call(handler.function, Site(({},)), {"state": f"{array}[{q}]", "signal": signal})
                if handler.field is None:
                    self.out.line(call)
                else:
                    self.out.line(f'{array}["{handler.field}"][{q}] = {cast(handler.function.returns[0])}({call})')

    def _log(self, node: n.Stateful, number: int, signal: str, site: Site) -> None:
        log = self.code.log
        assert log is not None
        log.reserve(site)
        seen = self.integer(f"seen{self.tree.number[node]}")
        for at, value in enumerate((str(self.tree.number[node]), seen, str(number))):
            self.out.line(f"log[{log.count}, {at}] = {value}")
        self.out.line(f"log_{number}[{log.count}] = {signal}")
        self.out.line(f"{log.count} += 1")

    # Sinks

    def _add_sink(self, node: n.GraphNode, is_cut: bool) -> None:
        at = len(self.code.sinks)
        sink = Sink(node, is_cut, Outlet(self.buffer(f"s{at}")))
        if is_cut:
            depths = range(len(node.shape.regions))
            sink.parents = [Outlet(self.buffer(f"s{at}p{depth}")) for depth in depths]
            sink.marks = self.buffer(f"s{at}m")
            sink.signals = {number: self.buffer(f"s{at}g{number}") for number in range(len(self.signals))}
        self.code.sinks.append(sink)
        self.sinks.setdefault(node, []).append(sink)

    def _write_item(self, sink: Sink, site: Site) -> None:
        sink.items.buffer.reserve(site)
        own = site.own
        if sink.is_cut:
            own = own | {"#index": Ref(Column("ix", pa.int64()), "i")}
        self._write_row(sink.items, own, site)

    def _write_row(self, outlet: Outlet, level: Level, site: Site) -> None:
        """Write one row, and fix the outlet's columns the first time. Every place writes the same columns."""
        if not outlet.written:
            outlet.written = True
            outlet.columns += self._columns_out(outlet, level, site)
        for column in outlet.columns:
            if column.array is None:
                continue
            value = self.value_of(level[column.field])
            if isinstance(value, Ref) and value.column != column.origin:
                raise InternalError(f"{outlet.buffer.name}: {column.field!r} comes from two places")
            stored = value.index if isinstance(value, Ref) else value.name
            self.out.line(f"{column.array}[{outlet.buffer.count}] = {stored}")
        self.out.line(f"{outlet.buffer.count} += 1")

    def _columns_out(self, outlet: Outlet, level: Level, site: Site) -> Iterator[OutColumn]:
        sink = next(s for s in self.code.sinks if outlet is s.items or any(outlet is p for p in s.parents))
        for at, (name, t) in enumerate(self._fields_out(sink, outlet).items()):
            origin = _origin(level[name])
            if site.aligned and outlet is sink.items and not sink.is_cut and origin is not None and _is_row(origin):
                yield OutColumn(name, t, None, origin.column)
            else:
                value = level[name]
                by_index = isinstance(value, Ref) and not types.is_scalar(value.column.type)
                yield OutColumn(name, t, f"{outlet.buffer.name}_{at}", origin.column if origin and by_index else None)

    def _fields_out(self, sink: Sink, outlet: Outlet) -> dict[str, pa.DataType]:
        node = sink.node
        if not sink.is_cut:
            return dict(node.shape.fields)
        after: Names = frozenset().union(*(self.needed[child] for child in self.tree.children[node] if child not in self.members))
        if outlet is sink.items:
            own = {name: t for name, t in node.shape.fields.items() if name in after}
            return own | {name: pa.int64() for name in self._keys_at(node.shape, after)} | {"#index": pa.int64()}
        region = node.shape.regions[sink.parents.index(outlet)]
        own = {name: t for name, t in region.fields.items() if name in after}
        return own | {name: pa.int64() for name in self._keys_at(region.parent, after) if not region.is_found}

    def _keys_at(self, shape: n.Shape, after: Names) -> list[str]:
        """The hidden number of the key that was given at this very level."""
        around = shape.regions[-1].parent.key if shape.regions else None
        if shape.key is None or shape.key is around:
            return []
        name = key_field(self.tree, shape.key)
        return [name] if name in after else []

    def mark_open(self, sink: Sink, region: n.Region | None, site: Site) -> None:
        if region is None:
            return
        depth = sink.node.shape.regions.index(region)
        outlet = sink.parents[depth]
        self._mark(sink, str(2 * depth + OPEN), outlet.buffer.count, site)
        outlet.buffer.reserve(site)
        self._write_row(outlet, site.levels[depth], site)

    def mark_close(self, sink: Sink, region: n.Region | None, site: Site) -> None:
        if region is not None:
            self._mark(sink, str(2 * sink.node.shape.regions.index(region) + CLOSE), "0", site)

    def mark_signal(self, sink: Sink, number: int, array: str, at: str, site: Site) -> None:
        buffer = sink.signals[number]
        buffer.reserve(site)
        self._mark(sink, str(SIGNAL + number), buffer.count, site)
        self.out.line(f"{buffer.name}[{buffer.count}] = {array}[{at}]")
        self.out.line(f"{buffer.count} += 1")

    def _mark(self, sink: Sink, kind: str, ref: str, site: Site) -> None:
        marks = sink.marks
        assert marks is not None
        marks.reserve(site)
        for part, value in (("kind", kind), ("at", sink.items.buffer.count), ("ref", ref)):
            self.out.line(f"{marks.name}_{part}[{marks.count}] = {value}")
        self.out.line(f"{marks.count} += 1")

    # Values

    def scalar_or_ref(self, name: str, site: Site) -> Value:
        """A field, with a scalar loaded into a variable that stays known at this place."""
        level, value = site.find(name)
        level[name] = self.value_of(value)
        return level[name]

    def value_of(self, value: Value) -> Value:
        if isinstance(value, Ref) and types.is_scalar(value.column.type):
            local = self.out.fresh()
            self.out.line(f"{local} = {cast(value.column.type)}({value.column.prefix}[{value.index}])")
            return Local(local, value)
        return value

    def call(self, function: Function, site: Site, records: dict[str, str]) -> str:
        """A call of a user's function, with a note of where we are in case that it raises."""
        arguments = []
        for parameter in function.parameters:
            if parameter.is_record:
                record = records[parameter.name]
                arguments.append(f"by_reference({record})" if function.is_generator else record)
                continue
            value = self.scalar_or_ref(parameter.field, site)
            if isinstance(value, Local):
                arguments.append(value.name)
            elif types.view(value.column.type) is None:
                arguments.append(f"plain({value.column.prefix}, {value.index})")
            else:
                arguments.append(value.column.slice(value.index))
        if function not in self.code.functions:
            self.code.functions.append(function)
        number = self.code.functions.index(function)
        self._note(function)
        return f"f{number}({', '.join(arguments)})"

    def _note(self, function: Function) -> None:
        """Note where the loop is, for the error that names the item, unless the function cannot raise."""
        if function.may_raise or function.reason is not None:
            self.out.line(f"w[0] = {self.code.functions.index(function)}")
            self.out.line("w[1] = i")

    def results(self, function: Function, call: str, site: Site) -> list[Value]:
        """The results of a call as values: scalars in variables, what varies in length on a heap."""
        if function.is_tuple:
            whole = self.out.fresh("t")
            self.out.line(f"{whole} = {call}")
            parts = [f"{whole}[{at}]" for at in range(len(function.returns))]
        else:
            parts = [call]
        return [self._result(t, part, function) for t, part in zip(function.returns, parts, strict=True)]

    def _result(self, t: pa.DataType, part: str, function: Function) -> Value:
        if types.is_scalar(t):
            local = self.out.fresh()
            self.out.line(f"{local} = {cast(t)}({part})")
            return Local(local)
        heap = self.heap(t)
        given = self.out.fresh("x")
        self.out.line(f"{given} = {part}")
        if types.is_array(t) and function.reason is None:
            with self.out.block(f"if len({given}) != {t.list_size}"):
                self.fault("array_size", self._node_of(function), str(t.list_size))
        if types.is_string(t) and function.reason is None:
            with self.out.block(f"if not is_utf8({given})"):
                self.fault("bad_utf8", self._node_of(function))
        return self._put(heap, given)

    def _node_of(self, function: Function) -> n.GraphNode:
        return next(node for node in self.segment.nodes if function in node.functions)

    def _put(self, heap: Heap, array: str) -> Ref:
        local, h = self.out.fresh("h"), heap.name
        self.out.line(f"{h}_o, {h}_e = put({h}_o, {h}_e, {h}_n, {array})")
        self.out.line(f"{local} = {h}_n")
        self.out.line(f"{h}_n += 1")
        return Ref(heap.column, local)

    def heap(self, t: pa.DataType, *, is_collected: bool = False, refers: Heap | None = None) -> Heap:
        """A new heap for values of a type. Fixed-size arrays keep offsets too while they lie on a heap."""
        held = t if not types.is_array(t) else pa.list_(t.value_type)
        heap = Heap(Column(f"h{len(self.code.heaps)}", held, is_heap=True), is_collected, refers)
        self.code.heaps.append(heap)
        self.integer(f"{heap.name}_n")
        if is_collected:
            self.integer(f"{heap.name}_u")
        return heap

    def keeper(self, name: str, t: pa.DataType) -> Value:
        """A variable that is carried from batch to batch: a scalar, or an index into a heap of its own."""
        if types.is_float(t):
            return Local(self.floating(name))
        if types.is_scalar(t):
            return Local(f"{cast(t)}({self.integer(name)})", store=name)
        heap = self.heap(t)
        heap.refs.append(self.integer(name))
        return Ref(heap.column, name)

    def capture(self, kept: Value, value: Value) -> None:
        """Copy a value into a keeper."""
        if isinstance(kept, Local):
            assert isinstance(value, Local)
            self.out.line(f"{kept.store or kept.name} = {value.name}")
            return
        assert isinstance(value, Ref)
        heap = next(heap for heap in self.code.heaps if heap.column == kept.column)
        put = self._put(heap, value.column.slice(value.index))
        self.out.line(f"{kept.index} = {put.index}")

    def integer(self, name: str) -> str:
        """A carried integer (or boolean) variable."""
        if name not in self.code.integers:
            self.code.integers.append(name)
        return name

    def floating(self, name: str) -> str:
        if name not in self.code.floats:
            self.code.floats.append(name)
        return name

    def buffer(self, name: str) -> Buffer:
        made = Buffer(name)
        self.code.buffers.append(made)
        return made

    def fault(self, kind: str, node: n.GraphNode, what: str = "") -> None:
        """Stop with one of our own faults: a negative number in `w[0]` says which."""
        self.code.faults.append(Fault(kind, node, what))
        self.out.line(f"w[0] = -{len(self.code.faults)}")
        self.out.line("w[1] = i")
        self.out.line("raise Fault")

    def _records(self, node: n.Stateful, site: Site) -> dict[str, str]:
        if node.state is None:
            return {}
        name = self._state(node)
        if node.given.key is None:
            return {"state": f"{name}[0]"}
        slot = self.scalar_or_ref(key_field(self.tree, node.given.key), site)
        assert isinstance(slot, Local)
        return {"state": f"{name}[{slot.name}]"}

    def _state(self, node: n.Stateful) -> str:
        name = f"st{self.tree.number[node]}"
        self.code.states[name] = node
        return name

    def _record(self, record: type[Record], node: n.GraphNode, suffix: str = "") -> str:
        name = f"rc{self.tree.number[node]}{suffix}"
        self.code.records[name] = record
        return name


def _origin(value: Value) -> Ref | None:
    """The column that a value is in, or was loaded from."""
    return value if isinstance(value, Ref) else value.origin


def _is_row(origin: Ref) -> bool:
    """Whether the value is that of the row itself, so that whole columns can be handed on."""
    return origin.index == "i" and not origin.column.is_heap


def _innermost(node: n.Step) -> n.Region | None:
    return node.given.regions[-1] if node.given.regions else None


_ITEM: dict[type[n.GraphNode], Callable[..., None]] = {
    n.Map: LoopWriter._map,
    n.Filter: LoopWriter._filter,
    n.FlatMap: LoopWriter._flat_map,
    n.Through: LoopWriter._through,
    n.Enumerate: LoopWriter._enumerate,
    n.Regions: LoopWriter._regions,
    n.Aggregate: LoopWriter._aggregate,
    n.Close: LoopWriter._close,
    n.KeyBy: LoopWriter._key_by,
    n.Emit: LoopWriter._emit,
    n.Select: LoopWriter._select,
}
"""How an item is handled, for every kind of node that lies inside a segment. The others stand at an entry."""

AT_ENTRY = (*CLEANING, n.MapColumns)

_MARK = {"open": LoopWriter.mark_open, "close": LoopWriter.mark_close, "signal": LoopWriter.mark_signal}
