"""The one Spark session of a benchmark, for Penstock and its peers alike; the limit; and the memory of the workers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import files
from benchmarks.ratios import MEMORY, QUARTER, START
from benchmarks.records import Answer, Peer
from penstock.spark.driver.session import with_settings as with_all_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
PARTITIONS = 2 * CORES
"""Of every shuffle of a peer's: each core has two, so that an uneven one can be made up for."""
SETTINGS = {"spark.sql.shuffle.partitions": PARTITIONS}
HEAP = "8g"
"""More than Penstock needs: Spark's own operators keep their rows in it."""
MARK = "PENSTOCK_BENCH_PEER"
TASK_BYTES = 64 << 20

Batches = Iterable[pa.RecordBatch]


def session() -> SparkSession:
    """The session: the one that is there, or a new one on two cores."""
    import pyspark.sql

    import penstock.spark

    if pyspark.sql.SparkSession.getActiveSession() is not None:
        return penstock.spark.session()
    return penstock.spark.session(cores=CORES, memory=HEAP, settings=SETTINGS)


def with_settings(spark: SparkSession, **settings: Any) -> AbstractContextManager[None]:
    """Some SQL settings for a while. Their names are written with `_` for `.` and without `spark.sql.`."""
    names = {f"spark.sql.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    return with_all_settings(spark, names)


# Python workers


def in_workers(spark: SparkSession, peer: Peer, wake: Callable[[], object]) -> Peer:
    """A peer that runs in Python workers: awake before each run, and Penstock's apart from those of all others.

    Spark keeps workers apart whose environments differ, and ends those that were idle for a minute. `wake` does the
    same work on next to nothing, which starts them, and compiles or loads what they run. For Penstock's own runs, the
    largest peak of a worker's memory is among the facts.
    """
    is_own = peer.what in ("penstock", START, QUARTER)
    mark = f"{os.getpid()}:{'penstock' if is_own else 'peers'}"

    def marked(work: Callable[[], Any]) -> Any:
        environment = spark.sparkContext.environment
        environment[MARK] = mark
        try:
            return work()
        finally:
            del environment[MARK]

    def settle(given: Any) -> Answer:
        peak = peak_megabytes(mark) if is_own else None
        answer = peer.settled(given)
        return answer if peak is None else replace(answer, facts={**answer.facts, MEMORY: peak})

    return replace(peer, work=partial(marked, peer.work), before=partial(marked, wake), settle=settle)


def peak_megabytes(mark: str) -> float | None:
    """The highest peak of resident memory among the living processes with this mark."""
    wanted = f"{MARK}={mark}".encode()
    peaks = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{process}/environ", "rb") as file:
                if wanted not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
                peaks += [int(line.split()[1]) * 1024 / 1e6 for line in file if line.startswith("VmHWM")]
    return max(peaks, default=None)


# The limit: tasks that only read


def parts(paths: Sequence[str]) -> list[list[str]]:
    """Whole files for each task: about as many bytes as a split has, and tasks for all cores."""
    most = max(1, min(TASK_BYTES, files.size(list(paths)) // (4 * CORES)))
    found: list[list[str]] = []
    room = 0
    for path in paths:
        if room <= 0:
            found.append([])
            room = most
        found[-1].append(path)
        room -= os.path.getsize(path)
    return found


def read_only(spark: SparkSession, paths: Sequence[str], count: Callable[[str], int]) -> pa.Table:
    """Let tasks go through whole files and count: what no way to read the data in tasks can beat."""
    shared = parts(paths)

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counts = [sum(map(count, shared[number])) for number in batch.column(0).to_pylist()]
            yield pa.record_batch({"n": pa.array(counts, pa.int64())})

    counted: DataFrame = spark.range(0, len(shared), 1, len(shared)).mapInArrow(task, "n long")
    return pa.table({"n": [sum(counted.toArrow().column("n").to_pylist())]})


def count_rows(columns: Sequence[str], batch_rows: int, path: str) -> int:
    """Read some columns of a Parquet file, batch by batch, on one thread."""
    with pq.ParquetFile(path) as file:
        batches = file.iter_batches(batch_rows, columns=list(columns), use_threads=False)
        return sum(batch.num_rows for batch in batches)


def count_lines(path: str) -> int:
    """Read a text file and find its line ends, as one must to cut it into lines."""
    found = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 21):
            found += int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
    return found


def limit(spark: SparkSession, items: int, paths: Sequence[str], count: Callable[[str], int], rows: int) -> Peer:
    """The peer that only reads, awake; it must have read so many rows."""
    right = pa.table({"n": [rows]})
    peer = Peer("limit", lambda: read_only(spark, paths, count), items, lambda: right)
    return in_workers(spark, peer, lambda: read_only(spark, paths[:1], count))
