"""Files in which each line is a row, as in CSV and in JSON: parsed block by block, with the place of what is wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.errors import HIDDEN, DataError, hides_values
from penstock.graph.files.file_columns import FileColumns
from penstock.graph.files.line_blocks import BLOCK_BYTES, MARK, LineBlock, Range, blocks, place, ranges, refuse_bad_text
from penstock.graph.files.paths import File
from penstock.graph.split import BAD, Split, bad_record, join_splits
from penstock.kernels.line_bounds import NEWLINE

SHOWN_BYTES = 80
SAMPLE_BYTES = 1 << 20
"""Types are inferred from about so much."""


class RowFormat(ABC):
    """How the lines of a file become rows."""

    blank_starts: ClassVar[list[int]]
    """The bytes with which a blank line, or its end, begins."""

    @abstractmethod
    def drop_header(self, block: LineBlock) -> LineBlock:
        """The first block of a file without what stands before its rows."""

    @abstractmethod
    def parse(self, lines: pa.Buffer, columns: Sequence[str] | None) -> pa.Table:
        """The rows of some lines: those columns only, or all that are there. Raises errors of Arrow."""

    @abstractmethod
    def unseen(self, lines: np.ndarray) -> str | None:
        """What is wrong with lines that the parser took, if anything."""

    @abstractmethod
    def is_blank(self, line: bytes) -> bool:
        """Whether a line has no row in it."""

    @abstractmethod
    def line_fault(self, error: str, line: bytes) -> str:
        """What is wrong with a line, from what Arrow says of it: what must be, what was, what to do."""


@dataclass(frozen=True)
class RowsSplit(Split):
    """The rows of the lines that begin in a range of a file."""

    layout: FileColumns
    format: RowFormat
    range: Range

    @property
    def label(self) -> str:
        return self.range.label

    @property
    def bytes(self) -> int:
        return self.range.stop - self.range.start

    @property
    def tells_bad(self) -> bool:
        return True

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        if columns is not None and BAD in columns:
            yield from self._read_tolerant([name for name in columns if name != BAD], at_most)
            return
        flat, roots = self.layout.columns_to_read(columns)
        for block in bodies(self.format, self.range):
            for batch in parse_rows(self.format, block, roots).to_batches(max_chunksize=at_most):
                yield self.layout.convert(batch, self.range.file, flat)

    def _read_tolerant(self, columns: Collection[str], at_most: int) -> Iterator[pa.RecordBatch]:
        flat, roots = self.layout.columns_to_read(columns)
        schema = pa.schema([self.layout.schema.field(name) for name in roots])
        for block in bodies(self.format, self.range):
            for table, told in tolerant(self.format, block, roots, schema):
                for batch in table.to_batches(max_chunksize=at_most):
                    made = self.layout.convert(batch, self.range.file, flat)
                    yield made.append_column(BAD, pa.repeat(pa.scalar(told, pa.string()), batch.num_rows))


@dataclass(frozen=True)
class RowsCut:
    """Cuts files into splits of rows."""

    layout: FileColumns
    format: RowFormat

    def __call__(self, files: Sequence[File], about_bytes: int, *_: Any) -> Sequence[Split]:
        parts = (part for file in files for part in ranges(file, about_bytes))
        return join_splits((RowsSplit(self.layout, self.format, part) for part in parts), about_bytes)


def bodies(form: RowFormat, given: Range, block_bytes: int = BLOCK_BYTES) -> Iterator[LineBlock]:
    """The lines of a range that are rows."""
    for block in blocks(given, block_bytes):
        body = form.drop_header(without_mark(block)) if block.at == 0 else block
        if len(body.data):
            yield body


def without_mark(block: LineBlock) -> LineBlock:
    """The first block of a file without the mark that some programs put before a text."""
    skip = len(MARK) if block.data[: len(MARK)].tobytes() == MARK else 0
    return LineBlock(block.file, block.at + skip, block.data[skip:])


def parse_rows(form: RowFormat, block: LineBlock, columns: Sequence[str] | None) -> pa.Table:
    """The rows of a block, one for each line that is not blank; or an error with the place of the first that is bad."""
    try:
        table = form.parse(block.buffer, columns)
    except pa.ArrowException:
        raise _first_error(form, block, columns) from None
    if not _is_row_each(form, table, block.data) or form.unseen(block.data) is not None:
        raise _first_error(form, block, columns)
    return table


def tolerant(
    form: RowFormat, block: LineBlock, columns: Sequence[str], schema: pa.Schema
) -> Iterator[tuple[pa.Table, str | None]]:
    """The rows of a block, in order, in pieces: those of good lines; each bad one as a row of nulls, with the reason.

    A block that is not good as a whole is halved, and so on, so that a few bad lines cost a few times their logarithm.
    """
    try:
        yield parse_rows(form, block, columns), None
        return
    except DataError as error:
        ends = _ends(block.data)
        if len(ends) == 1:
            yield _bad_line(block, schema, error)
            return
    middle = int(ends[len(ends) // 2 - 1])
    for start, stop in ((0, middle), (middle, len(block.data))):
        yield from tolerant(
            form, LineBlock(block.file, block.at + start, block.data[start:stop].copy()), columns, schema
        )


def _bad_line(block: LineBlock, schema: pa.Schema, error: DataError) -> tuple[pa.Table, str]:
    """A row of nulls for a line that is bad, and what is wrong with it."""
    nulls = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
    where = place(block.file, block.at)
    said = str(error).removeprefix(f"{block.file.where}, {where}: ")
    record = block.data.tobytes().rstrip(b"\r\n").decode(errors="backslashreplace")
    return nulls, bad_record(said, block.file.path, where, record)


def _is_row_each(form: RowFormat, table: pa.Table, data: np.ndarray) -> bool:
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


def _first_error(form: RowFormat, block: LineBlock, columns: Sequence[str] | None) -> DataError:
    """The error of the first line that is bad: found by parsing the first half of the lines, and so on."""
    ends = _ends(block.data)
    good, bad = 0, len(ends)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _error_text(form, block.data[: ends[middle - 1]], columns) is None:
            good = middle
        else:
            bad = middle
    start = int(ends[good - 1]) if good else 0
    line = block.data[start : ends[bad - 1]]
    said = _error_text(form, line, columns) or "it and the lines before it do not give a row each"
    if "UTF8" in said:
        refuse_bad_text(LineBlock(block.file, block.at + start, line))
    text = line.tobytes().rstrip(b"\r\n")
    where = place(block.file, block.at + start)
    return DataError(f"{block.file.where}, {where}: {form.line_fault(said, text)}")


def _error_text(form: RowFormat, data: np.ndarray, columns: Sequence[str] | None) -> str | None:
    """What is wrong with some lines, or None."""
    try:
        table = form.parse(pa.py_buffer(data), columns)
    except pa.ArrowException as error:
        return str(error)
    return form.unseen(data) if _is_row_each(form, table, data) else "the lines do not give a row each"


def short_line(line: bytes) -> str:
    """A line for a message."""
    if hides_values():
        return HIDDEN
    text = line[:SHOWN_BYTES].decode("utf-8", "replace")
    return repr(text) if len(line) <= SHOWN_BYTES else f"{text!r}..."
