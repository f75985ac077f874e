"""Taxi: parse the coordinate pairs in lines of text, swap them, and mark each with its line's trip.

A line is like one of the Porto taxi set: quoted fields, of which the first is the trip's id and the last the polyline,
`"[[-8.618643,41.141412],[-8.618499,41.141376]]"` or `"[]"`. Every bracket in a polyline but the first claims to open a
pair. A pair is `[number,number]`; a number has an optional sign, digits and an optional fraction, at most 15 digits in
all, so that the float nearest to it is found exactly. What claims to be a pair and is none is dropped and counted.

The result is one row a pair: `trip`, `latitude`, `longitude`. How lines are made and read stands in `taxi_data`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps
from penstock.examples.taxi_data import generate, pieces, read

__all__ = [
    "brackets",
    "build",
    "characters",
    "generate",
    "is_claim",
    "malformed",
    "note",
    "pairs",
    "parse",
    "pieces",
    "read",
    "reference",
    "reference_malformed",
    "results",
]

USUAL_SIZE, SIZE_UNIT = 20_000, "lines"
OPEN, CLOSE, QUOTE, COMMA, MINUS, POINT, ZERO, NINE = b'[]",-.09'
DIGITS = 15
"""An integer of so many digits is exactly a float, and so is this power of ten: their quotient is rounded only once."""
POWERS = np.array([float(f"1e{n}") for n in range(DIGITS + 1)])


def build(source: ps.Stream) -> ps.Stream:
    """One row a pair, `trip`, `latitude` and `longitude`, from a stream of `line`."""
    return pairs(brackets(source))


def results(source: ps.Stream) -> tuple[ps.Stream, ...]:
    """The pairs, and the lines with malformed ones; brackets are looked for once."""
    found = brackets(source)
    return pairs(found), malformed(found)


def note(dropped: pa.Table) -> str:
    """What `malformed` found, in words."""
    count = sum(dropped.column("malformed").to_pylist())
    return f"{count:,} malformed pairs in {dropped.num_rows:,} lines were dropped"


def characters(source: ps.Stream) -> ps.Stream:
    """Every `byte` of each line and its place `i`; the line's trip is parsed once, before. Lines may be bytes too."""
    if source.schema.field("line").type != pa.string():
        source = source.map_columns(lambda line: pc.cast(line, pa.string()), to={"line": str})
    tagged = source.map(trip=ps.returns(str, trip_id), polyline=polyline_start)
    return tagged.enumerate("line", as_="byte", index="i")


def brackets(source: ps.Stream) -> ps.Stream:
    """Stage 1: the places `i` in each line where a pair should open."""
    return characters(source).filter(is_claim)


def pairs(found: ps.Stream) -> ps.Stream:
    """Stage 2: verify and parse the pair at each place, and push its coordinates, swapped, with the line's trip."""
    return parse(found).close("trip")


def parse(found: ps.Stream) -> ps.Stream:
    """The coordinates of each pair, still inside its line."""
    return found.flat_map(swapped, to=("latitude", "longitude"), at_most=1)


def malformed(found: ps.Stream) -> ps.Stream:
    """The lines in which a claim was no pair: `trip` and how many, `malformed`."""
    dropped = found.filter(lambda line, i: pair(line.encode(), i)[2] < 0)
    return dropped.aggregate(malformed=ps.count(), keep="trip").filter(lambda malformed: malformed > 0)


# The functions of the stages. They look at the bytes of a line, which compiled code has without a copy.


def trip_id(line: str) -> bytes:
    """The bytes between the line's first two quotes."""
    data, end = line.encode(), 1
    while end < len(data) and data[end] != QUOTE:
        end += 1
    return data[1:end]


def polyline_start(line: str) -> int:
    """The place of the polyline's first bracket: the first field that begins with `[[` or `[]`; or the line's end."""
    data, at = line.encode(), 0
    while at + 2 < len(data):
        if data[at] == QUOTE and data[at + 1] == OPEN and (data[at + 2] == OPEN or data[at + 2] == CLOSE):
            return at + 1
        at += 1
    return len(data)


def is_claim(byte: int, i: int, polyline: int) -> bool:
    return byte == OPEN and i > polyline


def swapped(line: str, i: int) -> Iterator[tuple[float, float]]:
    first, second, end = pair(line.encode(), i)
    if end >= 0:
        yield second, first


def pair(line: bytes, at: int) -> tuple[float, float, int]:
    """The two numbers of the pair that the bracket at `at` opens, and where it ends; -1 where it is none.

    One function for both numbers, digits and point: this is the innermost loop of the application.
    """
    size = len(line)
    first = second = 0.0
    for follows in (COMMA, CLOSE):
        first = second
        at += 1
        negative = at < size and line[at] == MINUS
        start = at + 1 if negative else at
        at, point, mantissa = start, size, 0
        while at < size and at < start + DIGITS + 2:
            byte = line[at]
            if ZERO <= byte <= NINE:
                mantissa = 10 * mantissa + byte - ZERO
            elif byte == POINT and point == size:
                point = at
            else:
                break
            at += 1
        whole, decimals = min(point, at) - start, max(at - point - 1, 0)
        if at >= size or line[at] != follows or whole < 1 or whole + decimals > DIGITS or point == at - 1:
            return 0.0, 0.0, -1
        second = mantissa / POWERS[decimals]
        second = -second if negative else second
    return first, second, at


# The answer by the plainest Python.

_CLAIM = re.compile(r"(?<!^)\[(?:(-?\d+(?:\.\d+)?),(-?\d+(?:\.\d+)?)\])?", re.ASCII)


def reference(path: str | Path) -> list[dict[str, Any]]:
    """The rows of the result, by the plainest Python."""
    return [
        {"trip": trip, "latitude": float(claim[2]), "longitude": float(claim[1])}
        for trip, claim in _claims(path)
        if _is_pair(claim)
    ]


def reference_malformed(path: str | Path) -> int:
    """How many claims are no pairs, by the plainest Python."""
    return sum(not _is_pair(claim) for _, claim in _claims(path))


def _claims(path: str | Path) -> Iterator[tuple[str, re.Match[str]]]:
    files = sorted(Path(path).glob("*.txt")) if Path(path).is_dir() else [Path(path)]
    for file in files:
        for line in file.read_text().splitlines():
            trip, polyline = line.split('"')[1], line.split('"')[-2]
            for claim in _CLAIM.finditer(polyline):
                yield trip, claim


def _is_pair(claim: re.Match[str]) -> bool:
    return claim[1] is not None and all(len(text.lstrip("-").replace(".", "")) <= 15 for text in claim.groups())
