"""Running streams on a real Spark: sources, sinks, signals, restarts. What they write is what one thread would have."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.graph import reference


class Average(ps.State):
    n: int
    total: float


class Limit(ps.State):
    level: float = 5.0


class Threshold(ps.Signal):
    level: float


def mean(value, state):
    state.n += 1
    state.total += value
    return state.total / state.n


def is_over(value, state):
    return value > state.level


def readings(first: int, count: int, keys: int = 7) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "at": pa.array(numbers, pa.int64()),
            "device": [f"d{(at * 31) % keys}" for at in numbers],
            "value": [float((at * 17) % 11) for at in numbers],
        }
    )


def put(table: pa.Table, path: Path, time: int) -> None:
    """A file that is there all at once, whose time is told, since that is the order in which Spark takes them."""
    hidden = path.with_name(f"_{path.name}")
    if path.suffix == ".parquet":
        pq.write_table(table, hidden)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, hidden)
    else:
        hidden.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    os.utime(hidden, (1_700_000_000 + time, 1_700_000_000 + time))
    hidden.rename(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def fill(folder: Path, numbers: range, ending: str = "parquet") -> None:
    for number in numbers:
        put(readings(40 * number, 40), folder / "in" / f"f{number:03}.{ending}", number)


def ran(stream: Any, sink: Any, folder: Path, spark: Any, **options: Any) -> Any:
    """Take whatever is there, and stop."""
    given = {"files_per_batch": 1, "trigger": "available"} | options
    handle = stream.start(sink, checkpoint=folder / "ck", spark=spark, **given)
    assert handle.await_termination(400)
    return handle


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def right(stream: Any, control: Any = ()) -> pa.Table:
    return reference.run((stream.node,), control, is_open=True).tables[0]


# Sources and sinks


READERS = {
    "parquet": ps.read_parquet,
    "csv": ps.read_csv,
    "json": ps.read_json,
}


@pytest.mark.parametrize("ending", READERS)
def test_files_in_and_out(ending: str, folder: Path, spark: Any) -> None:
    fill(folder, range(3), ending)
    stream = READERS[ending](folder / "in").key_by("device").map(mean=mean, state=Average)
    handle = ran(stream, folder / "out", folder, spark, format=ending)
    assert handle.status == "stopped"
    assert handle.progress().total_items == 120
    assert rows(READERS[ending](folder / "out").collect(spark=False)) == rows(right(stream))


def test_lines_to_a_function(folder: Path, spark: Any) -> None:
    for number in range(3):
        (folder / "in" / f"{number}.txt").write_text(f"a {number}\nb\n")
    stream = ps.read_text(folder / "in").map(length=lambda line: len(line))
    seen: list[tuple[int, pa.Table]] = []
    ran(stream, lambda table, batch: seen.append((batch, table)), folder, spark, files_per_batch=None)
    assert [batch for batch, _ in seen] == [0]
    assert seen[0][1].to_pydict() == right(stream).to_pydict()  # in order: no exchange changes it


def test_a_sink_of_sparks(folder: Path, spark: Any) -> None:
    fill(folder, range(2))
    stream = ps.read_parquet(folder / "in").key_by("device").map(mean=mean, state=Average)
    ran(stream, ps.spark_sink("parquet", path=str(folder / "out")), folder, spark)
    assert rows(pa.Table.from_pylist(spark.read.parquet(str(folder / "out")).toArrow().to_pylist())) == rows(
        right(stream)
    )


def test_a_streaming_dataframe(folder: Path, spark: Any) -> None:
    fill(folder, range(3))
    frame = spark.readStream.schema("at long, device string, value double").option("maxFilesPerTrigger", 1)
    arriving = ps.from_spark(frame.parquet(str(folder / "in")), order_by="at")
    build = lambda source: source.key_by("device").map(mean=mean, state=Average)  # noqa: E731
    ran(build(arriving), folder / "out", folder, spark)
    wanted = right(build(ps.read_parquet(folder / "in")))
    assert rows(ps.read_parquet(folder / "out").collect(spark=False)) == rows(wanted)


def test_a_streaming_dataframe_without_an_order_is_refused_where_one_matters(folder: Path, spark: Any) -> None:
    frame = spark.readStream.schema("at long, device string, value double").parquet(str(folder / "in"))
    with pytest.raises(ps.GraphError, match="a DataFrame must have an order"):
        ps.from_spark(frame).key_by("device").map(mean=mean, state=Average).start(
            folder / "out", checkpoint=folder / "ck", spark=spark
        )


def test_a_folder_that_is_empty_at_first(folder: Path, spark: Any) -> None:
    schema = pa.schema([("at", pa.int64()), ("device", pa.string()), ("value", pa.float64())])
    stream = ps.read_parquet(folder / "in", schema=schema).key_by("device").map(mean=mean, state=Average)
    handle = stream.start(folder / "out", checkpoint=folder / "ck", spark=spark)
    try:
        fill(folder, range(2))
        while handle.progress() is None or handle.progress().total_items < 80:
            assert handle.exception is None
    finally:
        handle.stop()
    wanted = right(ps.read_parquet(folder / "in").key_by("device").map(mean=mean, state=Average))
    assert rows(ps.read_parquet(folder / "out").collect(spark=False)) == rows(wanted)


# State over micro-batches and starts


def test_a_stream_goes_on_where_it_was(folder: Path, spark: Any) -> None:
    fill(folder, range(2))
    stream = ps.read_parquet(folder / "in").key_by("device").map(mean=mean, state=Average)
    ran(stream, folder / "out", folder, spark)
    fill(folder, range(2, 5))
    ran(stream, folder / "out", folder, spark, buckets=5)  # the checkpoint has fixed the number of buckets
    assert rows(ps.read_parquet(folder / "out").collect(spark=False)) == rows(
        right(ps.read_parquet(folder / "in").key_by("device").map(mean=mean, state=Average))
    )


def test_regions_that_span_micro_batches(folder: Path, spark: Any) -> None:
    fill(folder, range(4))
    stream = ps.read_parquet(folder / "in").regions(start=lambda at: at % 33 == 0).aggregate(total=ps.sum("value"))
    ran(stream, folder / "out", folder, spark)
    found = ps.read_parquet(folder / "out").collect(spark=False)
    assert found.to_pydict() == right(stream).to_pydict()


def test_two_keys_in_order(folder: Path, spark: Any) -> None:
    fill(folder, range(3))
    stream = (
        ps.read_parquet(folder / "in")
        .key_by("device")
        .map(mean=mean, state=Average)
        .map(parity=lambda at: at % 2)
        .key_by("parity")
        .map(again=mean, state=Average)
    )
    ran(stream, folder / "out", folder, spark, ordered=True)
    assert ps.read_parquet(folder / "out").collect(spark=False).to_pydict() == right(stream).to_pydict()


def test_a_checkpoint_keeps_its_seed_of_hashes(folder: Path, spark: Any) -> None:
    """Another seed at a later start would look for the state of every key in another bucket or page."""
    seeds = []
    for start, seed in enumerate((11, 12)):
        fill(folder, range(2 * start, 2 * start + 2))
        stream = ps.read_parquet(folder / "in").key_by("device").map(mean=mean, state=Average)
        ran(stream, folder / "out", folder, spark, buckets=3, hash_seed=seed)
        seeds.append(json.loads((folder / "ck" / "penstock" / "graph.json").read_text())["hash_seed"])
    assert seeds == [11, 11]
    assert rows(ps.read_parquet(folder / "out").collect(spark=False)) == rows(right(stream))


def plain_means(table: pa.Table, known: dict[str, list[float]], least: float = -1.0) -> list[str]:
    """What the items of a table give behind those of others, in plain Python."""
    found = []
    for row in table.to_pylist():
        if row["value"] > least:
            values = known.setdefault(row["device"], [])
            values.append(row["value"])
            found.append(repr(row | {"mean": sum(values) / len(values)}))
    return found


def test_a_step_without_a_state_changes_and_the_state_goes_on(folder: Path, spark: Any) -> None:
    """A filter comes, a column that nothing uses comes, and then a field of the results goes, to another folder."""
    schema, known = readings(0, 1).schema, dict[str, list[float]]()

    def fill(folder: Path, numbers: range) -> None:
        for number in numbers:
            table = readings(40 * number, 40).append_column("unused", pa.array(range(40)))
            put(table, folder / "in" / f"f{number:03}.parquet", number)

    fill(folder, range(2))
    first = ps.read_parquet(folder / "in", schema=schema).key_by("device").map(mean=mean, state=Average)
    ran(first, folder / "out", folder, spark)
    wanted = plain_means(readings(0, 80), known)

    fill(folder, range(2, 4))
    wider = ps.read_parquet(folder / "in", schema=schema.append(pa.field("unused", pa.int64())))
    second = wider.filter(lambda value: value > 3).select("at", "device", "value").key_by("device")
    ran(second.map(mean=mean, state=Average), folder / "out", folder, spark)
    wanted += plain_means(readings(80, 80), known, 3)
    assert rows(ps.read_parquet(folder / "out").collect(spark=False)) == sorted(wanted)

    fill(folder, range(4, 5))
    third = first.select("device", "mean")
    with pytest.raises(ps.CheckpointError, match=r"must keep their fields; it has lost 'at', .*; write to a new"):
        third.start(folder / "out", checkpoint=folder / "ck", spark=spark)
    ran(third, folder / "new", folder, spark)
    last = [row.split("'mean'")[1] for row in plain_means(readings(160, 40), known)]
    assert sorted(
        row.split("'mean'")[1] for row in rows(ps.read_parquet(folder / "new").collect(spark=False))
    ) == sorted(last)


def test_a_step_with_a_state_that_changes_is_refused(folder: Path, spark: Any) -> None:
    fill(folder, range(1))
    keyed = ps.read_parquet(folder / "in").key_by("device")
    ran(keyed.map(mean=mean, state=Average), folder / "out", folder, spark)
    for other, reason in (
        (
            keyed.map(mean=mean, state=Average).map(over=is_over, state=Limit),
            "the new step map 'over', which remembers",
        ),
        (keyed.select("device"), "the graph has lost map 'mean', which remembers something"),
        (keyed.map(mean=is_over, state=Limit), "the state of map 'mean' was Average, is Limit"),
    ):
        with pytest.raises(ps.CheckpointError, match=reason):
            other.start(folder / "new", checkpoint=folder / "ck", spark=spark)


# Signals


def with_limit(source: ps.Stream) -> ps.Stream:
    filtered = source.key_by("device").filter(is_over, state=Limit)
    return filtered.on(Threshold, level=lambda signal: signal.level)


def test_a_signal_that_is_sent(folder: Path, spark: Any) -> None:
    fill(folder, range(2))
    stream = with_limit(ps.read_parquet(folder / "in"))
    ran(stream, folder / "out", folder, spark)
    handle = stream.start(folder / "out", checkpoint=folder / "ck", spark=spark)
    place = handle.send(Threshold(2.0))
    fill(folder, range(2, 4))
    while handle.progress() is None or handle.progress().total_items < 160:
        assert handle.exception is None
    handle.stop()
    assert (place.batch, place.index) == (2, 80)
    wanted = right(with_limit(ps.read_parquet(folder / "in")), [ps.at(80, Threshold(2.0))])
    assert rows(ps.read_parquet(folder / "out").collect(spark=False)) == rows(wanted)


def test_signals_placed_before_the_start(folder: Path, spark: Any) -> None:
    fill(folder, range(4))
    stream = with_limit(ps.read_parquet(folder / "in"))
    control = [ps.at(50, Threshold(1.0)), ps.at(Threshold(8.0), at=95), ps.at(120, Threshold(3.0))]
    ran(stream, folder / "out", folder, spark, control=control, files_per_batch=2)
    wanted = right(stream, control)
    assert rows(ps.read_parquet(folder / "out").collect(spark=False)) == rows(wanted)
    ran(stream, folder / "out", folder, spark, control=control)  # they have been placed, and are not again
    assert rows(ps.read_parquet(folder / "out").collect(spark=False)) == rows(wanted)
    with pytest.raises(ps.ControlError, match="before an item that is still to come"):
        ran(stream, folder / "out", folder, spark, control=[ps.at(7, Threshold(1.0))])
