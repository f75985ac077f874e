"""Streams cut into micro-batches give what the reference gives, for any files, batches, buckets, pages and replays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.property.joins import from_joined_seed
from tests.spark.meets import from_meet_seed
from tests.spark.streaming.simulated import check

MEETS, JOINED = 64, 32
GRAPHS = 160


@pytest.mark.parametrize("first", range(0, GRAPHS, 16))
def test_random_graphs(first: int) -> None:
    wrong = {seed: found for seed in range(first, first + 16) if (found := check(seed)) is not None}
    assert not wrong, "\n".join(
        f"python -m tests.spark.streaming.simulated --seed {seed}\n{text}" for seed, text in wrong.items()
    )


@pytest.mark.parametrize("first", range(100, 100 + MEETS, 16))
def test_streams_that_meet_before_and_behind_keys(first: int) -> None:
    assert not wrong(range(first, first + 16), "--meets", from_meet_seed)


@pytest.mark.parametrize("first", range(0, JOINED, 16))
def test_streams_that_meet(first: int) -> None:
    assert not wrong(range(first, first + 16), "--joined", from_joined_seed)


def wrong(seeds: range, option: str, make: Callable[[int], Any]) -> str:
    found = {seed: text for seed in seeds if (text := check(seed, make=make)) is not None}
    return "\n".join(
        f"python -m tests.spark.streaming.simulated {option} --seed {seed}\n{text}" for seed, text in found.items()
    )


def test_compiled() -> None:
    for seed in (4, 11, 23):
        assert check(seed, compile=True) is None, seed
