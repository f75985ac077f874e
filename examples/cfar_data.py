"""The data of CFAR: rows of noise with targets in them, even or in bursts.

The parts of a sample of noise are whole numbers from -100 to 100, all as likely. A target is about 200 times as strong
as the noise. A row in a burst has targets in `share * burst` of its cells on average, any other row has none; one row
in `burst` is in a burst, so that `share` of all cells are targets. A burst is `burst_rows` rows long on average; with
`burst=1` there are none, and all rows are alike. Targets stand about evenly in a row: too many within one window would
be noise to each other, and a detector would miss them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps

SCHEMA = pa.schema([("row", pa.int64()), ("real", pa.list_(pa.int16())), ("imaginary", pa.list_(pa.int16()))])
PIECE_ROWS = 1 << 13
"""How many rows are drawn, and written to one file, at a time."""
NOISE = 100
STRENGTH = 200
DENSEST = 0.12
"""Of so many targets in a row nearly all are found; of more, many are not."""


def generate(
    path: str | Path,
    size: int,
    seed: int = 0,
    *,
    cells: int = 114,
    share: float = 0.073,
    burst: float = 1.5,
    burst_rows: float = 50,
) -> None:
    """Write `size` rows of `cells` cells as a folder of Parquet files, with a `share` of targets, in bursts."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*.parquet"):
        stale.unlink()
    made = pieces(size, seed, cells=cells, share=share, burst=burst, burst_rows=burst_rows)
    for number, piece in enumerate(made):
        pq.write_table(pa.Table.from_batches([piece]), folder / f"part-{number:05d}.parquet")


def pieces(
    size: int,
    seed: int = 0,
    *,
    cells: int = 114,
    share: float = 0.073,
    burst: float = 1.5,
    burst_rows: float = 50,
) -> Iterator[pa.RecordBatch]:
    """The data set that `generate` writes, piece by piece; at least one, though it may be empty."""
    _check(size, cells, share, burst, burst_rows)
    for number, start in enumerate(range(0, max(size, 1), PIECE_ROWS)):
        random = np.random.default_rng([seed, number])
        rows = np.arange(start, min(start + PIECE_ROWS, size))
        bursts = _bursts(random, len(rows), burst, burst_rows)
        is_target = np.zeros((len(rows), cells), bool)
        for at in np.flatnonzero(bursts):
            is_target[at, _places(random, cells, share * burst)] = True
        real, imaginary = _samples(random, is_target)
        yield pa.record_batch([pa.array(rows), _lists(real), _lists(imaginary)], schema=SCHEMA)


def _check(size: int, cells: int, share: float, burst: float, burst_rows: float) -> None:
    if size < 0 or cells < 1:
        raise ps.DataError(f"cfar: size must be at least 0, and cells at least 1; got {size}, {cells}")
    if not share >= 0 or not burst >= 1 or not burst_rows >= 1:
        raise ps.DataError(
            f"cfar: share must be at least 0, burst and burst_rows at least 1; got {share}, {burst}, {burst_rows}"
        )
    if share * burst > DENSEST:
        raise ps.DataError(
            f"cfar: share * burst, the share of targets in a burst, must be at most {DENSEST}, or targets would hide "
            f"each other; got {share:g} * {burst:g} = {share * burst:g}; lower one of them"
        )


def _bursts(random: np.random.Generator, rows: int, burst: float, burst_rows: float) -> np.ndarray:
    """Which rows are in a burst. Bursts have random lengths; of each, and the pause around it, it has its share."""
    if burst == 1:
        return np.ones(rows, bool)
    turns, made = [], 0
    while made < rows:
        length = int(random.geometric(1 / burst_rows))
        pause = max(1, round(length * (burst - 1)))
        before = int(random.integers(0, pause, endpoint=True))
        turns.append(np.repeat([False, True, False], [before, length, pause - before]))
        made += length + pause
    return np.concatenate(turns)[:rows] if turns else np.zeros(0, bool)


def _places(random: np.random.Generator, cells: int, share: float) -> np.ndarray:
    """The cells of the targets of a row: a random number of them, each in a part of the row of its own."""
    count = int(random.binomial(cells, share))
    edges = np.linspace(0, cells, count + 1)
    return (edges[:-1] + random.random(count) * np.diff(edges)).astype(np.int64)


def _samples(random: np.random.Generator, is_target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    real = random.integers(-NOISE, NOISE, is_target.shape, np.int16, endpoint=True)
    imaginary = random.integers(-NOISE, NOISE, is_target.shape, np.int16, endpoint=True)
    count = np.count_nonzero(is_target)
    mean_noise = 2 * NOISE * NOISE / 3
    amplitude = np.sqrt(STRENGTH * mean_noise * random.uniform(0.9, 1.1, count))
    phase = random.uniform(0, 2 * np.pi, count)
    real[is_target] = np.round(amplitude * np.cos(phase)).astype(np.int16)
    imaginary[is_target] = np.round(amplitude * np.sin(phase)).astype(np.int16)
    return real, imaginary


def _lists(values: np.ndarray) -> pa.ListArray:
    rows, cells = values.shape
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * cells), pa.array(values.ravel()))
