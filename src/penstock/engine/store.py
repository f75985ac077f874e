"""Columns that are filled behind and emptied in front, in memory that is allocated once and used again.

A store holds the values of one field at places of an array. What is consumed is not moved; when the end is reached,
what is still there is moved to the front. Kernels read and write the arrays themselves, at these places.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.codegen.outlets import INDEX
from penstock.engine.columns import arrays_of, lists_to_arrow, scalars_to_arrow, typed
from penstock.graph import types

Parts = list[np.ndarray]
"""Some values of a field, as arrays of their own or as views: offsets from the outside in, then elements."""


class Store(Protocol):
    """The values of one field. `stop` is where the values end."""

    def arrays(self) -> list[np.ndarray]:
        """The arrays as kernels read them: offsets from the outside in, then elements."""

    def put(self, at: int, values: pa.Array) -> None:
        """Write a column of values from a place on; the values before it stay."""

    def parts(self, start: int, stop: int) -> Parts:
        """The values between two places, as views that last only until the store changes."""

    def paste(self, at: int, parts: Parts) -> None:
        """Write values that come from a store of the same type, as `put` does."""

    def move(self, start: int, stop: int) -> None:
        """Move the values between two places to the front."""

    def column(self, stop: int) -> pa.Array:
        """All values up to a place as a column that lasts only until the store changes."""

    def taken(self, at: np.ndarray | slice, stop: int) -> pa.Array:
        """The values at some of the places up to one, as a column of their own."""


LINE_BYTES = 64


def aligned(size: int, dtype: Any) -> np.ndarray:
    """An array that begins at a line of the cache, whatever the heap looks like: so loops are as fast in every run.

    Lists of a fixed length that is a multiple of a line then never straddle one more than they must.
    """
    wanted = np.dtype(dtype)
    raw = np.empty(size * wanted.itemsize + LINE_BYTES, np.uint8)
    skipped = -raw.ctypes.data % LINE_BYTES
    return raw[skipped : skipped + size * wanted.itemsize].view(wanted)


def store(t: pa.DataType, size: int) -> Store:
    """An empty store for `size` values of a type; elements of lists and texts grow with what is put."""
    if types.is_scalar(t):
        return Scalars(t, size)
    if types.is_array(t):
        return Arrays(t, size)
    return Lists(t, size)


class Scalars:
    def __init__(self, t: pa.DataType, size: int) -> None:
        self.type = t
        self.array = aligned(size, types.storage(t))

    def arrays(self) -> list[np.ndarray]:
        return [self.array]

    def put(self, at: int, values: pa.Array) -> None:
        self.reserve(at + len(values))
        (self.array[at : at + len(values)],) = arrays_of(values)

    def parts(self, start: int, stop: int) -> Parts:
        return [self.array[start:stop]]

    def paste(self, at: int, parts: Parts) -> None:
        (values,) = parts
        self.reserve(at + len(values))
        self.array[at : at + len(values)] = values

    def reserve(self, count: int) -> None:
        if count > len(self.array):
            larger = aligned(len(self.array) + max(count, 2 * len(self.array)), self.array.dtype)
            larger[: len(self.array)] = self.array
            self.array = larger

    def move(self, start: int, stop: int) -> None:
        self.array[: stop - start] = self.array[start:stop]

    def column(self, stop: int) -> pa.Array:
        return self._as_column(self.array[:stop])

    def taken(self, at: np.ndarray | slice, stop: int) -> pa.Array:
        return self._as_column(self.array[at].copy() if isinstance(at, slice) else self.array[at])

    def _as_column(self, values: np.ndarray) -> pa.Array:
        return pa.array(values) if pt.is_boolean(self.type) else scalars_to_arrow(values, self.type)


class Arrays:
    """Values of a fixed number of elements."""

    def __init__(self, t: pa.DataType, size: int) -> None:
        self.type, self.elements = t, store(t.value_type, size * t.list_size)

    def arrays(self) -> list[np.ndarray]:
        return self.elements.arrays()

    def put(self, at: int, values: pa.Array) -> None:
        self.elements.put(at * self.type.list_size, values.flatten())

    def parts(self, start: int, stop: int) -> Parts:
        return self.elements.parts(start * self.type.list_size, stop * self.type.list_size)

    def paste(self, at: int, parts: Parts) -> None:
        self.elements.paste(at * self.type.list_size, parts)

    def move(self, start: int, stop: int) -> None:
        self.elements.move(start * self.type.list_size, stop * self.type.list_size)

    def column(self, stop: int) -> pa.Array:
        size = self.type.list_size
        return pa.FixedSizeListArray.from_arrays(self.elements.column(stop * size), type=self.type)

    def taken(self, at: np.ndarray | slice, stop: int) -> pa.Array:
        return _taken(self.column(stop), at)


class Lists:
    """Texts and lists. Invariant: `offsets[at]` is where the elements of the value at a place begin, and those of the
    one before end."""

    def __init__(self, t: pa.DataType, size: int) -> None:
        self.type = t
        self.offsets = np.empty(size + 1, np.int64)
        self.offsets[0] = 0
        self.elements = store(pa.uint8() if types.is_text(t) else t.value_type, size)

    def arrays(self) -> list[np.ndarray]:
        return [self.offsets, *self.elements.arrays()]

    def put(self, at: int, values: pa.Array) -> None:
        count = len(values)
        self._reserve(at + count + 1)
        if count == 0:
            return
        offsets, elements = _parts(values)
        self.elements.put(int(self.offsets[at]), elements.slice(offsets[0], offsets[count] - offsets[0]))
        self.offsets[at + 1 : at + count + 1] = self.offsets[at] + (offsets[1 : count + 1] - offsets[0])

    def _reserve(self, count: int) -> None:
        if count > len(self.offsets):
            self.offsets = np.concatenate((self.offsets, np.empty(max(count, len(self.offsets)), np.int64)))

    def parts(self, start: int, stop: int) -> Parts:
        offsets = self.offsets[start : stop + 1]
        return [offsets, *self.elements.parts(int(offsets[0]), int(offsets[-1]))]

    def paste(self, at: int, parts: Parts) -> None:
        offsets, *elements = parts
        count = len(offsets) - 1
        self._reserve(at + count + 1)
        self.elements.paste(int(self.offsets[at]), elements)
        self.offsets[at + 1 : at + count + 1] = offsets[1:] + (self.offsets[at] - offsets[0])

    def move(self, start: int, stop: int) -> None:
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        self.elements.move(first, last)
        self.offsets[: stop - start + 1] = self.offsets[start : stop + 1] - first

    def column(self, stop: int) -> pa.Array:
        offsets = self.offsets[: stop + 1]
        elements = self.elements.column(int(offsets[-1]))
        if types.is_text(self.type):
            return typed(lists_to_arrow(offsets, elements.buffers()[1] or b"", self.type), self.type)
        return typed(lists_to_arrow(offsets, elements, self.type), self.type)

    def taken(self, at: np.ndarray | slice, stop: int) -> pa.Array:
        return _taken(self.column(stop), at)


def _taken(column: pa.Array, at: np.ndarray | slice) -> pa.Array:
    if isinstance(at, slice):
        return pa.concat_arrays([column[at], column[:0]])
    return column.take(pa.array(at))


def _parts(values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The offsets of texts or lists, and the column of elements that they point into."""
    if not types.is_text(values.type):
        return values.offsets.to_numpy(), values.values
    offsets, data = arrays_of(values)
    return offsets.astype(np.int64), pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])


class Rows:
    """Rows of several fields: those between `start` and `stop` are there.

    Invariant: `start <= stop <= start + capacity`, and the arrays have room for twice the capacity, so that what is
    there is moved at most once for each `capacity` rows that were consumed.
    """

    def __init__(self, fields: dict[str, pa.DataType], capacity: int) -> None:
        self.capacity, self.size = capacity, 2 * capacity
        self.start = self.stop = 0
        # One place more, because a column of indices also holds the one that would follow.
        self.stores = {name: store(t, self.size + 1) for name, t in fields.items()}
        if INDEX in self.stores:
            self.array_of(INDEX)[0] = 0
        self.has_lists = any(isinstance(each, Lists) for each in self.stores.values())

    def __len__(self) -> int:
        return self.stop - self.start

    def avail(self) -> int:
        """How many rows may be added."""
        return self.start + self.capacity - self.stop

    def make_room(self) -> None:
        """Move what is there to the front where the room behind it is short."""
        start = self.start
        if start == self.stop:
            if start:
                self._restart()
        elif start + self.capacity > self.size:
            self._move()

    def _restart(self) -> None:
        """Begin at the front again: nothing is there but, perhaps, the index that follows."""
        if self.has_lists:
            self._move()
            return
        if INDEX in self.stores:
            array = self.array_of(INDEX)
            array[0] = array[self.start]
        self.start = self.stop = 0

    def _move(self) -> None:
        for each in self.stores.values():
            each.move(self.start, self.stop + 1 if isinstance(each, Scalars) else self.stop)
        self.start, self.stop = 0, self.stop - self.start

    def array_of(self, name: str) -> np.ndarray:
        """The array of a field of scalars."""
        found: Any = self.stores[name]
        return found.array  # type: ignore[no-any-return]


class Records(Rows):
    """Rows that are records in one array: the signals of one type."""

    def __init__(self, dtype: np.dtype, capacity: int) -> None:
        super().__init__({}, capacity)
        self.array = np.empty(self.size + 1, dtype)

    def _move(self) -> None:
        self.array[: self.stop - self.start] = self.array[self.start : self.stop]
        self.start, self.stop = 0, self.stop - self.start
