"""Spike detection: readings of sensors that are far from the mean of their device's last ones.

A line is `date time epoch device temperature humidity light voltage`, parted by blanks. It is complete where it has
these eight fields, the device is a whole number, and the temperature is one: an optional sign, digits and an optional
fraction, at most 18 digits in all. Of up to 15 digits the float is the nearest; of more it may be the one beside it.
Lines that are not complete are dropped and counted.

For each reading, in the order of its device's readings, the mean of the device's last `window` temperatures is found,
the reading itself included. A spike is a reading whose value differs from that mean by more than `threshold` times the
mean. The result is one row a spike: `device`, `mean`, `value`.

Readings may also come as columns, `device` (of any type that can be a key) and `value`. How data is made stands in
`spike_data`.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import penstock as ps
from penstock.examples import datasets
from penstock.examples.spike_data import generate, pieces, schema

__all__ = [
    "build",
    "generate",
    "incomplete",
    "note",
    "parse",
    "pieces",
    "read",
    "readings",
    "reference",
    "reference_incomplete",
    "results",
    "spikes",
]

USUAL_SIZE, SIZE_UNIT = 1_000_000, "readings"
WINDOW = 1000
THRESHOLD = 0.03


def build(source: ps.Stream | str | Path, *, window: int = WINDOW, threshold: float = THRESHOLD) -> ps.Stream:
    """The spikes, `device`, `mean` and `value`, of a stream of `line` or of `device` and `value`, or of files."""
    stream = source if isinstance(source, ps.Stream) else read(source)
    return spikes(readings(stream), window=window, threshold=threshold)


def results(source: ps.Stream, **settings: Any) -> tuple[ps.Stream, ...]:
    """The spikes and, where the source has lines, the sizes of those that were dropped; each is parsed once."""
    if "line" not in source.schema.names:
        return (build(source, **settings),)
    found = parse(source)
    dropped = _incomplete(found).map(size=lambda line: len(line)).select("size")
    return spikes(_complete(found), **settings), dropped


def note(dropped: pa.Table) -> str:
    """What was dropped, in words."""
    return f"{dropped.num_rows:,} incomplete lines were dropped"


def read(path: str | Path) -> ps.Stream:
    """A file, or all files of a folder, as a stream: text as `line`, CSV and Parquet as `device` and `value`."""
    return datasets.read("spike detection", path, schema(), told=["device"])


def readings(source: ps.Stream) -> ps.Stream:
    """The `device` and `value` of every reading that is complete."""
    return _complete(parse(source)) if "line" in source.schema.names else source.select("device", "value")


def incomplete(source: ps.Stream) -> ps.Stream:
    """The lines that are dropped."""
    return _incomplete(parse(source))


def parse(source: ps.Stream) -> ps.Stream:
    """Every `line` with its `device`, `value` and whether it `is_complete`."""
    return source.map(reading, to=("device", "value", "is_complete"))


def _complete(found: ps.Stream) -> ps.Stream:
    return found.filter(lambda is_complete: is_complete).select("device", "value")


def _incomplete(found: ps.Stream) -> ps.Stream:
    return found.filter(lambda is_complete: not is_complete).select("line")


def spikes(found: ps.Stream, *, window: int = WINDOW, threshold: float = THRESHOLD) -> ps.Stream:
    """The readings that are spikes, from a stream of `device` and `value`."""
    if not isinstance(window, int) or window < 1:
        raise ps.GraphError(f"spike detection: window must be a whole number of at least 1; got {window!r}")
    if not isinstance(threshold, (int, float)) or not 0 <= threshold < math.inf:
        raise ps.GraphError(f"spike detection: threshold must be a number of at least 0; got {threshold!r}")
    means = found.key_by("device").map(mean=moving_mean, state=_last(window))
    return means.filter(lambda value, mean: abs(value - mean) > threshold * mean).select("device", "mean", "value")


# The functions of the steps.


def _last(window: int) -> type[ps.State]:
    class Last(ps.State):
        """A device's last values in a ring; see `moving_mean`.

        Invariant: `ring[:at]` has the values of this turn, and `total` is their sum. From `at` on, `ring[i]` has the
        sum of the values that the turn before left in `ring[i:]`, or 0.0 in the first turn.
        """

        ring: ps.array(float, window)  # type: ignore[valid-type]
        at: int
        n: int
        total: float

    return Last


def moving_mean(value: float, state: Any) -> float:
    """The mean of the last values, this one included, as accurate as adding them up.

    Nothing is ever subtracted, so that a value leaves no trace once it has left the window, be it NaN or 1e17. At the
    end of a turn the ring's values become sums from each of them to the last one; of these the next turn needs one for
    each item. So an item costs two additions, whatever the size of the window.
    """
    ring, at = state.ring, state.at
    ring[at] = value
    at += 1
    total = state.total + value
    state.n = min(state.n + 1, len(ring))
    if at < len(ring):
        state.at, state.total = at, total
        return (total + ring[at]) / state.n  # type: ignore[no-any-return]
    later = 0.0
    for place in range(len(ring) - 1, -1, -1):
        later += ring[place]
        ring[place] = later
    state.at, state.total = 0, 0.0
    return total / state.n  # type: ignore[no-any-return]


FIELDS, DEVICE, TEMPERATURE = 8, 3, 4
BLANK, MINUS, POINT, ZERO, NINE = b" -.09"
DIGITS = 18
"""An integer of so many digits fits 64 bits."""
POWERS = np.array([float(f"1e{n}") for n in range(DIGITS + 1)])


def reading(line: str) -> tuple[int, float, bool]:
    """The device and the temperature in a line, and whether the line is complete."""
    data = line.encode()
    size, at, field = len(data), 0, 0
    device, value, is_number = 0, 0.0, True
    while at < size:
        while at < size and data[at] == BLANK:
            at += 1
        start = at
        while at < size and data[at] != BLANK:
            at += 1
        if at == start:
            break
        if field in (DEVICE, TEMPERATURE):
            mantissa, decimals, is_negative = number(data, start, at)
            is_number = is_number and (decimals == 0 or (decimals > 0 and field == TEMPERATURE))
            if is_number and field == DEVICE:
                device = -mantissa if is_negative else mantissa
            elif is_number:
                value = mantissa / POWERS[decimals]
                value = -value if is_negative else value
        field += 1
    is_complete = is_number and field == FIELDS
    return (device, value, True) if is_complete else (0, 0.0, False)


def number(line: bytes, start: int, stop: int) -> tuple[int, int, bool]:
    """The digits of a number as an integer, how many of them are decimals, and its sign; -1 decimals: it is none."""
    is_negative = line[start] == MINUS
    at = start + 1 if is_negative else start
    mantissa, digits, decimals, point = 0, 0, 0, -1
    while at < stop:
        byte = line[at]
        if ZERO <= byte <= NINE and digits < DIGITS:
            mantissa = 10 * mantissa + byte - ZERO
            digits += 1
        elif byte == POINT and point < 0 and digits > 0:
            point = at
        else:
            return 0, -1, False
        at += 1
    if point >= 0:
        decimals = stop - point - 1
    return (0, -1, False) if digits == 0 or point == stop - 1 else (mantissa, decimals, is_negative)


# The answer by the plainest Python.

_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"-?(?!(?:\.?\d){19})\d+(?:\.\d+)?", re.ASCII)


def reference(path: str | Path, *, window: int = WINDOW, threshold: float = THRESHOLD) -> list[dict[str, Any]]:
    """The rows of the result, by the plainest Python: every mean from all values of its window, rounded once.

    The application adds them one after the other, so that its means may differ in the last digits.
    """
    last: dict[Any, deque[float]] = {}
    found = []
    for device, value in _reference_readings(path):
        values = last.setdefault(device, deque(maxlen=window))
        values.append(value)
        mean = _sum(values) / len(values)
        if abs(value - mean) > threshold * mean:
            found.append({"device": device, "mean": mean, "value": value})
    return found


def _sum(values: Iterable[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # beyond all floats, or both infinities
        return sum(values)


def reference_incomplete(path: str | Path) -> int:
    """How many lines are incomplete, by the plainest Python."""
    lines = [line for file in datasets.list_files(path) for line in file.read_text().splitlines()]
    return len(lines) - len(_reference_readings(path))


def _reference_readings(path: str | Path) -> list[tuple[Any, float]]:
    found: list[tuple[Any, float]] = []
    for file in datasets.list_files(path):
        if file.suffix in (".csv", ".parquet"):
            read = pyarrow.csv.read_csv if file.suffix == ".csv" else pyarrow.parquet.read_table
            found += [(row["device"], row["value"]) for row in read(file).to_pylist()]
            continue
        for line in file.read_text().splitlines():
            fields = [field for field in line.split(" ") if field]
            if len(fields) == FIELDS and _WHOLE.fullmatch(fields[DEVICE]) and _NUMBER.fullmatch(fields[TEMPERATURE]):
                found.append((int(fields[DEVICE]), float(fields[TEMPERATURE])))
    return found
