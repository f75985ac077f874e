"""The model takes loops to be as the engine runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tune.profiles import profiled

import penstock as ps
from penstock.plan.balance import loops_of
from penstock.plan.passes.assign_cores import places
from penstock.tune.node_costs import NodeCosts
from penstock.tune.run_parts import RunChoice, RunParts


def arrays(v):
    return np.full(8, v)


def first(arrays) -> int:
    return int(arrays[0])


def three(v):
    yield v, np.arange(3)


GRAPHS = {
    "numbers": lambda s: s.map(a=lambda v: v + 1).filter(lambda a: a > 1),
    "arrays": lambda s: s.map(arrays=ps.returns(ps.array(int, 8), arrays)).map(first=first),
    "pushed lists": lambda s: s.flat_map(ps.returns((int, list[int]), three), to=("w", "l"), at_most=1).map(
        x=lambda w: w
    ),
    "texts": lambda s: s.map_columns(lambda v: v.cast("string"), to={"t": str}).map(n=lambda t: len(t)),
}


@pytest.mark.parametrize("block", [None, 100])
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_loops_are_as_wide_as_the_engine_has_them(graph: Any, cores: int, block: int | None) -> None:
    stream = graph(ps.from_numpy({"v": np.arange(100)}, name="numbers"))
    leaves = (stream.node,)
    options = {} if block is None else {"block_items": block}
    run = stream.prepare(spark=False, compile=False, cores=cores, **options)
    costs = NodeCosts(leaves, profiled(stream, *[1e-6] * len(loops_of(leaves))))
    layout = RunParts(costs, RunChoice(cores, places(leaves, cores), block if cores > 1 else None))
    wanted = {segment.name: run.plan.loops[segment].width.value for segment in run.plan.segments}
    assert {segment.name: layout.width(segment) for segment in layout.segments} == wanted


def test_a_loop_that_makes_arrays_takes_as_many_items_as_stay_in_the_cache() -> None:
    stream = GRAPHS["arrays"](ps.from_numpy({"v": np.arange(100)}))
    layout = RunParts(NodeCosts((stream.node,), profiled(stream, 1e-6, 1e-6)), RunChoice())
    assert [layout.width(segment) for segment in layout.segments] == [1 << 16]
