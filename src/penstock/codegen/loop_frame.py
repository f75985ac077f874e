"""The frame of a loop: what enters, the rows and the marks between them, the checks for room, what is carried over.

The caller provides room for what the loop writes. Before each row (and each mark) the loop checks that the most that
can come of it still fits, and returns early where it does not, so that nothing inside needs a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.codegen.accumulate import Accumulator
from penstock.codegen.end_rules import EndingWriter
from penstock.codegen.exits import OutletWriter
from penstock.codegen.generated import Code, Input
from penstock.codegen.guarded_rules import FAILING
from penstock.codegen.outlets import CLOSE, INDEX, OPEN, index_level
from penstock.codegen.site import Column, Level, Ref, Site, Value
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.function import Function
from penstock.graph.needs import Names, at_field
from penstock.graph.tree import Tree
from penstock.graph.window import WATERMARKS
from penstock.kernels.credit import SIGNAL
from penstock.plan.heartbeat.clocks import Clocks
from penstock.plan.segment import Segment, opened_at

BLOCK = 1024
"""How many rows are noted at once, where one that raises can be found by running them again: a note costs a store."""


class FrameWriter(EndingWriter):
    """The part of a loop's writer that knows the loop as a whole. What happens in it, `codegen/rules.py` adds."""

    def __init__(
        self,
        tree: Tree,
        segment: Segment,
        needed: dict[n.GraphNode, Names],
        cuts: Sequence[Segment],
        leaves: frozenset[n.GraphNode],
        clocks: Clocks,
        trace: bool,
    ) -> None:
        super().__init__(tree, segment, needed, clocks)
        self.trace = trace
        for node in [segment.entry, *segment.nodes]:
            if node in leaves:
                self.add_sink(node, None)
            for fed in cuts:
                if fed.edge is node:
                    self.add_sink(node, fed)
        if tree.is_guarded:
            for node in segment.nodes:
                if isinstance(node, FAILING):
                    self.add_letters(node)
        by_piece = [node for fed in cuts for node in opened_at(segment, fed.edge)]
        self.by_piece = segment.resumable if segment.resumable in by_piece else None
        """The first node, where its elements may leave piece by piece."""
        self.done_once: list[str] = []
        """Carried flags of what was done with the watermark that the loop is at."""
        self.accumulators: dict[n.Aggregate, Accumulator] = {}
        self.found_parents: dict[n.GraphNode, Level] = {}
        self.halves: list[tuple[str, str]] = []
        """The carried sums in two halves, whose carry is moved up between batches so that they never overflow."""
        if trace or any(isinstance(node, n.Send) and node.signals for node in segment.nodes):
            self.code.log = self.buffer("log")
        # How many items come of one is known beforehand, or from totals, of all other kinds of nodes.
        self.code.counts_outputs = isinstance(segment.only, (n.FlatMap, n.Through, n.Enumerate, n.KeyedAggregate))

    def send(self, node: n.GraphNode, site: Site) -> None:
        """An item has left `node`."""
        raise NotImplementedError

    def open(self, node: n.GraphNode, region: n.Region | None, site: Site) -> None:
        """A region begins."""
        raise NotImplementedError

    def close(self, node: n.GraphNode, region: n.Region | None, site: Site) -> None:
        """A region ends."""
        raise NotImplementedError

    def signal(self, node: n.GraphNode, number: int, array: str, at: str, site: Site) -> None:
        """A signal has come."""
        raise NotImplementedError

    def hand_on(self, travel: Callable[..., None], node: n.GraphNode, *given: Any) -> None:
        """Hand an opening, a closing or a signal to the nodes behind, and to the cuts after this node."""
        for sink in self.sinks.get(node, ()):
            if sink.is_cut and self.is_tide(travel, *given):
                self.once(partial(self.mark_signal, sink), *given)
            elif sink.is_cut:
                _MARK[travel.__name__](self, sink, *given)
        with nullcontext() if given[0] is None else self.parting(node, given[-1]):
            for child in self.tree.children[node]:
                if child not in self.members:
                    continue
                if isinstance(child, n.Meet):
                    self.meet_mark(travel, child, node, *given)
                else:
                    travel(child, *given)

    def is_tide(self, travel: Callable[..., None], *given: Any) -> bool:
        """Whether a watermark comes as a mark: then windows may stop halfway for room, and go on with the same mark."""
        if travel.__name__ != "signal" or not given[-1].phase.startswith("mark"):
            return False
        return issubclass(self.signals[given[0]], WATERMARKS)

    def once(self, write: Callable[..., None], *given: Any) -> None:
        """Do something with a watermark that is not to be done again when the loop goes on with the same mark."""
        is_done = self.integer(f"td{len(self.done_once)}")
        self.done_once.append(is_done)
        site = replace(given[-1], phase=f"mark_{is_done}")
        with self.out.block(f"if {is_done} == 0"):
            self.checked(site.phase, lambda: write(*given[:-1], site))
            self.out.line(f"{is_done} = 1")

    def parting(self, node: n.GraphNode, site: Site) -> AbstractContextManager[None]:
        """What a node hands on to several streams; then what follows where they meet again."""
        raise NotImplementedError

    def meet_mark(self, travel: Callable[..., None], meet: n.Meet, side: n.GraphNode, *given: Any) -> None:
        """An opening, a closing or a signal has come to where streams meet."""
        raise NotImplementedError

    def write(self) -> Code:
        entry, out, regions = self.segment.entry, self.out, self.segment.entry.shape.regions
        parents = tuple(self._entry_level(depth) for depth in range(len(regions)))
        # Whole columns are handed on only where they stay as they are, which those in a channel do not.
        site = Site((*parents, self._entry_level(None)), aligned=self.segment.feeder is None)
        out.depth = 1
        first = self._phase(
            "first", lambda: self.hand_on(self.open, entry, None, Site((), phase="first")), "if first", 0
        )
        out.depth = 2
        rows = self._rows(lambda: self.send(entry, site.fork()))
        with out.aside() as marks:
            self._marks(site, parents)
        last = self.last(lambda: self.hand_on(self.close, entry, None, Site((), phase="last")))
        if "ix_last" in self.code.integers:  # last, so that what is kept of a loop does not depend on it
            self.code.integers.remove("ix_last")
            self.code.integers.append("ix_last")
        body = self._assemble(first, rows, marks, last)
        self.code.source = "\n".join([*self._header(), *body]) + "\n"
        return self.code

    def _phase(self, phase: str, write: Callable[[], None], header: str, progress: int) -> list[str]:
        """A part of the loop, with the check for room before it. `progress` is returned where room is short."""
        with self.out.aside() as lines, self.out.block(header):
            self.checked(phase, write, progress)
        return lines

    def _rows(self, write: Callable[[], None]) -> list[str]:
        """The rows up to the next mark. Where what comes of a row is bounded, room is checked for many rows at once.

        In `w[1]` is the row that we are at, for errors, or the first of a block of rows.
        """
        out = self.out
        with out.aside() as lines:
            out.depth += 2
            with out.aside() as body:
                write()
            out.depth -= 2
            fixed = self.fixed_in("rows")
            if not fixed:
                with self._each_row("stop"):
                    self.check_room("rows", 1)
                    self._counted([line.removeprefix("    ") for line in body])
                out.line("i = stop")
                return lines
            with out.block("while i < stop"):
                out.line("halt = stop - i")
                for buffer, number in fixed:
                    out.line(f"halt = min(halt, {buffer.left(number)})")
                with out.block("if halt <= 0"):
                    self.stop_short("rows", 1)
                if self.noted and not (self.code.states or self.code.records):
                    self.code.block = BLOCK
                    out.line(f"halt = min(halt, {BLOCK})")
                    out.line("w[1] = i")
                out.line("halt += i")
                with self._each_row("halt"):
                    self.grow_heaps("rows")
                    self._counted(body)
                out.line("i = halt")
        return lines

    def _counted(self, body: list[str]) -> None:
        """The code of a row and, where they are counted, how many items came of it."""
        sinks = [sinks[0] for sinks in self.sinks.values()]
        is_counted = self.code.counts_outputs and self.by_piece is None
        total = " + ".join(sink.items.buffer.count for sink in sinks)
        if is_counted:
            self.out.line(f"ob = {total}")
        self.out.lines += body
        if is_counted:
            self.count_outputs(f"{total} - ob")

    def count_outputs(self, outputs: str) -> None:
        """Count an item by the number of binary digits of its outputs."""
        if self.code.counts_outputs:
            self.out.line(f"oh[bits({outputs})] += 1")

    @contextmanager
    def _each_row(self, stop: str) -> Iterator[None]:
        with self.out.block(f"for u in range(unsigned(i), unsigned({stop}))"):
            self.out.line("i = as_int(u)")
            if self.noted and not self.code.block:
                self.out.line("w[1] = i")
            yield

    def _assemble(self, first: list[str], rows: list[str], marks: list[str], last: list[str]) -> list[str]:
        code, body = self.code, []
        for at, buffer in enumerate(code.buffers):
            body += [f"    {buffer.count} = used[{at}]", f"    {buffer.name}_c = cap[{at}]"]
        body += [f"    {name} = ci[{at}]" for at, name in enumerate(code.integers)]
        body += [f"    {name} = cf[{at}]" for at, name in enumerate(code.floats)]
        # The arrays are the caller's for the whole call, so slices of them need no count of references.
        for given in code.inputs:
            body += [] if given.is_plain else [f"    {name} = borrowed({name})" for name in given.column.arrays]
        for name, cells in code.cells.items():
            state = f"st{self.tree.number[cells.node]}"
            views = [(state, each) for each in code.states[state].records["state"].layout.initial]
            views += [(name, each) for each in cells.fields]
            body += [f'    {array}_{each} = borrowed({array})["{each}"]' for array, each in views]
        if len(self.noted) == 1:
            body.append(f"    w[0] = {min(self.noted)}")
        for low, high in self.halves:
            body += [f"    {high} += {low} >> 32", f"    {low} &= 4294967295"]
        body += ["    i = i0", "    m = m0"]
        body += [f"    q{depth} = p0[{depth}]" for depth in range(len(self.segment.entry.shape.regions))]
        body += [*first, "    while True:", "        stop = n", "        if m < mn:", "            stop = mk_at[m]"]
        body += [
            "        w[2] = -1",
            *rows,
            "        w[1] = i",
            "        w[2] = m",
            "        if m == mn:",
            "            break",
            *marks,
            "        m += 1",
            *last,
            "    @save 3",
        ]
        return [line for text in body for line in self._expanded(text)]

    def _expanded(self, line: str) -> Iterator[str]:
        """Expand `@save progress`: carry the variables over, count what was written, and return.

        And `@note function`, which needs no code where only one function of the loop can raise.
        """
        text = line.lstrip()
        pad = line[: len(line) - len(text)]
        if text.startswith("@note"):
            yield from [f"{pad}w[0] = {text.split()[1]}"] if len(self.noted) > 1 else []
            return
        if not text.startswith("@save"):
            yield line
            return
        yield from (f"{pad}ci[{at}] = {name}" for at, name in enumerate(self.code.integers))
        yield from (f"{pad}cf[{at}] = {name}" for at, name in enumerate(self.code.floats))
        yield from (f"{pad}used[{at}] = {buffer.count}" for at, buffer in enumerate(self.code.buffers))
        heaps = "".join(f", {heap.name}_o, {heap.name}_e" for heap in self.code.heaps)
        yield f"{pad}return (i, m, {text.split()[1]}{heaps})"

    def _header(self) -> list[str]:
        code = self.code
        names = [
            "n",
            "mn",
            "first",
            "last",
            "i0",
            "m0",
            "mk_kind",
            "mk_at",
            "mk_ref",
            "ix",
            "p0",
            "w",
            "ci",
            "cf",
            "cap",
            "need",
            "used",
        ]
        names += [*(f"mk_key{at}" for at in range(len(code.clocks))), *(["mk_from"] if code.clocks else [])]
        for given in code.inputs:
            names += [given.column.prefix] if given.is_plain else given.column.arrays
        names += ["oh"] if code.counts_outputs else []
        names += [*code.keys]
        for name, key in code.key_values.items():
            names += [f"{name}_p{at}" for at in range(len(key.names)) if len(key.names) > 1]
            for at, field in enumerate(key.names):
                names += Column(f"{name}_{at}", key.given.scope[field]).arrays
        for name in code.states:
            names += [name, f"{name}_0"]
        for name in code.arrivals:
            names += [f"{name}_seen", f"{name}_order", f"{name}_count", f"{name}_index"]
        for name, cells in code.cells.items():
            names += [name, *(each for fold in cells.folds for each in (fold, f"{fold}_0"))]
            names += [f"{name}_{each}" for each in "hmt"] if cells.is_timed else []
        for name in code.records:
            names += [name, f"{name}_0"]
        names += [*code.scratch]
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
                names += sink.mark_arrays
            names += [buffer.name for buffer in sink.signals.values()]
            if sink.saved is not None:
                names.append(f"{sink.items.buffer.name}_state")
        return names

    # What enters

    def _entry_level(self, depth: int | None) -> Level:
        """The fields of the items that enter, or of their parents at a depth, as columns."""
        entry = self.segment.entry
        shape = entry.shape
        fields = dict(shape.fields if depth is None else shape.regions[depth].fields)
        index = "u" if depth is None else f"q{depth}"
        after = self.needed_here()
        level: Level = {}
        for name, t in fields.items():
            if name in after:
                prefix = f"c{'' if depth is None else depth}_{len(self.code.inputs)}"
                column = Column(prefix, t)
                self.code.inputs.append(Input(column, depth, name, self._is_wide(name, t), self._is_plain(name, t)))
                level[name] = Ref(column, index)
        has_index = depth == index_level(shape) and any(sink.is_cut or sink.has_places for sink in self.code.sinks)
        if has_index and depth is None:
            level[INDEX] = self.own_index("u")
        at = at_field(self.tree, self.tree.source)
        if depth is None and self.segment.feeder is None and at in after:
            level[at] = self.own_index("u")
        for name in [*self._hidden(depth), *([INDEX] if has_index and depth is not None else [])]:
            column = Column(f"c{'' if depth is None else depth}_{len(self.code.inputs)}", pa.int64())
            self.code.inputs.append(Input(column, depth, name))
            level[name] = Ref(column, index)
        return level

    def _hidden(self, depth: int | None) -> list[str]:
        """The numbers of keys, and the indices, that were given before this segment and are needed in it."""
        entry = self.segment.entry
        if depth is None:
            names = self.hidden_at(entry, entry.shape, self.needed_here())
            return names if self.segment.feeder is not None else [name for name in names if name.startswith("#k")]
        region = entry.shape.regions[depth]
        return self.hidden_at(region.opener.inputs[0], region.parent, self.needed_here()) if not region.is_found else []

    def users(self, name: str) -> list[Function]:
        return [f for node in self.segment.nodes for f in node.functions if name in f.fields]

    def _is_wide(self, name: str, t: pa.DataType) -> bool:
        """Whether a list of 32-bit floats must be held as 64-bit ones, because a function takes it whole."""
        element = types.element_of(t)
        return element is not None and types.is_float(element) and element.bit_width == 32 and bool(self.users(name))

    def _is_plain(self, name: str, t: pa.DataType) -> bool:
        """Whether only plain Python can hold it: a nested list that a function takes whole."""
        return types.view(t) is None and any(f.reason is not None for f in self.users(name))

    def _marks(self, site: Site, parents: tuple[Level, ...]) -> None:
        """What to do at each kind of mark between two items, each as a phase with its own check for room."""
        entry, out = self.segment.entry, self.out
        site = replace(site, aligned=False)
        for depth, region in enumerate(entry.shape.regions):
            levels = parents[: depth + 1]
            with self._mark_of(2 * depth + OPEN) as phase:
                out.line(f"q{depth} = mk_ref[m]")
                if INDEX in levels[-1] and depth == index_level(entry.shape):
                    self._note_index(levels[-1][INDEX])
                self.hand_on(self.open, entry, region, replace(site, levels=levels, phase=phase).fork())
            with self._mark_of(2 * depth + CLOSE) as phase:
                self.hand_on(self.close, entry, region, replace(site, levels=levels, phase=phase).fork())
                out.line(f"q{depth} = -1")
        for at in range(len(self.signals)):
            self.code.signals_in[f"sg_{at}"] = at
            with self._mark_of(SIGNAL + at) as phase:
                levels = (*site.levels[:-1], {})  # a signal stands between two items
                self.hand_on(self.signal, entry, at, f"sg_{at}", "mk_ref[m]", replace(site, levels=levels, phase=phase))
                for is_done in self.done_once:
                    out.line(f"{is_done} = 0")

    @contextmanager
    def _mark_of(self, kind: int) -> Iterator[str]:
        """What is done at one kind of mark, as a phase."""
        phase = f"mark{kind}"
        with self.out.block(f"if mk_kind[m] == {kind}"):
            with self.out.aside() as lines:
                yield phase
            self.check_room(phase, 1)
            self.out.lines += lines

    def _note_index(self, value: Value) -> None:
        """Remember the index of the parent that was opened last, for what is made when it is gone."""
        assert isinstance(value, Ref)
        self.out.line(f"{self.integer('ix_last')} = as_int({value.column.prefix}[{value.index}])")


_MARK: dict[str, Callable[..., None]] = {
    "open": OutletWriter.mark_open,
    "close": OutletWriter.mark_close,
    "signal": OutletWriter.mark_signal,
}
