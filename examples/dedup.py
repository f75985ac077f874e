"""Dedup: pack a file into an archive in which each chunk that stands in it several times is kept once.

The pipeline of PARSEC's benchmark, in six filters. `fragment` cuts the file coarsely and `refine` finely, where a
fingerprint of the last bytes says so: so a stretch that is repeated is cut alike wherever it stands. `hash` finds each
chunk's digest (SHA-256), `look up` (the one filter with a state) whether it came before, `compress` packs it by zlib if
not, and `write` makes the record of the archive. The result is one row a chunk, in the order of the file: `record`, and
the chunk's `size`. `examples.restore` gives the file back; the archive's form stands in `dedup_archive`.

The file is read in pieces which overlap, so that `fragment` needs no state either: a piece answers for what begins in
it, and the next one finds by itself where that is.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import penstock as ps
from examples.dedup_archive import record, restore, save
from examples.dedup_data import generate
from examples.dedup_outside import digests, packed, records
from penstock.examples import whole_file

__all__ = ["build", "filters", "generate", "read", "reference", "restore", "save"]

USUAL_SIZE, SIZE_UNIT = 8_000_000, "bytes"
PIECE = 1 << 19
"""How many bytes of the file a piece answers for."""
AHEAD = 1 << 16
"""How many more a piece shows, in which the end of its last block is looked for."""
WINDOW = 48
"""How many bytes a fingerprint is of: each is shifted out after as many steps as the fingerprint has bits."""
MASK = (1 << WINDOW) - 1
GEAR = np.random.default_rng(1977).integers(0, 1 << WINDOW - 1, 256)
"""What each byte adds to the fingerprint."""
LEAST = 256
"""The least size that the smallest chunk may be given."""
OPTIONS = {"width": 256}
FINE = ("smallest", "largest", "below")
PIECES = pa.schema([("piece", pa.binary()), *((name, pa.int64()) for name in ("start", "stop", *FINE))])


class Sizes(NamedTuple):
    """The least, about the mean, and the most bytes of what is cut, but for the last piece of a whole."""

    smallest: int
    mean: int
    largest: int

    @property
    def below(self) -> int:
        """One fingerprint in mean - smallest is below this, so that cuts are as far apart as the mean asks for."""
        return (MASK + 1) // (self.mean - self.smallest)


COARSE = Sizes(1 << 13, 1 << 15, 1 << 17)
COARSE_SMALLEST, COARSE_LARGEST, COARSE_BELOW = COARSE.smallest, COARSE.largest, COARSE.below


def build(source: ps.Stream, *, level: int = 6) -> ps.Stream:
    """One row a chunk, `record` and `size`, from the pieces of a file; `level` is how hard zlib tries, 1 to 9."""
    return filters(source, level=level)["write"].select("record", "size")


def filters(source: ps.Stream, *, level: int = 6) -> dict[str, ps.Stream]:
    """The stream behind each of the six filters, by the filter's name."""
    if not isinstance(level, int) or not 1 <= level <= 9:
        raise ps.GraphError(f"dedup: level must be a whole number from 1 to 9; got {level!r}")
    most_coarse, most_fine = (PIECE + AHEAD) // COARSE.smallest + 2, COARSE.largest // LEAST + 1
    fragment = source.flat_map(fragments, to="coarse", keep=FINE, at_most=most_coarse)
    refine = fragment.flat_map(refined, to="chunk", at_most=most_fine)
    hashed = refine.map_columns(digests, to={"digest": bytes, "size": int})
    look_up = hashed.key_by("digest").map(is_new=is_new, state=Seen)
    compress = look_up.map_columns(partial(packed, level), to={"packed": bytes})
    write = compress.map_columns(records, to={"record": bytes})
    return {
        "fragment": fragment,
        "refine": refine,
        "hash": hashed,
        "look up": look_up,
        "compress": compress,
        "write": write,
    }


def read(path: str | Path, *, smallest: int = 1024, mean: int = 4096, largest: int = 16384) -> ps.Stream:
    """A file, or a folder with one, as a stream of pieces that overlap: each answers for its bytes `start` to `stop`.

    A piece tells how chunks are to be cut, so that no filter depends on it.
    """
    sizes, file = Sizes(smallest, mean, largest), whole_file.one_file("dedup", path)
    if not LEAST <= smallest < mean < largest <= COARSE.largest:
        raise ps.GraphError(
            f"dedup: sizes must go up, {LEAST} <= smallest < mean < largest <= {COARSE.largest}; got {smallest}, "
            f"{mean}, {largest}"
        )
    return ps.from_arrow(whole_file.Batches(PIECES, partial(_pieces, file, sizes)), name="pieces")


def _pieces(path: Path, sizes: Sizes) -> Iterator[pa.RecordBatch]:
    before, held = b"", b""
    for more in whole_file.read_bytes("dedup", path, PIECE):
        if held:
            yield _piece(before, held, more[:AHEAD], sizes)
            before = held[-WINDOW:]
        held = more
    if held:
        yield _piece(before, held, b"", sizes)


def _piece(before: bytes, own: bytes, ahead: bytes, sizes: Sizes) -> pa.RecordBatch:
    numbers = (len(before), len(before) + len(own), sizes.smallest, sizes.largest, sizes.below)
    columns = [pa.array([before + own + ahead], pa.binary()), *(pa.array([number]) for number in numbers)]
    return pa.record_batch(columns, schema=PIECES)


# The filters


def cut(data: Any, start: int, stop: int, smallest: int, largest: int, below: int) -> int:
    """Where what begins at `start` ends: behind the first fingerprint that is low, between the smallest and largest."""
    end, first = min(start + largest, stop), start + smallest
    if end <= first:
        return end
    fingerprint = 0
    for at in range(max(first - WINDOW, 0), first):
        fingerprint = (2 * fingerprint + GEAR[data[at]]) & MASK
    for at in range(first, end):
        if fingerprint < below:
            return at
        fingerprint = (2 * fingerprint + GEAR[data[at]]) & MASK
    return end


def border(piece: Any, at: int) -> int:
    """Where the first block begins that begins at `at` or behind it, as both pieces that see this place find it."""
    ahead = min(at + AHEAD, len(piece))
    found = cut(piece, at, ahead, 0, AHEAD, COARSE_BELOW)
    return found if found < ahead else at


def fragments(piece: Any, start: int, stop: int) -> Iterator[bytes]:
    """The coarse blocks that begin in what a piece answers for."""
    at = 0 if start == 0 else border(piece, start)
    end = stop if stop == len(piece) else border(piece, stop)
    while at < end:
        until = cut(piece, at, end, COARSE_SMALLEST, COARSE_LARGEST, COARSE_BELOW)
        yield piece[at:until]
        at = until


def refined(coarse: Any, smallest: int, largest: int, below: int) -> Iterator[bytes]:
    """The chunks of a coarse block."""
    at = 0
    while at < len(coarse):
        until = cut(coarse, at, len(coarse), smallest, largest, below)
        yield coarse[at:until]
        at = until


class Seen(ps.State):
    """Whether a digest came before."""

    before: bool


def is_new(state: Any) -> bool:
    known = state.before
    state.before = True
    return not known


# The answer by the plainest Python.


def reference(
    path: str | Path, *, smallest: int = 1024, mean: int = 4096, largest: int = 16384
) -> list[dict[str, Any]]:
    """The rows of the result, by the plainest Python."""
    data, known, found = whole_file.one_file("dedup", path).read_bytes(), set(), []
    prints = _fingerprints(data)
    places = _cuts(prints, _cuts(prints, _starts(prints), COARSE), Sizes(smallest, mean, largest))
    for start, stop in itertools.pairwise(places):
        chunk = data[start:stop]
        digest = hashlib.sha256(chunk).digest()
        made = record(len(chunk), digest, b"" if digest in known else zlib.compress(chunk, 6))
        found.append({"record": made, "size": len(chunk)})
        known.add(digest)
    return found


def _fingerprints(data: bytes) -> list[int]:
    """The fingerprint of all bytes before each place; those further back than the window have been shifted out."""
    found, gear = [0], GEAR.tolist()
    for byte in data:
        found.append((2 * found[-1] + gear[byte]) & MASK)
    return found


def _starts(prints: list[int]) -> list[int]:
    """Where the first block of each piece begins, and the end."""
    found, size = [0], len(prints) - 1
    for place in range(PIECE, size, PIECE):
        ahead = range(place, min(place + AHEAD, size))
        found.append(next((at for at in ahead if prints[at] < COARSE.below), place))
    return [*found, size]


def _cuts(prints: list[int], starts: list[int], sizes: Sizes) -> list[int]:
    """Each stretch between two starts, cut by content; the ends of all parts, and the first start."""
    found = starts[:1]
    for stop in starts[1:]:
        while found[-1] < stop:
            end = min(found[-1] + sizes.largest, stop)
            places = range(found[-1] + sizes.smallest, end)
            found.append(next((place for place in places if prints[place] < sizes.below), end))
    return found
