"""The peers of the taxi benchmark.

All see a line as quoted fields, of which the first is the trip and the last the polyline; every bracket in it but the
first opens what should be a pair. A cast takes numbers that the application does not, such as `.5`; of those only this
one can be in lines with one damaged byte, and it is looked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.examples.taxi_by_spark import by_split, fields, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBER = r"-?\d+(?:\.\d+)?"
PAIR = rf"\[{NUMBER},{NUMBER}\]"
FIELDS = 9


def by_json(spark: SparkSession, paths: Sequence[str], folder: Path) -> Path:
    """A polyline is JSON unless it is damaged; then its pairs are looked for."""
    pair = "transform(split(substring(p, 2, length(p) - 2), ','), number -> cast(number as double))"
    found = f"transform(regexp_extract_all(polyline, {_quote(PAIR)}, 0), p -> {pair})"
    parsed = f"explode(coalesce(from_json(polyline, 'array<array<double>>'), {found})) as pair"
    pairs = fields(spark, paths).selectExpr("trip", parsed)
    return write(pairs.selectExpr("trip", "pair[1] as latitude", "pair[0] as longitude"), folder)


def by_regexp(spark: SparkSession, paths: Sequence[str], folder: Path) -> Path:
    """Find all that are pairs with one regular expression."""
    found = f"explode(regexp_extract_all(polyline, {_quote(PAIR)}, 0)) as pair"
    pairs = fields(spark, paths).selectExpr("trip", found)
    numbers = pairs.selectExpr(
        "trip",
        "cast(substring_index(substring(pair, 1, length(pair) - 1), ',', -1) as double) as latitude",
        "cast(substring(substring_index(pair, ',', 1), 2) as double) as longitude",
    )
    return write(numbers, folder)


def _quote(pattern: str) -> str:
    """A pattern as a literal of Spark's SQL."""
    doubled = pattern.replace("\\", "\\\\")
    return f"'{doubled}'"


SPARK: dict[str, Callable[[SparkSession, Sequence[str], Path], Path]] = {
    "split": by_split,
    "json": by_json,
    "regexp": by_regexp,
}


def by_polars(paths: Sequence[str], folder: Path) -> Path:
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    import polars
    from polars import col

    names = [f"column_{number + 1}" for number in range(FIELDS)]
    lines = polars.scan_csv(list(paths), has_header=False, schema=dict.fromkeys(names, polars.String))
    pieces = lines.select(trip=names[0], piece=col(names[-1]).str.split("[")).explode("piece")
    cut = pieces.with_columns(col("piece").str.split_exact(",", 1).struct.renamefields(["first", "second"]))
    claims = cut.unnest("piece").filter(col("second").str.ends_with("]"), ~col("first").str.starts_with("."))
    numbers = claims.select(
        "trip",
        latitude=col("second").str.strip_chars_end("]").cast(polars.Float64, strict=False),
        longitude=col("first").cast(polars.Float64, strict=False),
    )
    numbers.drop_nulls().sink_parquet(folder / "part-0.parquet", compression="snappy")
    return folder


def by_duckdb(paths: Sequence[str], folder: Path) -> Path:
    import duckdb

    columns = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(FIELDS))
    query = f"""
        with pieces as (
            select c0 as trip, unnest(string_split(c{FIELDS - 1}, '[')) as piece
            from read_csv({list(paths)}, header=false, delim=',', quote='"', columns={{{columns}}})
        ), numbers as (
            select trip,
                try_cast(split_part(split_part(piece, ']', 1), ',', 2) as double) as latitude,
                try_cast(split_part(piece, ',', 1) as double) as longitude
            from pieces where contains(piece, ']') and not starts_with(piece, '.')
        )
        select * from numbers where latitude is not null and longitude is not null
    """
    connection = duckdb.connect(config={"threads": 2, "preserve_insertion_order": False})
    connection.sql(f"copy ({query}) to '{folder / 'part-0.parquet'}' (format parquet, compression snappy)")
    return folder
