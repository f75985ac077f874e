"""The taxi application from memory: bytes of text a second."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numba
import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.benchmark import Benchmark
from benchmarks.records import Case, Peer, Target
from benchmarks.speeds import penstock_over_peers
from penstock.examples import taxi

LINES = {"tiny": 64, "small": 20_000, "full": 160_000}
PYTHON_SHARE = 8
POWERS = np.array([float(f"1e{n}") for n in range(16)])
u64 = np.uint64  # an index that cannot be negative needs no test for it


def cases(scale: str) -> Iterator[Case]:
    lines = pa.Table.from_batches(taxi.pieces(LINES[scale])).combine_chunks()
    few = lines.slice(0, len(lines) // PYTHON_SHARE)
    texts = few.column("line").to_pylist()
    items = bytes_of(lines)
    peers = (
        Peer("penstock", lambda: by_penstock(lines), items),
        Peer("hand", lambda: by_hand(lines), items),
        Peer("python", lambda: by_python(texts), sum(map(len, texts)), lambda: by_penstock(few)),
    )
    yield Case("lines", peers)


def bytes_of(lines: pa.Table) -> int:
    column = lines.column("line").chunk(0)
    return int(np.frombuffer(column.buffers()[1], np.int32)[len(column)])


def by_penstock(lines: pa.Table) -> pa.Table:
    return taxi.build(ps.from_arrow(lines)).collect()


def first_result() -> None:
    by_penstock(pa.Table.from_batches(taxi.pieces(10)))


# By hand: count what the result can hold at most, allocate it, and fill it in one scan that skips from pair to pair.


def by_hand(lines: pa.Table) -> pa.Table:
    column = lines.column("line").chunk(0)
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[: len(column) + 1]
    trips, trip_bounds, latitudes, longitudes = scan(bounds, np.frombuffer(data, np.uint8))
    names = pa.StringArray.from_buffers(len(latitudes), pa.py_buffer(trip_bounds), pa.py_buffer(trips))
    return pa.table({"trip": names, "latitude": latitudes, "longitude": longitudes})


@numba.njit(error_model="numpy")
def scan(bounds, text):  # type: ignore[no-untyped-def]
    most, most_bytes = room(bounds, text)
    trips, trip_bounds = np.empty(most_bytes, np.uint8), np.empty(most + 1, np.int32)
    latitudes, longitudes = np.empty(most), np.empty(most)
    trip_bounds[0] = 0
    count = filled = u64(0)
    for line in range(len(bounds) - 1):
        start, stop = u64(bounds[line]), u64(bounds[line + 1])
        trip_stop, at = head(text, start, stop)
        while at < stop:
            longitude, after = number(text, at + u64(1), 44) if text[at] == 91 else (0.0, u64(0))
            latitude, close = number(text, after, 93) if after != u64(0) else (0.0, u64(0))
            if close == u64(0):
                at += u64(1)
                continue
            latitudes[count], longitudes[count] = latitude, longitude
            for place in range(start + u64(1), trip_stop):
                trips[filled] = text[place]
                filled += u64(1)
            count += u64(1)
            trip_bounds[count] = filled
            at = close
    return trips[:filled], trip_bounds[: count + u64(1)], latitudes[:count], longitudes[:count]


@numba.njit
def room(bounds, text):  # type: ignore[no-untyped-def]
    """How many pairs there are at most, and how many bytes their trips take."""
    most = most_bytes = np.int64(0)
    for line in range(len(bounds) - 1):
        start, stop = u64(bounds[line]), u64(bounds[line + 1])
        brackets = 0
        for at in range(start, stop):
            brackets += text[at] == 91
        trip_stop, _ = head(text, start, stop)
        most += brackets
        most_bytes += brackets * np.int64(trip_stop - start)
    return most, most_bytes


@numba.njit
def head(text, start, stop):  # type: ignore[no-untyped-def]
    """Where the trip's id ends, and where the polyline's pairs begin."""
    trip_stop = start + u64(1)
    while text[trip_stop] != 34:
        trip_stop += u64(1)
    at = trip_stop + u64(2)
    while at + u64(2) < stop:
        if text[at] == 34 and text[at + u64(1)] == 91:
            after = text[at + u64(2)]
            if after == 91 or after == 93:
                return trip_stop, at + u64(2)
        at += u64(1)
    return trip_stop, stop


@numba.njit(error_model="numpy")
def number(text, at, follows):  # type: ignore[no-untyped-def]
    """The number at a place and the place behind `follows`, which must come next; 0 where that is not so.

    A line ends with a quote, so no number runs out of it.
    """
    negative = text[at] == 45
    if negative:
        at += u64(1)
    start, point, mantissa = at, u64(0), u64(0)
    while True:
        digit = u64(text[at]) - u64(48)
        if digit <= u64(9):
            mantissa = u64(10) * mantissa + digit
        elif text[at] == 46 and point == u64(0):
            point = at
        else:
            break
        at += u64(1)
    decimals = at - u64(1) - point if point > u64(0) else u64(0)
    digits = at - start - u64(point > u64(0))
    if text[at] != follows or digits == u64(0) or digits > u64(15) or point == start or point == at - u64(1):
        return 0.0, u64(0)
    value = np.int64(mantissa) / POWERS[decimals]
    return -value if negative else value, at + u64(1)


# In plain Python

PAIR = re.compile(r"\[(-?\d+(?:\.\d+)?),(-?\d+(?:\.\d+)?)\]")


def by_python(lines: list[str]) -> pa.Table:
    trips: list[str] = []
    latitudes: list[float] = []
    longitudes: list[float] = []
    for line in lines:
        fields = line.split('"')
        try:
            pairs = json.loads(fields[-2])
        except ValueError:
            pairs = [(float(first), float(second)) for first, second in PAIR.findall(fields[-2])]
        trips += [fields[1]] * len(pairs)
        longitudes += [pair[0] for pair in pairs]
        latitudes += [pair[1] for pair in pairs]
    return pa.table({"trip": trips, "latitude": latitudes, "longitude": longitudes})


BENCHMARK = Benchmark(
    name="taxi-local",
    about="the pairs in lines of text, parsed, swapped and marked with their trip, from memory",
    unit="MB/s",
    cases=cases,
    first="benchmarks.taxi_local:first_result",
    targets=(Target("penstock/hand", 0.5), Target("penstock/python", 20.0)),
    ratios=penstock_over_peers,
)
