"""Where items leave a loop: a result, or a cut that feeds other segments."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from penstock.graph import nodes as n
from penstock.plan.code import Buffer, Column

OPEN, CLOSE, SIGNAL = 0, 1, 1000
"""Kinds of marks: 2 · depth + OPEN or CLOSE for a region, SIGNAL + the signal's number for a signal."""


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

    A cut also has the parents opened in it, a table for each depth, the marks between the items, and the signals.
    """

    node: n.GraphNode
    is_cut: bool
    items: Outlet
    parents: list[Outlet] = field(default_factory=list)
    marks: Buffer | None = None
    signals: dict[int, Buffer] = field(default_factory=dict)


@dataclass
class Heap:
    """Values of varying length that are computed or must outlive a batch: offsets `h_o`, elements `h_e`.

    `h_n` values are closed and, behind them, the elements up to `h_u` belong to one that is still collected. Where
    `refers` is given, the elements are indices into that heap, and `refs` are the carried variables that hold indices.
    """

    column: Column
    is_collected: bool = False
    refers: Heap | None = None
    refs: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.column.prefix
