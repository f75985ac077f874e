"""What a generated loop is made of: its source, and a description of every array that the engine must give it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.codegen.outlets import Buffer, Heap, Sink
from penstock.codegen.site import Column
from penstock.graph import nodes as n
from penstock.graph.faults import FaultKind
from penstock.graph.function import Function
from penstock.graph.record import Record, Signal
from penstock.graph.window import TimeWindow
from penstock.plan.segment import Segment

if TYPE_CHECKING:
    from penstock.codegen.signature import Signature


class Stop(IntEnum):
    """How far a loop was when it returned. It returns before it is done where room is short."""

    FIRST = 0
    ROWS = 1
    END = 2
    DONE = 3


class Where(IntEnum):
    """What a loop notes of where it is, for errors: the index in its array."""

    WHAT = 0
    """The number of a function, or less than 0, that of a fault."""
    ROW = 1
    MARK = 2
    """The mark, or `AT_ROWS`; where a key ends with the stream, -2 less the number of the node."""
    KEY = 3


AT_ROWS = -1


class GuardForm(Enum):
    """What a guarded call gives besides whether it raised: the results, or nothing, so that it is called again."""

    RETURNS = "returns"
    TRIES = "tries"


@dataclass(frozen=True)
class FaultSite:
    """Something that the loop found wrong in an item: what kind, and the node."""

    kind: FaultKind
    node: n.GraphNode
    what: str = ""
    function: Function | None = None


@dataclass(frozen=True)
class Guard:
    """How a function is called that may fail (`codegen/guarded_rules.py`)."""

    form: GuardForm
    function: Function
    most: int
    """How many outputs a generator may push."""


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
class Cells:
    """The accumulators of an aggregate by key: the fields of a cell, the records of folds, and how many a key has."""

    node: n.KeyedAggregate
    width: int
    fields: dict[str, str] = field(default_factory=lambda: {"n": "i8"})
    folds: dict[str, type[Record]] = field(default_factory=dict)

    @property
    def is_timed(self) -> bool:
        """Whether these are windows of time, whose cells belong to no key beforehand."""
        return isinstance(self.node.window, TimeWindow)


@dataclass
class GeneratedLoop:
    """A loop's source, and all that the engine must give it."""

    segment: Segment
    clocks: tuple[str, ...]
    """The clocks by which the marks that enter have positions."""
    signature: Signature = field(init=False)
    source: str = ""
    inputs: list[Input] = field(default_factory=list)
    keys: dict[str, Keys] = field(default_factory=dict)
    key_values: dict[str, n.KeyBy] = field(default_factory=dict)
    """The keys whose fields the loop reads, by the number of the key."""
    states: dict[str, n.Stateful] = field(default_factory=dict)
    arrivals: dict[str, n.Stateful] = field(default_factory=dict)
    """The nodes that note the order in which keys come, to end them in that order."""
    cells: dict[str, Cells] = field(default_factory=dict)
    endings: dict[int, n.Stateful] = field(default_factory=dict)
    """The nodes that end their keys, by the numbers with which an error names them."""
    records: dict[str, type[Record]] = field(default_factory=dict)
    scratch: dict[str, type[Record]] = field(default_factory=dict)
    """Where records are saved while functions that may fail change them."""
    guards: dict[int, Guard] = field(default_factory=dict)
    """By the number of the function, how it is called where it may fail without ending the run."""
    signals_in: dict[str, int] = field(default_factory=dict)
    emitted: dict[str, Signal] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    faults: list[FaultSite] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    heaps: list[Heap] = field(default_factory=list)
    integers: list[str] = field(default_factory=list)
    floats: list[str] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    literals: list[tuple[Any, pa.DataType]] = field(default_factory=list)
    log: Buffer | None = None
    counts_outputs: bool = False
    block: int = 0
    """Where the loop notes only the first row of so many, and nothing in it is changed by running a row again."""
