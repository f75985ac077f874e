"""Where items leave a loop: a result, or a cut that feeds other segments."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from penstock.codegen.site import Column, Site
from penstock.graph import nodes as n
from penstock.graph.hidden import HiddenField
from penstock.graph.record import Record
from penstock.kernels.credit import SIGNAL
from penstock.plan.segment import Segment

INDEX = HiddenField.of("index")
"""The hidden field that holds an item's index in the source."""
WHICH = HiddenField.of("which")
"""The hidden field of a letter that says what failed: the number of a function, or less than 0, that of a fault."""


def opening_kind(depth: int) -> int:
    """The kind of the mark where a region of a depth opens."""
    return 2 * depth


def closing_kind(depth: int) -> int:
    return 2 * depth + 1


def signal_kind(number: int) -> int:
    """The kind of the mark that a signal is."""
    return SIGNAL + number


def index_level(shape: n.Shape) -> int | None:
    """Where the indices in the source lie: with the items (None), or with the parents of a depth.

    All elements of a list have the index of the item that it was opened from, so it is kept there, once.
    """
    opened = (depth for depth, region in enumerate(shape.regions) if not region.is_found)
    return next(opened, None)


def enters_contiguous(segment: Segment) -> bool:
    """Whether every item of the source, and nothing else, enters a loop; its copies have some each."""
    return not segment.copies and not segment.is_guarded and is_contiguous(segment.entry)


def is_contiguous(node: n.GraphNode) -> bool:
    """Whether every item of the source, and nothing else, leaves a node, so that an item's place is its index."""
    while not isinstance(node, n.Source):
        if not isinstance(node, _ONE_TO_ONE):
            return False
        (node,) = node.inputs
    return not (isinstance(node, n.Received) and node.has_places)


_ONE_TO_ONE = (n.FillNull, n.Map, n.MapColumns, n.Select, n.KeyBy, n.Emit, n.Regions, n.Send)


@dataclass
class Buffer:
    """Room that the caller provides, with the most that each phase may put into it in one turn."""

    name: str
    terms: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, int | None] = field(default_factory=dict)
    """The same as numbers, None where it depends on the length of a list."""

    @property
    def count(self) -> str:
        return f"{self.name}_n"

    def left(self, number: int) -> str:
        """How often `number` more would fit."""
        room = f"{self.name}_c - {self.count}"
        return room if number == 1 else f"({room}) // {number}"

    def reserve(self, site: Site, times: int = 1) -> None:
        bound = site.bound if times == 1 else f"{times} * {site.bound}"
        self.terms.setdefault(site.phase, []).append(bound)
        before = self.numbers.get(site.phase, 0)
        self.numbers[site.phase] = None if site.spans or before is None else before + times * site.factor

    @property
    def most(self) -> int | None:
        """The most that one turn of any phase may put into it; None where that depends on the length of a list."""
        found = [number for number in self.numbers.values() if number is not None]
        return None if len(found) < len(self.numbers) else max(found, default=0)

    def term(self, phase: str) -> str:
        """The sum of what the places of a phase may write. A place that stands twice counts twice."""
        counts: dict[str, int] = {}
        for bound in self.terms[phase]:
            counts[bound] = counts.get(bound, 0) + 1
        return " + ".join(bound if times == 1 else f"{times} * {bound}" for bound, times in counts.items())


@dataclass(frozen=True)
class OutColumn:
    """One field that leaves: written to `array`, or where it is None taken whole from the rows that entered.

    Where `origin` is given, what is written is an index into that column, and the values are taken from it later.
    """

    field: str
    type: pa.DataType
    array: str | None
    origin: Column | None


@dataclass
class Outlet:
    """Rows of columns with a count: the items of a sink, or the parents of one depth of a cut."""

    buffer: Buffer
    columns: list[OutColumn] = field(default_factory=list)
    written: bool = False


@dataclass
class Sink:
    """All that leaves after one node.

    A cut, which feeds another segment, also has the parents opened in it, a table for each depth, the marks between the
    items, and the signals.
    """

    node: n.GraphNode
    feeds: Segment | None
    items: Outlet
    parents: list[Outlet] = field(default_factory=list)
    marks: Buffer | None = None
    signals: dict[int, Buffer] = field(default_factory=dict)
    clocks: tuple[str, ...] = ()
    """The clocks by which marks have places here (`plan/heartbeat/clocks.py`)."""
    number: int = -1
    """Of letters, the number of the node at which the items failed; else -1."""
    saved: type[Record] | None = None
    """Of letters, the record that each comes with."""

    @property
    def mark_arrays(self) -> list[str]:
        """The names of the arrays of marks: kinds, credits, and with clocks places and where signals were emitted."""
        assert self.marks is not None
        places = [f"_key{at}" for at in range(len(self.clocks))]
        return [f"{self.marks.name}{part}" for part in ("_kind", "_at", *places, *(["_from"] if places else []))]

    @property
    def saved_array(self) -> str:
        return f"{self.items.buffer.name}_state"

    @property
    def is_cut(self) -> bool:
        return self.feeds is not None

    @property
    def is_letters(self) -> bool:
        """Whether these are no items that leave, but those that failed at the node."""
        return self.number >= 0

    @property
    def has_places(self) -> bool:
        """Whether this is a result whose rows leave with their places in the stream, as letters do."""
        return self.is_letters or (not self.is_cut and isinstance(self.node, n.Send) and self.node.has_places)


@dataclass
class Heap:
    """Values of varying length that are computed or must outlive a batch: offsets `h_o`, elements `h_e`.

    `h_n` values are closed and, behind them, the elements up to `h_u` belong to one that is still collected. Where
    `refers` is given, the elements are indices into that heap, and `refs` are the carried variables that hold indices.
    `value_bytes` is what a value takes, as far as that is known before.
    """

    column: Column
    value_bytes: int
    is_collected: bool = False
    refers: Heap | None = None
    refs: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.column.prefix
