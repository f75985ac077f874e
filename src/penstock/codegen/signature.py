"""The arguments of a generated loop: the generator declares them once, and the engine binds arrays to them by name.

Each kind of argument stands for one or more arrays of the kernel and knows their names. The order is that of the
signature, for the text of the kernel and for its calls, so that no two lists of arguments have to agree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from penstock.codegen.generated import Cells, GeneratedLoop, Input, Keys
from penstock.codegen.outlets import Heap, Sink
from penstock.codegen.site import Column
from penstock.graph import nodes as n
from penstock.graph.record import Record, Signal


class CallBounds(NamedTuple):
    """What a call of a kernel is given besides arrays: the rows and marks to do, and which of them to begin at."""

    rows: int
    marks: int
    is_first: bool
    is_last: bool
    from_row: int
    from_mark: int


class Argument(ABC):
    """An argument that stands for arrays."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of its arrays in the kernel."""


@dataclass(frozen=True)
class OneArray(Argument):
    """An argument that is one array."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class RecordPair(Argument):
    """An array of records, and the record that each of them begins as."""

    name: str

    @property
    def fresh(self) -> str:
        return f"{self.name}_0"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, self.fresh)


@dataclass(frozen=True)
class Entering(Argument):
    """The marks that enter (kinds, rows that they stand before, rows of their parents or signals), the indices of items
    or the first of them, and the row of the parent that is open at each depth before the first mark."""

    PARENTS: ClassVar = "parents"

    @property
    def names(self) -> tuple[str, ...]:
        return ("mark_kinds", "mark_rows", "mark_refs", "indices", self.PARENTS)


@dataclass(frozen=True)
class Counters(Argument):
    """Where the loop is, what it carries, and how far its buffers are filled, may be, and would have to be."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("where", "integers", "floats", "room", "needed", "used")


@dataclass(frozen=True)
class MarkPlaces(Argument):
    """The positions of the marks by each clock, and which nodes have emitted them."""

    clocks: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (*(f"mark_places{at}" for at in range(len(self.clocks))), "mark_origins")


@dataclass(frozen=True)
class InputColumn(Argument):
    """A column of the items that enter, or of their parents."""

    column: Input

    @property
    def names(self) -> tuple[str, ...]:
        return (self.column.column.prefix,) if self.column.is_plain else self.column.column.arrays


@dataclass(frozen=True)
class OutputCounts(OneArray):
    """Items by the number of binary digits of how many came of each."""


@dataclass(frozen=True)
class KeyNumbers(OneArray):
    """The number of each row's key."""

    keys: Keys


@dataclass(frozen=True)
class KeyFields(Argument):
    """The fields of keys by their numbers: for several fields, by the numbers of their values."""

    name: str
    key: n.KeyBy

    @property
    def names(self) -> tuple[str, ...]:
        fields = self.key.names
        names = [f"{self.name}_p{at}" for at in range(len(fields)) if len(fields) > 1]
        for at, field in enumerate(fields):
            names += Column(f"{self.name}_{at}", self.key.given.scope[field]).arrays
        return tuple(names)


@dataclass(frozen=True)
class StateRecords(RecordPair):
    """The records of a node by the number of the key, and the one that new keys start from."""

    node: n.Stateful


@dataclass(frozen=True)
class ArrivalOrder(Argument):
    """The keys of a node in the order of their first items."""

    PARTS: ClassVar = ("seen", "order", "count", "index")
    name: str
    node: n.Stateful

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}_{part}" for part in self.PARTS)


@dataclass(frozen=True)
class CellRecords(Argument):
    """The cells of an aggregate by key, and the records of its folds; for windows of time also their heap and table."""

    name: str
    cells: Cells

    @property
    def parts(self) -> tuple[str, ...]:
        return ("heap", "counts", "table") if self.cells.is_timed else ()

    @property
    def names(self) -> tuple[str, ...]:
        folds = (each for fold in self.cells.folds for each in (fold, f"{fold}_0"))
        return (self.name, *folds, *(f"{self.name}_{part}" for part in self.parts))


@dataclass(frozen=True)
class HookRecord(RecordPair):
    """The record of a node's hooks or of a fold, and how it begins."""

    record: type[Record]


@dataclass(frozen=True)
class Scratch(OneArray):
    """A record while functions change it that may fail."""

    record: type[Record]


@dataclass(frozen=True)
class EnteringSignals(OneArray):
    """The records of the signals of one type that enter."""

    number: int


@dataclass(frozen=True)
class EmittedSignal(OneArray):
    """The record of a signal that a node emits."""

    signal: Signal


@dataclass(frozen=True)
class HeapArrays(Argument):
    """The offsets and the elements of a heap. A kernel returns them too, because it may have replaced them."""

    heap: Heap

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{self.heap.name}_o", f"{self.heap.name}_e")


@dataclass(frozen=True)
class SinkArrays(Argument):
    """What is written to a sink: columns of items and parents, marks, signals, records of letters."""

    sink: Sink

    @property
    def names(self) -> tuple[str, ...]:
        sink = self.sink
        outlets = (sink.items, *sink.parents)
        names = [column.array for outlet in outlets for column in outlet.columns if column.array is not None]
        if sink.marks is not None:
            names += sink.mark_arrays
        names += [buffer.name for buffer in sink.signals.values()]
        if sink.saved is not None:
            names.append(sink.saved_array)
        return tuple(names)


@dataclass(frozen=True)
class SignalLog(Argument):
    """The log of signals: node, index and number of each, and its record among those of its type."""

    types: int

    @property
    def names(self) -> tuple[str, ...]:
        return ("log", *(f"log_{at}" for at in range(self.types)))


@dataclass(frozen=True)
class Signature:
    """The arguments of a kernel after those of `CallBounds`."""

    arguments: tuple[Argument, ...] = ()

    @property
    def arrays(self) -> tuple[str, ...]:
        return tuple(name for argument in self.arguments for name in argument.names)

    @property
    def parameters(self) -> tuple[str, ...]:
        """All parameters of the kernel, in order."""
        return (*CallBounds._fields, *self.arrays)


def declare(loop: GeneratedLoop, signal_count: int) -> Signature:
    """The arguments of a loop that is written."""
    return Signature(tuple(_arguments(loop, signal_count)))


def _arguments(loop: GeneratedLoop, signal_count: int) -> Iterator[Argument]:
    yield from (Entering(), Counters())
    yield from [MarkPlaces(loop.clocks)] if loop.clocks else []
    yield from map(InputColumn, loop.inputs)
    yield from [OutputCounts("output_counts")] if loop.counts_outputs else []
    yield from (KeyNumbers(*each) for each in loop.keys.items())
    yield from (KeyFields(*each) for each in loop.key_values.items())
    yield from (StateRecords(*each) for each in loop.states.items())
    yield from (ArrivalOrder(*each) for each in loop.arrivals.items())
    yield from (CellRecords(*each) for each in loop.cells.items())
    yield from (HookRecord(*each) for each in loop.records.items())
    yield from (Scratch(*each) for each in loop.scratch.items())
    yield from (EnteringSignals(*each) for each in loop.signals_in.items())
    yield from (EmittedSignal(*each) for each in loop.emitted.items())
    yield from map(HeapArrays, loop.heaps)
    yield from map(SinkArrays, loop.sinks)
    yield from [SignalLog(signal_count)] if loop.log is not None else []
