"""Which bucket an item goes to, by a hash of its key, and its columns spread over the buckets.

The hash is the same in every process and on every machine, because all tasks must agree. It is mixed otherwise than
that of the index of keys, or all keys of a bucket would crowd one part of its table.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from penstock.kernels.keyed import hash_bytes

_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SEED = np.uint64(0x9E3779B97F4A7C15)


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
        code = hash_bytes(data, np.int64(offsets[at]), np.int64(offsets[at + np.uint64(1)]))
        hashes[at] = _mixed((hashes[at] ^ code) + _SEED)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def bucket(hashes: Any, count: int, buckets: Any) -> None:
    """The bucket of each row, of so many, from its hash."""
    half, of = np.uint64(32), np.uint64(count)
    for at in range(np.uint64(len(hashes))):
        buckets[at] = ((hashes[at] >> half) * of) >> half


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def bucket_integers(values: Any, count: int, buckets: Any) -> None:
    """The same for a key of one integer, in one pass."""
    half, of = np.uint64(32), np.uint64(count)
    for at in range(np.uint64(len(values))):
        buckets[at] = ((_mixed(np.uint64(values[at]) + _SEED) >> half) * of) >> half


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def assign(buckets: Any, start: int, room: int, filled: Any, slots: Any) -> Any:
    """Give each row from `start` on the next slot of its bucket, until one has no more room; how far it came."""
    for at in range(np.uint64(start), np.uint64(len(buckets))):
        here = np.uint64(buckets[at])
        slot = filled[here]
        if slot == room:
            return np.int64(at)
        slots[at] = slot
        filled[here] = slot + 1
    return len(buckets)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def scatter(values: Any, buckets: Any, slots: Any, start: int, stop: int, out: Any) -> None:
    """Put the values of some rows where their buckets have a slot for them: `out` has `room` slots a bucket."""
    for at in range(np.uint64(start), np.uint64(stop)):
        out[np.uint64(buckets[at]), np.uint64(slots[at])] = values[at]
