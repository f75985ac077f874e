"""Which bucket an item goes to, by a hash of its key, and its columns spread over the buckets.

The hash is the same in every process and on every machine that has the seed, because all tasks must agree. The driver
draws the seed of a job; a running stream has that of its checkpoint, because buckets and pages of keys are kept there.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from penstock.kernels.hashing import hash_bytes, hash_integer, secrets_of

_USE = 2


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def hash_integers(values: Any, hashes: Any, seed: Any) -> None:
    """Add integers to the hashes of a key's fields so far."""
    hidden = secrets_of(seed, _USE)
    for at in range(np.uint64(len(hashes))):
        hashes[at] = hash_integer(hashes[at] ^ np.uint64(values[at]), hidden)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def hash_texts(offsets: Any, data: Any, hashes: Any, seed: Any) -> None:
    """The same for texts: the value at `at` is `data[offsets[at]:offsets[at + 1]]`."""
    hidden = secrets_of(seed, _USE)
    for at in range(np.uint64(len(hashes))):
        code = hash_bytes(data, np.int64(offsets[at]), np.int64(offsets[at + np.uint64(1)]), hidden)
        hashes[at] = hash_integer(hashes[at] ^ code, hidden)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def bucket(hashes: Any, count: int, buckets: Any) -> None:
    """The bucket of each row, of so many, from its hash."""
    half, of = np.uint64(32), np.uint64(count)
    for at in range(np.uint64(len(hashes))):
        buckets[at] = ((hashes[at] >> half) * of) >> half


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def bucket_integers(values: Any, count: int, buckets: Any, seed: Any) -> None:
    """The same for a key of one integer, in one pass."""
    half, of, hidden = np.uint64(32), np.uint64(count), secrets_of(seed, _USE)
    for at in range(np.uint64(len(values))):
        buckets[at] = ((hash_integer(np.uint64(values[at]), hidden) >> half) * of) >> half


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
