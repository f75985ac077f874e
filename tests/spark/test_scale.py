"""Foresee a cluster from a real run of a sample: the profile is sane, and what cannot be measured is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock import tune
from penstock.errors import GraphError, ModelError
from penstock.tune.job_profile import JobProfile
from penstock.tune.scaling import Scaling

ROWS = 40_000
SAMPLE = {"sample": 200_000, "repeats": 1}


class Total(ps.State):
    seen: float


def running_total(value: float, state: Total) -> float:
    state.seen += value
    return state.seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("readings")
    for part in range(2):
        keys = [(7 * at + part) % 100 for at in range(ROWS // 2)]
        table = pa.table({"key": keys, "value": [float(at % 13) for at in range(ROWS // 2)]})
        pq.write_table(table, found / f"part-{part}.parquet", row_group_size=2000, compression="none")
    return found


def keyed(folder: Path) -> ps.Stream:
    return ps.read_parquet(folder).key_by("key").map(total=running_total, state=Total)


@pytest.fixture(scope="module")
def foreseen(spark: SparkSession, folder: Path) -> Scaling:
    return tune.scale(keyed(folder), [1, 2, 64], spark=spark, **SAMPLE)  # type: ignore[arg-type]


def test_the_profile_has_all_runs(foreseen: Scaling) -> None:
    profile = foreseen.profile
    assert {run.role for run in profile.runs} == {"cold", "little", "alone", "many", "side by side", "full"}
    assert (profile.slots, profile.machines, profile.sink) == (2, 1, "collect")
    for run in profile.runs:
        assert [stage.kind for stage in run.stages] == ["split", "key"]
        assert run.seconds >= run.before_s + run.after_s >= 0
        assert all(task.work_s >= 0 and task.seconds > 0 for stage in run.stages for task in stage.tasks)
        assert sum(task.items for task in run.stages[1].tasks) == run.source_items


def test_the_runs_are_cut_as_their_roles_say(foreseen: Scaling) -> None:
    runs = {run.role: run for run in foreseen.profile.runs}
    counts = {role: [len(stage.tasks) for stage in run.stages] for role, run in runs.items()}
    assert counts["little"] == counts["alone"] == counts["cold"] == [1, 1]
    assert counts["many"] == [1, 64]
    assert counts["full"] == [2, 2]
    assert counts["side by side"][0] > 2
    assert counts["side by side"][1] == 8
    assert runs["little"].source_bytes < runs["alone"].source_bytes <= runs["side by side"].source_bytes
    assert runs["many"].stages[0].tasks[0].peers == 64


def test_what_is_foreseen_is_sane(foreseen: Scaling) -> None:
    assert [point.executors for point in foreseen.points] == [1, 2, 64]
    assert all(point.seconds > 0 and point.low_s <= point.high_s for point in foreseen.points)
    assert foreseen.data.bytes == sum(foreseen.data.sizes[1])
    assert foreseen.stops_at is not None  # so little data needs no cluster
    assert "stops scaling at" in str(foreseen)


def test_a_profile_serves_again_and_for_other_data(foreseen: Scaling, folder: Path) -> None:
    kept = JobProfile.from_json(foreseen.profile.json())
    own = tune.scale(keyed(folder), [1, 2], profile=kept)
    assert own.seconds(2) == pytest.approx(foreseen.seconds(2))
    rows = tune.scale(keyed(folder), [1], {"rows": 1000 * ROWS}, profile=kept)
    times = tune.scale(keyed(folder), [1], {"times": 1000}, profile=kept)
    assert rows.data.bytes == pytest.approx(times.data.bytes, rel=0.05)
    assert rows.seconds(1) > own.seconds(1)
    assert tune.scale(keyed(folder), [4], 10**9, profile=kept, stragglers=(0.5, 4.0)).points[0].causes["stragglers"] > 0


def test_results_may_be_written(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    stream = ps.read_parquet(folder).filter(lambda value: value > 3)
    found = tune.scale(stream, [1, 4], spark=spark, sink="parquet", folder=tmp_path, **SAMPLE)  # type: ignore[arg-type]
    assert [stage.kind for stage in found.cost.stages] == ["split"]
    assert found.profile.sink == "parquet"
    assert not list(tmp_path.iterdir())


def test_a_profile_of_another_graph(foreseen: Scaling, folder: Path) -> None:
    other = ps.read_parquet(folder).filter(lambda value: value > 3)
    with pytest.raises(GraphError, match="the profile must be one of the same graph, whose stages are stage 1"):
        tune.scale(other, [1], profile=foreseen.profile)
    with pytest.raises(GraphError, match="one of a run to 'csv'; got one to 'collect'"):
        tune.scale(keyed(folder), [1], profile=foreseen.profile, sink="csv")


@pytest.mark.parametrize("data", [0, -5, "much", True, {}, {"rows": 0}, {"rows": 1, "bytes": 2}, {"lines": 5}])
def test_wrong_data(data: object, folder: Path) -> None:
    with pytest.raises(GraphError, match="data= must be a number of bytes"):
        tune.scale(keyed(folder), [1], data)


def test_what_cannot_be_measured(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(GraphError, match="got a DataFrame of Spark; write it to files"):
        tune.scale(ps.from_spark(spark.range(10)).map(w=lambda id: id + 1), [1])
    with pytest.raises(GraphError, match="the source must have items to measure; got none"):
        tune.scale(ps.from_items([], schema={"v": int}).map(w=lambda v: v + 1), [1], spark=spark)
    with pytest.raises(GraphError, match="got spark=False"):
        tune.scale(keyed(folder), [1], spark=False)
    with pytest.raises(ModelError, match="executors must be a whole number of at least 1; got 0"):
        tune.scale(keyed(folder), [1, 0])
    with pytest.raises(GraphError, match="sink must be one of 'collect', 'parquet', 'csv', 'json'; got 'orc'"):
        tune.scale(keyed(folder), [1], sink="orc")
    with pytest.raises(GraphError, match="sample must be a whole number"):
        tune.scale(keyed(folder), [1], spark=spark, sample=0)
