"""Which bucket an item goes to, by a hash of its key, and the order that brings the items of each bucket together.

The hash is the same in every process and on every machine, because all tasks must agree. It is another one than that of
the index of keys, or all keys of a bucket would crowd one part of its table.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SEED = np.uint64(0x9E3779B97F4A7C15)
_PRIME, _BASIS = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _mixed(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(30))) * _A
    value = (value ^ (value >> np.uint64(27))) * _B
    return value ^ (value >> np.uint64(31))


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def hash_integers(values: Any, hashes: Any) -> None:
    """Add integers to the hashes of a key's fields so far."""
    for at in range(np.uint64(len(hashes))):
        hashes[at] = _mixed((hashes[at] ^ np.uint64(values[at])) + _SEED)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def hash_texts(offsets: Any, data: Any, hashes: Any) -> None:
    """The same for texts: the value at `at` is `data[offsets[at]:offsets[at + 1]]`."""
    for at in range(np.uint64(len(hashes))):
        state = _BASIS
        for byte in range(np.uint64(offsets[at]), np.uint64(offsets[at + np.uint64(1)])):
            state = (state ^ np.uint64(data[byte])) * _PRIME
        hashes[at] = _mixed((hashes[at] ^ state) + _SEED)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def spread(hashes: Any, starts: Any, order: Any) -> None:
    """Bring the rows of each bucket together, in their order: those of bucket b are `order[starts[b]:starts[b + 1]]`."""
    count = np.uint64(len(starts) - 1)
    half = np.uint64(32)
    for at in range(np.uint64(len(hashes))):
        starts[((hashes[at] >> half) * count) >> half] += 1
    total = 0
    for bucket in range(len(starts)):
        here = starts[bucket]
        starts[bucket] = total
        total += here
    for at in range(np.uint64(len(hashes))):
        bucket = ((hashes[at] >> half) * count) >> half
        order[np.uint64(starts[bucket])] = at
        starts[bucket] += 1
    for bucket in range(len(starts) - 1, 0, -1):
        starts[bucket] = starts[bucket - 1]
    starts[0] = 0


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def gather(values: Any, order: Any, out: Any) -> None:
    """The values at these rows."""
    for at in range(np.uint64(len(order))):
        out[at] = values[np.uint64(order[at])]
