"""The taxi application by Spark's own functions, and a digest of what is written, so that both can be compared.

A line is seen as quoted fields, of which the first is the trip and the last the polyline; every bracket in it but the
first opens what should be a pair. A cast takes numbers that the application does not, such as `.5`; of those only this
one can be in lines with one damaged byte, and it is looked for. `spark` is a SparkSession.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds


def fields(spark: Any, paths: Sequence[str]) -> Any:
    return spark.read.text(list(paths)).selectExpr(
        "substring_index(substring_index(value, '\"', 2), '\"', -1) as trip",
        "substring_index(substring_index(value, '\"', -2), '\"', 1) as polyline",
    )


def write(pairs: Any, folder: Path) -> Path:
    pairs.write.mode("overwrite").option("compression", "snappy").parquet(str(folder))
    return folder


def by_split(spark: Any, paths: Sequence[str], folder: Path) -> Path:
    """Cut at the brackets, then at the comma, and cast what is a number. No regular expression but one character."""
    pieces = fields(spark, paths).selectExpr("trip", r"explode(split(polyline, '\\[')) as piece")
    claims = pieces.where("instr(piece, ']') > 0").selectExpr("trip", "substring_index(piece, ']', 1) as pair")
    numbers = claims.where("instr(pair, ',') > 1 and not startswith(pair, '.')").selectExpr(
        "trip",
        "try_cast(substring_index(pair, ',', -1) as double) as latitude",
        "try_cast(substring_index(pair, ',', 1) as double) as longitude",
    )
    return write(numbers.where("latitude is not null and longitude is not null"), folder)


# The digest

ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
SCHEMA = pa.schema([("trip", pa.string()), ("latitude", pa.float64()), ("longitude", pa.float64())])


def digest(written: Path) -> pa.Table:
    """How many rows a folder of Parquet files has, and the sum of a hash of each."""
    rows, total = 0, 0
    found = ds.dataset(written, format="parquet", schema=SCHEMA)
    for batch in found.to_batches():
        rows += batch.num_rows
        total += int(_hash(batch).sum(dtype=np.uint64))
    return pa.table({"rows": [rows], "digest": pa.array([total % (1 << 64)], pa.uint64())})


def _hash(batch: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """Of each row a number in which every bit of every field counts; a trip's id is a number of 19 digits."""
    trip = batch.column("trip").cast(pa.int64()).to_numpy()
    latitude, longitude = (batch.column(name).to_numpy() for name in ("latitude", "longitude"))
    mixed = np.zeros(batch.num_rows, np.uint64)
    for column, odd in zip((trip, latitude, longitude), ODD, strict=True):
        mixed = (mixed ^ column.view(np.uint64)) * odd
        mixed ^= mixed >> np.uint64(31)
    return mixed
