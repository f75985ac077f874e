"""Byte ranges of files of lines: each line belongs to the range in which it begins, and is read exactly once.

A file is cut at any bytes. The lines of a range begin with the first line that begins in it and end with the last that
does, even where that one ends far beyond. So the ranges of a file give all its lines, in order, however it is cut.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import DataError
from penstock.graph.files.paths import File, first_line

BLOCK_BYTES = 2 << 20
"""Small enough to stay in the caches between the steps that look at it, and large enough to be a good batch."""

LOOK_BYTES = 64 << 10
LONGEST_LINE = (1 << 31) - 1
COUNTED_BYTES = 256 << 20
"""A line's number is told where at most so many bytes must be read to count it."""

COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
MARK = b"\xef\xbb\xbf"
"""What some programs put before the first character of a text in UTF-8."""


def compression(file: File) -> str | None:
    return next((how for ending, how in COMPRESSED.items() if file.path.endswith(ending)), None)


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a file, from `start` to before `stop`. A compressed file is one range."""

    file: File
    start: int
    stop: int

    @property
    def label(self) -> str:
        is_whole = self.start == 0 and self.stop == self.file.size
        return self.file.name if is_whole else f"{self.file.name}, bytes {self.start} to {self.stop}"


def ranges(file: File, about_bytes: int) -> Iterator[Range]:
    """A file cut into ranges of about so many bytes, all of one size or one byte less. An empty file has none."""
    count = 1 if compression(file) else -(-file.size // max(1, about_bytes))
    if file.size:
        cuts = [file.size * at // count for at in range(count + 1)]
        yield from (Range(file, start, stop) for start, stop in itertools.pairwise(cuts))


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines, and where in the file the first begins. The bytes are valid only until the next block is asked for.

    The data begin at an address that eight divides.
    """

    file: File
    at: int
    data: np.ndarray

    @property
    def buffer(self) -> pa.Buffer:
        return pa.py_buffer(self.data)


def blocks(given: Range, block_bytes: int = BLOCK_BYTES) -> Iterator[LineBlock]:
    """The lines of a range, many at a time. Memory is bounded by the block, or by the longest line."""
    with open_file(given.file) as stream:
        if compression(given.file):
            yield from _blocks(given.file, stream, 0, None, block_bytes)
            return
        begin = _line_start(stream, given.start, given.stop)
        if begin < given.stop:
            end = _line_start(stream, given.stop, given.file.size)
            stream.seek(begin)
            yield from _blocks(given.file, stream, begin, end - begin, block_bytes)


@contextlib.contextmanager
def open_file(file: File) -> Iterator[Any]:
    """The bytes of a file, as one can read them; what the file system says is said in our words."""
    try:
        how = compression(file)
        if how:
            stream = file.filesystem.open_input_stream(file.path, compression=how, buffer_size=1 << 20)
        else:
            stream = file.filesystem.open_input_file(file.path)
        with stream:
            yield stream
    except (OSError, pa.ArrowException) as error:
        if compression(file) and not isinstance(error, (FileNotFoundError, PermissionError)):
            raise DataError(
                f"{file.where}: must be {compression(file)} data, as its name says; {first_line(error)}; is it whole?"
            ) from None
        raise file.unreadable(error) from None


def _line_start(stream: Any, at: int, limit: int) -> int:
    """Where the first line begins that does so at or after `at`, or `limit` where that is not before it."""
    if at == 0 or at >= limit:
        return min(at, limit)
    stream.seek(at - 1)
    at -= 1
    while at < limit:
        data = stream.read(min(LOOK_BYTES, limit - at))
        if not data:
            break
        newline = int(data.find(b"\n"))
        if newline >= 0:
            return min(at + newline + 1, limit)
        at += len(data)
    return limit


def _blocks(file: File, stream: Any, at: int, length: int | None, block_bytes: int) -> Iterator[LineBlock]:
    """Blocks of so many bytes of a stream, or of all of it; `at` is where they begin in the file."""
    held, used, left = _room(block_bytes), 0, length
    while True:
        if used == len(held):  # one line fills the whole block
            held = _grow(file, at, held)
        got = stream.readinto(held[used:] if left is None else held[used : used + left])
        if left is not None:
            left -= got
            if got == 0 and left:
                raise DataError(f"{file.where}: must have {file.size} bytes, as when it was found; it has fewer now")
        is_last = got == 0
        used += got
        end = used if is_last or left == 0 else after_last_newline(held, used - got, used)
        if end:
            yield LineBlock(file, at, held[:end])
            # The beginning of the next line is moved to the front.
            held[: used - end] = held[end:used].copy()
            used, at = used - end, at + end
        if is_last or left == 0:
            return


def _room(size: int) -> np.ndarray:
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def _grow(file: File, at: int, held: np.ndarray) -> np.ndarray:
    if len(held) >= LONGEST_LINE:
        raise DataError(f"{file.where}: a line must be shorter than {LONGEST_LINE} bytes; that at byte {at} is not")
    larger = _room(min(2 * len(held), LONGEST_LINE))
    larger[: len(held)] = held
    return larger


def after_last_newline(held: np.ndarray, start: int, stop: int) -> int:
    """The place after the last newline between two places, or 0. Looks from the end, since that is near."""
    step = LOOK_BYTES
    while stop > start:
        begin = max(start, stop - step)
        newline = held[begin:stop].tobytes().rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        stop = begin
    return 0


def is_text(data: np.ndarray) -> bool:
    """Whether bytes are UTF-8. A newline is never inside a character, so this can be told of any lines."""
    whole = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data))
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def refuse_bad_text(block: LineBlock) -> None:
    """Refuse bytes that are not UTF-8."""
    if is_text(block.data):
        return
    try:
        block.data.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        where, byte = place(block.file, block.at + error.start), block.data[error.start]
        raise DataError(
            f"{block.file.where}: must be text in UTF-8; it is not at {where} (0x{byte:02x}); convert the file to UTF-8"
        ) from None


def place(file: File, at: int) -> str:
    """A place in a file for messages: the byte, and the line where that is quickly counted."""
    inside = " of what is compressed in it" if compression(file) else ""
    if at > COUNTED_BYTES:
        return f"byte {at}{inside}"
    number, left = 1, at
    with open_file(file) as stream:
        while left:
            data = stream.read(min(BLOCK_BYTES, left))
            if not data:
                break
            number += data.count(b"\n")
            left -= len(data)
    return f"line {number}, byte {at}{inside}"
