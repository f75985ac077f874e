"""Heaps between two calls of a loop: what was put on them as columns, and what must outlive the call."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.engine.columns import arrays_of, lists_to_arrow
from penstock.graph import types
from penstock.plan.sink import Heap


class HeldHeap:
    """The arrays of a heap. `count` values are closed; elements up to `used` belong to one still collected."""

    def __init__(self, heap: Heap, refers: HeldHeap | None) -> None:
        self.heap, self.refers = heap, refers
        element = np.dtype("i8") if refers is not None else _element_dtype(heap)
        self.offsets = np.zeros(16, np.int64)
        self.elements = np.empty(64, element)
        self.count = self.used = 0

    def column(self) -> pa.Array:
        """All closed values. Copied, because the arrays are used again."""
        offsets = self.offsets[: self.count + 1]
        taken = self.elements[: offsets[-1]]
        if self.refers is not None:
            return lists_to_arrow(offsets.copy(), self.refers.column().take(pa.array(taken)), self.heap.column.type)
        return lists_to_arrow(offsets.copy(), taken.copy(), self.heap.column.type)

    def tail(self) -> np.ndarray:
        """The elements of the value that is still collected."""
        return self.elements[self.offsets[self.count] : self.used].copy()

    def keep(self, indices: np.ndarray) -> None:
        """Forget all values but these, which are numbered anew from 0."""
        if len(indices):
            offsets, *parts = arrays_of(self.column().take(pa.array(indices)))
            self._set(np.asarray(offsets, np.int64), parts[-1])
        else:
            self.count = 0
            self.offsets[0] = 0
        self.used = int(self.offsets[self.count])

    def _set(self, offsets: np.ndarray, elements: np.ndarray) -> None:
        if len(offsets) > len(self.offsets):
            self.offsets = np.empty(2 * len(offsets), np.int64)
        if len(elements) > len(self.elements):
            self.elements = np.empty(2 * len(elements), self.elements.dtype)
        self.offsets[: len(offsets)] = offsets
        self.elements[: len(elements)] = elements
        self.count = len(offsets) - 1

    def restart(self, tail: np.ndarray) -> None:
        """Forget all closed values and go on collecting behind these elements."""
        self._set(np.zeros(1, np.int64), tail)
        self.used = len(tail)


def _element_dtype(heap: Heap) -> np.dtype:
    t = heap.column.type
    return np.dtype("u1") if types.is_text(t) else types.storage(t.value_type)
