"""Where nodes are at work, and which is made flexible: by hand, from a profile, and by the run itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.graph.placed import on_core

import penstock as ps
from penstock import tune
from penstock.errors import GraphError
from penstock.plan.balance import block_of, choose, loops_of
from penstock.plan.node_profile import NodeProfile, Profile


class Total(ps.State):
    now: int


def chain(count: int = 1000) -> tuple[ps.Stream, ...]:
    """Three nodes: one that can have copies, one with a state, one that can have copies."""
    first = ps.from_numpy({"v": np.arange(count)}, name="numbers").map(a=lambda v: v * v)
    second = first.map(b=lambda a, state: a + state.now, state=Total)
    return first, second, second.map(c=lambda b: b + 1)


def profiled(stream: ps.Stream, *per_item_s: float, items: int = 100_000) -> Profile:
    """A profile in which the nodes take these times."""
    loops = loops_of((stream.node,))
    nodes = [
        NodeProfile(loop.name, items, items, items * each, each, (each,), 8)
        for loop, each in zip(loops, per_item_s, strict=True)
    ]
    return Profile(items, tuple(nodes))


def cores_of(run: Any) -> dict[str, int]:
    return {segment.name: core for segment, core in run.plan.cores.items()}


def test_nodes_that_run_as_plain_python_are_not_shared_out() -> None:
    """Python's lock lets one core work at a time."""
    *_, last = chain()
    loops, profile = loops_of((last.node,)), profiled(last, 1e-6, 1e-6, 8e-6)
    assert choose(loops, profile, 2).flexible is last.node
    locked = replace(profile, nodes=tuple(replace(node, is_python=True) for node in profile.nodes))
    found = choose(loops, locked, 2)
    assert (found.flexible, set(found.cores.values()), found.gain) == (None, {0}, 1.0)
    partly = replace(profile, nodes=(*profile.nodes[:2], replace(profile.nodes[2], is_python=True)))
    assert choose(loops, partly, 2).flexible is None


# By hand


def test_a_node_on_a_core_takes_what_follows_along() -> None:
    first, _, _ = chain()
    last = on_core(first.map(b=lambda a: a + 1), 1).map(c=lambda b: b + 1)
    run = last.prepare(spark=False, cores=2)
    assert cores_of(run) == {"map 'a'": 0, "map 'b' … map 'c'": 1}
    assert run.collect()["c"].to_pylist() == [v * v + 2 for v in range(1000)]


def test_on_one_core_it_makes_no_difference() -> None:
    first, _, _ = chain()
    run = on_core(first.map(b=lambda a: a + 1), 1).prepare(spark=False)
    assert len(run.plan.segments) == 1
    assert run.collect().num_rows == 1000


def test_nodes_behind_one_source_may_be_on_several_cores() -> None:
    source = ps.from_numpy({"v": np.arange(100)})
    here, there = source.map(a=lambda v: v + 1), on_core(source.map(b=lambda v: v + 2), 1)
    joined = ps.align(here, there)
    run = joined.prepare(spark=False, cores=2)
    assert set(run.plan.cores.values()) == {0, 1}
    assert run.collect().equals(joined.collect(spark=False))


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"w": -1}, "run: mapping= must name cores from 0 to 1; got -1 for map 'w'"),
        ({"w": 2}, "run: mapping= must name cores from 0 to 1; got 2 for map 'w'"),
        ({"v": 0}, r"mapping= must name a step by \.named\('v'\), and none is called so; there are 'w', 'last'"),
        ({"lost": 0}, "none is called so; did you mean 'last'"),
    ],
)
def test_cores_and_steps_that_are_not_there_are_refused(mapping: dict[str, int], message: str) -> None:
    stream = ps.from_numpy({"v": np.arange(3)}).map(w=lambda v: v).named("w").map(x=lambda w: w).named("last")
    with pytest.raises(GraphError, match=message):
        stream.collect(spark=False, cores=2, mapping=mapping)


def test_steps_may_be_named() -> None:
    first, _, _ = chain()
    last = first.map(b=lambda a: a + 1).named("b").map(c=lambda b: b + 1).named("c")
    run = last.prepare(spark=False, cores=2, fuse=False, mapping={"b": 1, "c": 0}, flexible={"b": 1})
    assert run.collect()["c"].to_pylist() == [v * v + 2 for v in range(1000)]
    assert {node.name for node in run.statistics().nodes} >= {"b (map 'b')", "b (map 'b') (copy 1)", "c (map 'c')"}
    assert "c (map 'c')" in last.explain(spark=False)


def test_streams_that_meet_may_be_named() -> None:
    source = ps.from_numpy({"v": np.arange(100)})
    here, there = source.map(a=lambda v: v + 1), source.filter(lambda v: v % 3 == 0).map(b=lambda v: v + 2)
    joined = ps.align(here, there).named("both")
    last = joined.map(c=lambda a, b: a + b).named("last")
    run = last.prepare(spark=False, cores=2, fuse=False, mapping={"last": 1}, flexible={joined: (1, "beta"), "last": 1})
    assert run.collect().equals(last.collect(spark=False))
    assert any("copy 1" in node.name and "align" in node.name for node in run.statistics().nodes)


def test_copies_by_the_options_of_a_run() -> None:
    first, _, last = chain()
    run = last.prepare(spark=False, cores=2, flexible={first: 1}, block_items=64)
    assert run.collect()["c"].to_pylist() == [v * v + 1 for v in range(1000)]
    assert "map 'a' (copy 1)" in [node.name for node in run.statistics().nodes]


@pytest.mark.parametrize(
    ("flexible", "message"),
    [
        ("always", "flexible must be 'auto', or a dict from streams to copies; got 'always'"),
        ({"first": 1}, r"flexible= must name a step by \.named\('first'\), and none is called so"),
    ],
)
def test_what_is_no_choice_of_copies_is_refused(flexible: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        chain()[2].collect(spark=False, cores=2, flexible=flexible)


def test_a_node_with_a_state_cannot_be_chosen_by_hand() -> None:
    _, second, last = chain()
    with pytest.raises(GraphError, match="flexible: must remember nothing"):
        last.collect(spark=False, cores=2, flexible={second: 1})


# From a profile


def test_a_profile_shares_the_nodes_out() -> None:
    last = chain()[2]
    run = last.prepare(spark=False, cores=2, mapping=profiled(last, 1e-6, 1e-6, 2e-6))
    assert cores_of(run) == {"map 'a' … map 'b'": 0, "map 'c'": 1}


def test_a_profile_of_another_graph_is_refused() -> None:
    first, _, last = chain()
    with pytest.raises(GraphError, match="profile: must be one of the same graph, whose nodes are map 'a', map 'b'"):
        last.collect(spark=False, cores=2, mapping=profiled(first, 1e-6))


def test_nodes_of_one_name_are_told_apart() -> None:
    source = ps.from_numpy({"v": np.arange(20_000)})
    twice = source.filter(lambda v: v > 5).filter(lambda v: v % 2 == 0)
    assert [node.items for node in tune.profile(twice, 20_000).nodes] == [20_000, 19_994]
    assert [node.name for node in tune.profile(twice, 20_000).nodes] == ["filter", "filter #2"]


@pytest.mark.parametrize(
    ("costs", "chosen"),
    [
        ((1e-6, 1e-6, 8e-6), "map 'c'"),  # the bottleneck, which can have copies
        ((8e-6, 1e-6, 1e-6), "map 'a'"),
        ((1e-7, 8e-6, 1e-7), None),  # the bottleneck cannot have any
        ((4e-6, 1e-6, 5e-6), None),  # the cores have as much to do as each other
        ((3e-8, 1e-8, 1e-8), None),  # to pass an item on takes longer than to do it
    ],
)
def test_the_node_that_gains_the_most_is_chosen(costs: tuple[float, ...], chosen: str | None) -> None:
    last = chain()[2]
    found = choose(loops_of((last.node,)), profiled(last, *costs), 2)
    assert (found.flexible.label if found.flexible is not None else None) == chosen
    assert found.gain == 1.0 if chosen is None else found.gain > 1.2


def test_a_block_takes_about_as_long_whatever_its_items_cost() -> None:
    last = chain()[2]
    cheap, _, dear = profiled(last, 1e-8, 1e-6, 1e-3).nodes
    assert block_of(cheap) == 1 << 16
    assert block_of(dear) == 25


# By the run


def test_the_run_chooses_by_itself() -> None:
    def turned(v: float) -> float:
        for _ in range(300):
            v = 3.7 * v * (1.0 - v)
        return v

    source = ps.from_numpy({"v": np.linspace(0.1, 0.9, 100_000)})
    stream = source.map(a=lambda v: v / 2).map(b=turned).map(c=lambda b: b + 1)
    run = stream.prepare(spark=False, cores=2, flexible="auto")
    assert run.collect().equals(stream.collect(spark=False))
    assert [segment.name for segment in run.plan.segments if segment.copies] == ["map 'b'"]


def test_an_empty_source_has_nothing_to_choose_by() -> None:
    stream = ps.from_items([], schema={"v": int}).map(w=lambda v: v + 1).filter(lambda w: w > 1)
    assert stream.collect(spark=False, cores=2, flexible="auto").num_rows == 0
