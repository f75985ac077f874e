"""Every engine gives what the plain model gives, on random graphs with keys, joins, windows upon windows, late items
and functions that raise: the rows in their order, the late items of each window, a letter for each item skipped.

`python -m tests.oracle.engines --engine channels --count 500` tries many graphs. On Spark: tests/spark/test_oracle.py.
"""

from __future__ import annotations

import pytest
from tests.oracle import engines

GRAPHS = 48
COUNTED = 160
COMPILED = 3
HERE = ("reference", "interpreted", "channels", "threads")


@pytest.mark.parametrize("engine", HERE)
def test_in_one_process(engine: str) -> None:
    engines.check(engine, range(GRAPHS))


@pytest.mark.parametrize("seed", engines.smallest_with_windows(COMPILED))
def test_compiled(seed: int) -> None:
    engines.check("compiled", [seed])


@pytest.mark.long
@pytest.mark.parametrize("engine", HERE)
def test_many_graphs_in_one_process(engine: str) -> None:
    engines.check(engine, range(GRAPHS, GRAPHS + engines.MANY))


def test_the_graphs_have_what_they_are_for() -> None:
    counted = engines.situations(range(COUNTED))
    assert {name: count for name, count in counted.items() if count < 3} == {}
