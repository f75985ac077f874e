"""The lines of the taxi application: making them, and reading them with a check of their form.

A line that has no quoted trip id, does not end in a quoted polyline or leaves a quote open makes the file malformed:
an error that names the file and the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps

SCHEMA = pa.schema([("line", pa.string())])
PIECE_LINES = 1 << 13
FILE_PIECES = 8
QUOTE, OPEN, CLOSE = b'"[]'
NAMES = np.frombuffer(b'"POLYLINE"', np.uint8)
"""How a line of column names ends."""

MEAN_PAIRS = 45
EMPTY_SHARE = 0.02
MALFORMED_SHARE = 0.002
BRACKETED_SHARE = 0.02
TAIL = 0.8
"""The spread of the logarithm of a line's number of pairs."""
DECIMALS = range(6, 14)
"""Receivers differ: a line's coordinates have one of these numbers of decimals, and the longest has 15 digits."""
DAMAGE = np.frombuffer(b"x.;[-", np.uint8)

# Making


def generate(path: str | Path, size: int, seed: int = 0) -> None:
    """Write `size` lines as a folder of text files, about 1,400 bytes a line."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*.txt"):
        stale.unlink()
    for number, piece in enumerate(_texts(size, seed)):
        with open(folder / f"part-{number // FILE_PIECES:05d}.txt", "ab") as file:
            file.writelines(line + b"\n" for line in piece)


def pieces(size: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """The data set that `generate` writes, as it is read; at least one piece, though it may be empty."""
    for piece in _texts(size, seed):
        yield pa.record_batch([pa.array(piece, pa.binary()).cast(pa.string())], schema=SCHEMA)


def _texts(size: int, seed: int) -> Iterator[list[bytes]]:
    if size < 0:
        raise ps.DataError(f"taxi: size must be at least 0 lines; got {size}")
    for number, start in enumerate(range(0, max(size, 1), PIECE_LINES)):
        yield _lines(np.random.default_rng([seed, number]), start, min(PIECE_LINES, size - start))


def _lines(random: np.random.Generator, start: int, count: int) -> list[bytes]:
    logs = random.normal(np.log(MEAN_PAIRS / (1 - EMPTY_SHARE)) - TAIL**2 / 2, TAIL, count)
    sizes = np.where(random.random(count) < EMPTY_SHARE, 0, np.maximum(1, np.rint(np.exp(logs)))).astype(np.int64)
    decimals = random.integers(DECIMALS.start, DECIMALS.stop, count)
    polylines: list[bytes] = [b""] * count
    for chosen in DECIMALS:
        at = np.flatnonzero(decimals == chosen)
        for line, text in zip(at.tolist(), _polylines(random, sizes[at], chosen), strict=True):
            polylines[line] = text
    heads = _heads(random, start, count)
    return [b'%s,"[%s]"' % both for both in zip(heads, polylines, strict=True)]


def _heads(random: np.random.Generator, start: int, count: int) -> Iterator[bytes]:
    taxis = random.integers(20000001, 20000981, count).tolist()
    kinds = random.integers(0, 3, count).tolist()
    notes = np.where(random.random(count) < BRACKETED_SHARE, random.integers(1, 4, count), 0).tolist()
    for line, (taxi, kind, note) in enumerate(zip(taxis, kinds, notes, strict=True), start):
        time = 1372636800 + 17 * line
        stand = (b"%d" % (taxi % 64), b"[stand %d]" % (taxi % 64), b"[1.5,2.5]", b"at [7],[8.25,-9.5]")[note]
        yield b'"%d%09d","%c","","%s","%d","%d","A","False"' % (time, taxi, b"ABC"[kind], stand, taxi, time)


def _polylines(random: np.random.Generator, sizes: np.ndarray, decimals: int) -> Iterator[bytes]:
    """Walks through Porto with so many decimals: each pair is as wide as any other, so they are made as one block."""
    width = 2 * decimals + 10
    text = _walks(random, sizes, decimals, width).tobytes()
    stops = np.cumsum(sizes) * width
    for start, stop in zip((stops - sizes * width).tolist(), stops.tolist(), strict=True):
        yield text[start : stop - 1] if stop > start else b""


def _walks(random: np.random.Generator, sizes: np.ndarray, decimals: int, width: int) -> np.ndarray:
    count = int(sizes.sum())
    block = np.empty((count, width), np.uint8)
    block[:] = np.frombuffer(b"[-8.%b,41.%b]," % (b"0" * decimals, b"0" * decimals), np.uint8)
    for column, (low, high) in ((4, (0.55, 0.69)), (8 + decimals, (0.13, 0.19))):
        fractions = _walk(random, sizes, low, high, count)
        rest = (fractions * 10.0**decimals).astype(np.int64)
        for place in range(decimals - 1, -1, -1):
            tenth = rest // 10
            block[:, column + place] += (rest - 10 * tenth).astype(np.uint8)
            rest = tenth
    damaged = np.flatnonzero(random.random(count) < MALFORMED_SHARE)
    block[damaged, random.integers(1, width - 2, len(damaged))] = random.choice(DAMAGE, len(damaged))
    return block


def _walk(random: np.random.Generator, sizes: np.ndarray, low: float, high: float, count: int) -> np.ndarray:
    """Fractions of a degree: a uniform start for each line, then small steps."""
    steps = np.cumsum(random.normal(0.0, 3e-4, count))
    first = np.cumsum(sizes) - sizes
    starts = random.uniform(low, high, len(sizes)) - np.take(np.append(steps, 0.0), np.minimum(first, count))
    return np.clip(np.repeat(starts, sizes) + steps, 0.0, 0.99)


# Reading


def read(path: str | Path) -> ps.Stream:
    """The lines of text files as a stream of `line`; `path` is as `ps.read_text` takes it.

    A first line of column names is left out. A line that is no trip is an error that names the file and the byte.
    """
    lines = ps.read_text(str(path), file="file", offset="byte", name="lines")
    return lines.filter(is_trip).select("line")


def is_trip(line: str, file: str, byte: int) -> bool:
    """Whether a line is a trip, and not the names of the columns. Raises where it is neither.

    Only quotes and their neighbours are looked at. `file` is named so that an error tells it.
    """
    data = line.encode()
    size = len(data)
    if byte == 0 and size >= len(NAMES) and _is_at(data, size - len(NAMES)):
        return False
    if size == 0 or data[0] != QUOTE:
        raise ValueError("a line must begin with a quoted trip id")
    quotes, last, opening, polylines = 0, 0, 0, 0
    for at in range(size):
        if data[at] == QUOTE:
            quotes += 1
            last, opening = at, last
            polylines += _begins_polyline(data, at)
    if quotes % 2 == 1:
        raise ValueError("a quote must be closed before the line ends")
    if quotes < 4:
        raise ValueError("a line must have a quoted trip id and a quoted polyline; there is one field")
    if last != size - 1:
        raise ValueError("a line must end in a quoted polyline; it ends outside a quote")
    if not _begins_polyline(data, opening):
        raise ValueError("a line must end in a quoted polyline; its last field is none")
    if data[size - 2] != CLOSE:
        raise ValueError("a polyline must end with a bracket")
    if polylines != 1:
        raise ValueError("only the last field of a line may begin like a polyline")
    return True


def _begins_polyline(line: bytes, quote: int) -> bool:
    if quote + 2 >= len(line) or line[quote + 1] != OPEN:
        return False
    return bool(line[quote + 2] == OPEN or line[quote + 2] == CLOSE)


def _is_at(line: bytes, start: int) -> bool:
    for at in range(len(NAMES)):  # noqa: SIM110 - a loop, for the compiler
        if line[start + at] != NAMES[at]:
            return False
    return True
