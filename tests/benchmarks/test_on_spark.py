"""The benchmarks on Spark, at a scale at which times mean nothing: every peer gives the answer of the reference."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import benchmarks
from benchmarks import files, keyed, measure, ratios, regions, spark, start
from benchmarks import taxi as taxi_bench
from benchmarks.records import Case, Peer, Run
from penstock import DataError
from penstock.examples import region_sum, spike_detection, taxi

CASES = {"regions": ["32", "0-64"], "taxi": ["lines"], "keyed": ["1000", "54-named"]}
ROADS = {
    "regions": {"penstock", "limit", "spark", "arrow", "polars", "duckdb", "pandas"},
    "taxi": {"penstock", "limit", "spark", "polars", "duckdb"},
    "keyed": {"penstock", "limit", "arrow", "window", "polars", "duckdb", "pandas"},
}


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    kept = tmp_path_factory.getbasetemp() / "penstock-bench"
    monkeypatch.setattr(files, "kept_folder", lambda: kept)
    yield kept


@pytest.mark.parametrize("name", CASES)
def test_all_peers_agree_and_are_reported(name: str) -> None:
    for package in ("polars", "duckdb"):
        pytest.importorskip(package)
    report = json.loads(json.dumps(benchmarks.run(name, "tiny", 1).as_dict()))
    assert list(dict.fromkeys(run["case"] for run in report["runs"])) == CASES[name]
    for case in CASES[name]:
        whats = {run["what"].partition(":")[0] for run in report["runs"] if run["case"] == case}
        assert ROADS[name] <= whats
        assert {f"penstock/{road}@{case}" for road in ROADS[name] - {"penstock"}} <= set(report["ratios"])
        assert f"1GB/worker@{case}" in report["ratios"]
    assert f"4/growth@{CASES[name][0]}" in report["ratios"]


# Penstock's answer, which that of every peer is compared with, is the reference's


def test_regions_give_the_high_sums() -> None:
    data = files.regions(1 << 12, 32, 64)
    above = regions.level(32)
    right = [row for row in region_sum.reference(data) if row["total"] > above]
    found = regions.by_penstock(spark.session(), files.paths(data), above=above)
    assert found.to_pylist() == right


def test_taxi_writes_the_pairs() -> None:
    data = files.lines(400, 1)
    schema = taxi_bench.SCHEMA
    table = pa.Table.from_pylist(taxi.reference(data), schema)
    taxi_bench.fresh("right")
    pa.parquet.write_table(table, taxi_bench.out("right") / "part-0.parquet")
    written = taxi_bench.by_penstock(spark.session(), files.paths(data))
    assert taxi_bench.digest(written).equals(taxi_bench.digest(taxi_bench.out("right")))


def test_keyed_gives_the_spikes() -> None:
    data = files.readings(1 << 14, 54, True, 4)
    right = pa.Table.from_pylist(spike_detection.reference(data, window=100))
    found = keyed.by_penstock(spark.session(), 100, files.paths(data))
    assert keyed.same(keyed.settled(found), keyed.settled(right))
    assert found.num_rows > 50


# The digest


def pairs(*rows: tuple[str, float, float]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(taxi_bench.SCHEMA.names, row, strict=True)) for row in rows], taxi_bench.SCHEMA
    )


def test_a_digest_depends_on_the_rows_and_not_on_their_order_or_files() -> None:
    one, other, changed = ("1", 1.5, 2.5), ("2", 3.5, -4.5), ("2", -4.5, 3.5)
    digests = []
    for number, parts in enumerate([[[one, other]], [[other], [one]], [[one, changed]], [[one, other, other]]]):
        taxi_bench.fresh(str(number))
        for part, rows in enumerate(parts):
            pa.parquet.write_table(pairs(*rows), taxi_bench.out(str(number)) / f"part-{part}.parquet")
        digests.append(tuple(taxi_bench.digest(taxi_bench.out(str(number))).to_pylist()[0].values()))
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


# Files


def test_files_are_made_once_and_appear_when_they_are_whole(folder: Path) -> None:
    made: list[Path] = []

    def make(path: Path) -> None:
        made.append(path)
        (path / "part-0").touch()

    assert files.kept("some", make) == files.kept("some", make)
    assert len(made) == 1

    def fail(path: Path) -> None:
        (path / "part-0").touch()
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        files.kept("none", fail)
    assert not [path for path in folder.iterdir() if "none" in path.name]


def test_readings_are_cut_into_files_in_the_order_of_their_time() -> None:
    data = files.readings(1000, 10, False, 3)
    tables = [pa.parquet.read_table(path) for path in files.paths(data)]
    assert [len(table) for table in tables] == [334, 334, 332]
    assert pa.concat_tables(tables).column("time").to_pylist() == list(range(1000))
    assert files.rows(files.first(files.paths(data), 0.34, "full")) == 334


def test_the_tasks_of_the_limit_share_all_files(tmp_path: Path) -> None:
    paths = []
    for number, size in enumerate((5, 50, 5, 5, 100, 5)):
        (tmp_path / f"part-{number}").write_bytes(b"x" * size)
        paths.append(str(tmp_path / f"part-{number}"))
    shared = spark.parts(paths)
    assert [path for part in shared for path in part] == paths
    assert len(shared) > 1


# What is made of the runs


def test_of_several_formulations_the_fastest_counts() -> None:
    best = {("penstock", "a"): 100.0, ("spark:x", "a"): 10.0, ("spark:y", "a"): 20.0, ("start", "a"): 1.0}
    assert ratios.over_roads(best) == {"penstock/spark@a": 5.0}


def test_growth_is_beyond_the_start_and_memory_is_the_largest() -> None:
    runs = [
        Run("start", "a", 1, 1.0),
        Run("quarter", "a", 25, 2.0),
        Run("penstock", "a", 100, 6.0, {ratios.MEMORY: 250.0}),
        Run("penstock", "a", 100, 6.5, {ratios.MEMORY: 500.0}),
        Run("penstock", "b", 100, 6.5),
    ]
    assert ratios.growth_and_memory(runs) == {"4/growth@a": 4 / 5, "1GB/worker@a": 2.0}


def test_a_start_may_take_some_empty_jobs_and_some_seconds() -> None:
    best = {("penstock", "1MB"): 1 / 5.9, ("empty", "1MB"): 1 / 3.0}
    assert start.allowed(best)["allowed/penstock@1MB"] == pytest.approx(1.0)


def test_a_slow_peer_is_measured_less_often_and_what_is_around_is_not_timed() -> None:
    done: list[str] = []
    slow = Peer(
        "slow",
        lambda: done.append("work"),
        1,
        repeats=1,
        before=lambda: done.append("before"),
        settle=lambda given: pa.table({"v": [1]}),
    )
    fast = Peer("fast", lambda: pa.table({"v": [1]}), 1)
    told: list[str] = []
    runs = measure.measure(Case("c", (fast, slow)), 3, told.append)
    assert sorted(run.what for run in runs) == ["fast", "fast", "fast", "slow"]
    assert done == ["before", "work", "before", "work"]
    assert told[-1] == "c: fast, 3 of 3"


def test_a_scale_that_a_benchmark_has_not_is_an_error() -> None:
    with pytest.raises(DataError, match="scale of keyed-local must be one of tiny, small, full; got 'double'"):
        importlib.import_module("benchmarks.keyed_local").BENCHMARK.run("double")
