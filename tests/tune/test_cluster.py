"""Clusters on paper: the schedule and the model by hand, on made-up costs; what is fitted is what was put in."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import GraphError, ModelError
from penstock.spark.driver import batch_source
from penstock.tune.cluster import SPLIT_BYTES, TASKS_A_CORE, Cluster, DataSize, point, tasks_of
from penstock.tune.job_costs import JobCost, StageCost, costs, hot_share
from penstock.tune.job_profile import JobProfile
from penstock.tune.scaling import Scaling, predict_scaling
from penstock.tune.schedule import SIMULATED, Slots, _flowing, makespan
from penstock.tune.synthetic_profile import synthetic_profile

MB = 1e6
READ = StageCost("read", 0, "split", 0.01, 1e-8, 1e-4)
KEYED = StageCost("keyed", 1, "key", 0.02, 2e-8, 1e-4, share=0.5)
JOB = JobCost((READ, KEYED), before_s=0.2, after_s=0.1, waits_s=(0.05,))
ONE = JobCost((replace(READ, per_peer_s=0.0),))

works = st.lists(st.floats(0.01, 10.0), min_size=1, max_size=30)


# The schedule


def test_one_task_a_slot_takes_as_long_as_the_longest() -> None:
    assert makespan([1.0, 3.0, 2.0], Slots((1, 1, 1), cores=1)) == 3.0


def test_each_free_slot_takes_the_next_task() -> None:
    assert makespan([2.0, 1.0, 2.0, 1.0], Slots((1, 1), cores=1)) == 3.0
    assert makespan([1.0, 1.0, 1.0, 5.0], Slots((3,), cores=3)) == 6.0


def test_tasks_on_one_machine_slow_each_other_down() -> None:
    assert makespan([1.0, 1.0], Slots((2,), cores=2, full=1.5)) == pytest.approx(1.5)
    assert makespan([1.0, 1.0], Slots((1, 1), cores=2, full=1.5)) == 1.0
    # Three slots on two cores do no more in a second than two.
    assert makespan([1.0] * 3, Slots((3,), cores=2)) == pytest.approx(1.5)


def test_what_is_left_alone_goes_on_at_full_speed() -> None:
    # Both are at 2/3 of their speed until one is through at 1.5 s; the other has 1 s left.
    assert makespan([1.0, 2.0], Slots((2,), cores=2, full=1.5)) == pytest.approx(2.5)


def test_the_driver_hands_out_one_task_at_a_time() -> None:
    assert makespan([0.001] * 100, Slots((1,) * 100, cores=1, dispatch_s=0.01)) == pytest.approx(1.001)


def test_a_slot_is_free_for_a_while_between_tasks() -> None:
    assert makespan([1.0, 1.0, 1.0], Slots((1,), cores=1, gap_s=0.1)) == pytest.approx(3.2)


@given(works, st.integers(1, 8), st.floats(1.0, 2.0))
@settings(max_examples=60)
def test_the_schedule_lies_between_its_bounds(work: list[float], slots: int, full: float) -> None:
    alone = Slots((1,) * slots, cores=1)
    found = makespan(work, alone)
    assert max(max(work), sum(work) / slots) <= found + 1e-9
    assert found <= sum(work) / slots + max(work) + 1e-9  # Graham's bound
    together = makespan(work, Slots((slots,), cores=slots, full=full))
    assert found - 1e-9 <= together <= full * found + 1e-9 or slots == 1


@given(works, st.integers(1, 6))
@settings(max_examples=40)
def test_a_machine_never_does_more_than_its_rate(work: list[float], count: int) -> None:
    slots = Slots((count,), cores=2, full=1.3)
    best = max(slots.rate(tasks) for tasks in range(1, count + 1))
    assert makespan(work, slots) >= sum(work) / best - 1e-9


def test_very_many_tasks_flow() -> None:
    work, slots = [0.1] * (SIMULATED // 10), Slots((1,) * 16, cores=1, gap_s=0.01)
    assert _flowing(work, slots) == pytest.approx(makespan(work, slots), rel=0.01)


# The job


def test_splits_are_cut_as_the_driver_cuts_them() -> None:
    assert (SPLIT_BYTES, TASKS_A_CORE) == (batch_source.SPLIT_BYTES, batch_source.TASKS_A_CORE)
    assert len(DataSize(80 * MB).cut(2, None)) == 8
    assert len(DataSize(SPLIT_BYTES * 100).cut(2, None)) == 100
    assert DataSize(10, sizes={1: (10,), 4: (5, 5)}).cut(3, None) == (5, 5)


def test_tasks_of_levels() -> None:
    first, second = tasks_of(JOB, DataSize(80 * MB), Cluster(), 2)
    assert [len(first[0].bytes), first[0].peers, first[0].bytes[0]] == [8, 2, 10 * MB]
    assert [list(second[0].bytes), second[0].peers] == [[20 * MB, 20 * MB], 8]


def test_one_task_a_slot_by_hand() -> None:
    found = point(ONE, DataSize(40 * MB, 4), Cluster(), 4)
    assert found.seconds == pytest.approx(0.01 + 0.1)
    assert (found.tasks, found.slots, found.limit) == (4, 4, "work")


def test_all_parts_of_a_job_by_hand() -> None:
    # On one: 4 splits of 20 MB with 1 bucket, then one bucket of 40 MB from 4 splits.
    first, second = 4 * (0.01 + 0.2), 0.02 + 0.8 + 3e-4
    found = point(JOB, DataSize(80 * MB), Cluster(local=True), 1)
    assert found.seconds == pytest.approx(0.2 + first + 0.05 + second + 0.1, rel=1e-6)
    assert (found.tasks, point(JOB, DataSize(80 * MB), Cluster(), 1).tasks) == (5, 10)


def test_the_largest_bucket_bounds_the_time() -> None:
    hot = replace(JOB, stages=(READ, replace(KEYED, hot=0.5)))
    found = point(hot, DataSize(800 * MB), Cluster(), 64)
    assert found.seconds >= 0.02 + 2e-8 * 0.5 * 400 * MB
    assert found.limit == "largest bucket"
    given_skew = point(JOB, DataSize(800 * MB), Cluster(skew=4.0), 8)
    assert given_skew.seconds > point(JOB, DataSize(800 * MB), Cluster(), 8).seconds + 2e-8 * 2.5 * 50 * MB


def test_a_whole_stage_does_not_scale() -> None:
    whole = replace(JOB, stages=(READ, replace(KEYED, kind="whole")))
    assert point(whole, DataSize(8e9), Cluster(), 512).seconds > 2e-8 * 4e9


def test_stragglers_take_their_factor() -> None:
    assert point(ONE, DataSize(40 * MB, 4), Cluster(stragglers=(1.0, 3.0)), 4).seconds == pytest.approx(3 * 0.11)
    some = point(ONE, DataSize(4000 * MB, 400), Cluster(stragglers=(0.02, 20.0)), 100)
    assert some.limit == "stragglers"


def test_a_small_job_is_all_start_up() -> None:
    found = point(JOB, DataSize(1 * MB), Cluster(), 8)
    assert found.limit == "driver"
    cold = point(replace(JOB, start_s=5.0), DataSize(1 * MB), Cluster(cold=True), 8)
    assert cold.limit == "start of workers"
    assert cold.seconds >= found.seconds + 5.0 - 0.01


def test_storage_and_network_bound_the_time() -> None:
    data = DataSize(10e9)
    slow = point(JOB, data, Cluster(storage=1e8), 512)
    assert slow.limit == "storage"
    assert slow.seconds >= 100
    assert point(JOB, data, Cluster(bandwidth=1e6), 16).seconds > point(JOB, data, Cluster(), 16).seconds + 290


def test_the_driver_bounds_very_many_tasks() -> None:
    found = point(replace(ONE, dispatch_s=0.01), DataSize(1e10, 4000), Cluster(), 2000)
    assert found.seconds == pytest.approx(40, rel=0.05)
    assert found.limit == "driver"


@given(st.floats(1.0, 1e5), st.floats(0, 0.3), st.integers(1, 30))
@settings(max_examples=30)
def test_more_executors_or_less_data_take_no_longer(megabytes: float, hot: float, executors: int) -> None:
    cost = replace(JOB, stages=(replace(READ, per_peer_s=0.0), replace(KEYED, hot=hot, per_peer_s=0.0)))
    data = DataSize(megabytes * MB, splits=64)
    found = point(cost, data, Cluster(), executors)
    assert point(cost, data, Cluster(), 2 * executors).seconds <= found.seconds + 1e-9
    assert point(cost, DataSize(2 * megabytes * MB, splits=64), Cluster(), executors).seconds >= found.seconds


def test_the_same_seed_gives_the_same() -> None:
    varied = replace(JOB, stages=(replace(READ, spread=(0.5, 1.5)), KEYED))
    cluster = Cluster(stragglers=(0.1, 3.0))
    assert point(varied, DataSize(1e9), cluster, 4, seed=3) == point(varied, DataSize(1e9), cluster, 4, seed=3)
    assert (
        point(varied, DataSize(1e9), cluster, 4, seed=3).low_s < point(varied, DataSize(1e9), cluster, 4, seed=3).high_s
    )


# From a profile


def test_what_is_fitted_is_what_was_put_in() -> None:
    stages = (_crowded(READ, 1.3, 1.5), _crowded(replace(KEYED, hot=0.1), 1.2, 1.1))
    put = replace(
        JOB, stages=stages, after_per_byte_s=1e-10, after_per_task_s=0.002, start_s=2.0, machine_cores=2, gap_s=0.003
    )
    found = costs(synthetic_profile(["a", "b"], put))
    for mine, theirs in zip(found.stages, stages, strict=True):
        for name in ("fixed_s", "per_byte_s", "per_peer_s", "share", "full_fixed_s", "full_per_byte_s", "hot"):
            assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=0.02, abs=1e-9), name
    for name in ("before_s", "after_s", "after_per_byte_s", "after_per_task_s", "start_s", "gap_s", "waits_s"):
        assert getattr(found, name) == pytest.approx(getattr(put, name), rel=0.02), name


def _crowded(stage: StageCost, fixed: float, per_byte: float) -> StageCost:
    return replace(stage, full_fixed_s=fixed * stage.fixed_s, full_per_byte_s=per_byte * stage.per_byte_s)


def test_small_tasks_and_large_ones_are_slower_by_their_own_measure_on_a_busy_machine() -> None:
    """Small ones mostly wait, and large ones work: one factor would be wrong for one of them."""
    stage = _crowded(READ, 1.0, 2.0)
    assert stage.full(0.0) == 1.0
    assert stage.full(1e12) == pytest.approx(2.0, rel=0.01)
    assert READ.full(1e6) == 1.0


def test_a_profile_goes_to_text_and_back() -> None:
    profile = synthetic_profile(["a", "b"], JOB)
    assert JobProfile.from_json(profile.json()) == profile


def test_the_share_of_the_hottest_bucket_stays() -> None:
    assert hot_share([5]) == hot_share([]) == hot_share([0, 0]) == 0.0
    assert hot_share([100, 0, 0, 0]) == 1.0


@pytest.fixture
def scaling() -> Scaling:
    return predict_scaling(synthetic_profile(["a", "b"], JOB), [1, 2, 8, 64, 512], DataSize(10e9))


def test_where_it_stops_scaling(scaling: Scaling) -> None:
    assert scaling.stops_at is not None
    before, there = (
        point(scaling.cost, scaling.data, scaling.cluster, count, single_s=scaling.single.seconds).efficiency
        for count in (round(scaling.stops_at * 0.9), scaling.stops_at)
    )
    assert there < 0.5 <= before
    assert scaling.points[0].efficiency == 1.0
    assert scaling.seconds(8) < scaling.seconds(2) < scaling.seconds(1)


def test_a_job_of_work_alone_goes_on() -> None:
    endless = JobCost((replace(READ, fixed_s=0.0, per_peer_s=0.0),))
    assert predict_scaling(synthetic_profile(["a"], endless), [1], DataSize(1e12)).stops_at is None


def test_the_table_and_the_picture(scaling: Scaling, tmp_path: Path) -> None:
    lines = str(scaling).splitlines()
    assert lines[0].split()[:4] == ["executors", "slots", "tasks", "seconds"]
    assert len(lines) == 7
    assert f"stops scaling at {scaling.stops_at}" in lines[-1].replace(",", "")
    written = scaling.picture(tmp_path / "curve.svg").read_text()
    assert written.startswith("<svg")
    assert "if it scaled fully" in written
    assert scaling._repr_html_() == written


def test_a_notebook_without_altair_shows_the_table(scaling: Scaling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    assert scaling._repr_html_() is None


# What is refused


@pytest.mark.parametrize("executors", [[], [0], [-1], [1.5], [True], [None], 8, "8"])
def test_wrong_executors(executors: object) -> None:
    with pytest.raises(ModelError, match="executors must be"):
        predict_scaling(synthetic_profile(["a"]), executors, DataSize(1e9))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf")])
def test_no_data(size: float) -> None:
    with pytest.raises(ModelError, match="data= must be more than no bytes"):
        DataSize(size)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"cores": 0}, "cores must be a whole number of at least 1"),
        ({"machines": -2}, "machines must be a whole number"),
        ({"skew": 0.5}, "skew, the largest bucket over the mean, must be 1 or more"),
        ({"stragglers": (2.0, 3.0)}, "stragglers must be a probability and a factor"),
        ({"stragglers": (0.1, 0.5)}, "stragglers must be a probability and a factor"),
        ({"bandwidth": 0}, "bandwidth must be more than 0 bytes a second"),
    ],
)
def test_wrong_clusters(option: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Cluster(**option)  # type: ignore[arg-type]


def test_profiles_that_do_not_fit() -> None:
    profile = synthetic_profile(["stage 1: map 'w'"])
    profile.check(["stage 1: map 'w'"], "collect")
    with pytest.raises(GraphError, match="the profile must be one of the same graph, whose stages are stage 1: filter"):
        profile.check(["stage 1: filter"], "collect")
    with pytest.raises(GraphError, match="one of a run to 'parquet'; got one to 'collect'"):
        profile.check(["stage 1: map 'w'"], "parquet")
    with pytest.raises(ModelError, match="must have runs that are 'little', 'alone', 'side by side' and 'full'"):
        costs(replace(profile, runs=profile.of("little")))


def test_a_number_that_was_not_asked_for(scaling: Scaling) -> None:
    with pytest.raises(ModelError, match="seconds of 3 executors were not asked for"):
        scaling.seconds(3)
