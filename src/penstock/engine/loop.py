"""A loop that runs: its kernel, the arrays that it is given, and what it remembers between calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codegen.emitter import without_comments
from penstock.codegen.generated import Cells, GeneratedLoop, Keys, Stop, Where
from penstock.codegen.outlets import INDEX, Sink, enters_contiguous, index_level, opening_kind
from penstock.codegen.signature import CallBounds, Entering
from penstock.engine.binding import Call, bind
from penstock.engine.ensemble import Ensemble, Window
from penstock.engine.heap import Heaps
from penstock.engine.interpret import interpreted, plain
from penstock.engine.keys import KeyIndex
from penstock.engine.loop_letters import Caught, LetterSink, compiled_guards, identity_of, plain_guards
from penstock.engine.sinks import ChannelSink, Inputs, LogSink, ResultSink
from penstock.engine.state import Arrivals, HeldCells, States
from penstock.engine.windows import PoolRoom, TimedCells
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.letters import Letter
from penstock.graph.record import Signal
from penstock.graph.tree import Delivery
from penstock.kernels import compile as compiler
from penstock.kernels import support
from penstock.kernels.address import address_source, addresses, can_address
from penstock.kernels.fingerprint import fingerprint


@dataclass
class Memory:
    """What all loops of a run share: the numbers of keys, and the records of stateful nodes."""

    hash_seed: int
    keys: dict[n.KeyBy, KeyIndex] = field(default_factory=dict)
    states: dict[n.Stateful, States] = field(default_factory=dict)
    arrivals: dict[n.Stateful, Arrivals] = field(default_factory=dict)
    cells: dict[n.Stateful, HeldCells] = field(default_factory=dict)
    letters: list[Letter] = field(default_factory=list)
    """What was skipped, in no order between nodes."""
    before_keys: Callable[[n.KeyBy, Sequence[pa.Array]], None] | None = None
    """What is called before keys are numbered, so that what is known of them can be fetched first."""

    def index(self, node: n.KeyBy) -> KeyIndex:
        if node not in self.keys:
            self.keys[node] = KeyIndex([node.given.scope[name] for name in node.names], self.hash_seed)
        return self.keys[node]

    def of(self, node: n.Stateful) -> States:
        assert node.state is not None
        return self.states.setdefault(node, States(node.state))

    def cells_of(self, cells: Cells) -> HeldCells:
        if cells.node not in self.cells:
            self.cells[cells.node] = TimedCells(cells) if cells.is_timed else HeldCells(cells)
        return self.cells[cells.node]

    def arrivals_at(self, node: n.Stateful) -> Arrivals:
        return self.arrivals.setdefault(node, Arrivals())

    def copy(self) -> Memory:
        """The same records, to change them without consequence. The numbers of keys are shared."""
        states = {node: held.copy() for node, held in self.states.items()}
        arrivals = {node: held.copy() for node, held in self.arrivals.items()}
        cells = {node: held.copy() for node, held in self.cells.items()}
        return Memory(self.hash_seed, self.keys, states, arrivals, cells)


class FiringOutput:
    """What came of one firing beside what went into channels: rows of results, and signals that were handed over."""

    __slots__ = ("batches", "deliveries", "rows")

    def __init__(self) -> None:
        self.batches: list[tuple[n.GraphNode, pa.RecordBatch]] = []
        self.deliveries: list[Delivery] = []
        self.rows = 0


@dataclass(slots=True)
class _KernelArrays:
    """The arrays that a kernel is given, which stay the same for a version of a window until one is replaced."""

    window: Window
    version: int
    kinds: np.ndarray
    index: np.ndarray
    initial: np.ndarray
    arrays: list[Any]
    kernel: Any = None
    addresses: np.ndarray | None = None


class RunningLoop:
    """One segment's loop with its arrays."""

    def __init__(
        self,
        code: GeneratedLoop,
        memory: Memory,
        signals: tuple[type[Signal], ...],
        channels: list[ChannelSink],
        *,
        compile: bool,
        is_prompt: bool = False,
    ) -> None:
        """With `is_prompt` results are handed out with every ensemble, however few there are."""
        self.code, self.memory, self.signals, self.channels = code, memory, signals, channels
        self.is_prompt = is_prompt
        self.clock, self.kernel_s = time.perf_counter, 0.0
        """What was spent in the kernel, and not on taking its columns from channels and putting them there."""
        self.is_compiled = compile and not code.segment.is_interpreted
        self.caught: Caught = {}
        self.kernel = self._kernel()
        self.integers, self.floats = np.zeros(len(code.integers), np.int64), np.zeros(len(code.floats))
        self.records = {name: (record.layout.new(), record.layout.new()) for name, record in code.records.items()}
        self.scratch: dict[str, np.ndarray] = {name: record.layout.new() for name, record in code.scratch.items()}
        self.emitted: dict[str, np.ndarray] = {name: signal.as_row() for name, signal in code.emitted.items()}
        self.heaps = Heaps(code)
        self.where = np.zeros(len(Where), np.int64)
        """Where the loop is, for errors: the function or fault, the row, and the mark, -1 while it is at rows.

        At the end of the stream -2 less the number of the node that ends its keys, and then the number of the key.
        """
        self.outputs: np.ndarray = np.zeros(64, np.int64)
        """Items by the number of binary digits of how many came of each, where the loop counts them."""
        self.used, self.room, self.needed = (np.zeros(len(code.buffers), np.int64) for _ in range(3))
        self.results = [ResultSink(sink) for sink in code.sinks if not sink.is_cut and not sink.is_letters]
        self.letters = [LetterSink(sink) for sink in code.sinks if sink.is_letters]
        self.log = LogSink(code.log, signals) if code.log is not None else None
        running: list[Any] = [*self.results, *self.letters, *channels]
        self.by_sink = {id(each.sink): each for each in running}
        self.sinks: list[Any] = [self.by_sink[id(sink)] for sink in code.sinks]
        self.sinks += [self.log] if self.log is not None else []
        held = {f"{name}p": memory.cells_of(cells) for name, cells in code.cells.items()}
        pools = [(held[buffer.name], buffer) for buffer in code.buffers if buffer.name in held]
        self.pools = [PoolRoom(cells, buffer) for cells, buffer in pools if isinstance(cells, TimedCells)]
        self.sinks += self.pools
        self.at = {buffer.name: at for at, buffer in enumerate(code.buffers)}
        self.open_sinks = [(sink, [self.at[buffer.name] for buffer in sink.buffers]) for sink in self.sinks]
        self.reopened = [(sink, places) for sink, places in self.open_sinks if not isinstance(sink, ResultSink)]
        self.counted = {id(next(s for s in code.sinks if s.node is node)) for node in {s.node for s in code.sinks}}
        """The sinks whose rows are counted: of several behind one node, the first."""
        self.to_channels = [(sink, places) for sink, places in self.open_sinks if isinstance(sink, ChannelSink)]
        written = [(sink, places[0]) for sink, places in self.open_sinks if isinstance(sink, ResultSink)]
        self.to_letters = [(sink, at) for sink, at in written if isinstance(sink, LetterSink)]
        self.to_results = [(sink, at) for sink, at in written if not isinstance(sink, LetterSink)]
        self.parents_at = code.signature.arrays.index(Entering.PARENTS)
        self.index_level = index_level(code.segment.entry.shape)
        takes_index = bool(channels) or any(sink.has_places for sink in code.sinks)
        self.has_index = takes_index and self.index_level is None
        self.is_contiguous = enters_contiguous(code.segment)
        self.is_keyed = bool(code.keys) or any(node.given.key is not None for node in code.states.values())
        self.is_first = True
        self.is_addressed = self.is_compiled and (bool(channels) or code.segment.feeder is not None)
        self._addressed: dict[Any, Any] = {}
        self._held: _KernelArrays | None = None

    def _kernel(self, by_address: list[np.ndarray] | None = None) -> Any:
        """The generated source, compiled or as plain Python, with the functions that it calls."""
        code = self.code
        literals = {f"literal{at}": _literal(value, t) for at, (value, t) in enumerate(code.literals)}
        if not self.is_compiled:
            functions = {f"f{at}": interpreted(function) for at, function in enumerate(code.functions)}
            functions |= plain_guards(code, functions, self.caught)
            return compiler.interpret(code.source, support.PLAIN | functions | literals | {"plain": plain})
        taken = [function.snapshot for function in code.functions if function.snapshot is not None]
        functions = {f"f{at}": each.compiled for at, each in enumerate(taken)}
        scope = _scope()
        functions |= compiled_guards(code, functions, scope)
        identity = None
        if all(each.identity is not None for each in taken):
            # With the places of the functions, because compiled code knows the lines for its errors.
            places = [(each.plain.__code__.co_filename, each.plain.__code__.co_firstlineno) for each in taken]
            identity = fingerprint(
                [each.identity for each in taken], places, list(literals.values()), *identity_of(code)
            )
        source, scope = without_comments(code.source), scope | functions | literals
        if by_address is not None:
            source, views = address_source(source, CallBounds._fields, code.signature.arrays, by_address)
            scope |= views
        return compiler.load(source, scope, identity)

    def run(self, ensemble: Ensemble, output: FiringOutput) -> tuple[int, int, bool]:
        """Run over an ensemble until it is done, or a channel that the loop writes to has no more room.

        What comes back is the row and the mark that it stopped before, and whether nothing is left to do. Results are
        handed out where their room is short. What the kernel raises comes out as it is.
        """
        slots = self._number_keys(ensemble) if self.is_keyed else {}
        row, mark = ensemble.start, ensemble.first_mark
        initial = ensemble.initial
        while True:
            for sink, places in self.reopened:
                sink.open(self.used, self.room, places)
            started = self.clock()
            after, mark_after, progress, *heaps = self._call(ensemble, slots, row, mark, initial)
            self.kernel_s += self.clock() - started
            if heaps:
                self.heaps.take(heaps, self.integers)
            wrote = self._close_sinks(ensemble, output, row, after, is_short=progress != Stop.DONE)
            if heaps:
                self.heaps.forget(self.integers)
                self._held = None
            self.is_first = self.is_first and progress == Stop.FIRST
            if progress == Stop.DONE:
                return after, mark_after, True
            if self._is_blocked():
                self.needed.fill(0)
                return after, mark_after, False
            if not wrote and (after, mark_after) == (row, mark):
                self._enlarge()
            self.needed.fill(0)
            initial = _parents_at(ensemble, initial, mark, mark_after)
            row, mark = after, mark_after

    # Into the loop

    def _number_keys(self, ensemble: Ensemble) -> dict[str, np.ndarray]:
        """Find the numbers of all keys in the ensemble, so that there is a record for each before the loop runs."""
        slots = {name: self._slots(keys, ensemble) for name, keys in self.code.keys.items()}
        for node in self.code.states.values():
            if node.given.key is not None:
                self.memory.of(node).reserve(self.memory.index(node.given.key).count)
        for node in self.code.arrivals.values():
            assert node.given.key is not None
            self.memory.arrivals_at(node).reserve(self.memory.index(node.given.key).count)
        for cells in self.code.cells.values():
            if cells.node.given.key is not None:
                self.memory.cells_of(cells).reserve(self.memory.index(cells.node.given.key).count)
        self._held = None
        return slots

    def _slots(self, keys: Keys, ensemble: Ensemble) -> np.ndarray:
        """The numbers of keys, at the places of the rows that have them."""
        window = ensemble.window
        start, stop = (ensemble.start, ensemble.stop) if keys.level is None else ensemble.parents_used(keys.level)
        columns = []
        for given in keys.inputs:
            column = window.column(given.level, given.field)
            if given.level == keys.level:
                columns.append(column.slice(start, stop - start))
            else:
                assert given.level is not None
                columns.append(column.take(pa.array(ensemble.parent_rows(given.level, keys.level))))
        if self.memory.before_keys is not None:
            self.memory.before_keys(keys.node, columns)
        numbers = self.memory.index(keys.node).number(columns)
        if start == 0:
            return numbers
        placed = np.zeros(stop, numbers.dtype)
        placed[start:] = numbers
        return placed

    def _call(
        self, ensemble: Ensemble, slots: dict[str, np.ndarray], row: int, mark: int, initial: np.ndarray
    ) -> tuple[Any, ...]:
        """One call of the kernel: the row and the mark it came to, how far in the phases, and the heaps' arrays."""
        window, held = ensemble.window, self._held
        if (
            held is None
            or held.window is not window
            or held.version != window.version
            or held.kinds is not ensemble.kinds
        ):
            held = self._held = self._hold(ensemble, slots, initial)
        if self.has_index and self.is_contiguous:
            held.index[0] = window.indices()[0]
        bounds = CallBounds(ensemble.stop, ensemble.last_mark, self.is_first, ensemble.is_last, row, mark)
        if held.addresses is not None and initial is held.initial:
            return held.kernel(held.addresses, *bounds)  # type: ignore[no-any-return]
        arrays = held.arrays
        if initial is not held.initial:
            arrays = arrays.copy()
            arrays[self.parents_at] = initial
        if self.is_compiled:
            return self.kernel(*bounds, *arrays)  # type: ignore[no-any-return]
        with np.errstate(all="ignore"):  # floats follow IEEE, interpreted as compiled
            after, mark, *rest = self.kernel(*bounds, *arrays)
        return (int(after), int(mark), *rest)

    def _hold(self, ensemble: Ensemble, slots: dict[str, np.ndarray], initial: np.ndarray) -> _KernelArrays:
        """All arrays, until one is replaced; by address where there will be many calls with them."""
        window = ensemble.window
        for sink, places in self.open_sinks:
            sink.open(self.used, self.room, places)
        index = _NO_INDICES
        if self.has_index:
            index = np.zeros(1, np.int64) if self.is_contiguous else window.indices()
        arrays = bind(self.code.signature, Call(self, ensemble, slots, index, initial))
        held = _KernelArrays(window, window.version, ensemble.kinds, index, initial, arrays)
        if self.is_addressed and not slots and not self.code.heaps and can_address(arrays):
            kinds = tuple((array.dtype, array.flags.writeable) for array in arrays)
            if kinds not in self._addressed:
                self._addressed[kinds] = self._kernel(arrays)
            held.kernel, held.addresses = self._addressed[kinds], addresses(arrays)
        return held

    def sink_of(self, sink: Sink) -> Any:
        """What takes what the loop writes to a sink."""
        return self.by_sink[id(sink)]

    # Out of the loop

    def _close_sinks(self, ensemble: Ensemble, output: FiringOutput, row: int, after: int, *, is_short: bool) -> int:
        """Take over what was written: into channels, and into results unless they can wait; how many rows."""
        inputs, used, wrote = Inputs(self.code, ensemble, self.heaps, self.memory.index), self.used.tolist(), 0
        for sink, places in self.to_channels:
            channel = sink.channel
            items, marks = channel.sent, channel.sent_marks
            sink.send(inputs, [used[at] for at in places], self._index_at(sink, ensemble, after))
            if id(sink.sink) in self.counted:
                output.rows += channel.sent - items
            wrote += channel.sent - items + channel.sent_marks - marks
        for result, at in self.to_results:
            made = used[at] - result.used
            if id(result.sink) in self.counted:
                output.rows += made
            wrote += made + result.used
            if result.can_wait and not (is_short or ensemble.is_last or self.is_prompt):
                result.used = used[at]
            else:
                output.batches.append((result.sink.node, result.batch(inputs, used[at], row, after)))
                self._held = None
        for pool in self.pools:
            pool.cells.used = used[self.at[pool.buffers[0].name]]
        for letters, at in self.to_letters:
            if used[at]:
                caught = None if self.is_compiled else self.caught
                self.memory.letters += letters.letters(self.code, inputs, used[at], caught)
                wrote += used[at]
                self._held = None
        if self.log is not None:
            count = used[self.at["log"]]
            output.deliveries += self.log.deliveries(count)
            wrote += count
        return wrote

    def _index_at(self, sink: ChannelSink, ensemble: Ensemble, row: int) -> int:
        return index_at(self.code, ensemble, row) if sink.has_index else 0

    def _is_blocked(self) -> bool:
        """Whether the loop stopped because a channel has no more room."""
        needed, room = self.needed.tolist(), self.room.tolist()
        full = [sink for sink, places in self.to_channels if any(needed[at] > room[at] for at in places)]
        for sink in full:
            sink.channel.counts.stalls += 1
        return bool(full)

    def _enlarge(self) -> None:
        """Make room in the results for what a single row needs: nothing was done, though they were empty."""
        for result, at in (*self.to_results, *self.to_letters):
            result.enlarge(int(self.needed[at]))
        for pool in self.pools:
            pool.cells.enlarge(int(self.needed[self.at[pool.buffers[0].name]]))
        if self.log is not None:
            self.log.enlarge(int(self.needed[self.at["log"]]))
        self._held = None


_NO_INDICES = np.empty(0, np.int64)


def index_at(code: GeneratedLoop, ensemble: Ensemble, row: int, mark: int = -1) -> int:
    """The index in the source of the item at a row of an ensemble; behind the last, of the one that would follow.

    At a mark, where indices lie with the parents, it is that of the parent whose region the mark is in or bounds.
    """
    level = index_level(code.segment.entry.shape)
    if level is None:
        row, indices = min(row, ensemble.stop), ensemble.window.indices()
        return int(indices[0]) + row if enters_contiguous(code.segment) else int(indices[row])
    (indices,) = ensemble.window.arrays(level, INDEX, False)
    if mark >= ensemble.first_mark:
        after = mark + int(ensemble.kinds[mark] == opening_kind(level))  # a region that opens here is open at its mark
        parent = int(_parents_at(ensemble, ensemble.initial, ensemble.first_mark, after)[level])
    else:
        rows = ensemble.parent_rows(level)
        parent = int(rows[min(row, ensemble.stop - 1) - ensemble.start]) if len(rows) else -1
    return int(indices[parent]) if parent >= 0 else 0


def _parents_at(ensemble: Ensemble, rows: np.ndarray, mark: int, after: int) -> np.ndarray:
    """The rows of the parents that are open behind some marks."""
    rows = rows.copy()
    for kind, reference in zip(ensemble.kinds[mark:after], ensemble.references[mark:after], strict=True):
        if 0 <= kind < 2 * len(rows):
            rows[kind // 2] = reference if kind % 2 == 0 else -1
    return rows


def _literal(value: Any, t: pa.DataType) -> np.ndarray:
    if types.is_text(t):
        return np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)
    return np.array(value, types.storage(t.value_type))


_compiled_scope: dict[str, Any] = {}


def _scope() -> dict[str, Any]:
    if not _compiled_scope:
        _compiled_scope.update(support.compiled_scope())
    return dict(_compiled_scope)
