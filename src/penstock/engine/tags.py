"""The tags of a channel that carries regions in the `dense` way: written when items are sent, read when taken."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from penstock.engine.control import Control
from penstock.engine.store import Rows
from penstock.graph.hidden import HiddenField

TAG, LINK = HiddenField.of("tag"), HiddenField.of("link")
"""The hidden fields of an item and of a parent: the number of the region that it lies in."""


class Tags:
    """Boundaries of regions as tags. The arrays for the marks that are found again are made once."""

    def __init__(self, data: Rows, parents: Sequence[Rows], control: Control, functions: SimpleNamespace) -> None:
        self.data, self.parents, self.control, self.functions = data, parents, control, functions
        self.depth = len(parents)
        size = control.capacity + 2 * sum(rows.capacity for rows in parents)
        self.kinds, self.places, self.references, self.sent = (np.empty(size, np.int64) for _ in range(4))
        self._opened, self._is_open, self._rows, self._wanted = (np.zeros(self.depth, np.int64) for _ in range(4))

    def put(self, items: int, marks: int, opened: Sequence[int]) -> int:
        """Tag the items up to a place, with so many regions opened before; where the marks that remain end."""
        self._opened[:] = opened
        self._rows[:] = [rows.stop for rows in self.parents]
        control, data = self.control, self.data
        kept: int = self.functions.tag(
            control.kinds,
            control.credits,
            control.stop,
            marks,
            data.stop,
            items,
            self.depth,
            self._opened,
            data.array_of(TAG),
            self._links,
            self._rows,
        )
        return kept

    def marks(self, stop: int, last: int, opened: Sequence[int], is_open: Sequence[int]) -> int:
        """Find all marks up to an item and a mark of the queue; how many there are in `kinds` and the others."""
        self._opened[:], self._is_open[:] = opened, is_open
        closed = zip(self.parents, opened, is_open, strict=True)
        self._rows[:] = [rows.start - (seen - is_open) for rows, seen, is_open in closed]
        control, data = self.control, self.data
        count: int = self.functions.rebuild(
            control.kinds,
            control.places,
            control.references,
            control.start,
            last,
            data.start,
            stop,
            self.depth,
            self._opened,
            self._is_open,
            self._rows,
            data.array_of(TAG),
            self._links,
            self._wanted,
            self.kinds,
            self.places,
            self.references,
            self.sent,
        )
        return count

    @property
    def _links(self) -> tuple[np.ndarray, ...]:
        return tuple(rows.array_of(LINK) for rows in self.parents)
