"""What a node fires on: items as columns, with the regions and signals that lie among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.engine.columns import arrays_of
from penstock.graph.record import Signal
from penstock.kernels.credit import SIGNAL

Columns = dict[str, pa.Array]


class Window(Protocol):
    """Where the columns of an ensemble lie: a channel, or a batch of the source."""

    def arrays(self, level: int | None, field: str, is_wide: bool) -> list[np.ndarray]:
        """The arrays of a field as kernels read them, of the items or of the parents of a depth."""

    def column(self, level: int | None, field: str) -> pa.Array:
        """The field as a column; it lasts until the window moves on."""

    def fields(self) -> Sequence[str]:
        """The fields of the items."""

    def indices(self) -> np.ndarray:
        """The index in the source of the item at every place, and of the one that would follow.

        Where the items are just those of the source, it is only that of the item at place 0.
        """

    @property
    def signals(self) -> Sequence[np.ndarray]:
        """The signals of each type."""

    def mark_places(self) -> list[np.ndarray]:
        """The places of marks by each clock, and which node has emitted each; nothing where there is no clock."""

    @property
    def version(self) -> int:
        """Changes whenever `arrays` may give other arrays than before."""


@dataclass(slots=True)
class Ensemble:
    """Items from `start` to `stop` of a window, and the marks among them.

    Invariant: marks from `first_mark` to `last_mark` go up in `places`; a mark at place p stands before item p. A
    region opens with a row of its parents as `references`, or closes; a signal has its row among the signals of its
    type. `initial` are the parents' rows of regions that are open from before, -1 for none.
    """

    window: Window
    start: int
    stop: int
    first_mark: int
    last_mark: int
    kinds: np.ndarray
    places: np.ndarray
    references: np.ndarray
    initial: np.ndarray
    is_last: bool = False

    def parent_rows(self, depth: int, level: int | None = None) -> np.ndarray:
        """For each item (or each parent at a deeper level) the row of its parent at a depth."""
        kinds, places, references = (a[self.first_mark : self.last_mark] for a in self._marks)
        (opened,) = np.nonzero(kinds == 2 * depth)
        rows = np.concatenate((self.initial[depth : depth + 1], references[opened]))
        if level is None:
            starts = np.concatenate(([self.start], places[opened], [self.stop]))
            return np.repeat(rows, np.diff(starts))
        (inner,) = np.nonzero(kinds == 2 * level)
        before = np.searchsorted(opened, inner)
        from_before = [0] if self.initial[level] >= 0 else []
        return rows[np.concatenate((np.array(from_before, np.int64), before))]

    @property
    def _marks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.kinds, self.places, self.references

    def parents_used(self, depth: int) -> tuple[int, int]:
        """The rows of the parents of a depth that the items of this ensemble may have, from the first on."""
        kinds, _, references = (a[self.first_mark : self.last_mark] for a in self._marks)
        opened = references[kinds == 2 * depth]
        first = int(self.initial[depth]) if self.initial[depth] >= 0 else int(opened[0]) if len(opened) else 0
        return first, int(opened[-1]) + 1 if len(opened) else first + int(self.initial[depth] >= 0)


class Table:
    """A window on columns that are at hand: a batch of the source, or the one row of an error."""

    def __init__(
        self,
        columns: Columns,
        parents: Sequence[Columns],
        signals: Sequence[np.ndarray],
        index: np.ndarray,
        places: Sequence[np.ndarray] = (),
    ) -> None:
        self.columns, self.parents, self.signals, self.index = columns, parents, signals, index
        self.places = list(places)
        self.version = 0

    def mark_places(self) -> list[np.ndarray]:
        return self.places

    def arrays(self, level: int | None, field: str, is_wide: bool) -> list[np.ndarray]:
        return arrays_of(self.column(level, field), is_wide)

    def column(self, level: int | None, field: str) -> pa.Array:
        return self.columns[field] if level is None else self.parents[level][field]

    def fields(self) -> Sequence[str]:
        return list(self.columns)

    def indices(self) -> np.ndarray:
        return self.index


def signal_arrays(types: Sequence[type[Signal]]) -> list[np.ndarray]:
    return [np.zeros(0, signal.layout.dtype) for signal in types]


def place_signals(
    placed: Sequence[tuple[int, Signal]], types: Sequence[type[Signal]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """Marks of signals, each before the item at a place: kinds, places, rows, and the signals of each type."""
    rows: list[list[np.ndarray]] = [[] for _ in types]
    kinds, references = [], []
    for _, signal in placed:
        number = list(types).index(type(signal))
        kinds.append(SIGNAL + number)
        references.append(len(rows[number]))
        rows[number].append(signal.as_row())
    signals = [np.concatenate(f) if f else empty for f, empty in zip(rows, signal_arrays(types), strict=True)]
    places = np.array([place for place, _ in placed], np.int64)
    return np.array(kinds, np.int64), places, np.array(references, np.int64), signals
