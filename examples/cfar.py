"""CFAR: targets that stand out of the noise around them in rows of radar samples, at a constant false alarm rate.

A row is `row: int64` and two lists of as many numbers, `real` and `imaginary`: the complex samples of its cells. The
pipeline is that of the HPEC challenge, a row at a time, so that every filter is stateless and the stream keeps its
order:

- *magnitude*: the squared magnitude of each cell, its power;
- *noise*: at each cell, the mean power of the `window` cells on each side beyond `guard` cells, of those that there
  are, by sums that slide along the row;
- *find targets*: the cells whose power is more than `threshold` times the noise. Each is classified, which is the
  further work of a stated time;
- *report*: one item a target: `row`, `cell`, `power`, `noise`, `kind`.

The kind of a target is the one of eight shapes of an echo that its surroundings resemble most. The bank of shapes is
gone through again and again until `work_us` microseconds are over, in as many passes as that takes by a measurement
that a process makes once; more passes find the same kind, so the result does not depend on it. With `work_us=0` there
is none, and the kind is -1.

Samples that are whole numbers, such as `generate` makes, give exact sums, and so the same result as NumPy to the last
digit. How data is made stands in `cfar_data`.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib.stride_tricks import sliding_window_view

import penstock as ps
from examples.cfar_data import SCHEMA, generate, pieces
from penstock.examples.datasets import is_empty

__all__ = ["build", "filters", "generate", "passes_for", "pieces", "read", "reference"]

USUAL_SIZE, SIZE_UNIT = 5_000, "rows"
GUARD = 4
WINDOW = 16
THRESHOLD = 4.0
WORK_US = 32.0
NAME = "cfar"
MOST_CELLS = 1 << 13
"""So many targets a row may have."""


def build(
    source: ps.Stream,
    *,
    guard: int = GUARD,
    window: int = WINDOW,
    threshold: float = THRESHOLD,
    work_us: float = WORK_US,
) -> ps.Stream:
    """One item a target, `row`, `cell`, `power`, `noise` and `kind`, of a stream of rows."""
    return filters(source, guard=guard, window=window, threshold=threshold, work_us=work_us)["report"]


def filters(
    source: ps.Stream,
    *,
    guard: int = GUARD,
    window: int = WINDOW,
    threshold: float = THRESHOLD,
    work_us: float = WORK_US,
) -> dict[str, ps.Stream]:
    """The stream behind each filter, by the filter's name: to put them on cores, and to look at each."""
    _check(guard, window, threshold, work_us)
    magnitude = source.map(power=squared_magnitude)
    noise = magnitude.map(noise=_noise(guard, window))
    passes = passes_for(work_us)
    found = noise.map(_find(threshold, passes), to=("cells", "kinds"))
    report = found.flat_map(targets, to=("cell", "power", "noise", "kind"), at_most=MOST_CELLS, keep="row")
    return {"magnitude": magnitude, "noise": noise, "find targets": found, "report": report}


def _check(guard: int, window: int, threshold: float, work_us: float) -> None:
    for name, value, least in (("guard", guard, 0), ("window", window, 1)):
        if not isinstance(value, int) or value < least:
            raise ps.GraphError(f"{NAME}: {name} must be a whole number of at least {least}; got {value!r}")
    for name, number in (("threshold", threshold), ("work_us", work_us)):
        if not isinstance(number, (int, float)) or not 0 <= number < math.inf:
            raise ps.GraphError(f"{NAME}: {name} must be a number of at least 0; got {number!r}")


def read(path: str | Path) -> ps.Stream:
    """Rows from Parquet files or a folder of them; or from a `.npy` file, a matrix of complex numbers."""
    if str(path).endswith(".npy"):
        return ps.from_arrow(_table(path), name="rows")
    found = ps.read_parquet(path, schema=SCHEMA if is_empty(path) else None, name="rows")
    types = {name: found.schema.field(name).type for name in SCHEMA.names if name in found.schema.names}
    if len(types) < len(SCHEMA) or not all(_is_list(types[name]) for name in ("real", "imaginary")):
        raise ps.DataError(
            f"{NAME}: {str(path)!r} must have the columns 'row', and 'real' and 'imaginary', lists of numbers; got "
            f"{', '.join(f'{name} ({found.schema.field(name).type})' for name in found.schema.names)}"
        )
    return found


def _is_list(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind)
    return bool(is_list and (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)))


def _table(path: str | Path) -> pa.Table:
    """A matrix of complex numbers in a file of NumPy's, as rows of cells."""
    try:
        matrix = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ps.DataError(f"{NAME}: {str(path)!r} must be a matrix that numpy.save wrote; {error}") from None
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.number):
        raise ps.DataError(
            f"{NAME}: {str(path)!r} must have a matrix of numbers, a row for each row of cells; got {matrix.dtype} "
            f"of the shape {matrix.shape}"
        )
    columns = [np.arange(len(matrix)), list(matrix.real.astype(np.float64)), list(matrix.imag.astype(np.float64))]
    lists = pa.list_(pa.float64())
    return pa.table([pa.array(columns[0]), pa.array(columns[1], lists), pa.array(columns[2], lists)], SCHEMA.names)


# The functions of the filters.


def squared_magnitude(real: Any, imaginary: Any) -> list[float]:
    """The power of each cell, which is exact where the samples are whole numbers of up to 26 binary digits."""
    cells = len(real)
    if len(imaginary) != cells:
        raise ValueError("'real' and 'imaginary' must be as long as each other")
    power: Any = np.empty(cells)
    for at in range(cells):
        x, y = float(real[at]), float(imaginary[at])
        power[at] = x * x + y * y
    return power  # type: ignore[no-any-return]


def _noise(guard: int, window: int) -> Callable[..., Any]:
    reach = guard + window

    def noise(power: Any) -> list[float]:
        """The mean power around each cell: two sums slide along the row, one on each side of the cell."""
        cells = len(power)
        if 0 < cells <= 2 * guard + 1:
            raise ValueError("a row must have more than 2 * guard + 1 cells, or there is no noise to compare with")
        found: Any = np.empty(cells)
        below, above, count = 0.0, 0.0, 0
        for at in range(min(guard + 1, cells), min(reach + 1, cells)):
            above += power[at]
            count += 1
        for at in range(cells):
            found[at] = (below + above) / count
            if at + 1 + reach < cells:
                above += power[at + 1 + reach]
                count += 1
            if at + 1 + guard < cells:
                above -= power[at + 1 + guard]
                count -= 1
            if at >= guard:
                below += power[at - guard]
                count += 1
            if at >= reach:
                below -= power[at - reach]
                count -= 1
        return found  # type: ignore[no-any-return]

    return noise


def _find(threshold: float, passes: int) -> Callable[..., Any]:
    def find_targets(power: Any, noise: Any) -> tuple[list[int], list[int]]:
        """The cells that are targets, and the kind of each."""
        count = 0
        for at in range(len(power)):
            if power[at] > threshold * noise[at]:
                count += 1
        cells: Any = np.empty(count, np.int64)
        kinds: Any = np.empty(count, np.int64)
        target = 0
        for at in range(len(power)):
            if power[at] > threshold * noise[at]:
                cells[target] = at
                kinds[target] = kind_of(power, at, passes)
                target += 1
        return cells, kinds

    return find_targets


def targets(power: Any, noise: Any, cells: Any, kinds: Any) -> Iterator[tuple[int, float, float, int]]:
    """The targets of a row, one by one."""
    for at in range(len(cells)):
        cell = cells[at]
        yield cell, power[cell], noise[cell], kinds[at]


# The further work for a target.

KINDS, REACH = 8, 4
TAPS = 2 * REACH + 1


def _shapes() -> np.ndarray:
    """Echoes of four widths at two places about a cell, as whole numbers and about equally strong, one after another.

    Whole numbers, so that what they give with powers that are whole is exact.
    """
    taps = np.arange(-REACH, REACH + 1)
    places, widths = (0.0, 1.0), (0.5, 1.0, 1.5, 2.0)
    shapes: Any = np.array([np.exp(-(((taps - place) / width) ** 2)) for place in places for width in widths])
    whole: np.ndarray = np.round(64 * shapes / np.linalg.norm(shapes, axis=1, keepdims=True))
    return whole.ravel()


SHAPES = _shapes()


def kind_of(power: Any, cell: int, passes: int) -> int:
    """The kind of echo about a cell: of the shapes that fit best, the first.

    Each pass goes through all shapes, beginning with another one, and takes about as long as every other. What does
    not lie in the row counts as 0, so that all loops are of a length that is known when they are compiled: how fast
    they are does not hang on where the machine has put them.
    """
    around: Any = np.zeros(TAPS)
    for tap in range(TAPS):
        place = cell - REACH + tap
        if 0 <= place < len(power):
            around[tap] = power[place]
    best, kind = -1.0, -1
    for number in range(passes):
        for at in range(KINDS):
            shape = (number + at) % KINDS
            fit = 0.0
            for tap in range(TAPS):
                fit += SHAPES[shape * TAPS + tap] * around[tap]
            if fit > best or (fit == best and shape < kind):
                best, kind = fit, shape
    return kind


def passes_for(work_us: float) -> int:
    """How many passes take so many microseconds in this process; at least one, unless there is nothing to do.

    The number is one of a coarse series, so that not every process has code of its own to compile.
    """
    if work_us == 0:
        return 0
    wanted = max(1.0, work_us / _pass_us())
    return round(STEP ** round(math.log(wanted, STEP)))


STEP = 1.04
PROBES, PROBE_PASSES, TRIES = 500, 40, 7


@functools.cache
def _pass_us() -> float:
    """How long a pass takes, in microseconds: the best of several tries, on as many targets as take some milliseconds.

    It is measured where it will run, in a loop that Penstock made, in time of the processor, so that a busy machine
    makes no difference.
    """
    probes = [{"power": [float(at * at % 101) for at in range(2 * TAPS)], "passes": PROBE_PASSES}] * PROBES
    stream = ps.from_items(probes).map(kind=lambda power, passes: kind_of(power, TAPS, passes)).select("kind")
    seconds: list[float] = []
    for _ in range(TRIES):
        run: Any = stream.prepare(spark=False, clock=time.thread_time)
        run.collect()
        seconds.append(run.statistics().nodes[0].seconds)
    return 1e6 * min(seconds) / (PROBES * PROBE_PASSES)


# The answer by NumPy.


def reference(
    path: str | Path,
    *,
    guard: int = GUARD,
    window: int = WINDOW,
    threshold: float = THRESHOLD,
    work_us: float = WORK_US,
) -> list[dict[str, Any]]:
    """The rows of the result, by NumPy: windows laid over each row, and no sum that slides."""
    found = []
    for row in _rows(path):
        power = np.square(np.array(row["real"], np.float64)) + np.square(np.array(row["imaginary"], np.float64))
        noise = _reference_noise(power, guard, window) if len(power) else power
        for cell in np.flatnonzero(power > threshold * noise):
            around = np.pad(power, REACH)[cell : cell + TAPS]
            kind = int(np.argmax(SHAPES.reshape(KINDS, TAPS) @ around)) if work_us else -1
            target = {"cell": int(cell), "power": float(power[cell]), "noise": float(noise[cell]), "kind": kind}
            found.append({"row": row["row"]} | target)
    return found


def _rows(path: str | Path) -> list[dict[str, Any]]:
    if str(path).endswith(".npy"):
        matrix = np.load(path)
        return [{"row": at, "real": row.real, "imaginary": row.imag} for at, row in enumerate(matrix)]
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def _reference_noise(power: np.ndarray, guard: int, window: int) -> np.ndarray:
    reach = guard + window
    distance = np.abs(np.arange(-reach, reach + 1))
    around = np.where((distance > guard) & (distance <= reach), 1.0, 0.0)
    total = sliding_window_view(np.pad(power, reach), 2 * reach + 1) @ around
    count = sliding_window_view(np.pad(np.ones(len(power)), reach), 2 * reach + 1) @ around
    result: np.ndarray = total / count
    return result
