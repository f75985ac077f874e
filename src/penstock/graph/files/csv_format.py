"""How a line of CSV becomes a row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from penstock.errors import DataError, GraphError, quoted, reason_text
from penstock.graph.files.line_blocks import LineBlock, after_last_newline
from penstock.graph.files.paths import first_line
from penstock.graph.files.rows import RowFormat, short_line
from penstock.kernels.line_bounds import NEWLINE

COUNT = re.compile(r"Expected (\d+) columns, got (\d+)")
VALUE = re.compile(r"In CSV column #(\d+): .*?CSV conversion error to ([^:]+): (.*)", re.DOTALL)
GOES_ON = "does a value go on in the next line? then say newlines_in_values=True"


@dataclass(frozen=True)
class Dialect:
    """How the values of a line are told apart, and which of them are null (None: empty ones, but no strings)."""

    delimiter: str
    quote: str | None
    nulls: tuple[str, ...] | None

    def refuse(self, source: str) -> None:
        for what, value in (("delimiter", self.delimiter), ("quote", self.quote)):
            if value is None and what == "quote":
                continue
            if not isinstance(value, str) or len(value) != 1 or ord(value) > 127 or value in "\r\n":
                raise GraphError(f"{source}: {what}= must be one ASCII character; got {value!r}")
        if not all(isinstance(null, str) for null in self.nulls or ()):
            raise GraphError(f"{source}: nulls= must be a list of strings; got {self.nulls!r}")

    def parsing(self, **more: Any) -> pacsv.ParseOptions:
        return pacsv.ParseOptions(delimiter=self.delimiter, quote_char=self.quote or False, **more)

    def conversion(self, types: Mapping[str, pa.DataType] | None) -> pacsv.ConvertOptions:
        """Columns of these types, or all columns of types that the values show."""
        return pacsv.ConvertOptions(
            column_types=dict(types or {}),
            include_columns=list(types or ()),
            null_values=[""] if self.nulls is None else list(self.nulls),
            strings_can_be_null=self.nulls is not None,
        )

    def header(self, block: LineBlock) -> tuple[tuple[str, ...], int]:
        """The names in the first line of a file, and where that line ends."""
        newline = np.flatnonzero(block.data == NEWLINE)[:1]
        end = int(newline[0]) + 1 if len(newline) else len(block.data)
        line = block.data[:end].tobytes().rstrip(b"\r\n") + b"\n"
        try:
            table = pacsv.read_csv(pa.BufferReader(line), pacsv.ReadOptions(use_threads=False), self.parsing())
            return tuple(table.schema.names), end
        except (pa.ArrowException, UnicodeDecodeError) as error:
            told = reason_text(first_line(error))
            raise DataError(
                f"{block.file.where}, line 1: must be a header; {told} in {short_line(line)}; "
                "give names= if there is none"
            ) from None


@dataclass(frozen=True)
class CsvFormat(RowFormat):
    """CSV with these columns, all that the files have; of which those in `types` can be read.

    `first` is the file whose header counts, or None where the files have no headers. Before a file with a header was
    found there are no columns, and nothing can be parsed.
    """

    blank_starts: ClassVar[list[int]] = list(b"\r\n")
    dialect: Dialect
    columns: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    first: str | None

    def drop_header(self, block: LineBlock) -> LineBlock:
        if self.first is None:
            return block
        names, end = self.dialect.header(block)
        if names != self.columns:
            raise DataError(
                f"{block.file.where}, line 1: must have the header of {self.first!r}, {quoted(self.columns)}; "
                f"got {quoted(names)}; write the file again, or read it as another source"
            )
        return LineBlock(block.file, block.at + end, block.data[end:])

    def parse(self, lines: pa.Buffer, columns: Sequence[str] | None) -> pa.Table:
        return self._parse(lines, None if columns is None else {name: self.types[name] for name in columns})

    def _parse(self, lines: pa.Buffer, types: Mapping[str, pa.DataType] | None) -> pa.Table:
        options = pacsv.ReadOptions(use_threads=False, column_names=list(self.columns), block_size=lines.size + 1)
        conversion = self.dialect.conversion(types)
        return pacsv.read_csv(pa.BufferReader(lines), options, self.dialect.parsing(), conversion)

    def unseen(self, lines: np.ndarray) -> str | None:
        """Whether a quote is still open at the end: the rest of the value would be taken for another row."""
        if self.dialect.quote is None:
            return None
        line = lines[after_last_newline(lines, 0, len(lines) - 1) :].tobytes().rstrip(b"\r\n")
        if self.dialect.quote.encode() not in line:
            return None
        # With an open quote, a second such line is no second row.
        twice = self._parse(pa.py_buffer(line + b"\n" + line), {self.columns[0]: pa.binary()})
        return None if twice.num_rows == 2 else "a quote is open"

    def is_blank(self, line: bytes) -> bool:
        return not line

    def line_fault(self, error: str, line: bytes) -> str:
        count, value = COUNT.search(error), VALUE.search(error)
        is_open = self.dialect.quote is not None and line.count(self.dialect.quote.encode()) % 2
        if count:
            advice = GOES_ON if is_open else "mend or remove the line"
            return f"must have {count[1]} fields; got {count[2]} in {short_line(line)}; {advice}"
        if value:
            name, got = self.columns[int(value[1])], value[3].removeprefix("invalid value ")
            return f"the field {name!r} must be {value[2]}; got {reason_text(got)}; give schema= another type for it"
        why = "a quote is not closed" if is_open else "it has a line end of another kind in it"
        return f"must be one row; {why} in {short_line(line)}; {GOES_ON}"
