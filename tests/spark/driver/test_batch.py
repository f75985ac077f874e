"""Graphs on a real Spark: results, files, DataFrames, signals, and what is told about a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.graph.tree import Tree
from penstock.report.progress import Progress
from penstock.spark.driver.batch import prepare_batch
from penstock.spark.driver.batch_plan import plan_batch

COUNT = 6_000


class Total(ps.State):
    sum: float


class Reset(ps.Signal):
    to: float


def running(v: float, state: Any) -> float:
    state.sum += v
    return state.sum


def keyed(source: ps.Stream) -> ps.Stream:
    return source.key_by("k").map(sum=running, state=Total).on(Reset, sum=lambda signal: signal.to)


def numbers() -> pa.Table:
    random = np.random.default_rng(7)
    columns = {"t": 10 * np.arange(COUNT), "k": random.integers(0, 50, COUNT), "v": random.integers(0, 9, COUNT) / 2}
    return pa.table(columns | {"name": [f"n{k % 7}" for k in columns["k"]]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The numbers in three files of several row groups."""
    made, table = tmp_path_factory.mktemp("numbers"), numbers()
    for at in range(3):
        part = table.slice(at * COUNT // 3, COUNT // 3)
        pq.write_table(part, made / f"part-{at}.parquet", row_group_size=700)
    return made


CONTROL = [ps.at(Reset(1.0), t=10 * 4321), ps.at(2_000, Reset(5.0)), ps.at(COUNT, Reset(9.0)), ps.at(0, Reset(0.5))]
GRAPHS: dict[str, Callable[[ps.Stream], ps.Stream]] = {
    "items": lambda s: s.filter(lambda v: v > 1).map(w=lambda v: 2 * v),
    "keys": lambda s: keyed(s).filter(lambda sum: sum > 10),
    "text keys": lambda s: s.key_by("name", "k").map(sum=running, state=Total),
    "two keys": lambda s: keyed(s).key_by("name").map(all=lambda sum, state: running(sum, state), state=Total),
    "a row a key": lambda s: s.key_by("name").aggregate(total=ps.sum("v"), n=ps.count()),
    "windows": lambda s: s.key_by("k").window("t", length=500).aggregate(most=ps.max("v")),
    "found regions": lambda s: s.regions(start=lambda v: v == 0).aggregate(n=ps.count()),
    "no key": lambda s: s.map(sum=running, state=Total).on(Reset, sum=lambda signal: signal.to),
    "found signals": lambda s: keyed(s.emit(Reset, when=lambda t: t % 990 == 0, to=lambda v: v)),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_as_one_thread(graph: Callable[[ps.Stream], ps.Stream], folder: Path, spark: Any) -> None:
    wanted = graph(ps.from_arrow(numbers())).collect()
    found = graph(ps.read_parquet(str(folder))).collect(spark, ordered=True, split_bytes=9_000, buckets=3)
    assert found.equals(wanted)


@pytest.mark.parametrize("graph", ["keys", "text keys", "two keys", "a row a key"])
def test_the_seed_of_hashes_does_not_show(graph: str, folder: Path, spark: Any) -> None:
    stream, wanted = GRAPHS[graph](ps.read_parquet(str(folder))), GRAPHS[graph](ps.from_arrow(numbers())).collect()
    for seed in (0, 1, 2**63 - 1):
        assert stream.collect(spark, ordered=True, split_bytes=9_000, buckets=3, hash_seed=seed).equals(wanted)
        assert stream.collect(spark=False, hash_seed=seed).equals(wanted)


def test_tasks_hide_values_as_the_driver_does(folder: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers were started before: the choice goes to them with the job, and ends with it."""
    stream = ps.read_parquet(str(folder)).map(w=lambda k: 1 // (k - 7))
    for variable, quoted in (("1", "k=(hidden)"), ("0", "k=7")):
        monkeypatch.setenv("PENSTOCK_HIDE_VALUES", variable)
        with pytest.raises(ps.FunctionError) as raised:
            stream.collect(spark)
        assert quoted in str(raised.value) and "part-0.parquet" in str(raised.value)


def test_every_job_draws_a_seed_of_its_own(folder: Path, spark: Any) -> None:
    leaf = GRAPHS["keys"](ps.read_parquet(str(folder))).node
    plan = plan_batch(Tree((leaf,)), (), is_ordered=False, is_collected=True)
    seeds = {prepare_batch(plan, spark).program.options["hash_seed"] for _ in range(3)}
    assert len(seeds) == 3


@pytest.mark.parametrize("graph", ["keys", "no key"])
def test_signals_from_outside(graph: str, folder: Path, spark: Any) -> None:
    wanted = GRAPHS[graph](ps.from_arrow(numbers())).collect(control=CONTROL)
    stream = GRAPHS[graph](ps.read_parquet(str(folder)))
    assert stream.collect(spark, control=CONTROL, ordered=True, split_bytes=9_000, buckets=3).equals(wanted)


def test_signals_in_lines_that_must_be_counted_first(tmp_path: Path, spark: Any) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{v}\n" for v in range(500)))
    read = ps.read_text(str(tmp_path)).map(v=lambda line: float(len(line))).map(k=lambda v: int(v))
    stream = keyed(read).select("sum")
    control = [ps.at(300, Reset(100.0))]
    found = stream.collect(spark, control=control, ordered=True, split_bytes=100)
    assert found.equals(stream.collect(False, control=control))


def test_a_field_that_goes_down_places_no_signals(folder: Path, spark: Any) -> None:
    with pytest.raises(ps.ControlError, match="'v' must never go down"):
        keyed(ps.read_parquet(str(folder))).collect(spark, control=[ps.at(Reset(1.0), v=3.0)])
    with pytest.raises(ps.ControlError, match="at most the number of items"):
        keyed(ps.read_parquet(str(folder))).collect(spark, control=[ps.at(COUNT + 1, Reset(1.0))])


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_written_in_order(format: str, folder: Path, tmp_path: Path, spark: Any) -> None:
    stream = GRAPHS["keys"](ps.read_parquet(str(folder))).select("k", "v", "sum")
    write = getattr(stream, f"write_{format}")
    written = write(str(tmp_path / "out"), spark, ordered=True, split_bytes=9_000, buckets=3)
    wanted = stream.collect(False)
    read = getattr(ps, f"read_{format}")
    assert read(str(tmp_path / "out")).select("k", "v", "sum").collect(False).equals(wanted)
    assert written.rows == wanted.num_rows
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == list(written.files)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    with pytest.raises(ps.PenstockError, match="must not be there yet"):
        write(str(tmp_path / "out"), spark)
    assert write(str(tmp_path / "out"), spark, mode="overwrite").rows == wanted.num_rows
    assert read(str(tmp_path / "out")).collect(False).num_rows == wanted.num_rows


def test_several_results_of_one_source(folder: Path, spark: Any) -> None:
    source = ps.read_parquet(str(folder))
    streams = [GRAPHS[name](source) for name in ("items", "keys", "a row a key")]
    found = ps.run(*streams, spark=spark, ordered=True)
    wanted = [GRAPHS[name](ps.from_arrow(numbers())).collect() for name in ("items", "keys", "a row a key")]
    assert [a.equals(b) for a, b in zip(found, wanted, strict=True)] == [True, True, True]


# DataFrames


def test_a_pipeline_of_dataframes(spark: Any) -> None:
    """Read, join, regions here, and on with Spark: inside of a user's PySpark code."""
    frame = spark.createDataFrame(numbers().to_pandas()).selectExpr("*", "k as trip")
    colours = spark.createDataFrame([(k, "red" if k % 2 else "blue") for k in range(50)], "k long, colour string")
    joined = frame.join(colours, "k")
    trips = ps.from_spark(joined, order_by=["trip", "t"]).regions(by="trip", keep={"paint": "colour"})
    lengths = trips.aggregate(total=ps.sum("v"), first=ps.first("t"))
    assert "one task" not in lengths.explain()
    found = lengths.to_spark(spark).groupBy("paint").sum("total").orderBy("paint").collect()
    table = numbers().to_pandas()
    wanted = table.v.groupby(np.where(table.k % 2, "red", "blue")).sum()
    assert [(row[0], row[1]) for row in found] == list(wanted.items())
    firsts = lengths.collect(spark, ordered=True)["first"].to_pylist()
    assert firsts == table.groupby("k").t.first().tolist()


def test_keys_and_signals_of_a_dataframe(spark: Any) -> None:
    shuffled = numbers().to_pandas().sample(frac=1, random_state=3)
    stream = keyed(ps.from_spark(spark.createDataFrame(shuffled), order_by="t"))
    wanted = keyed(ps.from_arrow(numbers())).collect(control=CONTROL)
    assert stream.collect(spark, control=CONTROL, ordered=True).equals(wanted)
    in_order = keyed(ps.from_spark(spark.createDataFrame(shuffled), order_by="t")).to_spark(spark, ordered=True)
    assert [row.t for row in in_order.collect()] == list(range(0, 10 * COUNT, 10))


def test_a_dataframe_without_order(spark: Any) -> None:
    frame = spark.createDataFrame(numbers().to_pandas())
    assert ps.from_spark(frame).filter(lambda v: v > 2).collect(spark).num_rows == (numbers()["v"].to_numpy() > 2).sum()
    with pytest.raises(ps.GraphError, match="must have an order, because map 'sum' has a state for each key"):
        keyed(ps.from_spark(frame)).collect(spark)
    with pytest.raises(ps.GraphError, match="must have an order, because the result is to be in order"):
        ps.from_spark(frame).collect(spark, ordered=True)
    with pytest.raises(ps.GraphError, match=r"order_by= must name columns.*'nope'"):
        ps.from_spark(frame, order_by="nope")


def test_an_empty_dataframe(spark: Any) -> None:
    empty = spark.createDataFrame([], "t long, k long, v double")
    assert keyed(ps.from_spark(empty, order_by="t")).collect(spark).num_rows == 0
    once = ps.from_spark(empty, order_by="t").flat_map(_count, to="n", at_most=1, state=Total, end=_counted)
    assert once.collect(spark).to_pydict() == {"n": [0.0]}
    assert once.to_spark(spark).collect() == [(0.0,)]


def _count(state: Any) -> None:
    state.sum += 1


def _counted(state: Any) -> Iterator[float]:
    yield state.sum


def test_types_in_a_dataframe(spark: Any) -> None:
    table = pa.table({"u": pa.array([1], pa.uint32()), "d": pa.array([3], pa.date32()), "l": pa.array([[1.5]])})
    frame = ps.from_arrow(table).to_spark(spark)
    assert frame.dtypes == [("u", "bigint"), ("d", "date"), ("l", "array<double>")]
    assert ps.from_spark(frame).collect(spark)["l"].to_pylist() == [[1.5]]


# What is told


def test_statistics_and_progress(folder: Path, spark: Any) -> None:
    seen: list[Progress] = []
    run = GRAPHS["keys"](ps.read_parquet(str(folder))).prepare(spark, on_progress=seen.append, split_bytes=9_000)
    result = run.collect()
    first, second = run.statistics().stages
    assert first.items == COUNT and second.rows == result.num_rows and second.skew >= 1
    assert seen[-1].is_done and [stage.items for stage in seen[-1].stages] == [COUNT, COUNT]
    assert seen[-1].stages[0].bytes > 0
    assert "stage 2 (key)" in str(run.statistics())


def test_a_skewed_key_is_a_stream_of_blocks(tmp_path: Path, spark: Any) -> None:
    """Every item has one key: all go through one bucket, which must not hold them all."""
    count = 3_000_000
    pq.write_table(pa.table({"k": np.zeros(count, np.int64), "v": np.ones(count)}), tmp_path / "a.parquet")
    run = keyed(ps.read_parquet(str(tmp_path))).filter(lambda sum: sum % 1_000_000 == 0).prepare(spark)
    assert run.collect()["sum"].to_pylist() == [1e6, 2e6, 3e6]
    assert all(stage.peak_bytes < 1 << 30 for stage in run.statistics().stages)


def jobs_so_far(spark: Any) -> int:
    return int(spark.sparkContext._jsc.sc().statusStore().jobsList(None).size())


@pytest.mark.parametrize("by", ["start", "field"])
def test_to_spark_of_regions_that_span_splits_runs_nothing_before_an_action(
    spark: Any, tmp_path: Path, by: str
) -> None:
    # No region begins in the third file, and the first regions of the others begin in their middle.
    days = [0] * 130 + [1] * 190 + [2] * 80
    table = pa.table({"t": list(range(400)), "day": days, "is_first": [i in (0, 130, 320) for i in range(400)]})
    for part in range(4):
        pq.write_table(table.slice(100 * part, 100), tmp_path / f"{part}.parquet")
    source = ps.read_parquet(tmp_path)
    regions = source.regions(by="day") if by == "field" else source.regions(start=lambda is_first: is_first)
    stream = regions.aggregate(n=ps.count(), last=ps.max("t"))
    before = jobs_so_far(spark)
    frame = stream.to_spark(spark)
    assert jobs_so_far(spark) == before
    wanted = stream.collect(spark=False).to_pylist()
    assert [row["n"] for row in wanted] == [130, 190, 80]
    assert sorted((row["n"], row["last"]) for row in frame.collect()) == [(80, 399), (130, 129), (190, 319)]


@pytest.mark.parametrize("is_keyed", [False, True], ids=["one state", "a state per key"])
@pytest.mark.parametrize("is_frame", [False, True], ids=["files", "a DataFrame"])
def test_to_spark_with_signals_placed_by_a_field_runs_nothing_before_an_action(
    spark: Any, tmp_path: Path, is_frame: bool, is_keyed: bool
) -> None:
    table = pa.table({"t": list(range(0, 600, 2)), "v": [float(i % 7) for i in range(300)]})
    for part in range(3):
        pq.write_table(table.slice(100 * part, 100), tmp_path / f"{part}.parquet")
    source = ps.from_spark(spark.createDataFrame(table), order_by="t") if is_frame else ps.read_parquet(tmp_path)
    stream = source.map(k=lambda t: t % 5)
    stream = stream.key_by("k") if is_keyed else stream
    stream = stream.map(sum=running, state=Total).on(Reset, sum=lambda signal: signal.to)
    control = [ps.at(Reset(0.0), t=251), ps.at(Reset(1.0), t=400)]
    before = jobs_so_far(spark)
    frame = stream.select("t", "sum").to_spark(spark, control=control)
    assert jobs_so_far(spark) == before
    wanted = stream.select("t", "sum").collect(spark=False, control=control).to_pylist()
    assert sorted((row.t, row["sum"]) for row in frame.collect()) == [(row["t"], row["sum"]) for row in wanted]
    assert jobs_so_far(spark) > before
