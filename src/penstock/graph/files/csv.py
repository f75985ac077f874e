"""CSV files: a line a row, cut at line ends; or whole files, where values may hold line ends."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from penstock.errors import DataError, GraphError, quoted
from penstock.graph import types
from penstock.graph.files.csv_format import CsvFormat, Dialect
from penstock.graph.files.file_columns import FileColumns, layout_of
from penstock.graph.files.file_items import FileItems, FilesPlan
from penstock.graph.files.line_blocks import Range, blocks, open_file, ranges, refuse_bad_text
from penstock.graph.files.paths import File, find, first_line
from penstock.graph.files.rows import SAMPLE_BYTES, RowsSplit, bodies, parse_rows, without_mark
from penstock.graph.source import as_schema
from penstock.graph.split import Split, join_splits

ROW_BYTES = 8 << 20
"""A row with line ends in it must fit into so much, since Arrow reads such a file by blocks of one size."""


def read_items(
    source: str, path: Any, schema: Any, names: Any, dialect: Dialect, newlines_in_values: bool, partitions: bool
) -> FileItems:
    """Items of the rows of CSV files; see `read_csv`."""
    dialect.refuse(source)
    listing = find(source, path, partitions=partitions, may_be_empty=schema is not None)
    filled = [file for file in listing.files if file.size]
    declared = None if schema is None else as_schema(source, schema)
    form = CsvFormat(dialect, *_columns(source, names, filled, dialect, declared))
    fields = _infer_schema(source, form, filled, newlines_in_values) if declared is None else declared
    layout = layout_of(source, fields, listing.files, declared)
    _refuse(source, layout, form)
    form = replace(form, types=dict(zip(layout.schema.names, layout.schema.types, strict=True)))
    plan = FilesPlan(listing, CsvCut(layout, form, newlines_in_values))
    return FileItems(layout.fields, plan=plan, format="csv")


@dataclass(frozen=True)
class CsvCut:
    """Cuts CSV files into splits: of lines, or of whole files where only a parser knows where a row ends."""

    layout: FileColumns
    form: CsvFormat
    is_whole: bool

    def __call__(self, files: Sequence[File], about_bytes: int, *_: Any) -> Sequence[Split]:
        return join_splits((part for file in files for part in self._parts(file, about_bytes)), about_bytes)

    def _parts(self, file: File, about_bytes: int) -> Iterator[Split]:
        form = self.form if self.form.columns else self._told_by(file)
        if form is None or not file.size:
            return
        if self.is_whole:
            yield WholeCsv(self.layout, form, file)
        else:
            yield from (RowsSplit(self.layout, form, part) for part in ranges(file, about_bytes))

    def _told_by(self, file: File) -> CsvFormat | None:
        """The format with the columns of a file, or None where that is empty.

        No header was there when the stream was built, so each file may have the columns of the schema and others.
        """
        columns = _header(file, self.form.dialect)
        if columns is None:
            return None
        where = f"{file.where}, line 1"
        if len(set(columns)) < len(columns):
            raise DataError(f"{where}: columns must have different names; got {quoted(columns)}; give names=")
        for name in self.form.types:
            if name not in columns:
                raise DataError(
                    f"{where}: must name the column {name!r}, as schema= does; got {quoted(columns)}"
                    f"{types.nearest(name, columns)}; write the file again, or read it as another source"
                )
        return replace(self.form, columns=columns, first=file.path)


def _header(file: File, dialect: Dialect) -> tuple[str, ...] | None:
    """The names in the first line of a file, or None where it is empty, also when that is compressed."""
    head = next(blocks(Range(file, 0, file.size), SAMPLE_BYTES), None) if file.size else None
    return None if head is None else dialect.header(without_mark(head))[0]


def _columns(
    source: str, names: Any, filled: Sequence[File], dialect: Dialect, declared: pa.Schema | None
) -> tuple[tuple[str, ...], dict[str, pa.DataType], str | None]:
    """The columns of the files, no types yet, and the file whose header tells them, if one does.

    No columns where there is no header yet.
    """
    if names is not None:
        if isinstance(names, str) or not names or not all(isinstance(name, str) for name in names):
            raise GraphError(f"{source}: names= must be the names of all columns, in their order; got {names!r}")
        columns, first = tuple(names), None
    else:
        headers = ((_header(file, dialect), file.path) for file in filled)
        columns, first = next(((found, path) for found, path in headers if found is not None), ((), ""))
        if not columns and declared is None:
            raise GraphError(f"{source}: all files are empty, so that there is no header; give schema=")
    if len(set(columns)) < len(columns):
        raise GraphError(f"{source}: columns must have different names; got {quoted(columns)}; give names=")
    return columns, {}, first


def _infer_schema(source: str, form: CsvFormat, filled: Sequence[File], newlines_in_values: bool) -> pa.Schema:
    """The columns with types that the first rows show."""
    for file in filled:
        if newlines_in_values:
            rows = _sample(form, file)
        else:
            body = next(bodies(form, Range(file, 0, file.size), SAMPLE_BYTES), None)
            if body is not None:
                refuse_bad_text(body)
            rows = None if body is None else parse_rows(form, body, None)
        if rows is not None and rows.num_rows:
            return refuse_unknown_types(source, rows.schema)
    raise GraphError(f"{source}: there must be a row to infer the types of the columns from; got none; give schema=")


def refuse_unknown_types(source: str, schema: pa.Schema) -> pa.Schema:
    for field in schema:
        if pa.types.is_null(field.type):
            raise GraphError(
                f"{source}: the type of {field.name!r} must be told by the first rows; all are null; give schema="
            )
    return schema


def _refuse(source: str, layout: FileColumns, form: CsvFormat) -> None:
    for field in layout.schema:
        if form.columns and field.name not in form.columns:
            raise GraphError(
                f"{source}: schema= must name columns of the files; {field.name!r} is none of {quoted(form.columns)}"
                f"{types.nearest(field.name, form.columns)}"
            )
        if not (types.is_scalar(field.type) or types.is_text(field.type)):
            raise GraphError(
                f"{source}: a field of CSV must be a number, a time, a boolean or a string; {field.name!r} is "
                f"{field.type}; read it as a string"
            )


# Values that hold line ends: only a parser that begins with the file knows where a row ends.


def _stream(form: CsvFormat, source: Any, columns: Sequence[str] | None) -> Any:
    names = None if form.first is not None else list(form.columns)
    types = None if columns is None else {name: form.types[name] for name in columns}
    return pacsv.open_csv(
        source,
        pacsv.ReadOptions(use_threads=False, column_names=names, block_size=ROW_BYTES),
        form.dialect.parsing(newlines_in_values=True),
        form.dialect.conversion(types),
    )


def _sample(form: CsvFormat, file: File) -> pa.Table | None:
    with open_file(file) as source, _explain_errors(file):
        reader = _stream(form, source, None)
        batch = next(iter(reader), None)
        return None if batch is None else pa.Table.from_batches([batch])


@contextlib.contextmanager
def _explain_errors(file: File) -> Iterator[None]:
    """Says in our words what Arrow says of a file that it reads row by row."""
    try:
        yield
    except pa.ArrowException as error:
        if "straddling" in str(error):
            raise DataError(
                f"{file.where}: a row must have at most {ROW_BYTES} bytes; one has more; is a quote not closed?"
            ) from None
        raise DataError(f"{file.where}: must be CSV; {first_line(error)}; mend the row") from None


@dataclass(frozen=True)
class WholeCsv(Split):
    """A CSV file that is read from its beginning to its end."""

    layout: FileColumns
    form: CsvFormat
    file: File

    @property
    def label(self) -> str:
        return self.file.name

    @property
    def bytes(self) -> int:
        return self.file.size

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        flat, roots = self.layout.columns_to_read(columns)
        head = next(blocks(Range(self.file, 0, self.file.size), SAMPLE_BYTES), None)
        if head is None:  # nothing was compressed in it
            return
        self.form.drop_header(without_mark(head))
        with open_file(self.file) as source, _explain_errors(self.file):
            for batch in _stream(self.form, source, roots):
                for start in range(0, batch.num_rows, at_most):
                    yield self.layout.convert(batch.slice(start, at_most), self.file, flat)
