"""Region sum: the sum of the integers in each composite row.

A row is `id: int64, values: list<int32>`; its values are a region, of a fixed size or of any size from 0 to a maximum.
The result is one row a region, `id` and `total`. With `positive=True` a filter stands between, and only the positive
values are summed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.examples.datasets import is_empty

USUAL_SIZE, SIZE_UNIT = 10_000_000, "elements"
SCHEMA = pa.schema([("id", pa.int64()), ("values", pa.list_(pa.int32()))])
PIECE_ELEMENTS = 1 << 22
"""How many elements are drawn, and written to one file, at a time."""
LARGEST = 1000


def build(source: ps.Stream, *, positive: bool = False) -> ps.Stream:
    """One row a region, `id` and `total`, from a stream of `id` and `values`."""
    elements = source.enumerate("values", as_="v")
    if positive:
        elements = elements.filter(lambda v: v > 0)
    return elements.aggregate(total=ps.sum("v"), keep="id")


def read(path: str | Path) -> ps.Stream:
    """Parquet files, or a folder of them, as a stream."""
    found = ps.read_parquet(path, schema=SCHEMA if is_empty(path) else None, name="regions")
    missing = set(SCHEMA.names) - set(found.schema.names)
    if missing:
        raise ps.DataError(
            f"region sum: {str(path)!r} must have the columns 'id' and 'values'; got {', '.join(found.schema.names)}"
        )
    return found


def generate(path: str | Path, size: int, seed: int = 0, *, region: int | None = None, largest: int = 64) -> None:
    """Write `size` elements as a folder of Parquet files: regions of `region` elements, or of 0 to `largest`."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*.parquet"):
        stale.unlink()
    for number, piece in enumerate(pieces(size, seed, region=region, largest=largest)):
        pq.write_table(pa.Table.from_batches([piece]), folder / f"part-{number:05d}.parquet")


def pieces(size: int, seed: int = 0, *, region: int | None = None, largest: int = 64) -> Iterator[pa.RecordBatch]:
    """The data set that `generate` writes, piece by piece; at least one, though it may be empty."""
    if size < 0 or largest < 1 or (region is not None and region < 1):
        raise ps.DataError(
            f"region sum: size must be at least 0, region and largest at least 1; got {size}, {region}, {largest}"
        )
    whole = PIECE_ELEMENTS if region is None else max(1, PIECE_ELEMENTS // region) * region
    first_id = 0
    for number, start in enumerate(range(0, max(size, 1), whole)):
        random = np.random.default_rng([seed, number])
        elements = min(whole, size - start)
        offsets = _fixed(elements, region) if region is not None else _uniform(random, elements, largest)
        yield _batch(random, first_id, offsets)
        first_id += len(offsets) - 1


def _fixed(elements: int, region: int) -> np.ndarray:
    """Offsets of regions of one size; the last one is shorter where the size does not divide the elements."""
    return np.append(np.arange(0, elements, region), elements).astype(np.int32)


def _uniform(random: np.random.Generator, elements: int, largest: int) -> np.ndarray:
    """Offsets of regions of 0 to `largest` elements each; the last one is cut where the elements end."""
    offsets = np.zeros(1, np.int64)
    while offsets[-1] < elements:
        sizes = random.integers(0, largest + 1, max(16, 2 * elements // largest))
        offsets = np.append(offsets, offsets[-1] + np.cumsum(sizes))
    last = int(np.searchsorted(offsets, elements))
    return np.append(offsets[:last], elements).astype(np.int32) if last else offsets[:1].astype(np.int32)


def _batch(random: np.random.Generator, first_id: int, offsets: np.ndarray) -> pa.RecordBatch:
    values = random.integers(-LARGEST, LARGEST, int(offsets[-1]), np.int32, endpoint=True)
    ids = np.arange(first_id, first_id + len(offsets) - 1)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
    return pa.record_batch([pa.array(ids), lists], schema=SCHEMA)


def reference(path: str | Path, *, positive: bool = False) -> list[dict[str, int]]:
    """The rows of the result, by the plainest Python."""
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return [{"id": row["id"], "total": sum(v for v in row["values"] if v > 0 or not positive)} for row in rows]
