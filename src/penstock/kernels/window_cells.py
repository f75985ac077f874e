"""Cells of open windows: found by key and number, and taken in the order in which windows close."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


def cell_place(table: Any, slots: Any, numbers: Any, slot: Any, number: Any) -> Any:
    """Where the cell of a key's window stands in a table, or where it belongs. There it is one more than its number.

    Requires that the length of the table is a power of two, and that it has an empty place.
    """
    mixed = slot * 668265263 + number * 374761393
    place = (mixed ^ (mixed >> 17)) & (len(table) - 1)
    while table[place] != 0 and (slots[table[place] - 1] != slot or numbers[table[place] - 1] != number):
        place = (place + 1) & (len(table) - 1)
    return place


def heap_push(heap: Any, counts: Any, numbers: Any, ranks: Any, cell: Any) -> None:
    """Put a cell into the heap of open windows, `counts[0]` of them: the least by number, then rank, is at the top."""
    at = counts[0]
    counts[0] += 1
    while at > 0:
        above = heap[(at - 1) // 2]
        if numbers[above] < numbers[cell] or (numbers[above] == numbers[cell] and ranks[above] <= ranks[cell]):
            break
        heap[at] = above
        at = (at - 1) // 2
    heap[at] = cell


def heap_pop(heap: Any, counts: Any, numbers: Any, ranks: Any) -> None:
    """Take the cell at the top out of the heap."""
    counts[0] -= 1
    size, last, at = counts[0], heap[counts[0]], 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size:
            a, b = heap[child], heap[child + 1]
            if numbers[b] < numbers[a] or (numbers[b] == numbers[a] and ranks[b] < ranks[a]):
                child += 1
        below = heap[child]
        if numbers[last] < numbers[below] or (numbers[last] == numbers[below] and ranks[last] <= ranks[below]):
            break
        heap[at] = below
        at = child
    heap[at] = last


def free_cell(table: Any, heap: Any, counts: Any, slots: Any, numbers: Any, cell: Any) -> None:
    """Take a cell out of the table, and free it: the free ones, `counts[3]`, stand at the end of the heap's array."""
    mask = len(table) - 1
    mixed = slots[cell] * 668265263 + numbers[cell] * 374761393
    hole = (mixed ^ (mixed >> 17)) & mask
    while table[hole] != cell + 1:
        hole = (hole + 1) & mask
    at = (hole + 1) & mask
    while table[at] != 0:
        # One that would not be found across the hole, because its search begins at it or before, fills it.
        other = table[at] - 1
        mixed = slots[other] * 668265263 + numbers[other] * 374761393
        home = (mixed ^ (mixed >> 17)) & mask
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole] = table[at]
            hole = at
        at = (at + 1) & mask
    table[hole] = 0
    counts[3] += 1
    heap[len(heap) - counts[3]] = cell


_find = numba.njit(cache=True, nogil=True)(cell_place)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _place(table: Any, slots: Any, numbers: Any, cells: Any) -> None:
    for cell in cells:
        table[_find(table, slots, numbers, slots[cell], numbers[cell])] = cell + 1


def place_cells(table: np.ndarray, slots: np.ndarray, numbers: np.ndarray, cells: np.ndarray) -> None:
    """Put some cells, of these keys and windows, into a table that is empty."""
    _place(table, np.ascontiguousarray(slots), np.ascontiguousarray(numbers), cells)
