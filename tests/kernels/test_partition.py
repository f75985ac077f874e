"""Keys into buckets: every kernel against its NumPy twin, and the spread of keys."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.kernels.plain_hash import WORD, hash_bytes, hash_integer, secrets

from penstock.kernels import partition

SEED = np.uint64(20260101)


def test_hashes_are_the_same_wherever_the_seed_is() -> None:
    """All tasks, on all machines, must agree, and a checkpoint must be found again: a changed hash is a new format."""
    values = np.array([0, 1, -1, 2**62, -(2**63)], np.int64)
    hashes = np.zeros(5, np.uint64)
    partition.hash_integers(values, hashes, SEED)
    assert hashes.tolist() == [hash_integer(int(value) % WORD, secrets(int(SEED), 2)) for value in values]
    data, offsets = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8), np.array([0, 0, 3, 11, 26])
    hashes = np.zeros(4, np.uint64)
    partition.hash_texts(offsets, data, hashes, SEED)
    hidden = secrets(int(SEED), 2)
    texts = [data[start:stop].tobytes() for start, stop in pairwise(offsets)]
    assert hashes.tolist() == [hash_integer(hash_bytes(text, hidden), hidden) for text in texts]


def test_another_seed_gives_other_buckets() -> None:
    one, other = np.zeros(1000, np.uint16), np.zeros(1000, np.uint16)
    partition.bucket_integers(np.arange(1000), 100, one, np.uint64(1))
    partition.bucket_integers(np.arange(1000), 100, other, np.uint64(2))
    assert (one == other).sum() < 50


def test_one_integer_is_hashed_as_in_a_key_of_several() -> None:
    values = np.arange(-500, 500)
    hashes, buckets, direct = np.zeros(1000, np.uint64), np.zeros(1000, np.uint16), np.zeros(1000, np.uint16)
    partition.hash_integers(values, hashes, SEED)
    partition.bucket(hashes, 7, buckets)
    partition.bucket_integers(values, 7, direct, SEED)
    assert buckets.tolist() == direct.tolist()
    assert buckets.tolist() == [(int(h) >> 32) * 7 >> 32 for h in hashes]


def test_texts_hash_by_their_bytes_alone() -> None:
    data = np.frombuffer(b"abcabcab", np.uint8)
    hashes = np.zeros(3, np.uint64)
    partition.hash_texts(np.array([0, 3, 6, 8]), data, hashes, SEED)
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("step", [1, 2, 1000, 1 << 32, 1 << 40])
def test_keys_in_regular_steps_are_spread_evenly(step: int) -> None:
    buckets = np.zeros(70_000, np.uint16)
    partition.bucket_integers(np.arange(70_000) * step, 7, buckets, SEED)
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
