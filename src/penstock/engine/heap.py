"""Heaps between two calls of a loop: what was put on them as columns, and what must outlive the call."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.codegen.generated import GeneratedLoop
from penstock.codegen.outlets import Heap
from penstock.engine.columns import arrays_of, lists_to_arrow
from penstock.graph import types


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

    @property
    def is_collected(self) -> bool:
        return self.heap.is_collected

    def tail(self) -> np.ndarray:
        """The elements of the value that is still collected."""
        return self.elements[self.offsets[self.count] : self.used].copy()

    def keep(self, indices: np.ndarray) -> None:
        """Forget all values but these, which are numbered anew from 0."""
        if len(indices):
            offsets, *parts = arrays_of(self.column().take(pa.array(indices)))
            self.hold(np.asarray(offsets, np.int64), parts[-1])
        else:
            self.count = 0
            self.offsets[0] = 0
        self.used = int(self.offsets[self.count])

    def hold(self, offsets: np.ndarray, elements: np.ndarray) -> None:
        """Hold these values instead."""
        if len(offsets) > len(self.offsets):
            self.offsets = np.empty(2 * len(offsets), np.int64)
        if len(elements) > len(self.elements):
            self.elements = np.empty(2 * len(elements), self.elements.dtype)
        self.offsets[: len(offsets)] = offsets
        self.elements[: len(elements)] = elements
        self.count = len(offsets) - 1

    def restart(self, tail: np.ndarray) -> None:
        """Forget all closed values and go on collecting behind these elements."""
        self.hold(np.zeros(1, np.int64), tail)
        self.used = len(tail)


class Heaps:
    """All heaps of a loop. Their counts, and the indices into them that are carried, are integers of the loop."""

    def __init__(self, code: GeneratedLoop) -> None:
        self.place = {name: at for at, name in enumerate(code.integers)}
        self.held: dict[str, HeldHeap] = {}
        for heap in code.heaps:
            self.held[heap.name] = HeldHeap(heap, self.held[heap.refers.name] if heap.refers else None)

    def take(self, arrays: list[np.ndarray], integers: np.ndarray) -> None:
        """Take the arrays back, and how far they are filled."""
        for at, (name, heap) in enumerate(self.held.items()):
            heap.offsets, heap.elements = arrays[2 * at], arrays[2 * at + 1]
            heap.count = int(integers[self.place[f"{name}_n"]])
            heap.used = int(integers[self.place[f"{name}_u"]]) if heap.is_collected else int(heap.offsets[heap.count])

    def forget(self, integers: np.ndarray) -> None:
        """Empty all heaps but for what outlives the call, which is numbered anew."""
        tails = {name: heap.tail() for name, heap in self.held.items() if heap.is_collected}
        for name, heap in self.held.items():
            if not heap.is_collected:
                self._keep(name, heap, tails, integers)
        for name, tail in tails.items():
            self.held[name].restart(tail)
            integers[self.place[f"{name}_n"]] = 0
            integers[self.place[f"{name}_u"]] = self.held[name].used

    def _keep(self, name: str, heap: HeldHeap, tails: dict[str, np.ndarray], integers: np.ndarray) -> None:
        """Keep the values that carried variables point to, and those that a list still collected consists of."""
        places = [self.place[ref] for ref in heap.heap.refs] if heap.count else []
        # A variable of a region that is not open points nowhere; any value will do for it.
        indices = np.array([min(int(integers[place]), heap.count - 1) for place in places], np.int64)
        users = [user for user in tails if self.held[user].refers is heap]
        heap.keep(np.concatenate([indices, *(tails[user] for user in users)]))
        integers[places] = np.arange(len(places))
        start = len(indices)
        for user in users:
            tails[user] = np.arange(start, start + len(tails[user]))
            start += len(tails[user])
        integers[self.place[f"{name}_n"]] = heap.count


def _element_dtype(heap: Heap) -> np.dtype:
    t = heap.column.type
    return np.dtype("u1") if types.is_text(t) else types.storage(t.value_type)
