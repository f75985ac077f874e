"""Region sum on Spark: the regions of Parquet files whose sum is high.

The sink is the same for all: of the sums only those above a level are kept, and gathered as an Arrow table. Every sum
must be found for that, and next to nothing has to be moved or written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

import penstock as ps
from benchmarks import files
from benchmarks.benchmark import Benchmark
from benchmarks.ratios import COMMON_TARGETS, QUARTER, START, growth_and_memory, over_roads
from benchmarks.records import Case, Peer, Target
from benchmarks.regions_local import sums_by_hand
from benchmarks.spark import Batches, count_rows, in_workers, limit, session, with_settings
from penstock.examples import region_sum

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ELEMENTS = {"tiny": 1 << 15, "small": 1 << 24, "full": 1 << 28, "double": 1 << 29}
LARGEST = 64
SIZES: dict[str, tuple[int | None, ...]] = {
    "tiny": (32, None),
    "small": (4, 32, 129, None),
    "full": (4, 8, 32, 33, 128, 129, 2048, None),
    "double": (4, 32, None),
}
"""None stands for regions of 0 to `LARGEST` elements, at random."""
GROWTH_SIZE = 32
PANDAS_REGIONS = {"tiny": 8, "small": 500, "full": 2000}
BATCH_ELEMENTS = 1 << 18
SHARES = {"spark:explode": 1 / 8, "arrow": 1 / 4}
"""What is slow takes so much of the files at `full`."""
RARE = 3.4
"""How many standard deviations above zero a sum is called high."""


def cases(scale: str) -> Iterator[Case]:
    spark = session()
    for region in SIZES[scale]:
        folder = files.regions(ELEMENTS[scale], region, LARGEST)
        yield Case(_name(region), tuple(peers(spark, scale, region, files.paths(folder))))


def _name(region: int | None) -> str:
    return f"0-{LARGEST}" if region is None else str(region)


def level(region: int | None) -> int:
    """What few sums are above."""
    deviation = region_sum.LARGEST / 3**0.5
    return int(RARE * deviation * (LARGEST / 2 if region is None else region) ** 0.5)


def peers(spark: SparkSession, scale: str, region: int | None, paths: list[str]) -> Iterator[Peer]:
    above, elements = level(region), ELEMENTS[scale]
    own = partial(by_penstock, spark, above=above)
    nothing = files.paths(files.regions(1 << 12, region, LARGEST))
    wake = partial(own, nothing)
    yield in_workers(spark, Peer("penstock", partial(own, paths), elements), wake)
    columns = partial(count_rows, ("id", "values"), batch_rows(region))
    yield limit(spark, elements, paths, columns, files.rows(paths))
    if region == GROWTH_SIZE:
        quarter = files.paths(files.regions(elements // 4, region, LARGEST))
        yield in_workers(spark, Peer(START, wake, 1 << 12, wake), wake)
        yield in_workers(spark, Peer(QUARTER, partial(own, quarter), elements // 4, partial(own, quarter)), wake)
    if scale != "double":
        yield from others(spark, scale, region, paths, own)
        yield pandas_peer(spark, PANDAS_REGIONS[scale], region, own)


def others(
    spark: SparkSession, scale: str, region: int | None, paths: list[str], own: Callable[[Sequence[str]], pa.Table]
) -> Iterator[Peer]:
    above, elements = level(region), ELEMENTS[scale]
    for name, work in (("spark:aggregate", by_aggregate), ("spark:explode", by_explode), ("arrow", by_arrow)):
        few = files.first(paths, SHARES.get(name, 1.0), scale)
        right = partial(own, few) if len(few) < len(paths) else None
        count = elements * len(few) // len(paths)
        if name != "arrow":
            yield Peer(name, partial(work, spark, few, above), count, right, repeats=3, settle=settled)
            continue
        batch = batch_rows(region)
        peer = Peer(name, partial(by_arrow, spark, few, above, batch), count, right, repeats=3, settle=settled)
        yield in_workers(spark, peer, partial(by_arrow, spark, few[:1], above, batch))
    for name, alone in (("polars", by_polars), ("duckdb", by_duckdb)):
        if find_spec(name):
            yield Peer(name, partial(alone, paths, above), elements, settle=settled)


def pandas_peer(
    spark: SparkSession, regions: int, region: int | None, own: Callable[[Sequence[str]], pa.Table]
) -> Peer:
    """On few regions: every one of them is a call of a Python function with a frame of its own."""
    elements = regions * (LARGEST // 2 if region is None else region)
    few = files.paths(files.regions(elements, region, LARGEST))
    work = partial(by_pandas, spark, few, level(region))
    peer = Peer("pandas", work, elements, partial(own, few), repeats=2, settle=settled)
    return in_workers(spark, peer, work)


def batch_rows(region: int | None) -> int:
    """How many rows have about as many elements as suit the processor's cache."""
    return max(1, BATCH_ELEMENTS // (LARGEST // 2 if region is None else region))


def settled(table: pa.Table) -> pa.Table:
    """Sorted, since most give their rows in any order, and in the types of the application."""
    return table.select(["id", "total"]).cast(RESULT).sort_by("id").combine_chunks()


RESULT = pa.schema([("id", pa.int64()), ("total", pa.int64())])


def by_penstock(spark: SparkSession, paths: Sequence[str], *, above: int) -> pa.Table:
    sums = region_sum.build(ps.read_parquet(list(paths)))
    return settled(sums.filter(lambda total: total > above).collect(spark=spark))


# The peers


def by_aggregate(spark: SparkSession, paths: Sequence[str], above: int) -> pa.Table:
    """Spark's own function over a list."""
    rows = spark.read.parquet(*paths)
    sums = rows.selectExpr("id", "aggregate(values, 0L, (total, v) -> total + v) as total")
    return sums.where(f"total > {above}").toArrow()


def by_explode(spark: SparkSession, paths: Sequence[str], above: int) -> pa.Table:
    """A row for each element, then a sum by region. A region without elements is left out: its sum is never high."""
    rows = spark.read.parquet(*paths).selectExpr("id", "explode(values) as v")
    return rows.groupBy("id").agg({"v": "sum"}).toDF("id", "total").where(f"total > {above}").toArrow()


def by_arrow(spark: SparkSession, paths: Sequence[str], above: int, batch: int) -> pa.Table:
    """Spark reads, its rows go to Python as Arrow batches, and there the same compiled loop sums them."""
    with with_settings(spark, execution_arrow_maxRecordsPerBatch=batch):
        rows: DataFrame = spark.read.parquet(*paths).select("id", "values")
        return rows.mapInArrow(partial(high_sums, above), "id long, total long").toArrow()


def high_sums(above: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        lists = batch.column("values")
        totals = sums_by_hand(lists.offsets.to_numpy(), lists.values.to_numpy())
        high = pa.array(totals > above)
        yield pa.record_batch([batch.column("id").filter(high), pa.array(totals).filter(high)], ["id", "total"])


def by_pandas(spark: SparkSession, paths: Sequence[str], above: int) -> pa.Table:
    """As one writes it who has functions over groups: a frame for each region."""
    import pandas as pd

    def total(key: tuple[int], frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"id": [key[0]], "total": [frame["v"].sum()]})

    rows: DataFrame = spark.read.parquet(*paths).selectExpr("id", "explode(values) as v")
    sums = rows.groupBy("id").applyInPandas(total, "id long, total long")
    return sums.where(f"total > {above}").toArrow()


def by_polars(paths: Sequence[str], above: int) -> pa.Table:
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    import polars

    # Summed as 32-bit numbers, which is faster and enough for these.
    total = polars.col("values").list.sum().cast(polars.Int64)
    sums = polars.scan_parquet(list(paths)).select("id", total=total)
    found: pa.Table = sums.filter(polars.col("total") > above).collect(engine="streaming").to_arrow()
    return found


def by_duckdb(paths: Sequence[str], above: int) -> pa.Table:
    import duckdb

    connection = duckdb.connect(config={"threads": 2, "preserve_insertion_order": False})
    sums = f"select id, list_sum(values)::bigint as total from read_parquet({list(paths)})"
    found: pa.Table = connection.sql(f"select * from ({sums}) where total > {above}").to_arrow_table()
    return found


BENCHMARK = Benchmark(
    name="regions",
    about="the regions of Parquet files whose sum is high, on Spark",
    unit="M elements/s",
    cases=cases,
    targets=(
        Target("penstock/spark", 2.5),
        Target("penstock/pandas@32", 1000.0),
        Target("penstock/limit", 0.8),
        Target("penstock/polars", 0.5),
        *COMMON_TARGETS,
    ),
    ratios=over_roads,
    more=growth_and_memory,
    cores=2,
    scales=("tiny", "small", "full", "double"),
    scale="full",
    repeats={"small": 2, "double": 3},
)
