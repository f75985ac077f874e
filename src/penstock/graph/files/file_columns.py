"""What is read of each file: the columns that all files share, and the fields that partition folders give."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.errors import DataError, GraphError, quoted
from penstock.graph.files.folder_fields import constants, key_types, refuse_clash, refuse_unsupported
from penstock.graph.files.paths import File
from penstock.graph.flat import empty, flatten
from penstock.graph.source import fields_of
from penstock.graph.split import choose_columns


@dataclass(frozen=True)
class FileColumns:
    """The fields of the items of a source of files.

    Invariant: `schema` holds the columns of the files, `keys` the fields of the folders; no name is in both.
    """

    source: str
    schema: pa.Schema
    keys: Mapping[str, pa.DataType]
    is_declared: bool
    """Whether the user gave the schema: then the files may have more columns, and other types that can be converted."""

    @cached_property
    def fields(self) -> dict[str, pa.DataType]:
        """All fields, flat: those of the files and then those of the folders."""
        return self.own_fields | dict(self.keys)

    @cached_property
    def own_fields(self) -> dict[str, pa.DataType]:
        return {field.name: field.type for field in empty(self.schema).schema}

    @cached_property
    def roots(self) -> dict[str, str]:
        """The column of the files that each of their fields is made of."""
        return {flat: field.name for field in self.schema for flat in empty(pa.schema([field])).schema.names}

    def columns_to_read(self, columns: Collection[str] | None) -> tuple[list[str], list[str]]:
        """The flat columns to give, and the columns to read in the files for them: at least one, to know the rows."""
        flat = choose_columns(self.fields, columns)
        own = choose_columns(self.own_fields, [name for name in flat if name in self.own_fields])
        return flat, list(dict.fromkeys(self.roots[name] for name in own))

    def convert(self, batch: pa.RecordBatch, file: File, flat: Sequence[str]) -> pa.RecordBatch:
        """The flat columns `flat` of what was read from a file, in the types of the fields."""
        own = flatten(batch)
        columns = dict(zip(own.schema.names, own.columns, strict=True))
        given = constants(file, self.keys) if self.keys else {}
        arrays = []
        for name in flat:
            if name in self.keys:
                arrays.append(pa.repeat(given[name], batch.num_rows))
            elif columns[name].type == self.fields[name]:
                arrays.append(columns[name])
            else:
                arrays.append(self._convert_column(file, name, columns[name]))
        return pa.RecordBatch.from_arrays(arrays, names=list(flat))

    def _convert_column(self, file: File, name: str, column: pa.Array) -> pa.Array:
        try:
            return column.cast(self.fields[name])
        except pa.ArrowException as error:
            raise DataError(
                f"{file.where}: the field {name!r} must be {self.fields[name]}, as schema= says; it is {column.type}, "
                f"and {error}"
            ) from None


def layout_of(source: str, schema: pa.Schema, files: Sequence[File], declared: pa.Schema | None) -> FileColumns:
    """The layout of files with the columns of a schema: of those in `declared`, where the user gave that."""
    keys = key_types(files, declared)
    if declared is not None:
        schema = pa.schema([field for field in declared if field.name not in keys])
    refuse_unsupported(source, keys)
    refuse_clash(source, schema.names, keys)
    fields_of(source, pa.schema([*schema, *keys.items()]), "leave it out: give schema= with the fields to read")
    if not schema.names:
        raise GraphError(
            f"{source}: an item must have a field that is in the files; got only {quoted(keys)} of folders"
        )
    for file in files:
        constants(file, keys)
    return FileColumns(source, schema, keys, declared is not None)
