"""The formats of result files: their options, what they can hold, and how a file of each is written."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from penstock.errors import GraphError, quoted
from penstock.spark.files import json_lines

PART_BYTES = 512 << 20
ROW_GROUP_ROWS = 1 << 20
LEVELS = {"gzip": ".gz", "zstd": ".zst"}  # compression of whole files, and the end of their names


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """How the parts of a result are written: the format, its options, and the schema that the rows have."""

    name: str
    schema: pa.Schema
    options: Mapping[str, Any]

    @property
    def operator(self) -> str:
        """The operator of a stream that writes it, for messages."""
        return f"write_{self.name}"

    @property
    def ending(self) -> str:
        """The end of a file's name, with its dots."""
        return f".{self.name}" + ("" if self.name == "parquet" else LEVELS.get(self.options["compression"] or "", ""))

    @property
    def part_bytes(self) -> int:
        """A part that has become larger is closed, and another begun."""
        return int(self.options["part_bytes"])

    def open(self, sink: pa.NativeFile) -> FileWriter:
        """A writer of one file into a stream of bytes."""
        return _WRITERS[self.name](sink, self)


def format_of(name: str, schema: pa.Schema, options: Mapping[str, Any] | None = None) -> ResultFormat:
    """A format with valid options, whose files can hold a schema; else a GraphError that says what to do.

    >>> format_of("json", pa.schema({"id": pa.int64()}), {"compression": "gzip"}).ending
    '.json.gz'
    """
    if name not in _OPTIONS:
        raise GraphError(f"write: the format must be one of {quoted(_OPTIONS)}; got {name!r}")
    given, known = dict(options or {}), _OPTIONS[name]
    for key, value in given.items():
        if key not in known:
            raise GraphError(f"write_{name}: the options are {quoted(known)}; got {key!r}")
        if not known[key].is_valid(value):
            raise GraphError(f"write_{name}: {key} must be {known[key].must}; got {value!r}")
    found = ResultFormat(name, schema, {key: option.default for key, option in known.items()} | given)
    _WRITERS[name].check(found)
    return found


class FileWriter(ABC):
    """Writes batches into one file. A writer that failed is dropped, never closed: closing writes too."""

    def __init__(self, sink: pa.NativeFile, form: ResultFormat) -> None:
        self.sink = sink

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Write what is still held, and what ends a file of this format, and close the sink."""

    def drop(self) -> None:  # noqa: B027, most have nothing to do
        """Never write again. The sink is closed by its owner."""

    @classmethod
    def check(cls, form: ResultFormat) -> None:
        """Refuse a schema that the format cannot hold."""
        for field in form.schema:
            if not cls.holds(field.type):
                raise GraphError(
                    f"{form.operator}: field {field.name!r} is {field.type}, which a {form.name.upper()} file cannot "
                    f"hold; {cls.instead}, or leave the field out with select"
                )

    instead: ClassVar[str]

    @classmethod
    @abstractmethod
    def holds(cls, kind: pa.DataType) -> bool: ...


class ParquetWriter(FileWriter):
    instead = "map it to another type"

    def __init__(self, sink: pa.NativeFile, form: ResultFormat) -> None:
        super().__init__(sink, form)
        given = form.options
        self.file = pa_parquet.ParquetWriter(
            sink,
            form.schema,
            compression=given["compression"] or "none",
            compression_level=given["compression_level"],
            use_dictionary=[path for field in form.schema for path in _worth_a_dictionary(field)],
        )
        self.held: list[pa.RecordBatch] = []
        self.rows, self.group_rows = 0, given["row_group_rows"]

    def write(self, batch: pa.RecordBatch) -> None:
        self.held.append(batch)
        self.rows += batch.num_rows
        if self.rows >= self.group_rows:
            self._flush()

    def _flush(self) -> None:
        """A row group is written at once, so that the size of the file is known and its groups are alike."""
        if self.held:
            self.file.write_table(pa.Table.from_batches(self.held), row_group_size=self.group_rows)
        self.held, self.rows = [], 0

    def close(self) -> None:
        self._flush()
        self.file.close()
        self.sink.close()

    def drop(self) -> None:
        self.file.is_open = False  # else it would write its end, and complain, when it is collected

    @classmethod
    def holds(cls, kind: pa.DataType) -> bool:
        try:
            pa_parquet.write_table(pa.table({"it": pa.nulls(1, kind)}), io.BytesIO())
        except pa.ArrowException:
            return False
        return True


class CsvWriter(FileWriter):
    instead = "write_parquet or write_json can"

    def __init__(self, sink: pa.NativeFile, form: ResultFormat) -> None:
        super().__init__(sink, form)
        given = form.options
        how = pa_csv.WriteOptions(include_header=given["header"], delimiter=given["delimiter"])
        self.inner = _compress(sink, given["compression"])
        self.file = pa_csv.CSVWriter(self.inner, form.schema, write_options=how)

    def write(self, batch: pa.RecordBatch) -> None:
        self.file.write_batch(batch)

    def close(self) -> None:
        self.file.close()
        self.inner.close()

    @classmethod
    def holds(cls, kind: pa.DataType) -> bool:
        if pa.types.is_nested(kind) or _is_bytes(kind):
            return False
        try:
            pa_csv.write_csv(pa.table({"it": pa.nulls(1, kind)}), io.BytesIO())
        except pa.ArrowException:
            return False
        return True


class JsonWriter(FileWriter):
    instead = "write_parquet can"

    def __init__(self, sink: pa.NativeFile, form: ResultFormat) -> None:
        super().__init__(sink, form)
        self.inner = _compress(sink, form.options["compression"])

    def write(self, batch: pa.RecordBatch) -> None:
        for text in json_lines.lines(batch):
            self.inner.write(text)

    def close(self) -> None:
        self.inner.close()

    @classmethod
    def holds(cls, kind: pa.DataType) -> bool:
        return json_lines.holds(kind)


def _compress(sink: pa.NativeFile, compression: str | None) -> pa.NativeFile:
    return sink if compression is None else pa.CompressedOutputStream(sink, compression)


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


@dataclass(frozen=True, slots=True)
class _Option:
    """An option of a format: its default, the test that a value must pass, and that test in words."""

    default: Any
    is_valid: Callable[[Any], bool]
    must: str


_PART_BYTES = _Option(PART_BYTES, _is_whole, "a whole number of at least 1")
_WHOLE_FILE = _Option(None, lambda value: value is None or value in LEVELS, "'gzip', 'zstd' or None")

_WRITERS: dict[str, type[FileWriter]] = {"parquet": ParquetWriter, "csv": CsvWriter, "json": JsonWriter}

_OPTIONS: dict[str, dict[str, _Option]] = {
    "parquet": {
        "compression": _Option(
            "snappy",
            lambda value: value is None or value in ("snappy", "zstd", "gzip", "lz4"),
            "'snappy', 'zstd', 'gzip', 'lz4' or None",
        ),
        "compression_level": _Option(None, lambda value: value is None or _is_whole(value), "a whole number or None"),
        "row_group_rows": _Option(ROW_GROUP_ROWS, _is_whole, "a whole number of at least 1"),
        "part_bytes": _PART_BYTES,
    },
    "csv": {
        "header": _Option(True, lambda value: isinstance(value, bool), "True or False"),
        "delimiter": _Option(",", lambda value: isinstance(value, str) and len(value) == 1, "one character"),
        "compression": _WHOLE_FILE,
        "part_bytes": _PART_BYTES,
    },
    "json": {"compression": _WHOLE_FILE, "part_bytes": _PART_BYTES},
}


def _worth_a_dictionary(field: pa.Field) -> list[str]:
    """The column of a field, unless it holds floats: these seldom repeat, and to look for it takes half the time."""
    inner, path = field.type, field.name
    while pa.types.is_nested(inner):
        inner, path = inner.value_type, f"{path}.list.element"
    return [] if pa.types.is_floating(inner) else [path]


def is_option(format: str, name: str) -> bool:
    """Whether a format has an option of this name."""
    return name in _OPTIONS.get(format, {})
