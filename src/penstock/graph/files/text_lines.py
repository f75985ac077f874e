"""Files of text: an item a line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import GraphError
from penstock.graph.files.file_columns import FileColumns, layout_of
from penstock.graph.files.file_items import FileItems, FilesPlan
from penstock.graph.files.folder_fields import constants
from penstock.graph.files.line_blocks import (
    BLOCK_BYTES,
    LineBlock,
    Range,
    blocks,
    is_text,
    place,
    ranges,
    refuse_bad_text,
)
from penstock.graph.files.paths import File, find
from penstock.graph.split import BAD, Split, bad_record, join_splits
from penstock.kernels.line_bounds import NEWLINE, line_bounds

RETURN = ord("\r")


def read_items(
    source: str, path: object, line: str, file: str | None, offset: str | None, partitions: bool
) -> FileItems:
    """Items of the lines of text files; see `read_text`."""
    named = [(line, pa.string()), (file, pa.string()), (offset, pa.int64())]
    for name, _ in named:
        if name is not None and not isinstance(name, str):
            raise GraphError(f"{source}: the name of a field must be a string; got {name!r}")
    listing = find(source, path, partitions=partitions, may_be_empty=True)
    schema = pa.schema([(name, t) for name, t in named if name is not None])
    layout = layout_of(source, schema, listing.files, None)
    cut = TextCut(TextFields(layout, line, file, offset))
    return FileItems(layout.fields, plan=FilesPlan(listing, cut), format="text")


@dataclass(frozen=True)
class TextFields:
    """The names of the fields of a line; those of its file and offset where they are asked for."""

    layout: FileColumns
    line: str
    file: str | None
    offset: str | None


@dataclass(frozen=True)
class TextCut:
    """Cuts text files into splits."""

    fields: TextFields

    def __call__(self, files: Sequence[File], about_bytes: int, *_: Any) -> Sequence[Split]:
        return join_splits(
            (Lines(self.fields, part) for file in files for part in ranges(file, about_bytes)), about_bytes
        )


@dataclass(frozen=True)
class Lines(Split):
    """The lines that begin in a range of a text file."""

    fields: TextFields
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
        is_tolerant = columns is not None and BAD in columns
        flat, _ = self.fields.layout.columns_to_read(
            None if columns is None else [name for name in columns if name != BAD]
        )
        given = constants(self.range.file, self.fields.layout.keys)
        given[self.fields.file or ""] = pa.scalar(self.range.file.path)
        scratch = LineMemory()
        for block in blocks(self.range):
            if not is_tolerant:
                refuse_bad_text(block)
            bad = _bad_lines(block) if is_tolerant else {}
            made = scratch.columns(block if not bad else _replace_bad_lines(block, bad), self.fields, flat)
            rows = len(next(iter(made.values())))
            arrays = [made[name] if name in made else pa.repeat(given[name], rows) for name in flat]
            whole = pa.RecordBatch.from_arrays(arrays, names=flat)
            if is_tolerant:
                whole = whole.append_column(BAD, _fault_column(block, bad, rows))
            for start in range(0, rows, at_most):
                yield whole.slice(start, at_most)


def _bad_lines(block: LineBlock) -> dict[int, tuple[int, int]]:
    """The lines of a block that are no text, by their numbers: where each begins and ends."""
    if is_text(block.data):
        return {}
    ends = [*(np.flatnonzero(block.data == NEWLINE) + 1).tolist()]
    ends += [len(block.data)] if not ends or ends[-1] < len(block.data) else []
    bounds = enumerate(zip([0, *ends], ends, strict=False))
    return {at: (start, stop) for at, (start, stop) in bounds if not is_text(block.data[start:stop])}


def _replace_bad_lines(block: LineBlock, bad: dict[int, tuple[int, int]]) -> LineBlock:
    """The same lines, with a question mark for every byte of those that are no text, so that they can be told apart."""
    data = block.data.copy()
    for start, stop in bad.values():
        line = data[start:stop]
        line[(line != NEWLINE) & (line != RETURN)] = ord("?")
    return LineBlock(block.file, block.at, data)


def _fault_column(block: LineBlock, bad: dict[int, tuple[int, int]], rows: int) -> pa.Array:
    told: list[str | None] = [None] * rows
    for at, (start, stop) in bad.items():
        record = block.data[start:stop].tobytes().rstrip(b"\r\n").decode(errors="backslashreplace")
        where = place(block.file, block.at + start)
        told[at] = bad_record("must be text in UTF-8", block.file.path, where, record)
    return pa.array(told, pa.string())


class LineMemory:
    """Memory that is used again for each block: only as much of it as there are lines is ever touched."""

    def __init__(self) -> None:
        self.bounds = np.empty(2 * BLOCK_BYTES + 3, np.int32)
        self.even = np.arange(0, 1 << 16, 2, dtype=np.int32)

    def columns(self, block: LineBlock, fields: TextFields, flat: Sequence[str]) -> dict[str, pa.Array]:
        """The lines without their ends, copied out of the block, or the places where they begin, or both."""
        data = block.data
        if 2 * len(data) + 3 > len(self.bounds):
            self.bounds = np.empty(2 * len(data) + 3, np.int32)
        count = line_bounds(data, data[: len(data) // 8 * 8].view(np.uint64), self.bounds)
        if count > 2 * len(self.even):
            self.even = np.arange(0, 2 * count, 2, dtype=np.int32)
        lines = count // 2
        made: dict[str, pa.Array] = {}
        if fields.offset in flat:
            made[fields.offset or ""] = pa.array(block.at + self.bounds[: 2 * lines : 2].astype(np.int64))
        if fields.line in flat or not made:
            # Lines and line ends alternate without a gap, so that they are an array as they lie; every other is a line.
            both = pa.StringArray.from_buffers(2 * lines, pa.py_buffer(self.bounds), block.buffer)
            made[fields.line] = both.take(pa.array(self.even[:lines]))
        return made
