"""Keys into buckets: every kernel against its NumPy twin, and the spread of keys."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.kernels import partition


def mixed(values: np.ndarray) -> np.ndarray:
    values = values.astype(np.uint64)
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def test_hashes_of_integers_are_fixed() -> None:
    """All tasks, on all machines, must agree: a changed hash would be a changed format."""
    values = np.array([0, 1, -1, 2**62, -(2**63)], np.int64)
    hashes = np.zeros(5, np.uint64)
    partition.hash_integers(values, hashes)
    with np.errstate(over="ignore"):
        assert hashes.tolist() == mixed(values.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)).tolist()


def test_one_integer_is_hashed_as_in_a_key_of_several() -> None:
    values = np.arange(-500, 500)
    hashes, buckets, direct = np.zeros(1000, np.uint64), np.zeros(1000, np.uint16), np.zeros(1000, np.uint16)
    partition.hash_integers(values, hashes)
    partition.bucket(hashes, 7, buckets)
    partition.bucket_integers(values, 7, direct)
    assert buckets.tolist() == direct.tolist()
    assert buckets.tolist() == [(int(h) >> 32) * 7 >> 32 for h in hashes]


def test_texts_hash_by_their_bytes_alone() -> None:
    data = np.frombuffer(b"abcabcab", np.uint8)
    hashes = np.zeros(3, np.uint64)
    partition.hash_texts(np.array([0, 3, 6, 8]), data, hashes)
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("step", [1, 2, 1000, 1 << 32, 1 << 40])
def test_keys_in_regular_steps_are_spread_evenly(step: int) -> None:
    buckets = np.zeros(70_000, np.uint16)
    partition.bucket_integers(np.arange(70_000) * step, 7, buckets)
    counts = np.bincount(buckets, minlength=7)
    assert counts.min() > 9_500 and counts.max() < 10_500


def test_rows_get_slots_until_a_bucket_is_full() -> None:
    buckets = np.array([0, 1, 0, 0, 1], np.uint16)
    filled, slots = np.zeros(2, np.int64), np.zeros(5, np.int32)
    assert partition.assign(buckets, 0, 2, filled, slots) == 3
    assert filled.tolist() == [2, 1] and slots[:3].tolist() == [0, 0, 1]
    out = np.zeros((2, 2))
    partition.scatter(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), buckets, slots, 0, 3, out)
    assert out.tolist() == [[1.0, 3.0], [2.0, 0.0]]
