"""Files in which each line is a row, as in CSV and in JSON: parsed block by block, with the place of what is wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.errors import DataError
from penstock.graph.files.layout import Layout
from penstock.graph.files.lines import BLOCK_BYTES, MARK, Block, Range, blocks, place, ranges, refuse_bad_text
from penstock.graph.files.paths import File
from penstock.graph.split import Split, joined
from penstock.kernels.lines import NEWLINE

SHOWN_BYTES = 80
SAMPLE_BYTES = 1 << 20
"""Types are inferred from about so much."""


class Format(ABC):
    """How the lines of a file become rows."""

    blank_starts: ClassVar[list[int]]
    """The bytes with which a blank line, or its end, begins."""

    @abstractmethod
    def begun(self, block: Block) -> Block:
        """The first block of a file without what stands before its rows."""

    @abstractmethod
    def parsed(self, lines: pa.Buffer, columns: Sequence[str] | None) -> pa.Table:
        """The rows of some lines: those columns only, or all that are there. Raises errors of Arrow."""

    @abstractmethod
    def unseen(self, lines: np.ndarray) -> str | None:
        """What is wrong with lines that the parser took, if anything."""

    @abstractmethod
    def is_blank(self, line: bytes) -> bool:
        """Whether a line has no row in it."""

    @abstractmethod
    def explained(self, error: str, line: bytes) -> str:
        """What is wrong with a line, from what Arrow says of it: what must be, what was, what to do."""


@dataclass(frozen=True)
class Rows(Split):
    """The rows of the lines that begin in a range of a file."""

    layout: Layout
    format: Format
    range: Range

    @property
    def label(self) -> str:
        return self.range.label

    @property
    def bytes(self) -> int:
        return self.range.stop - self.range.start

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        flat, roots = self.layout.wanted(columns)
        for block in bodies(self.format, self.range):
            for batch in parsed(self.format, block, roots).to_batches(max_chunksize=at_most):
                yield self.layout.finished(batch, self.range.file, flat)


@dataclass(frozen=True)
class RowsCut:
    """Cuts files into splits of rows."""

    layout: Layout
    format: Format

    def __call__(self, files: Sequence[File], about_bytes: int, *_: Any) -> Sequence[Split]:
        parts = (part for file in files for part in ranges(file, about_bytes))
        return joined((Rows(self.layout, self.format, part) for part in parts), about_bytes)


def bodies(form: Format, given: Range, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """The lines of a range that are rows."""
    for block in blocks(given, block_bytes):
        body = form.begun(without_mark(block)) if block.at == 0 else block
        if len(body.data):
            yield body


def without_mark(block: Block) -> Block:
    """The first block of a file without the mark that some programs put before a text."""
    skip = len(MARK) if block.data[: len(MARK)].tobytes() == MARK else 0
    return Block(block.file, block.at + skip, block.data[skip:])


def parsed(form: Format, block: Block, columns: Sequence[str] | None) -> pa.Table:
    """The rows of a block, one for each line that is not blank; or an error with the place of the first that is bad."""
    try:
        table = form.parsed(block.buffer, columns)
    except pa.ArrowException:
        raise _located(form, block, columns) from None
    if not _is_row_each(form, table, block.data) or form.unseen(block.data) is not None:
        raise _located(form, block, columns)
    return table


def _is_row_each(form: Format, table: pa.Table, data: np.ndarray) -> bool:
    """Whether there is a row for each line. What the cuts of a file make of it would be chance, if there were not."""
    ends = _ends(data)
    starts = np.concatenate(([0], ends[:-1]))
    maybe = np.flatnonzero(np.isin(data[starts], form.blank_starts))
    blanks = sum(form.is_blank(data[starts[at] : ends[at]].tobytes().rstrip(b"\r\n")) for at in maybe)
    return bool(table.num_rows == len(ends) - blanks)


def _ends(data: np.ndarray) -> np.ndarray:
    """The place after each line."""
    ends = np.flatnonzero(data == NEWLINE) + 1
    return ends if data[-1] == NEWLINE else np.append(ends, len(data))


def _located(form: Format, block: Block, columns: Sequence[str] | None) -> DataError:
    """The error of the first line that is bad: found by parsing the first half of the lines, and so on."""
    ends = _ends(block.data)
    good, bad = 0, len(ends)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _said(form, block.data[: ends[middle - 1]], columns) is None:
            good = middle
        else:
            bad = middle
    start = int(ends[good - 1]) if good else 0
    line = block.data[start : ends[bad - 1]]
    said = _said(form, line, columns) or "it and the lines before it do not give a row each"
    if "UTF8" in said:
        refuse_bad_text(Block(block.file, block.at + start, line))
    text = line.tobytes().rstrip(b"\r\n")
    where = place(block.file, block.at + start)
    return DataError(f"{block.file.where}, {where}: {form.explained(said, text)}")


def _said(form: Format, data: np.ndarray, columns: Sequence[str] | None) -> str | None:
    """What is wrong with some lines, or None."""
    try:
        table = form.parsed(pa.py_buffer(data), columns)
    except pa.ArrowException as error:
        return str(error)
    return form.unseen(data) if _is_row_each(form, table, data) else "the lines do not give a row each"


def shown(line: bytes) -> str:
    """A line for a message."""
    text = line[:SHOWN_BYTES].decode("utf-8", "replace")
    return repr(text) if len(line) <= SHOWN_BYTES else f"{text!r}..."
