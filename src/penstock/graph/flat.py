"""Flat columns: what the library sees of nested and encoded ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.graph import types
from penstock.graph.split import choose_columns


def flatten(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Structs as dotted names, a list of structs as a list for each of their fields, encoded columns decoded."""
    names: list[str] = []
    columns: list[pa.Array] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        for suffix, flat in _flat(column):
            names.append(field.name + suffix)
            columns.append(flat)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _flat(column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    t = column.type
    if pt.is_dictionary(t):
        yield from _flat(column.dictionary_decode())
    elif pt.is_string_view(t) or pt.is_binary_view(t):
        yield "", column.cast(pa.large_string() if pt.is_string_view(t) else pa.large_binary())
    elif pt.is_struct(t):
        for at, inner in enumerate(column.flatten()):
            for suffix, flat in _flat(inner):
                yield f".{t.field(at).name}{suffix}", flat
    elif types.is_list(t) and _is_nested(t.value_type):
        kind = pa.ListArray if pt.is_list(t) else pa.LargeListArray
        start, stop = (column.offsets[0].as_py(), column.offsets[-1].as_py()) if len(column.offsets) else (0, 0)
        offsets = pc.subtract(column.offsets, column.offsets[0])
        for suffix, flat in _flat(column.values.slice(start, stop - start)):
            yield suffix, kind.from_arrays(offsets, flat, mask=column.is_null() if column.null_count else None)
    else:
        yield "", column


def _is_nested(t: pa.DataType) -> bool:
    return bool(pt.is_struct(t) or pt.is_dictionary(t))


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """No items of a schema, as flat columns."""
    return flatten(pa.RecordBatch.from_arrays([pa.array([], t) for t in schema.types], schema=schema))


def flat_columns(schema: pa.Schema, columns: Collection[str] | None) -> tuple[list[str], list[str]]:
    """The flat columns to give (see `chosen`), and the columns of the schema that they are made of."""
    roots = {flat: field.name for field in schema for flat in empty(pa.schema([field])).schema.names}
    flat = choose_columns({field.name: field.type for field in empty(schema).schema}, columns)
    return flat, list(dict.fromkeys(roots[name] for name in flat))
