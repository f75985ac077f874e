"""Where a running loop writes: results, channels to other loops, and the log of signals.

Each gives the loop its arrays, with how far they are filled and how far they may be, and takes over what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.codegen.generated import GeneratedLoop
from penstock.codegen.outlets import INDEX, Buffer, OutColumn, Outlet, Sink
from penstock.codegen.site import Column
from penstock.engine.auto import Chooser
from penstock.engine.channel import Channel
from penstock.engine.columns import elements_of, scalars_to_arrow, typed
from penstock.engine.control import Control
from penstock.engine.ensemble import Ensemble
from penstock.engine.heap import Heaps
from penstock.engine.keys import KeyIndex
from penstock.engine.store import Rows
from penstock.errors import DataError, InternalError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.record import Signal
from penstock.graph.tree import Delivery

ROOM = 1 << 20
"""How many rows a result holds before they are handed out: arrays large enough for the system to use large pages."""


class Inputs:
    """The columns of an ensemble, and of the heaps of its loop, that indices written by the loop point into."""

    def __init__(
        self, code: GeneratedLoop, ensemble: Ensemble, heaps: Heaps, keys: Callable[[n.KeyBy], KeyIndex]
    ) -> None:
        self.code, self.ensemble, self.heaps, self.keys = code, ensemble, heaps, keys
        self.made: dict[str, pa.Array] = {}

    def of(self, column: Column) -> pa.Array:
        name = column.prefix
        if name not in self.made:
            given = next((given for given in self.code.inputs if given.column.prefix == name), None)
            if given is not None:
                self.made[name] = self.ensemble.window.column(given.level, given.field)
            elif name in self.heaps.held:
                self.made[name] = self.heaps.held[name].column()
            elif name.split("_")[0] in self.code.key_values:
                key, part = name.split("_")
                self.made[name] = self.keys(self.code.key_values[key]).texts(int(part))
            else:
                self.made[name] = elements_of(self.of(Column(name[:-2], pa.null(), column.is_heap)))
        return self.made[name]

    def taken(self, column: OutColumn, indices: np.ndarray, *, lasts: bool) -> pa.Array:
        """The values that indices point to, as a column of its own where it is to last; else perhaps as a view."""
        assert column.origin is not None
        try:
            held = self.of(column.origin)
            may_view = not lasts or column.origin.prefix in self.heaps.held
            is_row = may_view and len(indices) > 0 and bool(np.all(np.diff(indices) == 1))
            return typed(held.slice(indices[0], len(indices)) if is_row else held.take(pa.array(indices)), column.type)
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{column.field!r} of {len(indices)} rows does not fit one batch of {column.type}: {error}; run with "
                f"a smaller batch_items, or make the column large_string or large_list before"
            ) from None


class RunningSink(Protocol):
    """One place where rows leave a loop. `buffers` are its counters."""

    buffers: list[Buffer]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that the loop writes, by their names in it."""

    def open(self, used: np.ndarray, room: np.ndarray, places: Sequence[int]) -> None:
        """Write, at the places of its buffers, how far each is filled and how far it may be."""


class Grown:
    """Arrays by name that are as long as is needed."""

    def __init__(self) -> None:
        self.held: dict[str, np.ndarray] = {}

    def of(self, name: str, length: int, dtype: Any, *width: int) -> np.ndarray:
        held = self.held.get(name)
        if held is None or len(held) < length:
            try:
                held = self.held[name] = np.empty((length, *width), dtype)
            except (MemoryError, ValueError):
                raise DataError(f"one item may give {length} outputs, which no memory holds; lower at_most=") from None
        return held

    def handed(self, name: str, count: int) -> np.ndarray:
        """What was written to an array, to keep: the array itself where it is mostly full, else a copy."""
        held = self.held[name]
        if 2 * count < len(held):
            return held[:count].copy()
        del self.held[name]
        return held[:count]


class ResultSink:
    """A result. Rows that mean the same when the ensemble is gone stay until there is no room for more."""

    def __init__(self, sink: Sink) -> None:
        self.sink, self.outlet = sink, sink.items
        self.buffers = [sink.items.buffer]
        self.room, self.used = ROOM, 0
        self.held = Grown()
        self.can_wait = all(c.array is not None and c.origin is None for c in self.outlet.columns)

    def arrays(self) -> dict[str, np.ndarray]:
        written = ((column.array, column) for column in self.outlet.columns if column.array is not None)
        return {name: self.held.of(name, self.room, _stored(column)) for name, column in written}

    def open(self, used: np.ndarray, room: np.ndarray, places: Sequence[int]) -> None:
        used[places[0]], room[places[0]] = self.used, self.room

    def enlarge(self, needed: int) -> None:
        """Make room for what a single row needs."""
        if needed > self.room:
            self.room = max(needed, 2 * self.room)

    def batch(self, inputs: Inputs, used: int, start: int, stop: int) -> pa.RecordBatch:
        """All rows; `start` and `stop` bound the rows that entered in the meantime."""
        columns = [self._column(column, inputs, used, start, stop) for column in self.outlet.columns]
        self.used = 0
        return pa.RecordBatch.from_arrays(columns, names=[column.field for column in self.outlet.columns])

    def _column(self, column: OutColumn, inputs: Inputs, used: int, start: int, stop: int) -> pa.Array:
        if column.array is None:
            assert column.origin is not None
            return inputs.of(column.origin).slice(start, stop - start)
        if column.origin is None:
            return scalars_to_arrow(self.held.handed(column.array, used), column.type)
        return inputs.taken(column, self.held.held[column.array][:used], lasts=True)


class ChannelSink:
    """A cut: the loop writes into the queues of the channel themselves."""

    def __init__(self, sink: Sink, channel: Channel, chooser: Chooser | None = None) -> None:
        assert sink.marks is not None
        self.chooser = chooser
        self.sink, self.channel = sink, channel
        self.outlets = [(sink.items, channel.data), *zip(sink.parents, channel.parents, strict=True)]
        self.buffers = [outlet.buffer for outlet, _ in self.outlets] + [sink.marks, *sink.signals.values()]
        self.held = Grown()
        self.tables = [rows for _, rows in self.outlets]
        self.by_index = [
            (at, rows, column)
            for at, (outlet, rows) in enumerate(self.outlets)
            for column in outlet.columns
            if column.origin is not None
        ]
        self.has_index = INDEX in channel.data.stores

        needs = [buffer.most for buffer in self.buffers if buffer.most is not None]
        if len(needs) < len(self.buffers):
            raise InternalError(f"{sink.node.label}: how much comes of one item is not bounded")
        queues: list[Rows | Control] = [*self.tables, channel.control, *channel.records]
        kept = [int(queue is channel.control and not channel.trusts) for queue in queues]
        channel.needs = list(zip(queues, needs, kept, strict=True))

    def twin(self) -> ChannelSink:
        """The same with an empty channel."""
        return ChannelSink(self.sink, self.channel.twin())

    def arrays(self) -> dict[str, np.ndarray]:
        arrays: dict[str, np.ndarray] = {}
        for outlet, rows in self.outlets:
            for column in outlet.columns:
                assert column.array is not None
                if column.origin is None:
                    arrays[column.array] = rows.array_of(column.field)
                else:
                    arrays[column.array] = self.held.of(column.array, rows.size + 1, np.int64)
        control, marks = self.channel.control, self.sink.marks
        assert marks is not None
        arrays |= {f"{marks.name}_kind": control.kinds, f"{marks.name}_at": control.credits}
        arrays |= {f"{marks.name}_key{at}": keys for at, keys in enumerate(control.keys)}
        arrays[f"{marks.name}_from"] = control.emitted
        written = zip(self.sink.signals.values(), self.channel.records, strict=True)
        return arrays | {buffer.name: records.array for buffer, records in written}

    def open(self, used: np.ndarray, room: np.ndarray, places: Sequence[int]) -> None:
        if self.chooser is not None:
            self.chooser.look()
        for (queue, _, kept), at in zip(self.channel.needs, places, strict=True):
            queue.make_room()
            used[at] = queue.stop
            room[at] = queue.start + queue.capacity - kept

    def send(self, inputs: Inputs, used: Sequence[int], index: int) -> None:
        """Hand over what was written; `index` is that of the item that would follow."""
        for at, rows, column in self.by_index:
            if used[at] > rows.stop:
                assert column.array is not None
                values = inputs.taken(column, self.held.held[column.array][rows.stop : used[at]], lasts=False)
                rows.stores[column.field].put(rows.stop, values)
        if self.has_index:
            self.channel.data.array_of(INDEX)[used[0]] = index
        tables = len(self.tables)
        self.channel.send(used[0], used[tables], used[1:tables], used[tables + 1 :])


class LogSink:
    """The log of signals that were handed to nodes."""

    def __init__(self, log: Buffer, signals: Sequence[type[Signal]]) -> None:
        self.buffers, self.signals = [log], signals
        self.room, self.held = ROOM, Grown()

    def arrays(self) -> dict[str, np.ndarray]:
        records = {f"log_{number}": signal.layout.dtype for number, signal in enumerate(self.signals)}
        arrays = {name: self.held.of(name, self.room, dtype) for name, dtype in records.items()}
        return arrays | {"log": self.held.of("log", self.room, np.int64, 3)}

    def open(self, used: np.ndarray, room: np.ndarray, places: Sequence[int]) -> None:
        used[places[0]], room[places[0]] = 0, self.room

    def enlarge(self, needed: int) -> None:
        if needed > self.room:
            self.room = max(needed, 2 * self.room)

    def deliveries(self, used: int) -> Iterator[Delivery]:
        for at in range(used):
            node, place, number = (int(value) for value in self.held.held["log"][at])
            row = self.held.held[f"log_{number}"][at]
            kind = self.signals[number]
            yield Delivery(node, place, kind(**{name: row[name] for name in kind.layout.initial}))


def fields_of(outlet: Outlet) -> dict[str, pa.DataType]:
    """The fields that leave through an outlet."""
    return {column.field: column.type for column in outlet.columns}


def _stored(column: OutColumn) -> np.dtype:
    return np.dtype("i8") if column.origin is not None else types.storage(column.type)
