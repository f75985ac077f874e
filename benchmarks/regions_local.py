"""Region sum from memory, at region sizes around the powers of two where a vector machine would stumble."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps
from benchmarks.benchmark import Benchmark
from benchmarks.records import Case, Peer, Target
from benchmarks.speeds import penstock_over_peers, slowest_over_fastest
from penstock.examples import region_sum

ELEMENTS = {"tiny": 1 << 14, "small": 1 << 23, "full": 1 << 26}
SIZES = (4, 32, 33, 128, 129, 2048)
LARGEST = 64
PYTHON_SHARE = 32


def cases(scale: str) -> Iterator[Case]:
    for region in SIZES:
        yield case(str(region), data(ELEMENTS[scale], region=region))
    yield case(f"0-{LARGEST}", data(ELEMENTS[scale], largest=LARGEST))


def data(size: int, **regions: int) -> pa.Table:
    """The regions in one piece, as one who has them in memory would hold them."""
    return pa.Table.from_batches(region_sum.pieces(size, **regions)).combine_chunks()


def case(name: str, table: pa.Table) -> Case:
    items = len(table.column("values").chunk(0).values)
    few = table.slice(0, max(1, table.num_rows // PYTHON_SHARE))
    rows = [(row["id"], row["values"]) for row in few.to_pylist()]
    peers = [
        Peer("penstock", lambda: by_penstock(table), items),
        Peer("hand", lambda: by_hand(table), items),
        Peer("loop", lambda: by_loop(table), items),
        Peer("arrow", lambda: by_arrow(table), items),
        Peer("python", lambda: by_python(rows), sum(len(values) for _, values in rows), lambda: by_penstock(few)),
    ]
    if find_spec("polars"):
        peers.append(Peer("polars", _polars(table), items))
    if find_spec("duckdb"):
        peers.append(Peer("duckdb", _duckdb(table), items))
    return Case(name, tuple(peers))


def by_penstock(table: pa.Table) -> pa.Table:
    return region_sum.build(ps.from_arrow(table)).collect()


def first_result() -> None:
    by_penstock(data(1000))


# The peers


@numba.njit
def sums_by_hand(offsets, values):  # type: ignore[no-untyped-def]
    """The loop of one who knows that Numba turns it into vector instructions only where no index can be negative."""
    totals = np.empty(len(offsets) - 1, np.int64)
    start = np.uint64(offsets[0])
    for region in range(len(totals)):
        stop = np.uint64(offsets[region + 1])
        total = np.int64(0)
        for at in range(start, stop):
            total += values[at]
        totals[region] = total
        start = stop
    return totals


@numba.njit
def sums_by_loop(offsets, values):  # type: ignore[no-untyped-def]
    """The loop as one writes it first."""
    totals = np.empty(len(offsets) - 1, np.int64)
    for region in range(len(totals)):
        total = 0
        for at in range(offsets[region], offsets[region + 1]):
            total += values[at]
        totals[region] = total
    return totals


def by_hand(table: pa.Table) -> pa.Table:
    lists = table.column("values").chunk(0)
    totals = sums_by_hand(lists.offsets.to_numpy(), lists.values.to_numpy())
    return pa.table({"id": table.column("id"), "total": totals})


def by_loop(table: pa.Table) -> pa.Table:
    lists = table.column("values").chunk(0)
    totals = sums_by_loop(lists.offsets.to_numpy(), lists.values.to_numpy())
    return pa.table({"id": table.column("id"), "total": totals})


def by_arrow(table: pa.Table) -> pa.Table:
    """By differences of running sums: several times faster than Arrow's own grouping, and right for empty regions."""
    lists = table.column("values").chunk(0)
    running = pa.concat_arrays([pa.array([0]), pc.cumulative_sum(lists.values.cast(pa.int64()))])
    bounds = pc.take(running, lists.offsets)
    return pa.table({"id": table.column("id"), "total": pc.subtract(bounds[1:], bounds[:-1])})


def by_python(rows: list[tuple[int, list[int]]]) -> pa.Table:
    return pa.table({"id": [id for id, _ in rows], "total": [sum(values) for _, values in rows]})


def _polars(table: pa.Table) -> Callable[[], pa.Table]:
    os.environ["POLARS_MAX_THREADS"] = "1"  # read when polars is imported
    import polars

    frame = polars.DataFrame(table)
    # Summed as 32-bit numbers, which is faster and enough for these.
    total = polars.col("values").list.sum().cast(polars.Int64)
    return lambda: frame.select("id", total=total).to_arrow()


def _duckdb(table: pa.Table) -> Callable[[], pa.Table]:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.register("regions", table)
    query = "select id, coalesce(list_sum(values), 0)::bigint as total from regions"
    return lambda: connection.sql(query).to_arrow_table()


BENCHMARK = Benchmark(
    name="regions-local",
    about="the sum of each region of a list column, from memory",
    unit="M elements/s",
    cases=cases,
    first="benchmarks.regions_local:first_result",
    targets=(Target("penstock/hand", 0.8), Target("fastest/slowest", 1 / 1.5)),
    ratios=lambda best: penstock_over_peers(best) | slowest_over_fastest(best),
)
