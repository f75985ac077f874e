"""The peers of the keyed benchmark. Each gives the spikes: `device`, `mean` and `value`, in any order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pyarrow as pa

from benchmarks.spark import PARTITIONS, Batches, with_settings
from penstock.engine.keys import KeyIndex
from penstock.engine.options import draw_seed
from penstock.examples.spike_detection import THRESHOLD

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

RESULT = pa.schema([("device", pa.int64()), ("mean", pa.float64()), ("value", pa.float64())])
IS_SPIKE = f"abs(value - mean) > {THRESHOLD} * mean"
BATCH_ROWS = 1 << 16
RECALCULATED = 64
"""Spark adds a window anew for every row; from so many values on, a difference of running sums is faster."""


def _read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return spark.read.parquet(*paths)


def _result(rows: DataFrame) -> str:
    """The schema of the spikes, for the functions in Python."""
    kind = "string" if dict(rows.dtypes)["device"] == "string" else "long"
    return f"device {kind}, mean double, value double"


# Rows to Python as Arrow batches, and there the loop that Penstock would run


def by_arrow(spark: SparkSession, window: int, paths: Sequence[str]) -> pa.Table:
    """All of a device to one task, in order."""
    rows = _read(spark, paths).repartition(PARTITIONS, "device").sortWithinPartitions("time")
    return _in_arrow(spark, window, rows.select("device", "value"))


def by_arrow_unordered(spark: SparkSession, window: int, paths: Sequence[str]) -> pa.Table:
    """Without the sort: faster, and not the answer, but the bound of this road."""
    return _in_arrow(spark, window, _read(spark, paths).select("device", "value").repartition(PARTITIONS, "device"))


def _in_arrow(spark: SparkSession, window: int, rows: DataFrame) -> pa.Table:
    with with_settings(spark, execution_arrow_maxRecordsPerBatch=BATCH_ROWS):
        return rows.mapInArrow(partial(moving, window), _result(rows)).toArrow()


def moving(window: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    index, states = None, np.zeros(0, _record(window))
    for batch in batches:
        device, values = batch.column("device"), batch.column("value").to_numpy()
        index = index or KeyIndex([device.type], draw_seed())
        numbers = index.number([device])
        if index.count > len(states):
            grown = np.zeros(max(1024, 2 * index.count), states.dtype)
            grown[: len(states)] = states
            states = grown
        kept, means = spikes(numbers, values, states, THRESHOLD)
        columns = [device.take(pa.array(kept)), pa.array(means), pa.array(values[kept])]
        yield pa.record_batch(columns, ["device", "mean", "value"])


def _record(window: int) -> np.dtype[Any]:
    return np.dtype([("ring", "f8", (window,)), ("at", "i8"), ("n", "i8"), ("total", "f8")])


@numba.njit(cache=True)
def spikes(numbers, values, states, threshold):  # type: ignore[no-untyped-def]
    kept, means = np.empty(len(values), np.int64), np.empty(len(values))
    count = 0
    for row in range(len(values)):
        state, value = states[numbers[row]], values[row]
        at = state.at
        total = state.total + (value - state.ring[at])
        state.total = total
        state.ring[at] = value
        state.at = 0 if at + 1 == len(state.ring) else at + 1
        state.n = min(state.n + 1, len(state.ring))
        mean = total / state.n
        if abs(value - mean) > threshold * mean:
            kept[count], means[count] = row, mean
            count += 1
    return kept[:count].copy(), means[:count].copy()


# A frame for each device


def by_pandas(spark: SparkSession, window: int, paths: Sequence[str]) -> pa.Table:
    def found(frame: pd.DataFrame) -> pd.DataFrame:
        ordered = frame.sort_values("time")
        mean = ordered["value"].rolling(window, min_periods=1).mean()
        is_spike = (ordered["value"] - mean).abs() > THRESHOLD * mean
        return ordered.assign(mean=mean).loc[is_spike, ["device", "mean", "value"]]

    rows = _read(spark, paths)
    return rows.groupBy("device").applyInPandas(found, _result(rows)).toArrow()


# Spark's own window functions


def by_window(spark: SparkSession, window: int, paths: Sequence[str]) -> pa.Table:
    by_device = "partition by device order by time"
    rows = _read(spark, paths)
    if window < RECALCULATED:
        means = f"avg(value) over ({by_device} rows between {window - 1} preceding and current row) as mean"
        found = rows.selectExpr("device", "value", means)
    else:
        running = f"sum(value) over ({by_device} rows between unbounded preceding and current row) as running"
        place = f"row_number() over ({by_device}) as place"
        before = f"coalesce(lag(running, {window}) over ({by_device}), 0)"
        found = rows.selectExpr("device", "time", "value", running, place)
        found = found.selectExpr("device", "value", f"(running - {before}) / least(place, {window}) as mean")
    return found.where(IS_SPIKE).toArrow()


# In one process


def by_polars_over(window: int, paths: Sequence[str]) -> pa.Table:
    rows, mean, is_spike = _polars(window, paths)
    found = rows.select("device", "value", mean=mean.over("device")).filter(is_spike)
    table: pa.Table = found.collect().to_arrow()
    return table


def by_polars_groups(window: int, paths: Sequence[str]) -> pa.Table:
    rows, mean, is_spike = _polars(window, paths)
    groups = rows.group_by("device").agg("value", mean=mean).explode("value", "mean")
    table: pa.Table = groups.filter(is_spike).collect().to_arrow()
    return table


def _polars(window: int, paths: Sequence[str]) -> tuple[Any, Any, Any]:
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    import polars

    rows = polars.scan_parquet(list(paths)).select("device", "value")
    mean = polars.col("value").rolling_mean(window, min_samples=1)
    is_spike = (polars.col("value") - polars.col("mean")).abs() > THRESHOLD * polars.col("mean")
    return rows, mean, is_spike


def by_duckdb(window: int, paths: Sequence[str]) -> pa.Table:
    import duckdb

    connection = duckdb.connect(config={"threads": 2, "preserve_insertion_order": False})
    frame = f"partition by device order by time rows between {window - 1} preceding and current row"
    means = f"select device, value, avg(value) over ({frame}) as mean from read_parquet({list(paths)})"
    table: pa.Table = connection.sql(f"select * from ({means}) where {IS_SPIKE}").to_arrow_table()
    return table


Work = Callable[["SparkSession", int, Sequence[str]], pa.Table]
ON_SPARK: dict[str, Work] = {
    "arrow:sorted": by_arrow,
    "arrow:unordered": by_arrow_unordered,
    "pandas": by_pandas,
    "window": by_window,
}
PYTHON = ("arrow:sorted", "arrow:unordered", "pandas")
ALONE: dict[str, Callable[[int, Sequence[str]], pa.Table]] = {
    "polars:over": by_polars_over,
    "polars:groups": by_polars_groups,
    "duckdb": by_duckdb,
}
SHARES = {"arrow:sorted": 1 / 4, "arrow:unordered": 1 / 4, "window": 1 / 16, "duckdb": 1 / 4}
SHARES |= {"polars:over": 1.0, "polars:groups": 1.0}
"""What part of the files each takes at `full`; `pandas` has files of its own."""
