"""The lines of the taxi application: making them, and reading them with a check of their form.

A line that has no quoted trip id, does not end in a quoted polyline or leaves a quote open makes the file malformed:
an error that names the file and the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps

SCHEMA = pa.schema([("line", pa.string())])
PIECE_LINES = 1 << 13
FILE_PIECES = 8
BLOCK_BYTES = 1 << 21
"""Read so much at a time: small enough that the passes of the check find it in the processor's cache."""
NO_TRIP = "a line must begin with a quoted trip id"

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


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of text files as record batches, each file read block by block and checked as it is read."""

    files: tuple[Path, ...]

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for path in self.files:
            for start, block in _blocks(path):
                batch = _checked(path, start, block)
                if batch.num_rows:
                    yield batch


def read(path: str | Path) -> ps.Stream:
    """The lines of a text file, or of all `.txt` files of a folder, as a stream of `line`.

    A first line of column names is left out.
    """
    given = Path(path)
    files = tuple(sorted(given.glob("*.txt"))) if given.is_dir() else (given,)
    if not files or not files[0].is_file():
        raise ps.DataError(f"taxi: {str(path)!r} must be a text file or a folder of .txt files; there is none")
    return ps.from_arrow(Lines(files), name="lines")


def _blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines of about `BLOCK_BYTES` at a time, with the place in the file where they begin."""
    with open(path, "rb") as file:
        start, held = 0, [b""]
        while piece := file.read(BLOCK_BYTES):
            whole, newline, after = piece.rpartition(b"\n")
            if not newline:
                held.append(after)
                continue
            block = b"".join((*held, whole, newline))
            yield start, block
            start, held = start + len(block), [after]
        if any(held):
            yield start, b"".join((*held, b"\n"))


def _checked(path: Path, start: int, block: bytes) -> pa.RecordBatch:
    if start == 0 and block.partition(b"\n")[0].rstrip().endswith(b'"POLYLINE"'):
        start = block.index(b"\n") + 1
        block = block[start:]
    text = np.frombuffer(block, np.uint8)
    stops = np.flatnonzero(text == ord("\n"))
    starts = np.append(0, stops + 1)[:-1]
    returns = text[stops - 1] == ord("\r") if len(stops) else np.zeros(0, bool)
    fault = _fault(text, starts, stops - returns)
    if fault is not None:
        raise ps.DataError(f"taxi: {path}, byte {start + fault[0]}: {fault[1]}")
    offsets = np.append(0, np.cumsum(stops - returns - starts)).astype(np.int32)
    if returns.any():
        block = block.replace(b"\r\n", b"\n")
    data = pa.py_buffer(block.replace(b"\n", b""))
    lines = pa.StringArray.from_buffers(len(stops), pa.py_buffer(offsets), data)
    _check_utf8(path, start, lines, starts)
    return pa.record_batch([lines], schema=SCHEMA)


def _check_utf8(path: Path, start: int, lines: pa.Array, starts: np.ndarray) -> None:
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        for line, at in zip(lines.cast(pa.binary()).to_pylist(), starts.tolist(), strict=True):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise ps.DataError(f"taxi: {path}, byte {start + at + error.start}: a line must be UTF-8") from None


def _fault(text: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> tuple[int, str] | None:
    """The first fault among these lines: its place and what it is. Only quotes and their neighbours are looked at."""
    quotes = np.flatnonzero(text == ord('"'))
    if not len(starts):
        return None
    if not len(quotes):
        return 0, NO_TRIP
    counts = np.diff(np.append(np.searchsorted(quotes, starts), len(quotes)))
    last = np.maximum(np.cumsum(counts) - 1, 0)
    second = text[np.minimum(quotes + 2, len(text) - 1)]
    opens = (text[quotes + 1] == ord("[")) & ((second == ord("[")) | (second == ord("]")))
    polylines = np.diff(np.append(0, np.cumsum(opens)[last]))
    opening = np.maximum(last - 1, 0)
    checks = (
        (text[starts] == ord('"'), starts, NO_TRIP),
        (counts % 2 == 0, quotes[last], "a quote must be closed before the line ends; this one is not"),
        (counts >= 4, starts, "a line must have a quoted trip id and a quoted polyline; there is one field"),
        (quotes[last] == stops - 1, stops - 1, "a line must end in a quoted polyline; it ends outside a quote"),
        (opens[opening], quotes[opening], "a line must end in a quoted polyline; this field is none"),
        (text[stops - 2] == ord("]"), stops - 2, "a polyline must end with a bracket"),
        (polylines == 1, starts, "only the last field of a line may begin like a polyline"),
    )
    faults = [(int(np.argmin(good)), rank) for rank, (good, _, _) in enumerate(checks) if not good.all()]
    if not faults:
        return None
    line, rank = min(faults)
    return int(checks[rank][1][line]), checks[rank][2]
