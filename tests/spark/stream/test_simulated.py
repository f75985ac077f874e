"""Streams cut into micro-batches give what the reference gives, for any files, batches, buckets, pages and replays."""

from __future__ import annotations

import pytest
from tests.spark.stream.simulated import check

GRAPHS = 160


@pytest.mark.parametrize("first", range(0, GRAPHS, 16))
def test_random_graphs(first: int) -> None:
    wrong = {seed: found for seed in range(first, first + 16) if (found := check(seed)) is not None}
    assert not wrong, "\n".join(
        f"python -m tests.spark.stream.simulated --seed {seed}\n{text}" for seed, text in wrong.items()
    )


def test_compiled() -> None:
    for seed in (4, 11, 23):
        assert check(seed, compile=True) is None, seed
