"""Taxi on Spark: lines of text in, the coordinate pairs out as Parquet files, compressed with Snappy by all.

What is written is compared by a digest that does not depend on the order of the rows, nor on how they lie in files.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import penstock as ps
from benchmarks import files
from benchmarks import taxi_peers as peers_of
from benchmarks.benchmark import Benchmark
from benchmarks.ratios import COMMON_TARGETS, QUARTER, START, growth_and_memory, over_roads
from benchmarks.records import Case, Peer, Target
from benchmarks.spark import count_lines, in_workers, limit, session
from penstock.examples import taxi
from penstock.examples.taxi_by_spark import digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE = 1 << 13
LINES = {"tiny": (400, 1), "small": (8 * PIECE, 1), "full": (96 * PIECE, 8), "double": (192 * PIECE, 8)}
"""How many lines there are, of about 1,380 bytes each, and how many pieces a file has."""
SPARK_SHARE = 1 / 4
"""Spark's own functions take so much of the files at `full`."""


def cases(scale: str) -> Iterator[Case]:
    spark = session()
    count, pieces_a_file = LINES[scale]
    paths = files.paths(files.lines(count, pieces_a_file))
    yield Case("lines", tuple(peers(spark, scale, paths, count)))


def peers(spark: SparkSession, scale: str, paths: list[str], lines: int) -> Iterator[Peer]:
    nothing = files.paths(files.lines(16, 1))
    wake = partial(by_penstock, spark, nothing)
    right = partial(answer, spark)
    size = files.size(paths)
    yield in_workers(spark, Peer("penstock", partial(by_penstock, spark, paths), size, settle=digest), wake)
    yield limit(spark, size, paths, count_lines, lines)
    for name, some in ((START, nothing), (QUARTER, paths[: max(1, len(paths) // 4)])):
        own = Peer(name, partial(by_penstock, spark, some), files.size(some), partial(right, some), settle=digest)
        yield in_workers(spark, own, wake)
    if scale == "double":
        return
    few = files.first(paths, SPARK_SHARE, scale)
    for name, work in peers_of.SPARK.items():
        function = partial(work, spark, few, out(name))
        own_right = partial(right, few) if len(few) < len(paths) else None
        yield Peer(f"spark:{name}", function, files.size(few), own_right, repeats=3, settle=digest)
    for name, alone in (("polars", peers_of.by_polars), ("duckdb", peers_of.by_duckdb)):
        if find_spec(name):
            yield Peer(name, partial(alone, paths, out(name)), size, before=partial(fresh, name), settle=digest)


def out(what: str) -> Path:
    """Where a peer writes. What it wrote before is written over, as part of its work."""
    return files.kept_folder() / "out" / what


def fresh(what: str) -> None:
    """An empty folder for a peer that does not make one itself."""
    shutil.rmtree(out(what), ignore_errors=True)
    out(what).mkdir(parents=True)


def by_penstock(spark: SparkSession, paths: Sequence[str]) -> Path:
    folder = out("penstock")
    taxi.build(ps.read_text(list(paths))).write_parquet(folder, spark=spark, mode="overwrite")
    return folder


def answer(spark: SparkSession, paths: Sequence[str]) -> pa.Table:
    return digest(by_penstock(spark, paths))


BENCHMARK = Benchmark(
    name="taxi",
    about="the pairs in files of lines, parsed, swapped, marked with their trip and written to Parquet, on Spark",
    unit="MB/s",
    cases=cases,
    targets=(
        Target("penstock/spark", 8.0),
        Target("penstock/polars", 2.0),
        Target("penstock/duckdb", 2.0),
        *COMMON_TARGETS,
    ),
    ratios=over_roads,
    more=growth_and_memory,
    cores=2,
    scales=("tiny", "small", "full", "double"),
    scale="full",
    repeats={"small": 2, "double": 3},
)
