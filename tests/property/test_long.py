"""Very many random graphs, for `make test-long`: 20,000, or as many as PENSTOCK_LONG_SECONDS allows."""

from __future__ import annotations

import os
from itertools import count, islice

import pytest
from tests.property.check import check_channels, try_many
from tests.property.flexible import from_flexible_seed
from tests.property.joins import from_joined_seed

GRAPHS = int(os.environ.get("PENSTOCK_LONG_GRAPHS") or 20_000)
SECONDS = float(os.environ.get("PENSTOCK_LONG_SECONDS") or 0)
PARTS = 4
FIRST = 1_000_000
"""Far from the seeds of the short tests."""


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_interpreted(part: int) -> None:
    """A failure prints the seed, and the command that repeats it."""
    seeds = count(FIRST + part, PARTS)
    if SECONDS:
        assert try_many(seeds, compile=False, seconds=SECONDS / PARTS) > 0
    else:
        assert try_many(islice(seeds, GRAPHS // PARTS), compile=False) == GRAPHS // PARTS


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_channels(part: int) -> None:
    """With the channels of each seed's setting."""
    seeds = count(3 * FIRST + part, PARTS)
    if SECONDS:
        assert try_many(seeds, compile=False, seconds=SECONDS / PARTS, check=check_channels) > 0
    else:
        found = try_many(islice(seeds, GRAPHS // PARTS), compile=False, check=check_channels)
        assert found == GRAPHS // PARTS


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_joined(part: int) -> None:
    """Streams that part and meet again, with the channels of each seed's setting."""
    seeds = count(4 * FIRST + part, PARTS)
    given = {"compile": False, "check": check_channels, "make": from_joined_seed}
    if SECONDS:
        assert try_many(seeds, seconds=SECONDS / PARTS, **given) > 0
    else:
        assert try_many(islice(seeds, GRAPHS // PARTS), **given) == GRAPHS // PARTS


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_flexible(part: int) -> None:
    """Flexible nodes, on the cores of each seed's setting."""
    seeds = count(5 * FIRST + part, PARTS)
    given = {"compile": False, "check": check_channels, "make": from_flexible_seed}
    if SECONDS:
        assert try_many(seeds, seconds=SECONDS / PARTS, **given) > 0
    else:
        assert try_many(islice(seeds, GRAPHS // PARTS), **given) == GRAPHS // PARTS


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_compiled(part: int) -> None:
    """A hundredth of them compiled, which takes about a hundred times as long."""
    seeds = count(2 * FIRST + part, PARTS)
    if SECONDS:
        assert try_many(seeds, compile=True, seconds=SECONDS / PARTS) > 0
    else:
        assert try_many(islice(seeds, GRAPHS // PARTS // 100), compile=True) == GRAPHS // PARTS // 100
