"""JSON files with an object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson

from penstock.errors import GraphError, reason_text
from penstock.graph.files.csv import refuse_unknown_types
from penstock.graph.files.file_columns import layout_of
from penstock.graph.files.file_items import FileItems, FilesPlan
from penstock.graph.files.line_blocks import LineBlock, Range, is_text
from penstock.graph.files.paths import File, find
from penstock.graph.files.rows import SAMPLE_BYTES, RowFormat, RowsCut, bodies, parse_rows, short_line
from penstock.graph.source import as_schema

COLUMN = re.compile(r"Column\(/([^)]*)\) changed from (\w+) to (\w+)")
VALUE = re.compile(r"Failed to convert JSON to ([^,]+), couldn't parse:(.*)", re.DOTALL)


def read_items(source: str, path: Any, schema: Any, partitions: bool) -> FileItems:
    """Items of the objects of JSON files; see `read_json`."""
    listing = find(source, path, partitions=partitions, may_be_empty=schema is not None)
    declared = None if schema is None else as_schema(source, schema)
    fields = _infer_schema(source, listing.files) if declared is None else declared
    layout = layout_of(source, fields, listing.files, declared)
    cut = RowsCut(layout, JsonFormat(layout.schema))
    return FileItems(layout.fields, plan=FilesPlan(listing, cut), format="json")


def _infer_schema(source: str, files: Sequence[File]) -> pa.Schema:
    """The fields of the first objects."""
    form = JsonFormat(None)
    for file in files:
        body = next(bodies(form, Range(file, 0, file.size), SAMPLE_BYTES), None) if file.size else None
        if body is None:
            continue
        rows = parse_rows(form, body, None)
        if rows.num_rows:
            return refuse_unknown_types(source, rows.schema)
    if not any(file.size for file in files):
        raise GraphError(
            f"{source}: all files are empty, so that there is no object to infer the fields from; give schema="
        )
    raise GraphError(f"{source}: there must be an object to infer the fields from; got none; give schema=")


@dataclass(frozen=True)
class JsonFormat(RowFormat):
    """An object a line, with fields of these types; a field that is missing is null, and others are not read."""

    blank_starts: ClassVar[list[int]] = list(b" \t\r\n")
    schema: pa.Schema | None

    def drop_header(self, block: LineBlock) -> LineBlock:
        return block

    def parse(self, lines: pa.Buffer, columns: Sequence[str] | None) -> pa.Table:
        if self.schema is None or columns is None:
            options = pajson.ParseOptions()
        else:
            schema = pa.schema([self.schema.field(name) for name in columns])
            options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        reading = pajson.ReadOptions(use_threads=False, block_size=lines.size + 1)
        return pajson.read_json(pa.BufferReader(lines), reading, options)

    def unseen(self, lines: np.ndarray) -> str | None:
        return None if is_text(lines) else "invalid UTF8 data"

    def is_blank(self, line: bytes) -> bool:
        return not line.strip(b" \t\r")

    def line_fault(self, error: str, line: bytes) -> str:
        changed, value = COLUMN.search(error), VALUE.search(error)
        if changed:
            name = changed[1].replace("/", ".")
            return f"the field {name!r} must be a {changed[2]}; got a {changed[3]} in {short_line(line)}; give schema="
        if value:
            names = _fields_with(line, value[2])
            return (
                f"the field {names} must be {value[1]}; got {reason_text(value[2])}; give schema= another type for it"
            )
        told = reason_text(error.removeprefix("JSON parse error: "))
        return f"must be one JSON object, in one line; got {short_line(line)}; {told}"


def _fields_with(line: bytes, text: str) -> str:
    """The names of the fields with a value, which Arrow does not tell."""
    try:
        fields = json.loads(line, parse_float=str, parse_int=str)
        return " or ".join(repr(name) for name, value in fields.items() if value == text) or "inside"
    except (ValueError, AttributeError):
        return "inside"
