"""The model of a run: the same loops, cores and blocks that the run has, and what they are to give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.tune.profiles import IDEAL, USUAL, chain, model_of, profiled, varying

import penstock as ps
from penstock.errors import GraphError, ModelError, PenstockError
from penstock.plan.balance import loops_of
from penstock.plan.node_profile import NodeProfile, Profile
from penstock.tune.core_tasks import fill_cores
from penstock.tune.machine_costs import MachineCosts
from penstock.tune.model import Drawn, Traced
from penstock.tune.node_costs import NodeCosts
from penstock.tune.run_model import PYTHON


def apart(*streams: ps.Stream) -> dict[ps.Stream, int]:
    return {stream: core for core, stream in enumerate(streams)}


# What is built


def test_on_one_core_all_is_one_loop() -> None:
    last = chain()[2]
    told = model_of(last, profiled(last, 1e-6, 2e-6, 5e-6), machine=IDEAL).predict()
    assert told.throughput == pytest.approx(1e6 / 8)
    assert told.utilisation == {"core 0": 1.0}
    assert told.critical == "core 0"
    assert told.of_net.is_exact


def test_the_slowest_core_sets_the_pace() -> None:
    first, second, last = chain()
    profile = profiled(last, 1e-6, 2e-6, 5e-6)
    model = model_of(last, profile, cores=3, mapping=apart(first, second, last), block_items=1000, machine=IDEAL)
    told = model.predict()
    assert [task.name for task in model.platform.tasks] == ["map 'a'", "map 'b'", "map 'c'"]
    assert told.throughput == pytest.approx(1e6 / 5)
    assert [round(each, 3) for each in told.utilisation.values()] == [0.2, 0.4, 1.0]
    assert told.critical == "core 2"
    assert told.queues["map 'b'", "map 'c'"] > 1000


def test_nodes_of_one_core_are_one_loop() -> None:
    first, _second, last = chain()
    profile = profiled(last, 1e-6, 2e-6, 5e-6)
    model = model_of(last, profile, cores=2, mapping={first: 0, last: 1}, block_items=1000, machine=IDEAL)
    run = last.prepare(spark=False, cores=2, mapping={first: 0, last: 1}, block_items=1000)
    assert [task.name for task in model.platform.tasks] == [segment.name for segment in run.plan.segments]
    assert [f"core {core}" for core in run.plan.cores.values()] == [task.core for task in model.platform.tasks]


@pytest.mark.parametrize("cores", [2, 3])
def test_copies_are_where_the_run_has_them(cores: int) -> None:
    first, second, last = chain()
    options: dict[str, Any] = {"cores": cores, "mapping": {first: 0, second: 1, last: 1}, "block_items": 64}
    options["flexible"] = {first: cores - 1}
    model = model_of(last, profiled(last, 5e-6, 1e-6, 1e-6), machine=USUAL, **options)
    run = last.prepare(spark=False, compile=False, trace=True, **options)
    run.collect()
    firings = [firing for firing in run.trace.firings if "copy" not in firing.node]
    cores_of = {firing.node.split(" (copy")[0]: firing.core for firing in firings}
    for task in model.platform.tasks:
        if task.name in cores_of:
            assert task.core == f"core {cores_of[task.name]}"
    assert {"split of map 'a'", "map 'a'", "merge of map 'a'"} <= set(cores_of)


def test_by_the_profile_where_nothing_is_said() -> None:
    last = chain()[2]
    profile = profiled(last, 1e-6, 1e-6, 2e-6)
    model = model_of(last, profile, cores=2, machine=IDEAL)
    run = last.prepare(spark=False, cores=2, mapping=profile)
    assert [task.name for task in model.platform.tasks] == [segment.name for segment in run.plan.segments]
    assert model.layout.block == run.plan.loops[run.plan.segments[0]].width.value
    assert model.predict().throughput == pytest.approx(1e6 / 2)


def test_streams_that_meet() -> None:
    source = ps.from_numpy({"v": np.arange(100)})
    here, there = source.map(a=lambda v: v + 1), source.map(b=lambda v: v + 2)
    joined = ps.align(here, there)
    profile = profiled(joined, *(1e-6 for _ in loops_of((joined.node,))))
    model = model_of(joined, profile, cores=2, mapping={here: 0, there: 1, joined: 0}, block_items=10, machine=USUAL)
    assert {(arc.source, arc.target) for arc in model.platform.arcs} >= {("map 'a'", "align"), ("map 'b'", "align")}
    assert model.predict().throughput > 0


# What things cost


def test_a_crossing_is_work_of_both_cores() -> None:
    first, _second, last = chain()
    machine = MachineCosts(firing_s=0, crossing_s=1e-3, byte_s=1e-6, wake_s=0, sharing_s=0, sharing_byte_s=0)
    profile = profiled(last, 1e-6, 2e-6, 5e-6)
    model = model_of(last, profile, cores=2, mapping={first: 0, last: 1}, block_items=1000, machine=machine)
    crossing = 1e-3 + 8 * 1000 * 1e-6
    jobs = model.jobs.jobs
    assert [job.python_s for job in jobs] == pytest.approx([1e-3, 1e-3])
    waiting = [job.total_s - work - crossing for job, work in zip(jobs, (3e-3, 5e-3), strict=True)]
    assert waiting == pytest.approx([1e-3 * 1e-3 / 14e-3] * 2, rel=0.02)  # for as long as the other has Python's lock


def test_what_crossing_costs_is_what_the_profile_says_where_that_is_more() -> None:
    first, _second, last = chain()
    profile = profiled(last, 1e-6, 2e-6, 5e-6)
    options: dict[str, Any] = {"cores": 2, "mapping": {first: 0, last: 1}, "block_items": 1000, "machine": USUAL}

    def python_s(crossing_s: float) -> float:
        nodes = tuple(replace(node, crossing_s=crossing_s, crossing_bytes=1e5) for node in profile.nodes)
        return float(model_of(last, replace(profile, nodes=nodes), **options).jobs.jobs[0].python_s)

    assert python_s(0.0) == python_s(USUAL.byte_s * 1e5)  # no more than its bytes cost anywhere
    share = 8 * 1000 / 1e5
    assert python_s(1e-3) - python_s(0.0) == pytest.approx(share * (1e-3 - USUAL.byte_s * 1e5))


def test_what_fusing_saves_is_saved_where_nodes_are_in_one_loop() -> None:
    first, second, last = chain()
    profile = profiled(last, 1e-6, 1e-6, 1e-6)
    nodes = tuple(replace(node, saved_s=0.4 * node.seconds) for node in profile.nodes)
    options: dict[str, Any] = {"cores": 2, "block_items": 100, "machine": IDEAL}
    model = model_of(last, replace(profile, nodes=nodes), mapping={first: 0, second: 0, last: 1}, **options)
    assert [job.work_s / 100 for job in model.jobs.jobs] == pytest.approx([1.6e-6, 1e-6])


def test_a_firing_costs_what_its_nodes_say() -> None:
    first, _second, last = chain()
    profile = profiled(last, 1e-6, 1e-6, 1e-6)
    nodes = tuple(replace(node, firing_s=at * 1e-4) for at, node in enumerate(profile.nodes, 1))
    model = model_of(
        last,
        replace(profile, nodes=nodes),
        cores=2,
        mapping={first: 0, last: 1},
        block_items=100,
        machine=IDEAL,
    )
    assert [job.python_s for job in model.jobs.jobs] == pytest.approx([1.5e-4, 3e-4])


def test_a_loop_fires_as_room_is_made_where_its_items_do_not_fit() -> None:
    lists = ps.from_items([{"v": [1, 2, 3]}] * 4).enumerate("v", as_="w")
    last = lists.map(x=lambda w: w + 1)
    made = profiled(last, 1e-6, 1e-6, items=1000)
    wide = replace(made.nodes[0], outputs=1_000_000)
    profile = replace(made, nodes=(wide, replace(made.nodes[1], items=1_000_000, outputs=1_000_000)))
    options: dict[str, Any] = {"cores": 2, "mapping": {lists: 0, last: 1}, "machine": IDEAL}
    firings = list(model_of(last, profile, **options).layout.firings.values())
    assert firings == [1.0, 1.0]
    roomy = model_of(last, profile, capacities=1 << 40, **options)
    assert next(iter(roomy.layout.firings.values())) < 0.1


def test_parents_cross_once_for_a_region() -> None:
    lists = ps.from_items([{"id": 7, "v": [1, 2, 3]}] * 4).enumerate("v", as_="w")
    last = lists.map(x=lambda w: w + 1)
    made = profiled(last, 1e-6, 1e-6, items=1000)
    nodes = (replace(made.nodes[0], bytes_out=24, parent_bytes=16), replace(made.nodes[1], marks=200))
    costs = NodeCosts((last.node,), replace(made, nodes=nodes))
    (fed,) = (segment for segment in costs.loops if segment.feeder is not None)
    assert costs.channel_bytes(fed) == pytest.approx(8 + 0.1 * 16)


def test_regions_make_copies_dearer() -> None:
    lists = ps.from_items([{"v": [1, 2, 3]}] * 4).enumerate("v", as_="w")
    last = lists.map(x=lambda w: w + 1)
    made = profiled(last, 1e-6, 1e-6, items=1000)
    marked = replace(made, nodes=(made.nodes[0], replace(made.nodes[1], marks=200)))
    options: dict[str, Any] = {"cores": 2, "mapping": {lists: 0, last: 1}, "flexible": {last: 1}, "machine": USUAL}

    def split_s(profile: Profile) -> float:
        return next(
            job.python_s for job in model_of(last, profile, **options).jobs.jobs if job.name.startswith("split")
        )

    assert split_s(marked) - split_s(made) == pytest.approx(USUAL.sharing_marked_s, rel=0.01)


def test_a_firing_costs_less_an_item_in_large_blocks() -> None:
    first, _second, last = chain()
    profile = profiled(last, 1e-7, 1e-7, 1e-7)

    def predicted(block: int) -> float:
        model = model_of(last, profile, cores=2, mapping={first: 0, last: 1}, block_items=block, machine=USUAL)
        return model.predict().throughput

    assert predicted(64) < predicted(1024) < predicted(16384)


def test_passing_is_paid_where_a_loop_begins_and_ends() -> None:
    first, second, last = chain()
    profile = profiled(last, 1e-6, 1e-6, 1e-6, passing_s=1e-7)
    fused = model_of(last, profile, machine=IDEAL)
    assert fused.jobs.jobs[0].total_s / fused.layout.block == pytest.approx(3e-6 + 1e-7)
    cut = model_of(last, profile, cores=3, mapping=apart(first, second, last), block_items=100, machine=IDEAL)
    assert [job.total_s / 100 for job in cut.jobs.jobs] == pytest.approx([1e-6 + 1e-7] * 3)


def test_a_flexible_node_uses_what_other_cores_have_left() -> None:
    first, second, last = chain()
    profile = profiled(last, 1e-6, 1e-6, 8e-6)
    options: dict[str, Any] = {"cores": 2, "mapping": {first: 0, second: 0, last: 1}, "block_items": 1024}
    alone = model_of(last, profile, machine=IDEAL, **options).predict()
    told = model_of(last, profile, machine=IDEAL, flexible={last: 1}, **options).predict()
    assert alone.throughput == pytest.approx(1e6 / 8)
    assert told.throughput == pytest.approx(1e6 / 5, rel=0.01)
    assert told.shares["map 'c'"]["core 1"] == pytest.approx(5 / 8, abs=0.01)


def test_what_varies_is_simulated_as_it_was_recorded() -> None:
    """Two nodes of which each is the slow one for half of the stream: buffers do not help, copies do."""
    first, second, last = chain()
    slow, fast = (6e-6,) * 50, (2e-6,) * 50
    profile = varying(last, slow + fast, fast + slow, (1e-9,))
    options: dict[str, Any] = {"cores": 2, "mapping": {first: 0, second: 1}, "block_items": 1000, "capacities": 2000}
    model = model_of(last, profile, machine=IDEAL, **options)
    assert [type(task.time) for task in model.platform.tasks] == [Traced, Traced]
    assert model.seconds(100_000) == pytest.approx(0.6, rel=0.02)
    shared = model_of(last, profile, machine=IDEAL, flexible={first: 1}, **options)
    assert isinstance(shared.platform.task["map 'a'"].time, Drawn)


def test_python_is_a_core_that_all_share() -> None:
    first, second, last = chain()
    machine = MachineCosts(firing_s=1e-3, crossing_s=0, byte_s=0, wake_s=0, sharing_s=0, sharing_byte_s=0)
    profile = profiled(last, 1e-9, 1e-9, 1e-9)
    model = model_of(last, profile, cores=3, mapping=apart(first, second, last), block_items=100, machine=machine)
    told = model.predict()
    assert told.critical == PYTHON
    assert told.throughput == pytest.approx(100 / 3e-3)


def test_filling_and_emptying_count_in_a_short_stream() -> None:
    first, second, last = chain()
    profile = profiled(last, 1e-6, 1e-6, 1e-6)
    model = model_of(last, profile, cores=3, mapping=apart(first, second, last), block_items=100, machine=IDEAL)
    assert model.seconds(100) == pytest.approx(3e-4)
    assert model.seconds(1000) == pytest.approx(12e-4)
    assert model.seconds(1_000_000) == pytest.approx(1.0, rel=1e-3)


def test_fewer_places_hold_up_the_cores() -> None:
    first, second, last = chain()
    profile = varying(last, (1e-6, 9e-6) * 50, (9e-6, 1e-6) * 50, (1e-9,))
    options: dict[str, Any] = {"cores": 2, "mapping": {first: 0, second: 1}, "block_items": 1000, "machine": IDEAL}
    tight = model_of(last, profile, capacities=1000, **options).predict()
    roomy = model_of(last, profile, capacities={first: 50_000}, **options).predict()
    assert tight.throughput < 0.75 * roomy.throughput


def test_shares_of_copies() -> None:
    assert fill_cores([1.0, 1.0], 2.0) == (0.5, 0.5)
    assert fill_cores([0.0, 1.0, 5.0], 3.0) == pytest.approx((2 / 3, 1 / 3, 0.0))
    assert fill_cores([0.0, 0.0], 0.0) == (1.0, 0.0)


def test_a_model_can_be_read_and_drawn() -> None:
    first, _second, last = chain()
    profile = profiled(last, 1e-6, 1e-6, 8e-6)
    model = model_of(last, profile, cores=2, mapping={first: 0, last: 1}, flexible={last: 1}, machine=USUAL)
    text = str(model)
    assert "split of map 'c'" in text and "merge of map 'c'" in text and "bytes a block" in text
    assert model.picture().svg().startswith("<svg")
    assert "items a second" in str(model.predict())
    assert len(model.net().transitions) >= len(model.platform.tasks)


# What is refused


def of_another(stream: ps.Stream, profile: Profile) -> Any:
    return model_of(stream.filter(lambda c: c > 0), profile, machine=IDEAL)


def empty(stream: ps.Stream, profile: Profile) -> Any:
    nodes = tuple(NodeProfile(node.name, 0, 0, 0.0, 0.0, (), 8) for node in profile.nodes)
    return model_of(stream, Profile(100, nodes), machine=IDEAL)


REFUSED: list[tuple[Callable[[ps.Stream, Profile], Any], str]] = [
    (of_another, "profile: must be one of the same graph, whose nodes are map 'a', map 'b', map 'c', filter; got"),
    (empty, "model: the profile must have seen at least one item"),
    (lambda s, p: model_of(s, "fast", machine=IDEAL), "model: takes a profile of the graph, as of tune.profile"),
    (
        lambda s, p: model_of(s, p, cores=0, machine=IDEAL),
        "model: cores must be a whole number of at least 1; got 0",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, block_items=0, machine=IDEAL),
        "model: block_items must be a whole number of at least 1; got 0",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, capacities=0, machine=IDEAL),
        "model: capacities must be a whole number of at least 1; got 0",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, capacities={s: 0.5}, machine=IDEAL),
        "model: the capacity behind map 'c' must be a whole number of at least 1; got 0.5",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, capacities={"a": 5}, machine=IDEAL),
        "model: capacities= takes a number of items, or a dict from streams of this graph to such; got the key 'a'",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, mapping={s: 2}, machine=IDEAL),
        "mapping= must name cores from 0 to 1; got 2 for map 'c'",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, mapping={s: 1}, machine=IDEAL),
        "model: mapping= must say where each node is, or one before it; it misses \"map 'a'\", \"map 'b'\"; add them",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, mapping={s.filter(lambda c: c > 1): 1}, machine=IDEAL),
        "mapping= names filter, which is in no loop of this run",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, mapping=[0, 1], machine=IDEAL),
        "model: mapping must be a dict from streams",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, flexible="yes", machine=IDEAL),
        "model: flexible must be 'auto', or a dict",
    ),
    (
        lambda s, p: model_of(s, p, cores=2, flexible={s: 2}, machine=IDEAL),
        "model: map 'c' is to have 2 copies beside its own, each on another core; there are 2 cores",
    ),
]


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_what_is_wrong_is_refused(build: Callable[[ps.Stream, Profile], Any], message: str) -> None:
    last = chain()[2]
    with pytest.raises(PenstockError) as refused:
        build(last, profiled(last, 1e-6, 1e-6, 1e-6))
    assert message in str(refused.value)


def test_a_core_that_has_nothing_to_do_is_refused() -> None:
    first, _second, last = chain()
    profile = profiled(last, 1e-6, 1e-6, 1e-6)
    with pytest.raises(ModelError, match="mapping= must put something on each of the 3 cores; cores 2 have nothing"):
        model_of(last, profile, cores=3, mapping={first: 0, last: 1}, machine=IDEAL)
    assert model_of(last, profile, cores=3, mapping={first: 0, last: 1}, flexible={last: 2}, machine=IDEAL)


def test_a_machine_has_times() -> None:
    with pytest.raises(GraphError, match="machine: firing_s must be a number of seconds from 0 to below 1; got -1"):
        MachineCosts(firing_s=-1)
