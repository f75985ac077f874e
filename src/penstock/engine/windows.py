"""The open windows of time of all keys of a node: their cells, and the order in which they close."""

from __future__ import annotations

import numpy as np

from penstock.codegen.generated import Cells
from penstock.codegen.outlets import Buffer
from penstock.engine.state import HeldCells
from penstock.kernels.window_cells import place_cells

OPEN, RANKED, LATE, FREE, FIRST, IS_KNOWN = range(6)
"""What is counted: open windows, keys that had a rank, items that were late, and cells to be used again. And the first
window that is open, if that is known."""
KEPT = [RANKED, FIRST, IS_KNOWN]
"""What outlives a pause."""


class TimedCells(HeldCells):
    """The cells of windows of time, which belong to no key beforehand.

    A cell has the number `s` of its key, the number `q` of its window, and the rank `r` of the key.
    Invariant: the first `used` cells have been taken. Those with n > 0 are open: they are in the heap, whose top is the
    next to close, and in the table, which finds them by key and number. All other cells that have been taken are free,
    and stand at the end of the heap's array. The table's length is a power of two, and more than twice the cells.
    """

    def __init__(self, cells: Cells) -> None:
        super().__init__(cells)
        self.heap, self.counts = np.zeros(len(self.records), np.int64), np.zeros(6, np.int64)
        self.table, self.used = np.zeros(_table_size(len(self.records)), np.int64), 0

    def reserve(self, count: int) -> None:
        """Nothing to do for keys: they have no cells of their own."""

    def enlarge(self, count: int) -> None:
        """Have at least `count` cells."""
        if count <= len(self.records):
            return
        more = max(count, 2 * len(self.records), 1024) - len(self.records)
        self.records, *self.folds = (
            np.concatenate((held, np.zeros(more, held.dtype))) for held in (self.records, *self.folds)
        )
        self._arrange()

    def _arrange(self) -> None:
        """Have a heap and a table of the cells that are open, and know those that are free."""
        records, size = self.records, len(self.records)
        is_open = np.flatnonzero(records["n"][: self.used])
        is_free = np.flatnonzero(records["n"][: self.used] == 0)
        ordered = is_open[np.lexsort((records["r"][is_open], records["q"][is_open]))]  # what is sorted is a heap
        self.heap, self.table = np.zeros(size, np.int64), np.zeros(_table_size(size), np.int64)
        self.heap[: len(ordered)] = ordered
        self.heap[size - len(is_free) :] = is_free
        self.counts[OPEN], self.counts[FREE] = len(ordered), len(is_free)
        place_cells(self.table, records["s"], records["q"], is_open)

    # As they are kept, by key

    def by_key(self, keys: int) -> list[np.ndarray]:
        """The cells in rows, one for each of the first keys: window q in column q modulo the width.

        Requires that the watermark has come to all items, so that no key has more windows than that.
        """
        is_open = np.flatnonzero(self.records["n"][: self.used])
        places = self.records["s"][is_open] * self.width + self.records["q"][is_open] % self.width
        found = []
        for held in (self.records, *self.folds):
            rows = np.zeros(keys * self.width, held.dtype)
            rows[places] = held[is_open]
            found.append(rows.reshape(keys, self.width))
        return found

    def put(self, slots: np.ndarray, rows: list[np.ndarray]) -> None:
        """Have these rows for some keys, in place of what they had."""
        is_gone = np.isin(self.records["s"][: self.used], slots)
        self.records["n"][: self.used][is_gone] = 0
        records, *folds = rows
        at, column = np.nonzero(records["n"])
        first, self.used = self.used, self.used + len(at)
        if self.used > len(self.records):
            count, self.used = self.used, first
            self.enlarge(count)
            self.used = count
        for held, given in zip((self.records, *self.folds), (records, *folds), strict=True):
            held[first : self.used] = given[at, column]
        self.records["s"][first : self.used] = slots[at]
        self._arrange()


def _table_size(cells: int) -> int:
    return 1 << (2 * cells).bit_length()


class PoolRoom:
    """The cells of a pool as room that a loop writes to, as a sink has it, though nothing leaves."""

    def __init__(self, cells: TimedCells, buffer: Buffer) -> None:
        self.cells, self.buffers = cells, [buffer]

    def open(self, used: np.ndarray, room: np.ndarray, places: list[int]) -> None:
        used[places[0]], room[places[0]] = self.cells.used, len(self.cells.records)
