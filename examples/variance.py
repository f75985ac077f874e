"""Variance: the standard deviation of each image of a sparse stream of pixels.

An image is `image: int64, pixels: fixed_size_list<int32>[1024]`, 32 × 32 pixels of 0 to 255, many of them 0. The result
is one row an image, `image` and `deviation`. The graph is that of figure 1 in the paper on precise control: u opens the
images and drops the zeros, v finds the mean of an image, w the mean of the squares, and x joins the two, by the index
of the image: σ² = mean of squares - mean². The end of an image is a mark with an exact place among the pixels that are
left, so that v and w may divide by 1,024 whatever they have seen.

Here the graph is the point. Of values that lie far from 0 this formula loses digits; for these there is an aggregate,
`ps.variance`, which goes by Welford's update and needs no join.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.examples.datasets import is_empty

USUAL_SIZE, SIZE_UNIT = 10_000, "images"
SIDE = 32
PIXELS = SIDE * SIDE
BRIGHTEST = 255
SCHEMA = pa.schema([("image", pa.int64()), ("pixels", pa.list_(pa.int32(), PIXELS))])
PIECE_IMAGES = 1 << 12
"""How many images are drawn, and written to one file, at a time."""


def build(source: ps.Stream, *, filtered: bool = True) -> ps.Stream:
    """One row an image, `image` and `deviation`; u passes the zeros on unless `filtered`, which changes no result."""
    u = source.enumerate("pixels", as_="z").filter((lambda z: z != 0) if filtered else (lambda z: z == z))
    v = u.aggregate(mean=ps.sum("z")).map(mean=lambda mean: mean / PIXELS)
    w = u.map(square=lambda z: z * z).aggregate(square=ps.sum("square")).map(square=lambda square: square / PIXELS)
    x = ps.align(v, w).map(deviation=lambda mean, square: max(square - mean * mean, 0.0) ** 0.5)
    return x.select("image", "deviation")


def read(path: str | Path) -> ps.Stream:
    """Parquet files, or a folder of them, as a stream of images."""
    found = ps.read_parquet(path, schema=SCHEMA if is_empty(path) else None, name="images")
    columns = {name: found.schema.field(name).type for name in SCHEMA.names if name in found.schema.names}
    if len(columns) < len(SCHEMA) or getattr(columns["pixels"], "list_size", 0) != PIXELS:
        raise ps.DataError(
            f"variance: {str(path)!r} must have the columns 'image' and 'pixels', fixed-size lists of {PIXELS}; got "
            f"{', '.join(f'{name} ({found.schema.field(name).type})' for name in found.schema.names)}"
        )
    return found


def generate(path: str | Path, size: int, seed: int = 0, *, zeros: float = 0.5) -> None:
    """Write `size` images as a folder of Parquet files, with a share of `zeros` among their pixels."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*.parquet"):
        stale.unlink()
    for number, piece in enumerate(pieces(size, seed, zeros=zeros)):
        pq.write_table(pa.Table.from_batches([piece]), folder / f"part-{number:05d}.parquet")


def pieces(size: int, seed: int = 0, *, zeros: float = 0.5) -> Iterator[pa.RecordBatch]:
    """The data set that `generate` writes, piece by piece; at least one, though it may be empty."""
    if size < 0 or not 0 <= zeros <= 1:
        raise ps.DataError(f"variance: size must be at least 0, and zeros from 0 to 1; got {size}, {zeros}")
    for number, start in enumerate(range(0, max(size, 1), PIECE_IMAGES)):
        random = np.random.default_rng([seed, number])
        images = np.arange(start, min(start + PIECE_IMAGES, size))
        values = random.integers(1, BRIGHTEST, PIXELS * len(images), np.int32, endpoint=True)
        values[random.random(len(values)) < zeros] = 0
        lists = pa.FixedSizeListArray.from_arrays(pa.array(values), PIXELS)
        yield pa.record_batch([pa.array(images), lists], schema=SCHEMA)


def reference(path: str | Path) -> list[dict[str, float]]:
    """The rows of the result, by NumPy."""
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return [{"image": row["image"], "deviation": float(np.std(row["pixels"]))} for row in rows]
