"""Numbers for the keys of whole columns, remembered from batch to batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.columns import arrays_of
from penstock.graph import types
from penstock.kernels import key_numbers

_SMALL = 1 << 16
"""Integers from 0 up to this have a direct table."""


class _Reused:
    """An array of numbers that is used again for the next batch."""

    def __init__(self) -> None:
        self.array = np.empty(0, np.int32)

    def of(self, count: int) -> np.ndarray:
        if len(self.array) < count:
            self.array = np.empty(count, np.int32)
        return self.array[:count]


class IntegerIndex:
    """Integers to numbers. Invariant: `keys[:count]` are all different, and the table is at most half full."""

    def __init__(self, seed: int, direct: int = _SMALL) -> None:
        self.seed = np.uint64(seed)
        self.direct = np.full(direct, -1, np.int32)
        self.table = np.full(64, -1, np.int32)
        self.keys = np.empty(32, np.int64)
        self.count = 0
        self.slots = _Reused()

    def number(self, values: np.ndarray) -> np.ndarray:
        slots, at = self.slots.of(len(values)), 0
        while at < len(values):
            at, self.count = key_numbers.number_integers(
                values, at, slots, self.direct, self.table, self.keys, self.count, self.seed
            )
            if at < len(values):
                self._grow()
        return slots

    def _grow(self) -> None:
        self.keys = np.concatenate((self.keys, np.empty_like(self.keys)))
        self.table = np.full(2 * len(self.table), -1, np.int32)
        key_numbers.rebuild_integers(self.table, self.keys, self.count, self.seed)


class TextIndex:
    """Strings and bytes to numbers, in the same way."""

    def __init__(self, seed: int) -> None:
        self.seed = np.uint64(seed)
        self.table = np.full(64, -1, np.int64)
        self.hashes = np.empty(32, np.uint64)
        self.offsets = np.zeros(33, np.int64)
        self.data = np.empty(1024, np.uint8)
        self.count = 0
        self.slots = _Reused()

    def number(self, offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
        slots, at = self.slots.of(len(offsets) - 1), 0
        codes = np.empty(len(slots), np.uint64)
        key_numbers.hash_texts(offsets, data, codes, self.seed)
        while at < len(slots):
            at, self.count = key_numbers.number_texts(
                offsets, data, codes, at, slots, self.table, self.hashes, self.offsets, self.data, self.count
            )
            if at < len(slots):
                self._grow(int(offsets[at + 1] - offsets[at]))
        return slots

    def _grow(self, needed: int) -> None:
        """Make room for more keys, or for more bytes, whichever was short."""
        if self.offsets[self.count] + needed > len(self.data):
            grown = np.empty(2 * len(self.data) + needed, np.uint8)
            grown[: len(self.data)] = self.data
            self.data = grown
        if self.count == len(self.hashes):
            self.hashes = np.concatenate((self.hashes, np.empty_like(self.hashes)))
            self.offsets = np.concatenate((self.offsets, np.zeros(len(self.offsets), np.int64)))
            self.table = np.full(2 * len(self.table), -1, np.int64)
            key_numbers.rebuild_texts(self.table, self.hashes, self.count)


KeyValues = np.ndarray | tuple[np.ndarray, np.ndarray]
"""The values of a field of keys: integers of 64 bits (of a float its bits), or the offsets and bytes of texts."""


def key_values(columns: Sequence[pa.Array]) -> list[KeyValues]:
    """Columns in the form that equal keys share."""
    found: list[KeyValues] = []
    for column in columns:
        arrays = arrays_of(column)
        if types.is_text(column.type):
            found.append((arrays[0], arrays[1]))
            continue
        values = arrays[0]
        if values.dtype.kind == "f":
            values = (values.astype(np.float64) + 0.0).view(np.int64)  # -0.0 is the same key as 0.0
        found.append(values.astype(np.int64, copy=False))
    return found


def taken(values: Sequence[KeyValues], slots: np.ndarray) -> list[KeyValues]:
    """Some of these keys, in this order."""
    found: list[KeyValues] = []
    for held in values:
        if isinstance(held, tuple):
            offsets, data = (np.ascontiguousarray(part) for part in held)
            buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
            column = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
            found.append(key_values([column.take(pa.array(slots))])[0])
        else:
            found.append(held[slots])
    return found


def _is_nan(column: pa.Array) -> np.ndarray:
    return np.isnan(arrays_of(column)[0])  # type: ignore[no-any-return]


class KeyIndex:
    """The numbers of one `key_by`: of one field, or of several, whose numbers are numbered again in pairs.

    The numbers do not depend on the seed, which only decides where the index keeps them.
    """

    def __init__(self, key_types: Sequence[pa.DataType], seed: int) -> None:
        self.parts: list[IntegerIndex | TextIndex] = [
            TextIndex(seed) if types.is_text(t) else IntegerIndex(seed, 0 if types.is_float(t) else _SMALL)
            for t in key_types
        ]
        self.pairs = [IntegerIndex(seed, 0) for _ in key_types[1:]]
        self.types = list(key_types)
        self.codes = np.zeros((len(key_types), 32 if self.pairs else 0), np.int64)
        self.decoded = 0

    @property
    def count(self) -> int:
        """How many numbers have been given."""
        return (self.pairs or self.parts)[-1].count

    def number(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """The key's number for each row, -1 where a field is NaN. Valid until the next call."""
        numbers = self.number_values(key_values(columns))
        bad = [_is_nan(column) for column in columns if types.is_float(column.type)]
        if bad and np.logical_or.reduce(bad).any():
            numbers = np.where(np.logical_or.reduce(bad), np.int32(-1), numbers)
        return numbers

    def number_values(self, values: Sequence[KeyValues]) -> np.ndarray:
        """The same for values in the form that all keys of a type have here."""
        codes = []
        for part, held in zip(self.parts, values, strict=True):
            if isinstance(part, TextIndex):
                codes.append(part.number(*held))
            else:
                assert isinstance(held, np.ndarray)
                codes.append(part.number(held))
        numbers = codes[0]
        for pair, code in zip(self.pairs, codes[1:], strict=True):
            numbers = pair.number((numbers.astype(np.int64) << 32) | code)
        return numbers

    # The other way: from numbers to keys

    def places(self) -> list[np.ndarray]:
        """For each field of a key of several, the index of its value in `arrays` by the number of the key."""
        if not self.pairs:
            return []
        self._decode()
        return list(self.codes)

    def arrays(self, field: int) -> list[np.ndarray]:
        """The values of a field: integers, floats, or the offsets and bytes of texts.

        They last until the next key is numbered.
        """
        part, t = self.parts[field], self.types[field]
        if isinstance(part, TextIndex):
            return [part.offsets, part.data]
        return [part.keys.view(np.float64) if types.is_float(t) else part.keys]

    def _decode(self) -> None:
        """Find the places of the fields' values for the keys that were numbered since the last time."""
        if self.count > self.codes.shape[1]:
            grown = np.zeros((len(self.parts), max(self.count, 2 * self.codes.shape[1])), np.int64)
            grown[:, : self.decoded] = self.codes[:, : self.decoded]
            self.codes = grown
        new = slice(self.decoded, self.count)
        numbers = np.arange(self.decoded, self.count)
        for at in range(len(self.pairs), 0, -1):
            pair = self.pairs[at - 1].keys[numbers]
            numbers, self.codes[at, new] = pair >> 32, pair & 0xFFFFFFFF
        self.codes[0, new] = numbers
        self.decoded = self.count

    def values(self) -> list[KeyValues]:
        """The fields of all keys by number, in the form that equal keys share."""
        if not self.pairs:
            (part,) = self.parts
            if isinstance(part, TextIndex):
                return [(part.offsets[: part.count + 1], part.data)]
            return [part.keys[: part.count]]
        self._decode()
        found: list[KeyValues] = []
        for at, part in enumerate(self.parts):
            places = self.codes[at, : self.count]
            if isinstance(part, TextIndex):
                offsets, data = arrays_of(self.texts(at).take(pa.array(places)))
                found.append((offsets, data))
            else:
                found.append(part.keys[places])
        return found

    def texts(self, part: int) -> pa.Array:
        """The values of a field of texts, at the places that `arrays` gives. Nothing is copied."""
        held = self.parts[part]
        assert isinstance(held, TextIndex)
        t = pa.large_string() if types.is_string(self.types[part]) else pa.large_binary()
        buffers = [None, pa.py_buffer(held.offsets), pa.py_buffer(held.data)]
        return pa.Array.from_buffers(t, held.count, buffers)

    def value(self, number: int) -> list[Any]:
        """The fields of one key, as plain values."""
        places = [number]
        for pair in reversed(self.pairs):
            held = int(pair.keys[places[0]])
            places[0:1] = [held >> 32, held & 0xFFFFFFFF]
        found: list[Any] = []
        for at, (part, t, place) in enumerate(zip(self.parts, self.types, places, strict=True)):
            if isinstance(part, TextIndex):
                found.append(self.texts(at)[place].as_py())
            else:
                held_as = part.keys.view(np.float64) if types.is_float(t) else part.keys
                found.append(held_as[place].item())
        return found
