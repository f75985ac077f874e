"""Jobs cut into stages give what the reference gives, for any splits, buckets, blocks and order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.property.joins import from_joined_seed
from tests.spark.meets import from_meet_seed, from_spread_seed
from tests.spark.simulated import check

MEETS, SPREAD, JOINED = 96, 96, 48
GRAPHS = 320


@pytest.mark.parametrize("first", range(0, GRAPHS, 16))
def test_random_graphs(first: int) -> None:
    wrong = {seed: found for seed in range(first, first + 16) if (found := check(seed)) is not None}
    assert not wrong, "\n".join(
        f"python -m tests.spark.simulated --seed {seed}\n{text}" for seed, text in wrong.items()
    )


@pytest.mark.parametrize("first", range(100, 100 + MEETS, 16))
def test_streams_that_meet_before_and_behind_keys(first: int) -> None:
    assert not wrong(range(first, first + 16), "--meets", from_meet_seed)


@pytest.mark.parametrize("first", range(0, SPREAD, 16))
def test_streams_that_meet_and_come_from_several_stages(first: int) -> None:
    assert not wrong(range(first, first + 16), "--spread", from_spread_seed)


@pytest.mark.parametrize("first", range(0, JOINED, 16))
def test_streams_that_meet(first: int) -> None:
    assert not wrong(range(first, first + 16), "--joined", from_joined_seed)


def wrong(seeds: range, option: str, make: Callable[[int], Any]) -> str:
    found = {seed: text for seed in seeds if (text := check(seed, make=make)) is not None}
    again = "python -m tests.spark.simulated"
    return "\n".join(f"{again} {option} --seed {seed}\n{text}" for seed, text in found.items())


def test_compiled() -> None:
    for seed in (4, 11, 23):
        assert check(seed, compile=True) is None, seed
