"""The adviser finds the known best of simple pipelines, and a run takes its plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from tests.tune.profiles import IDEAL, USUAL, chain, model_of, profiled, varying

import penstock as ps
from penstock import tune
from penstock.errors import PenstockError
from penstock.plan.balance import loops_of
from penstock.plan.node_profile import Profile
from penstock.tune.adviser import Advice
from penstock.tune.machine_costs import MachineCosts
from penstock.tune.plan_search import every_mapping, neighbours

HERE: dict[str, Any] = {"spark": False, "compile": False}
"""Interpreted, because to compile the loops of a small run takes longer than the run."""


def advised(costs: tuple[float, ...], cores: int = 2, machine: MachineCosts = USUAL, **options: Any) -> Advice:
    last = chain()[2]
    return tune.advise(last, cores, profile=profiled(last, *costs), machine=machine, **options)


# The best of simple pipelines


@pytest.mark.parametrize(
    ("costs", "cores", "mapped", "flexible", "gain"),
    [
        ((1e-6, 1e-6, 2e-6), 2, [0, 0, 1], {}, 2.0),
        ((4e-6, 1e-6, 5e-6), 2, [0, 0, 1], {}, 2.0),
        ((5e-6, 1e-6, 4e-6), 2, [0, 1, 1], {}, 2.0),
        ((2e-6, 4e-6, 2e-6), 2, [0, 1, 0], {}, 2.0),  # the nodes before and behind the slowest share a core
        ((2e-6, 2e-6, 2e-6), 3, [0, 1, 2], {}, 3.0),
        ((1e-6, 1e-6, 8e-6), 2, None, {"map 'c'": 1}, 2.0),  # the bottleneck can have a copy
        ((8e-6, 1e-6, 1e-6), 2, None, {"map 'a'": 1}, 2.0),
    ],
)
def test_the_best_is_found(
    costs: tuple[float, ...], cores: int, mapped: list[int] | None, flexible: dict[str, int], gain: float
) -> None:
    advice = advised(costs, cores)
    assert dict(advice.plan.flexible) == flexible
    if mapped is not None:
        assert [core for _, core in advice.plan.mapping] == mapped
    assert advice.gain == pytest.approx(gain, rel=0.06)


@pytest.mark.parametrize(
    "costs",
    [
        (1e-7, 8e-6, 1e-7),  # what takes long remembers something
        (1e-9, 1e-9, 1e-9),  # to pass an item on takes longer than to do it
    ],
)
def test_one_core_wins_where_nothing_gains(costs: tuple[float, ...]) -> None:
    advice = advised(costs)
    assert advice.plan.cores == 1
    assert advice.plan.options({}) == {"cores": 1}
    assert advice.gain == 1.0
    assert [step.what for step in advice.steps] == ["all on one core"]


def python(profile: Profile, *names: str) -> Profile:
    """The same profile, in which these nodes run as plain Python; all, where none is named."""
    nodes = (replace(node, is_python=not names or node.name in names) for node in profile.nodes)
    return replace(profile, nodes=tuple(nodes))


def test_what_runs_as_plain_python_gains_nothing_by_cores() -> None:
    """It holds Python's lock: functions that do not compile, and those over columns."""
    last = chain()[2]
    profile = profiled(last, 8e-6, 8e-6, 8e-6)
    assert tune.advise(last, 2, profile=profile, machine=USUAL).gain > 1.9
    advice = tune.advise(last, 2, profile=python(profile), machine=USUAL)
    assert (advice.plan.cores, advice.gain) == (1, 1.0)
    some = tune.advise(last, 2, profile=python(profile, "map 'a'", "map 'b'"), machine=USUAL)
    assert 1.3 < some.gain <= 1.5
    assert not {"map 'a'", "map 'b'"} & dict(some.plan.flexible).keys()


def test_a_profile_knows_what_runs_as_plain_python() -> None:
    items = ps.from_numpy({"v": np.arange(1000)})
    stream = items.map(a=lambda v: v + 1).map_columns(lambda a: pc.add(a, 1), to={"b": int})
    assert [node.is_python for node in tune.profile(stream, 1000).nodes] == [False, True]
    assert [node.is_python for node in tune.profile(stream, 1000, compile=False).nodes] == [True, True]


def test_no_gain_above_the_cores_is_promised() -> None:
    """Whatever a profile says: here the one loop of all nodes was taken to cost ten times what they cost apart."""
    last = chain()[2]
    profile = profiled(last, 4e-6, 4e-6, 4e-6)
    odd = replace(profile, fused_s=10 * sum(node.seconds for node in profile.nodes))
    for cores in (2, 3):
        advice = tune.advise(last, cores, profile=odd, machine=USUAL)
        assert advice.gain <= cores
        assert all(step.throughput <= cores * advice.steps[0].throughput * (1 + 1e-9) for step in advice.steps)


def test_no_more_cores_than_gain_something() -> None:
    assert advised((4e-6, 4e-6, 1e-8), 3).plan.cores == 2 or advised((4e-6, 4e-6, 1e-8), 3).gain > 2.1


def test_it_is_as_good_as_the_best_of_all_mappings() -> None:
    """Simulated one by one, none of all mappings is better than the advice."""
    first, second, last = chain()
    profile = profiled(last, 3e-6, 4e-6, 2e-6)
    advice = tune.advise(last, 3, profile=profile, machine=USUAL)
    speeds = []
    for mapped in every_mapping(3, 3):
        if max(mapped):
            homes = dict(zip((first, second, last), mapped, strict=True))
            model = model_of(last, profile, cores=max(mapped) + 1, mapping=homes, block_items=1024, machine=USUAL)
            speeds.append(advice.items / model.seconds(advice.items))
    assert advice.steps[-1].throughput >= max(speeds) / 1.05


def test_many_nodes_on_many_cores() -> None:
    stream = ps.from_numpy({"v": np.arange(100)}).map(x0=lambda v: v + 1)
    for at in range(1, 10):
        stream = stream.map(**{f"x{at}": lambda v: v * 2})
    costs = [1e-6, 3e-6, 1e-6, 1e-6, 2e-6, 5e-6, 1e-6, 2e-6, 2e-6, 2e-6]
    advice = tune.advise(stream, 4, profile=profiled(stream, *costs), machine=IDEAL)
    assert advice.gain > 3.6
    assert stream.collect(plan=advice, **HERE).equals(stream.collect(**HERE))


def test_copies_where_the_bottleneck_moves() -> None:
    """Each node takes long in one half of the stream: no mapping that stays the same is right for both."""
    source = ps.from_numpy({"v": np.arange(1000)})
    last = source.map(a=lambda v: v + 1).map(b=lambda a: a + 1)
    slow, fast = (6e-6,) * 50, (2e-6,) * 50
    found = varying(last, slow + fast, fast + slow, items=400_000)
    whole = replace(found, sample=2 * found.sample)  # a sample that the stream did not fill is all of it
    advice = tune.advise(last, 2, profile=whole, machine=USUAL)
    assert advice.plan.flexible
    assert advice.gain > 1.6  # without copies it is 8 / 6


def test_copies_are_where_their_items_come_from_if_that_is_nearly_as_good() -> None:
    """As in the paper: what a copy gets need not cross to it, and it does not keep its core from feeding the other."""
    stream = ps.from_numpy({"v": np.arange(100)})
    for name in "abcd":
        stream = stream.map(**{name: lambda v: v + 1})
    costs = (14e-6, 26e-6, 26e-6, 24e-6)
    plan = tune.advise(stream, 2, profile=profiled(stream, *costs), machine=IDEAL).plan
    ((flexible, copies),) = plan.flexible
    at = [name for name, _ in plan.mapping].index(flexible)
    assert (plan.cores, copies) == (2, 1)
    assert at > 0
    assert plan.mapping[at - 1][1] != plan.mapping[at][1]


def test_a_short_stream_is_over_before_cores_have_gained_something() -> None:
    last = chain()[2]
    profile = profiled(last, 4e-8, 1e-8, 5e-8, items=1000)
    assert tune.advise(last, 2, profile=profile, machine=USUAL).plan.cores == 2
    assert tune.advise(last, 2, profile=replace(profile, sample=100_000), machine=USUAL).plan.cores == 1


# Latency and memory


def test_the_latency_counts_where_it_is_asked_for() -> None:
    fast, soon = advised((4e-6, 1e-6, 5e-6)), advised((4e-6, 1e-6, 5e-6), objective="latency")
    assert soon.forecast.latency_s < fast.forecast.latency_s / 3
    assert soon.forecast.throughput > 0.85 * fast.forecast.throughput
    assert soon.plan.capacity is not None


def test_on_one_core_a_small_width_gives_results_soon() -> None:
    advice = advised((1e-6, 1e-6, 1e-6), 1, objective="latency")
    assert advice.plan.cores == 1 and advice.plan.width is not None
    assert chain(300)[2].collect(plan=advice, **HERE).num_rows == 300


def test_channels_are_within_the_memory() -> None:
    last = chain(300)[2]
    profile = profiled(last, 4e-6, 1e-6, 5e-6)
    advice = tune.advise(last, 2, profile=profile, machine=IDEAL, memory=16_000)
    assert advice.plan.capacity is not None
    assert 2 * 8 * advice.plan.capacity <= 16_000
    assert last.collect(plan=advice, **HERE).equals(last.collect(**HERE))


def test_too_little_memory_for_any_channel_leaves_one_core() -> None:
    assert advised((4e-6, 1e-6, 5e-6), memory=4).plan.cores == 1


# What is told


def test_steps_lead_from_one_core_to_the_plan() -> None:
    advice = advised((1e-6, 1e-6, 8e-6))
    assert advice.steps[0].what == "all on one core"
    assert any("map 'c' flexible, with 1 copy" in step.what for step in advice.steps)
    product = np.prod([step.gain for step in advice.steps])
    assert product == pytest.approx(advice.gain)


def test_what_was_rejected_and_why() -> None:
    advice = advised((1e-6, 1e-6, 8e-6))
    assert advice.rejected
    assert all(each.why for each in advice.rejected)
    assert any("less; limited by" in each.why for each in advice.rejected)
    alone = advised((1e-7, 8e-6, 1e-7))
    assert any("is less than the 5% that more cores or copies must gain" in each.why for each in alone.rejected)


def test_an_advice_can_be_read() -> None:
    text = str(advised((1e-6, 1e-6, 8e-6)))
    assert text.startswith("advice for 1,000,000 items: cores=2; core 0: ")
    assert "map 'c' flexible, copies: 1" in text
    assert "times the speed of one core" in text
    assert "rejected, of " in text


# The plan of a run


@pytest.mark.parametrize("costs", [(1e-4, 1e-4, 8e-4), (4e-4, 1e-4, 5e-4), (8e-4, 1e-4, 1e-4), (1e-9, 1e-9, 1e-9)])
def test_a_plan_gives_the_same_rows(costs: tuple[float, ...]) -> None:
    last, advice = chain(300)[2], advised(costs)
    expected = last.collect(**HERE)
    assert last.collect(plan=advice, **HERE).equals(expected)
    assert ps.run(last, plan=advice, **HERE)[0].equals(expected)
    assert sum(batch.num_rows for batch in last.batches(plan=advice, compile=False)) == 300
    run = last.prepare(spark=False, plan=advice)
    assert run.options.cores == advice.plan.cores
    assert [f"{segment.name}" for segment in run.plan.segments if segment.copies] == [
        name for name, _ in advice.plan.flexible
    ]


def test_a_plan_is_what_was_modelled() -> None:
    last, advice = chain()[2], advised((1e-6, 1e-6, 2e-6))
    run = last.prepare(spark=False, plan=advice)
    assert {segment.name: core for segment, core in run.plan.cores.items()} == {"map 'a' … map 'b'": 0, "map 'c'": 1}


def test_nodes_of_one_name_are_told_apart() -> None:
    source = ps.from_numpy({"v": np.arange(200)})
    twice = source.filter(lambda v: v > 5).filter(lambda v: v % 2 == 0)
    advice = tune.advise(twice, 2, profile=profiled(twice, 4e-6, 4e-6), machine=IDEAL)
    assert dict(advice.plan.mapping) == {"filter": 0, "filter #2": 1}
    assert twice.collect(plan=advice, **HERE).equals(twice.collect(**HERE))


def test_streams_that_meet() -> None:
    source = ps.from_numpy({"v": np.arange(200)})
    joined = ps.align(source.map(a=lambda v: v + 1), source.map(b=lambda v: v + 2))
    profile = profiled(joined, *(1e-6 for _ in loops_of((joined.node,))))
    advice = tune.advise(joined, 2, profile=profile, machine=IDEAL)
    assert advice.plan.cores == 2
    assert joined.collect(plan=advice, **HERE).equals(joined.collect(**HERE))


def test_no_plan_is_as_none_given() -> None:
    last = chain(300)[2]
    assert last.collect(plan=None, **HERE).num_rows == 300


# What is refused

REFUSED: list[tuple[Callable[[ps.Stream, Advice], Any], str]] = [
    (lambda s, a: s.collect(spark=False, plan=a, cores=2), "run: plan= stands for cores= too; give one of both"),
    (lambda s, a: s.prepare(plan=a, mapping={s: 1}, capacity=5), "plan= stands for mapping=, capacity= too"),
    (
        lambda s, a: s.collect(plan="fast"),
        "run: plan= takes an advice, as of tune.advise(stream); got 'fast'",
    ),
    (
        lambda s, a: s.filter(lambda c: c > 1).collect(plan=a),
        "whose nodes are map 'a', map 'b', map 'c'; this graph differs: it has filter besides; ask for another",
    ),
    (
        lambda s, a: ps.from_numpy({"v": np.arange(3)}).map(a=lambda v: v).collect(plan=a),
        "this graph differs: it lacks map 'b', map 'c'; ask",
    ),
    (lambda s, a: tune.advise(s, 0, machine=IDEAL), "advise: cores must be a whole number of at least 1; got 0"),
    (
        lambda s, a: tune.advise(s, 2, memory=-5, machine=IDEAL),
        "advise: memory must be a whole number of at least 1; got -5",
    ),
    (
        lambda s, a: tune.advise(s, 2, objective="speed", machine=IDEAL),
        "advise: the objective must be 'throughput' or 'latency'; got 'speed'",
    ),
    (
        lambda s, a: tune.advise(s, 2, profile=profiled(s.map(d=lambda c: c), 1.0, 1.0, 1.0, 1.0), machine=IDEAL),
        "profile: must be one of the same graph",
    ),
]


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_what_is_wrong_is_refused(build: Callable[[ps.Stream, Advice], Any], message: str) -> None:
    last, advice = chain()[2], advised((1e-6, 1e-6, 2e-6))
    with pytest.raises(PenstockError) as refused:
        build(last, advice)
    assert message in str(refused.value)


# The search


def test_all_mappings_are_the_ways_to_part_the_loops() -> None:
    assert len(list(every_mapping(6, 3))) == 122
    assert len(list(every_mapping(6, 2))) == 32
    assert list(every_mapping(0, 2)) == [()]


def test_a_move_changes_one_loop_or_swaps_two() -> None:
    assert set(neighbours((0, 1), 2)) == {(1, 1), (0, 0), (1, 0)}
