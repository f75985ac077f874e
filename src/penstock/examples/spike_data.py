"""The readings of spike detection: sensors that each measure about one temperature, with noise and some spikes.

The readings are the same whatever the format and the number of files; but as text some of them are incomplete lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps
from penstock.examples.datasets import LINES, check, number_names, write

PIECE_ROWS = 1 << 18
START_US, STEP_US = 1_077_926_400_000_000, 571_731
"""The time of the first reading, and from one to the next: 54 devices measure twice a minute."""
LOWEST, HIGHEST, NOISE = 17.0, 25.0, 0.2
SPIKE_SHARE, SPIKE_SIZE = 0.005, 8.0
INCOMPLETE_SHARE = 0.02
DECIMALS = 4


def generate(
    path: str | Path,
    size: int,
    seed: int = 0,
    *,
    devices: int = 54,
    named: bool = False,
    format: str = "text",
    files: int | None = None,
) -> None:
    """Write `size` readings as a folder of files: lines of `text`, or columns as `csv` or `parquet`.

    With `named`, the devices have names in place of numbers, which is not for lines.
    """
    check("spike detection", size, files, format, devices=devices)
    if named and format == "text":
        raise ps.DataError("spike detection: in lines of text devices are numbers; named=True is for csv and parquet")
    made = pieces(size, seed, devices=devices, named=named)
    if format == "text":
        write(path, LINES, (_lines(seed, number, piece) for number, piece in enumerate(made)), size, files, format)
    else:
        write(path, schema(named), made, size, files, format)


def schema(named: bool = False) -> pa.Schema:
    return pa.schema([("device", pa.string() if named else pa.int64()), ("value", pa.float64())])


def pieces(size: int, seed: int = 0, *, devices: int = 54, named: bool = False) -> Iterator[pa.RecordBatch]:
    """The readings that `generate` writes, as columns, piece by piece."""
    usual = np.random.default_rng([seed, 1]).uniform(LOWEST, HIGHEST, devices)
    names = number_names("sensor-", np.arange(devices), len(str(devices))) if named else None
    for number, start in enumerate(range(0, size, PIECE_ROWS)):
        random, count = np.random.default_rng([seed, 0, number]), min(PIECE_ROWS, size - start)
        chosen = random.integers(0, devices, count)
        values = usual[chosen] + random.normal(0.0, NOISE, count)
        at = np.flatnonzero(random.random(count) < SPIKE_SHARE)
        values[at] += random.uniform(-SPIKE_SIZE, SPIKE_SIZE, len(at))
        device = pa.array(chosen) if names is None else names.take(pa.array(chosen))
        yield pa.record_batch([device, pa.array(np.round(values, DECIMALS))], schema=schema(named))


def _lines(seed: int, number: int, piece: pa.RecordBatch) -> pa.RecordBatch:
    """The readings of a piece as lines, of which some end too early."""
    random, count, start = np.random.default_rng([seed, 2, number]), piece.num_rows, number * PIECE_ROWS
    times = START_US + STEP_US * np.arange(start, start + count)
    numbers = (
        np.arange(start, start + count) // 54,
        piece.column("device"),
        piece.column("value"),
        np.round(random.uniform(20.0, 60.0, count), DECIMALS),
        np.round(random.uniform(0.0, 600.0, count), 2),
        np.round(random.uniform(2.0, 3.0, count), 5),
    )
    fields = np.where(random.random(count) < INCOMPLETE_SHARE, random.integers(0, len(numbers), count), len(numbers))
    texts = [
        pc.if_else(pa.array(fields > place), pa.array(column).cast(pa.string()), None)
        for place, column in enumerate(numbers)
    ]
    stamps = pa.array(times).cast(pa.timestamp("us")).cast(pa.string())
    return pa.record_batch([pc.binary_join_element_wise(stamps, *texts, " ", null_handling="skip")], schema=LINES)
