"""What a loop takes at a time: items as columns, with the regions and signals that lie among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.graph.record import Signal
from penstock.plan.sink import SIGNAL


@dataclass
class Ensemble:
    """Items in order, and the marks between them.

    Invariant: marks go up in `places`; a mark at place p stands before item p. A mark's kind and reference are those of
    `plan.sink`: a region at a depth opens with a row of `parents[depth]` as its parent, or closes; a signal has its
    number and its row in `signals`. `initial` are the parents' rows of regions that are open from before, -1 for none.
    `index` holds the place in the source of every item and of the one that would follow; without it they follow each
    other from `base`.
    """

    count: int
    columns: dict[str, pa.Array]
    base: int = 0
    index: np.ndarray | None = None
    parents: list[dict[str, pa.Array]] = field(default_factory=list)
    initial: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    kinds: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    places: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    references: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    signals: list[np.ndarray] = field(default_factory=list)
    is_first: bool = False
    is_last: bool = False

    def index_at(self, row: int) -> int:
        """The index in the source of the item at a row; behind the last, of the one that would follow."""
        row = min(row, self.count)
        return self.base + row if self.index is None else int(self.index[row])

    def indices(self) -> np.ndarray:
        """The indices of all items, and of the one that would follow."""
        return np.arange(self.base, self.base + self.count + 1) if self.index is None else self.index

    def parent_rows(self, depth: int, level: int | None = None) -> np.ndarray:
        """For each item (or each parent at a deeper level) the row of its parent at a depth."""
        (opened,) = np.nonzero(self.kinds == 2 * depth)
        rows = np.concatenate((self.initial[depth : depth + 1], self.references[opened]))
        if level is None:
            starts = np.concatenate(([0], self.places[opened], [self.count]))
            return np.repeat(rows, np.diff(starts))
        (inner,) = np.nonzero(self.kinds == 2 * level)
        before = np.searchsorted(opened, inner)
        from_before = [0] if self.initial[level] >= 0 else []
        return rows[np.concatenate((np.array(from_before, np.int64), before))]


def signal_arrays(types: Sequence[type[Signal]]) -> list[np.ndarray]:
    return [np.zeros(0, signal.layout.dtype) for signal in types]


def place_signals(ensemble: Ensemble, placed: Sequence[tuple[int, Signal]], types: Sequence[type[Signal]]) -> None:
    """Set the marks of an ensemble from the source: signals, each before the item at a place."""
    rows: list[list[np.ndarray]] = [[] for _ in types]
    kinds, references = [], []
    for _, signal in placed:
        number = list(types).index(type(signal))
        kinds.append(SIGNAL + number)
        references.append(len(rows[number]))
        rows[number].append(signal.as_row())
    ensemble.kinds = np.array(kinds, np.int64)
    ensemble.references = np.array(references, np.int64)
    ensemble.places = np.array([place for place, _ in placed], np.int64)
    ensemble.signals = [
        np.concatenate(found) if found else empty for found, empty in zip(rows, signal_arrays(types), strict=True)
    ]
