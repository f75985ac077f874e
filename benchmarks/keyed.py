"""State by key on Spark: spike detection, the readings that are far from the mean of their device's last ones.

The spikes, about one reading in a hundred, are gathered as an Arrow table by all. The files have a `time` that goes up,
for the peers: Spark does not promise an order after a shuffle, so those that need one must sort. Penstock and Polars
keep the order of the files and do not read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks import files
from benchmarks import keyed_peers as peers_of
from benchmarks.benchmark import Benchmark
from benchmarks.keyed_peers import RESULT, SHARES
from benchmarks.ratios import COMMON_TARGETS, QUARTER, START, growth_and_memory, over_roads
from benchmarks.records import Case, Peer, Target
from benchmarks.spark import count_rows, in_workers, limit, session
from penstock.examples import spike_detection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = {"tiny": 1 << 14, "small": 1 << 22, "full": 1 << 26, "double": 1 << 27}
FILES = {"tiny": 4, "small": 8, "full": 16, "double": 32}
BATCH_ROWS = 1 << 16
PANDAS_DEVICES = {"tiny": 50, "small": 500, "full": 2000}
PANDAS_SHARE = 16
GROWTH_DEVICES = "1000"


@dataclass(frozen=True, slots=True)
class Devices:
    """The keys of a case, and how many of a key's last values count."""

    count: int
    window: int
    named: bool = False

    @property
    def case(self) -> str:
        return f"{self.count}{'-named' if self.named else ''}"


DEVICES = (Devices(54, 1000), Devices(1000, 1000), Devices(1_000_000, 16), Devices(100_000, 16, named=True))
TINY = (Devices(1000, 4), Devices(54, 1000, named=True))


def cases(scale: str) -> Iterator[Case]:
    spark = session()
    for devices in TINY if scale == "tiny" else DEVICES:
        folder = files.readings(ROWS[scale], devices.count, devices.named, FILES[scale])
        yield Case(devices.case, tuple(peers(spark, scale, devices, files.paths(folder))))


def peers(spark: SparkSession, scale: str, devices: Devices, paths: list[str]) -> Iterator[Peer]:
    rows = ROWS[scale]
    own = partial(by_penstock, spark, devices.window)
    nothing = files.paths(files.readings(1000, devices.count, devices.named, 1))
    wake = partial(own, nothing)
    yield in_workers(spark, Peer("penstock", partial(own, paths), rows, settle=settled), wake)
    yield limit(spark, rows, paths, partial(count_rows, ("device", "value"), BATCH_ROWS), rows)
    if devices.case == GROWTH_DEVICES:
        quarter = paths[: len(paths) // 4]
        for name, some, count in ((START, nothing, 1000), (QUARTER, quarter, rows // 4)):
            right = partial(answer, spark, devices.window, some)
            yield in_workers(spark, Peer(name, partial(own, some), count, right, settle=settled, same=same), wake)
    if scale != "double":
        yield from others(spark, scale, devices, paths, nothing)


def others(spark: SparkSession, scale: str, devices: Devices, paths: list[str], nothing: list[str]) -> Iterator[Peer]:
    """The peers. Those that take part of the files take the first ones; `pandas` takes fewer devices if there are many.

    A device has as many readings there as in the whole, since a group costs as much as hundreds of rows.
    """
    for name, work in peers_of.ON_SPARK.items():
        few = files.paths(fewer(scale, devices)) if name == "pandas" else files.first(paths, SHARES[name], scale)
        count = files.rows(few)
        right = partial(answer, spark, devices.window, few)
        like = about_as_many if name == "arrow:unordered" else same
        function = partial(work, spark, devices.window)
        peer = Peer(name, partial(function, few), count, right, repeats=2, settle=settled, same=like)
        yield in_workers(spark, peer, partial(function, nothing)) if name in peers_of.PYTHON else peer
    for name, alone in peers_of.ALONE.items():
        if not find_spec(name.partition(":")[0]):
            continue
        few = files.first(paths, SHARES[name], scale)
        own_right = partial(answer, spark, devices.window, few) if len(few) < len(paths) else None
        yield Peer(name, partial(alone, devices.window, few), files.rows(few), own_right, settle=settled, same=same)


def fewer(scale: str, devices: Devices) -> Path:
    count = min(devices.count, PANDAS_DEVICES[scale])
    rows = min(ROWS[scale] // PANDAS_SHARE, max(count, ROWS[scale] * count // devices.count))
    return files.readings(rows, count, devices.named, 2)


def by_penstock(spark: SparkSession, window: int, paths: Sequence[str]) -> pa.Table:
    return spike_detection.build(ps.read_parquet(list(paths)), window=window).collect(spark=spark)


def answer(spark: SparkSession, window: int, paths: Sequence[str]) -> pa.Table:
    return settled(by_penstock(spark, window, paths))


# Comparing


def settled(table: pa.Table) -> pa.Table:
    """Sorted, and in the types of the application."""
    named = not pa.types.is_integer(table.schema.field("device").type)
    schema = pa.schema([("device", pa.string() if named else pa.int64()), *list(RESULT)[1:]])
    columns = table.select(schema.names).cast(schema)
    return columns.sort_by([("device", "ascending"), ("value", "ascending"), ("mean", "ascending")]).combine_chunks()


def same(given: pa.Table, right: pa.Table) -> bool:
    """The same spikes; their means may differ in the last digits, since not all add in the same order."""
    if given.num_rows != right.num_rows:
        return False
    exact = all(given.column(name).equals(right.column(name)) for name in ("device", "value"))
    return exact and bool(np.allclose(given.column("mean"), right.column("mean"), rtol=1e-9, atol=0.0))


def about_as_many(given: pa.Table, right: pa.Table) -> bool:
    """Of the one that does not sort: what it calls a spike depends on how its rows happened to come."""
    return bool(abs(given.num_rows - right.num_rows) <= max(10, 0.1 * right.num_rows))


BENCHMARK = Benchmark(
    name="keyed",
    about="spike detection: a moving mean for each device, then a filter, on Spark",
    unit="M rows/s",
    cases=cases,
    targets=(
        Target("penstock/arrow", 5.0),
        Target("penstock/pandas@54", 8.0),
        Target("penstock/pandas@1000000", 100.0),
        Target("penstock/pandas@100000-named", 100.0),
        Target("penstock/limit", 0.3),
        Target("penstock/polars", 0.5),
        *COMMON_TARGETS,
    ),
    ratios=over_roads,
    more=growth_and_memory,
    cores=2,
    scales=("tiny", "small", "full", "double"),
    scale="full",
    repeats={"small": 1, "double": 3},
)
