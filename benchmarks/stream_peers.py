"""The streams of the stream benchmark, Penstock's and its peers', each run over the files that are there.

All take as many files a micro-batch, on the same session and with the same settings of Spark, those that Penstock gives
its own streams; but for `plain`, which has Spark's. Penstock writes its files itself; the peers write theirs with
Spark's own sink for files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import penstock as ps
from benchmarks import files
from benchmarks.records import Facts
from benchmarks.spark import CORES, Batches
from penstock.errors import DataError
from penstock.examples.spike_detection import THRESHOLD
from penstock.spark.driver.session import await_sources, stream_settings, with_settings
from penstock.spark.streaming import pages, query
from penstock.spark.streaming.bucket import Bucket
from penstock.spark.streaming.handle import StreamHandle, trigger_of
from penstock.spark.streaming.running_query import RunningQuery
from penstock.spark.streaming.stream_progress import has_run

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

FIRST_SECOND = 1_600_000_000
"""When the first file was last changed; each is a second younger than the one before, and Spark takes them so."""
SPIKES = "device long, mean double, value double"
READINGS = "device long, value double, time long"
TOUCHES = "key long, value long"
HIGH = 27.0
"""Above all readings but spikes."""


# Where a stream runs


def folder() -> Path:
    """Where all streams of this process run."""
    return files.kept_folder() / f"stream-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one stream: the files that it takes, what it gives, and its checkpoint."""

    name: str
    files: int = 1
    """How many make a micro-batch."""

    @property
    def folder(self) -> Path:
        return folder() / self.name

    @property
    def source(self) -> str:
        return str(self.folder / "in")

    @property
    def out(self) -> str:
        return str(self.folder / "out")

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")

    def clear(self, paths: Sequence[str]) -> None:
        """Begin anew, with these files."""
        self.remove()
        Path(self.source).mkdir(parents=True)
        self.add(paths)

    def add(self, paths: Sequence[str]) -> None:
        """Let these files arrive, behind those that are there."""
        for number, path in enumerate(paths, len(os.listdir(self.source))):
            target = Path(self.source, f"part-{number:05}.parquet")
            os.link(path, target)
            os.utime(target, (FIRST_SECOND + number, FIRST_SECOND + number))

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def result(self) -> pa.Table:
        """All that was given. Folders and files of a name like `_this` are no part of it."""
        return pq.read_table(self.out)


# Running to the end


@dataclass(frozen=True, slots=True)
class Ended:
    """What a stream has done: the time of each micro-batch, by Spark's own clock, and what else it saw."""

    batches_ms: tuple[float, ...]
    facts: Facts = field(default_factory=dict)


Build = Callable[[ps.Stream], ps.Stream]


def by_penstock(spark: SparkSession, place: Place, build: Build) -> Ended:
    return ended(place, started(spark, place, build))


def started(spark: SparkSession, place: Place, build: Build) -> StreamHandle:
    """A stream of Penstock's over the files that are there."""
    source = ps.read_parquet(place.source)
    return build(source).start(
        place.out, checkpoint=place.checkpoint, trigger="available", spark=spark, files_per_batch=place.files
    )


def ended(place: Place, handle: StreamHandle) -> Ended:
    """What a stream of Penstock's has done when it has done all."""
    handle.await_termination()
    last = handle.progress()
    if last is None:
        raise DataError(f"bench: {place.name} must have run a micro-batch; it found no file")
    return Ended(times(handle.running), {"pages": last.pages, "touched": last.pages_touched})


def by_spark(
    spark: SparkSession,
    place: Place,
    columns: str,
    build: Callable[[DataFrame], DataFrame],
    settings: Mapping[str, str] | None = None,
) -> Ended:
    """A stream of Spark's own, with the settings of Penstock's streams unless some are given."""
    with with_settings(spark, stream_settings(spark, CORES, is_local=True) if settings is None else settings):
        rows = spark.readStream.schema(columns).option("maxFilesPerTrigger", place.files).parquet(place.source)
        writer = build(rows).writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
        running = writer.option("checkpointLocation", place.checkpoint).start(place.out)
        await_sources(running)
    running.awaitTermination()
    return Ended(times(running))


def times(running: Any) -> tuple[float, ...]:
    """The milliseconds of each micro-batch of a query of Spark's."""
    told: list[Mapping[str, Any]] = [each for each in running.recentProgress if has_run(each)]
    return tuple(float(each["durationMs"]["triggerExecution"]) for each in told)


# Spikes, the way of Spark's documentation: a call and a state for each device


def by_tws(spark: SparkSession, place: Place, window: int) -> Ended:
    def build(rows: DataFrame) -> DataFrame:
        return rows.groupBy("device").transformWithStateInPandas(LastValues(window), SPIKES, "Append", "None")

    return by_spark(spark, place, READINGS, build)


def by_apply(spark: SparkSession, place: Place, window: int) -> Ended:
    def build(rows: DataFrame) -> DataFrame:
        found = partial(spikes_with_state, window)
        return rows.groupBy("device").applyInPandasWithState(found, SPIKES, "last binary", "append", "NoTimeout")

    return by_spark(spark, place, READINGS, build)


class LastValues(StatefulProcessor):
    """The spikes of a device. Its state is its last values, as bytes, which is faster than an array."""

    def __init__(self, window: int) -> None:
        self.window = window

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", "last binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        held = self.last.get()
        last, found = spikes_of(key[0], b"" if held is None else held[0], list(rows), self.window)
        self.last.update((last,))
        if len(found):
            yield found

    def close(self) -> None:
        """Nothing is held open."""


def spikes_with_state(window: int, key: Any, rows: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    warnings.simplefilter("ignore", FutureWarning)  # pandas warns of how Spark puts these results together
    last, found = spikes_of(key[0], state.get[0] if state.exists else b"", list(rows), window)
    state.update((last,))
    if len(found):
        yield found


def spikes_of(device: int, last: bytes, rows: list[pd.DataFrame], window: int) -> tuple[bytes, pd.DataFrame]:
    """A device's last values behind more readings, and those of these that are spikes."""
    import pandas as pd

    frame = rows[0] if len(rows) == 1 else pd.concat(rows)
    # Spark promises no order behind a shuffle.
    value = frame["value"].to_numpy()[np.argsort(frame["time"].to_numpy(), kind="stable")]
    before = np.frombuffer(last)
    values = np.concatenate((before, value))
    sums = np.concatenate(([0.0], np.cumsum(values)))
    stops = np.arange(len(before) + 1, len(values) + 1)
    starts = np.maximum(stops - window, 0)
    mean = (sums[stops] - sums[starts]) / (stops - starts)
    found = np.abs(value - mean) > THRESHOLD * mean
    return values[-window:].tobytes(), pd.DataFrame({"device": device, "mean": mean[found], "value": value[found]})


# The floor: rows to Python and back, without any state


def by_floor(
    spark: SparkSession,
    place: Place,
    columns: str,
    keep: Callable[[pa.RecordBatch], pa.Array],
    settings: Mapping[str, str] | None = None,
) -> Ended:
    """Keep some of the rows."""

    def kept(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(keep(batch))

    return by_spark(spark, place, columns, lambda rows: rows.mapInArrow(kept, columns), settings)


def is_high(rows: pa.RecordBatch | pa.Table) -> Any:
    """About as many of the readings as there are spikes."""
    return pc.greater(rows.column("value"), HIGH)


def is_hundredth(rows: pa.RecordBatch | pa.Table) -> Any:
    """One row in a hundred."""
    return pc.equal(rows.column("value"), 0)


# The whole state of a bucket as one value, for comparison with pages


def by_blob(spark: SparkSession, place: Place, build: Build) -> Ended:
    leaf = build(ps.read_parquet(place.source)).node
    planned = BlobQuery(leaf, place.out, place.checkpoint, spark, files_per_batch=place.files)
    return ended(place, StreamHandle(planned, RunningQuery(planned.start(trigger_of("available")))))


class WholeBucket(Bucket):
    """A bucket whose keys are all in one page."""

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        with instead(pages, "PAGE_BYTES", 1 << 62):
            yield from super().handleInputRows(key, rows, timerValues)


class BlobQuery(query.StreamQuery):
    """A stream with such buckets."""

    def _rows(self) -> DataFrame:
        with instead(query, "Bucket", WholeBucket):
            return super()._rows()


@contextlib.contextmanager
def instead(module: Any, name: str, value: Any) -> Iterator[None]:
    """Another value of a name of a module, for a while."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
