"""Numbers for keys: the first key seen is 0, the next new one 1, and so on, for a whole column in one pass.

The index is an open-addressing hash table of numbers, beside it the keys in the order of their numbers. Small
non-negative integers, which most keys are, have a direct table of their own. The caller provides all arrays; a pass
stops where they are full and tells how far it came, so that the caller can grow them and go on. Numbers have 32 bits.

A key is looked for from the place that its hash gives, one place after the other. That is short while hashes look
random, since at least half of the table is empty; the seed sees to it that they do, whoever has chosen the keys.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from penstock.kernels.hashing import hash_bytes, hash_integer, secrets_of, word_at

_USE = 1
"""Other words come of the seed than for buckets, or all keys of a bucket would crowd one part of its table."""


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def number_integers(
    values: Any, start: int, slots: Any, direct: Any, table: Any, keys: Any, count: int, seed: Any
) -> tuple[Any, int]:
    """Number `values[start:]` into `slots`; how far it came, and how many keys there are then.

    The table is at most half full: its length is a power of two, at least twice that of `keys`.
    """
    mask = len(table) - 1
    shift = np.uint64(64 - int(np.log2(len(table)) + 0.5))
    small, hidden = np.uint64(len(direct)), secrets_of(seed, _USE)
    for at in range(np.uint64(start), np.uint64(len(values))):
        value = values[at]
        if np.uint64(value) < small and direct[np.uint64(value)] >= 0:
            slots[at] = direct[np.uint64(value)]
            continue
        place = np.int64(hash_integer(np.uint64(value), hidden) >> shift) & mask
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
def hash_texts(offsets: Any, data: Any, codes: Any, seed: Any) -> None:
    """The hash of each text: the value at `at` is `data[offsets[at]:offsets[at + 1]]`.

    In a pass of its own, so that the one that looks them up has nothing to wait for but the table.
    """
    hidden = secrets_of(seed, _USE)
    for at in range(len(codes)):
        codes[at] = hash_bytes(data, np.int64(offsets[at]), np.int64(offsets[at + 1]), hidden)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def number_texts(
    offsets: Any,
    data: Any,
    codes: Any,
    start: int,
    slots: Any,
    table: Any,
    hashes: Any,
    key_offsets: Any,
    key_data: Any,
    count: int,
) -> tuple[int, int]:
    """The same for texts, with their hashes. An entry of the table has the number, and above it half of the hash."""
    mask = len(table) - 1
    shift = np.uint64(64 - int(np.log2(len(table)) + 0.5))
    for at in range(start, len(codes)):
        first, length = np.int64(offsets[at]), np.int64(offsets[at + 1] - offsets[at])
        code = codes[at]
        place = np.int64(code >> shift) & mask
        entry = table[place]
        while entry >= 0 and not (
            entry >> 32 == _half(code) and _equal(data, first, length, key_data, key_offsets, entry & 0xFFFFFFFF)
        ):
            place = (place + 1) & mask
            entry = table[place]
        if entry < 0:
            if count == len(hashes) or key_offsets[count] + length > len(key_data):
                return at, count
            entry = _half(code) << 32 | count
            table[place] = entry
            hashes[count] = code
            base = key_offsets[count]
            for step in range(length):
                key_data[base + step] = data[first + step]
            key_offsets[count + 1] = base + length
            count += 1
        slots[at] = np.int32(entry & 0xFFFFFFFF)
    return len(codes), count


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _half(code: Any) -> Any:
    """The lower half of a hash, but for one bit: the place in the table comes of the upper."""
    return np.int64(code & np.uint64(0x7FFFFFFF))


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _equal(data: Any, first: int, length: int, key_data: Any, key_offsets: Any, slot: int) -> bool:
    base = key_offsets[slot]
    if key_offsets[slot + 1] - base != length:
        return False
    step = 0
    while step + 8 <= length:
        if word_at(data, first + step) != word_at(key_data, base + step):
            return False
        step += 8
    while step < length:
        if data[first + step] != key_data[base + step]:
            return False
        step += 1
    return True


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def rebuild_integers(table: Any, keys: Any, count: int, seed: Any) -> None:
    """Fill a new, larger table from the keys."""
    mask, hidden = len(table) - 1, secrets_of(seed, _USE)
    shift = np.uint64(64 - int(np.log2(len(table)) + 0.5))
    for slot in range(count):
        place = np.int64(hash_integer(np.uint64(keys[slot]), hidden) >> shift) & mask
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
        table[place] = _half(hashes[slot]) << 32 | slot
