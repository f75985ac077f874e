"""A loop that runs: its arrays, what it remembers between calls, and what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.columns import arrays_of, elements_of, scalars_to_arrow
from penstock.engine.ensemble import Ensemble
from penstock.engine.heap import Heaps
from penstock.engine.interpret import interpreted, plain
from penstock.engine.keys import KeyIndex
from penstock.engine.state import States
from penstock.errors import DataError, InternalError, PenstockError
from penstock.graph import faults, types
from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.graph.source import to_plain
from penstock.graph.tree import Delivery
from penstock.kernels import compile as compiler
from penstock.kernels import support
from penstock.kernels.fingerprint import fingerprint
from penstock.plan.code import Buffer, Column
from penstock.plan.sink import OutColumn, Outlet, Sink
from penstock.plan.spec import Code, Keys

ROOM = 1 << 20
"""How many rows a sink holds before the loop hands them out: arrays large enough for the system to use large pages."""


@dataclass
class Memory:
    """What all loops of a run share: the numbers of keys, and the records of stateful nodes."""

    keys: dict[n.KeyBy, KeyIndex] = field(default_factory=dict)
    states: dict[n.Stateful, States] = field(default_factory=dict)

    def index(self, node: n.KeyBy) -> KeyIndex:
        if node not in self.keys:
            self.keys[node] = KeyIndex([node.given.scope[name] for name in node.names])
        return self.keys[node]

    def of(self, node: n.Stateful) -> States:
        assert node.state is not None
        return self.states.setdefault(node, States(node.state))


@dataclass
class Output:
    """What one call of a loop gave: an ensemble for each cut, a batch of columns for each result."""

    ensembles: list[tuple[n.GraphNode, Ensemble]] = field(default_factory=list)
    batches: list[tuple[n.GraphNode, pa.RecordBatch]] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)


class RunningLoop:
    """One segment's loop with its arrays. `feed` takes an ensemble and gives outputs in order."""

    def __init__(self, code: Code, memory: Memory, signals: tuple[type[Signal], ...], *, compile: bool) -> None:
        self.code, self.memory, self.signals = code, memory, signals
        assert code.segment is not None
        self.is_compiled = compile and not code.segment.is_interpreted
        self.kernel = self._kernel()
        self.room = {buffer.name: ROOM for buffer in code.buffers}
        self.integers, self.floats = np.zeros(len(code.integers), np.int64), np.zeros(len(code.floats))
        self.records = {name: (record.layout.new(), record.layout.new()) for name, record in code.records.items()}
        self.emitted = {name: signal.as_row() for name, signal in code.emitted.items()}
        self.heaps = Heaps(code)
        self.arrays: dict[str, np.ndarray] = {}
        self.where = np.zeros(2, np.int64)
        self.used = np.zeros(len(code.buffers), np.int64)
        """How many rows each buffer holds; a result of plain numbers stays, batch after batch, until it is full."""

    def _kernel(self) -> Any:
        """The generated source, compiled or as plain Python, with the functions that it calls."""
        code = self.code
        literals = {f"literal{at}": _literal(value, t) for at, (value, t) in enumerate(code.literals)}
        if not self.is_compiled:
            functions = {f"f{at}": interpreted(function) for at, function in enumerate(code.functions)}
            return compiler.interpret(code.source, support.PLAIN | functions | literals | {"plain": plain})
        taken = [function.snapshot for function in code.functions if function.snapshot is not None]
        functions = {f"f{at}": each.compiled for at, each in enumerate(taken)}
        identity = None
        if all(each.identity is not None for each in taken):
            # With the places of the functions, because compiled code knows the lines for its errors.
            places = [(each.plain.__code__.co_filename, each.plain.__code__.co_firstlineno) for each in taken]
            identity = fingerprint([each.identity for each in taken], places, list(literals.values()))
        return compiler.load(code.source, _scope() | functions | literals, identity)

    def feed(self, ensemble: Ensemble) -> Iterator[Output]:
        """Run over an ensemble; the loop returns early where room is short, and goes on after it was emptied."""
        self._number_keys(ensemble)
        inputs = self._inputs(ensemble)
        row, mark, first, initial = 0, 0, ensemble.is_first, ensemble.initial
        while True:
            was_empty = not self.used.any()
            given = self._arguments(ensemble, inputs, first, row, mark, initial)
            try:
                with np.errstate(all="ignore"):  # floats follow IEEE, interpreted as compiled
                    after, mark_after, progress, *heaps = self.kernel(*given)
            except Exception as error:
                raise self._explained(error, ensemble) from error
            self.heaps.take(heaps, self.integers)
            output = self._output(ensemble, inputs, row, after, is_short=progress != 3)
            self.heaps.forget(self.integers)
            if was_empty and (after, mark_after) == (row, mark):
                self._enlarge()
            if progress == 3:
                self._finish(output, ensemble)
                yield output
                return
            yield output
            initial = self._parents_at(ensemble, mark_after)
            row, mark, first = int(after), int(mark_after), first and progress == 0

    # Into the loop

    def _number_keys(self, ensemble: Ensemble) -> None:
        """Find the numbers of all keys in the ensemble, so that there is a record for each before the loop runs."""
        self.slots = {name: self._slots(keys, ensemble) for name, keys in self.code.keys.items()}
        for node in self.code.states.values():
            if node.given.key is not None:
                self.memory.of(node).reserve(self.memory.index(node.given.key).count)

    def _slots(self, keys: Keys, ensemble: Ensemble) -> np.ndarray:
        columns = []
        for given in keys.inputs:
            if given.level is None:
                columns.append(ensemble.columns[given.field])
            elif given.level == keys.level:
                columns.append(ensemble.parents[given.level][given.field])
            else:
                rows = pa.array(ensemble.parent_rows(given.level, keys.level))
                columns.append(ensemble.parents[given.level][given.field].take(rows))
        return self.memory.index(keys.node).number(columns)

    def _inputs(self, ensemble: Ensemble) -> dict[str, pa.Array]:
        """The Arrow columns by the prefix that the loop knows them by."""
        found = {}
        for given in self.code.inputs:
            table = ensemble.columns if given.level is None else ensemble.parents[given.level]
            found[given.column.prefix] = table[given.field]
        return found

    def _arguments(
        self, ensemble: Ensemble, inputs: dict[str, pa.Array], first: bool, row: int, mark: int, initial: np.ndarray
    ) -> list[Any]:
        code = self.code
        self.room_array = np.array([self.room[b.name] for b in code.buffers], np.int64)
        self.needed = np.zeros(len(code.buffers), np.int64)
        arguments: list[Any] = [ensemble.count, first, ensemble.is_last, row, mark]
        arguments += [ensemble.kinds, ensemble.places, ensemble.references, self._indices(ensemble), initial]
        arguments += [self.where, self.integers, self.floats, self.room_array, self.needed, self.used]
        for given in code.inputs:
            column = inputs[given.column.prefix]
            arguments += [column] if given.is_plain else arrays_of(column, given.is_wide)
        arguments += [self.slots[name] for name in code.keys]
        for node in code.states.values():
            states = self.memory.of(node)
            arguments += [states.records, states.fresh]
        for pair in self.records.values():
            arguments += pair
        arguments += [ensemble.signals[number] for number in code.signals_in.values()]
        arguments += list(self.emitted.values())
        arguments += self.heaps.arrays()
        for name, dtype in self._sink_arrays():
            arguments.append(self._array(name, dtype))
        return arguments

    def _indices(self, ensemble: Ensemble) -> np.ndarray:
        """The indices of the items, where the loop hands them on to other loops."""
        return ensemble.indices() if any(sink.is_cut for sink in self.code.sinks) else np.empty(0, np.int64)

    def _sink_arrays(self) -> Iterator[tuple[tuple[str, str], Any]]:
        """The arrays that the loop writes, in the order of its arguments: (buffer, array) and the element type."""
        for sink in self.code.sinks:
            for outlet in [sink.items, *sink.parents]:
                for column in outlet.columns:
                    if column.array is not None:
                        yield (outlet.buffer.name, column.array), _stored(column)
            if sink.marks is not None:
                for part in ("kind", "at", "ref"):
                    yield (sink.marks.name, f"{sink.marks.name}_{part}"), np.dtype("i8")
            for number, buffer in sink.signals.items():
                yield (buffer.name, buffer.name), self.signals[number].layout.dtype
        if self.code.log is not None:
            yield ("log", "log"), (np.dtype("i8"), 3)
            for number, signal in enumerate(self.signals):
                yield ("log", f"log_{number}"), signal.layout.dtype

    def _array(self, name: tuple[str, str], dtype: Any) -> np.ndarray:
        buffer, array = name
        held = self.arrays.get(array)
        if held is None or len(held) < self.room[buffer]:
            dtype, *width = dtype if isinstance(dtype, tuple) else (dtype,)
            try:
                held = self.arrays[array] = np.empty((self.room[buffer], *width), dtype)
            except MemoryError:
                raise DataError(
                    f"one item may give {self.room[buffer]} outputs, which no memory holds; lower at_most="
                ) from None
        return held

    # Out of the loop

    def _enlarge(self) -> None:
        """Make room for what a single row needs: nothing was done, though every buffer was empty."""
        for at, buffer in enumerate(self.code.buffers):
            if self.needed[at] > self.room[buffer.name]:
                self.room[buffer.name] = max(int(self.needed[at]), 2 * self.room[buffer.name])

    def _output(
        self, ensemble: Ensemble, inputs: dict[str, pa.Array], start: int, stop: int, *, is_short: bool
    ) -> Output:
        """Empty the sinks, but for results that can wait until room is short or the stream ends."""
        output, kept = Output(), np.zeros_like(self.used)
        columns = _Columns(inputs, self.heaps)
        for sink in self.code.sinks:
            if _can_wait(sink) and not is_short and not ensemble.is_last:
                at = self.code.buffers.index(sink.items.buffer)
                kept[at] = self.used[at]
                continue
            items = self._rows(sink.items, columns, start, stop)
            if sink.is_cut:
                output.ensembles.append((sink.node, self._ensemble(sink, items, columns, ensemble, stop)))
            else:
                output.batches.append((sink.node, pa.RecordBatch.from_arrays(list(items.values()), names=list(items))))
        if self.code.log is not None:
            output.deliveries = self._deliveries()
        self.used = kept
        return output

    def _count(self, buffer: Buffer) -> int:
        return int(self.used[self.code.buffers.index(buffer)])

    def _rows(self, outlet: Outlet, columns: _Columns, start: int, stop: int) -> dict[str, pa.Array]:
        count, rows = self._count(outlet.buffer), {}
        for column in outlet.columns:
            if column.array is None:
                assert column.origin is not None
                rows[column.field] = columns.of(column.origin).slice(start, stop - start)
            elif column.origin is None:
                rows[column.field] = scalars_to_arrow(self._handed(column.array, count), column.type)
            else:
                indices = pa.array(self.arrays[column.array][:count])
                try:
                    rows[column.field] = columns.of(column.origin).take(indices).cast(column.type)
                except pa.ArrowInvalid as error:
                    raise DataError(
                        f"{column.field!r} of {count} rows does not fit one batch of {column.type}: {error}; run with "
                        f"a smaller batch_items, or make the column large_string or large_list before"
                    ) from None
        return rows

    def _handed(self, name: str, count: int) -> np.ndarray:
        """What was written to an array, to keep: the array itself where it is mostly full, else a copy."""
        held = self.arrays[name]
        if 2 * count < len(held):
            return held[:count].copy()
        del self.arrays[name]
        return held[:count]

    def _ensemble(
        self, sink: Sink, items: dict[str, pa.Array], columns: _Columns, ensemble: Ensemble, stop: int
    ) -> Ensemble:
        assert sink.marks is not None
        count, marks = self._count(sink.items.buffer), self._count(sink.marks)
        kinds, places, references = (
            self.arrays[f"{sink.marks.name}_{part}"][:marks].copy() for part in ("kind", "at", "ref")
        )
        index = items.pop("#index").to_numpy() if "#index" in items else np.empty(0, np.int64)
        made = Ensemble(count, items, index=np.append(index, ensemble.index_at(stop)))
        made.kinds, made.places, made.references = kinds, places, references
        made.parents = [self._rows(outlet, columns, 0, 0) for outlet in sink.parents]
        made.signals = [self.arrays[buffer.name][: self._count(buffer)].copy() for buffer in sink.signals.values()]
        made.initial = np.array(
            [self._initial(outlet, depth, made) for depth, outlet in enumerate(sink.parents)], np.int64
        )
        return made

    def _initial(self, outlet: Outlet, depth: int, made: Ensemble) -> int:
        """Row 0 where the region was open from before: then one row more was written than regions were opened."""
        opened = int(np.sum(made.kinds == 2 * depth))
        return 0 if self._count(outlet.buffer) > opened else -1

    def _parents_at(self, ensemble: Ensemble, mark: int) -> np.ndarray:
        """The rows of the parents that are open before a mark."""
        rows = ensemble.initial.copy()
        for kind, reference in zip(ensemble.kinds[:mark], ensemble.references[:mark], strict=True):
            if kind < 2 * len(rows):
                rows[kind // 2] = reference if kind % 2 == 0 else -1
        return rows

    def _finish(self, output: Output, ensemble: Ensemble) -> None:
        for _, made in output.ensembles:
            made.is_last = ensemble.is_last

    def _deliveries(self) -> list[Delivery]:
        assert self.code.log is not None
        found = []
        for at in range(self._count(self.code.log)):
            node, place, number = (int(value) for value in self.arrays["log"][at])
            found.append(Delivery(node, place, _signal(self.signals[number], self.arrays[f"log_{number}"][at])))
        return found

    # When something is wrong

    def _explained(self, error: Exception, ensemble: Ensemble) -> PenstockError:
        """What a loop raised, as an error that names the node, the function and the item."""
        number, row = int(self.where[0]), int(self.where[1])
        index = ensemble.index_at(row)
        if isinstance(error, support.Fault):
            fault = self.code.faults[-number - 1]
            if fault.function is not None:
                bad = ValueError(_BAD_RESULTS[fault.kind].format(fault.what))
                return faults.function_error(fault.function, bad, index, self._item(ensemble, row))
            explained: PenstockError = _FAULTS[fault.kind](fault.node, fault.what, index)
            return explained
        if isinstance(error, (PenstockError, MemoryError)) or not 0 <= number < len(self.code.functions):
            return InternalError(f"a loop failed with {type(error).__name__}: {error}")
        if self.is_compiled and row < ensemble.count:
            error = self._replayed(ensemble, row) or error
        return faults.function_error(self.code.functions[number], error, index, self._item(ensemble, row))

    def _replayed(self, ensemble: Ensemble, row: int) -> Exception | None:
        """Run one row again as plain Python: its error knows what the function was called with, and the line.

        The row runs on copies and without what came before it, so it may go another way; then there is None.
        """
        memory = Memory(self.memory.keys, {node: states.copy() for node, states in self.memory.states.items()})
        twin = RunningLoop(self.code, memory, self.signals, compile=False)
        alone = Ensemble(1, {name: column.slice(row, 1) for name, column in ensemble.columns.items()})
        alone.parents, alone.signals = ensemble.parents, ensemble.signals
        alone.initial = np.array([ensemble.parent_rows(d)[row] for d in range(len(ensemble.parents))], np.int64)
        try:
            for _ in twin.feed(alone):
                pass
        except PenstockError as error:
            same = int(twin.where[0]) == int(self.where[0])
            return error.__cause__ if same and isinstance(error.__cause__, Exception) else None
        return None

    def _item(self, ensemble: Ensemble, row: int) -> dict[str, Any]:
        """The item that entered the loop at a row, as plain values."""
        columns = ensemble.columns.items() if row < ensemble.count else ()
        return {name: _shown(column.slice(row, 1)) for name, column in columns if not name.startswith("#")}


_FAULTS: dict[str, Any] = {
    "too_many": lambda node, what, index: faults.too_many(node, index),
    "nan_key": faults.nan_key,
    "unequal_lengths": lambda node, what, index: faults.unequal_lengths(node, index),
    "empty_region": faults.empty_region,
    "sum_overflow": faults.sum_overflow,
}
_BAD_RESULTS = {
    "array_size": "the result must hold {} elements",
    "bad_utf8": "a result declared as a string must be valid UTF-8; declare it as bytes",
}


def _shown(value: pa.Array) -> Any:
    """One value for a message: bytes where a text is no UTF-8."""
    try:
        return to_plain(value)[0]
    except UnicodeDecodeError:
        return value.cast(pa.large_binary())[0].as_py()


class _Columns:
    """The columns that a loop's indices point into."""

    def __init__(self, inputs: dict[str, pa.Array], heaps: Heaps) -> None:
        self.inputs, self.heaps = inputs, heaps
        self.made: dict[str, pa.Array] = {}

    def of(self, column: Column) -> pa.Array:
        name = column.prefix
        if name not in self.made:
            if name in self.inputs:
                self.made[name] = self.inputs[name]
            elif name in self.heaps.held:
                self.made[name] = self.heaps.held[name].column()
            else:
                self.made[name] = elements_of(self.of(Column(name[:-2], pa.null(), column.is_heap)))
        return self.made[name]


def _can_wait(sink: Sink) -> bool:
    """Whether all that leaves is numbers, which mean the same when this batch is gone."""
    return not sink.is_cut and all(c.array is not None and c.origin is None for c in sink.items.columns)


def _stored(column: OutColumn) -> np.dtype:
    return np.dtype("i8") if column.origin is not None else types.storage(column.type)


def _signal(kind: type[Signal], row: np.void) -> Signal:
    return kind(**{name: row[name] for name in kind.layout.initial})


def _literal(value: Any, t: pa.DataType) -> np.ndarray:
    if types.is_text(t):
        return np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)
    return np.array(value, types.storage(t.value_type))


_compiled_scope: dict[str, Any] = {}


def _scope() -> dict[str, Any]:
    if not _compiled_scope:
        _compiled_scope.update(support.compiled())
    return dict(_compiled_scope)
