"""Numbers for keys: the first key seen is 0, the next new one 1, and so on, for a whole column in one pass.

The index is an open-addressing hash table of numbers, beside it the keys in the order of their numbers. Small
non-negative integers, which most keys are, have a direct table of their own. The caller provides all arrays; a pass
stops where they are full and tells how far it came, so that the caller can grow them and go on. Numbers have 32 bits.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
FNV_PRIME, FNV_BASIS = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def number_integers(
    values: Any, start: int, slots: Any, direct: Any, table: Any, keys: Any, count: int
) -> tuple[Any, int]:
    """Number `values[start:]` into `slots`; how far it came, and how many keys there are then.

    The table is at most half full: its length is a power of two, at least twice that of `keys`.
    """
    mask = len(table) - 1
    shift = np.uint64(64 - int(np.log2(len(table)) + 0.5))
    small = np.uint64(len(direct))
    for at in range(np.uint64(start), np.uint64(len(values))):
        value = values[at]
        if np.uint64(value) < small and direct[np.uint64(value)] >= 0:
            slots[at] = direct[np.uint64(value)]
            continue
        place = np.int64((np.uint64(value) * MULTIPLIER) >> shift) & mask
        slot = table[place]
        while slot >= 0 and keys[slot] != value:
            place = (place + 1) & mask
            slot = table[place]
        if slot < 0:
            if count == len(keys):
                return np.int64(at), count
            slot = np.int32(count)
            table[place] = slot
            keys[slot] = value
            count += 1
        if np.uint64(value) < small:
            direct[np.uint64(value)] = slot
        slots[at] = slot
    return len(values), count


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def hash_bytes(data: Any, start: int, stop: int) -> Any:
    """FNV-1a, mixed at the end because the table takes the upper bits."""
    state = FNV_BASIS
    for at in range(start, stop):
        state = (state ^ np.uint64(data[at])) * FNV_PRIME
    return (state ^ (state >> np.uint64(29))) * MULTIPLIER


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def number_texts(
    offsets: Any,
    data: Any,
    start: int,
    slots: Any,
    table: Any,
    hashes: Any,
    key_offsets: Any,
    key_data: Any,
    count: int,
) -> tuple[int, int]:
    """The same for texts: the value at `at` is `data[offsets[at]:offsets[at + 1]]`."""
    mask = len(table) - 1
    shift = np.uint64(64 - int(np.log2(len(table)) + 0.5))
    for at in range(start, len(offsets) - 1):
        first, length = offsets[at], offsets[at + 1] - offsets[at]
        code = hash_bytes(data, first, first + length)
        place = np.int64(code >> shift) & mask
        slot = table[place]
        while slot >= 0 and not (hashes[slot] == code and _equal(data, first, length, key_data, key_offsets, slot)):
            place = (place + 1) & mask
            slot = table[place]
        if slot < 0:
            if count == len(hashes) or key_offsets[count] + length > len(key_data):
                return at, count
            slot = np.int32(count)
            table[place] = slot
            hashes[slot] = code
            base = key_offsets[slot]
            for step in range(length):
                key_data[base + step] = data[first + step]
            key_offsets[slot + 1] = base + length
            count += 1
        slots[at] = slot
    return len(offsets) - 1, count


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _equal(data: Any, first: int, length: int, key_data: Any, key_offsets: Any, slot: int) -> bool:
    base = key_offsets[slot]
    if key_offsets[slot + 1] - base != length:
        return False
    for step in range(length):  # noqa: SIM110 - a loop, for Numba
        if data[first + step] != key_data[base + step]:
            return False
    return True


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def rebuild_integers(table: Any, keys: Any, count: int) -> None:
    """Fill a new, larger table from the keys."""
    mask = len(table) - 1
    shift = np.uint64(64 - int(np.log2(len(table)) + 0.5))
    for slot in range(count):
        place = np.int64((np.uint64(keys[slot]) * MULTIPLIER) >> shift) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = slot


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def rebuild_texts(table: Any, hashes: Any, count: int) -> None:
    mask = len(table) - 1
    shift = np.uint64(64 - int(np.log2(len(table)) + 0.5))
    for slot in range(count):
        place = np.int64(hashes[slot] >> shift) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = slot
