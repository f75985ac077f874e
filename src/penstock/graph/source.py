"""Items: what they are for every source, those that are already in memory, and what happens to their nulls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import DataError, GraphError, reason_text, value_text
from penstock.graph import types
from penstock.graph.flat import empty
from penstock.graph.hidden import is_hidden
from penstock.graph.memory import fragments, slices
from penstock.graph.split import Bound as Bound
from penstock.graph.split import Split as Split
from penstock.graph.split import with_bad

UNCUT = 1 << 62
"""A size of splits that no source has."""


@dataclass(frozen=True, eq=False)
class Items:
    """A sequence of items that can be read any number of times, as batches of flat columns.

    Invariant: `fields` are the flattened names and types of every batch that a split gives when all are asked for.
    """

    fields: Mapping[str, pa.DataType]
    plan: Callable[[int, Sequence[Bound], Collection[str] | None], Sequence[Split]]
    is_here: bool = False
    """Whether they are in the memory of this process, so that it is the place to run."""

    def splits(
        self, about_bytes: int, bounds: Sequence[Bound] = (), columns: Collection[str] | None = None
    ) -> Sequence[Split]:
        """All items in their total order, in splits of about so many bytes: small files together, large ones cut.

        With `bounds`, items may be left out of which none lies within them all: whole groups of rows, where a file
        tells so. They must be free of nulls, and of integers beyond 64 bits, in `columns`, all of those that will be
        read (None: all), so that nothing which a reader would refuse goes unseen. Where items are left out, all splits
        know their `rows`, `skipped_before` says how many were left out before each, and a last split without rows says
        how many were left out at the end.
        """
        return self.plan(about_bytes, bounds, columns)

    def batches(self, at_most: int, columns: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The items in batches of at most so many: those columns only (None: all), but at least one."""
        for split in self.splits(UNCUT):
            yield from split.read(columns, at_most)

    def tolerant_batches(self, at_most: int, columns: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The same with a column `BAD` where records can be malformed: each of these is a row of nulls."""
        wanted = self.fields if columns is None else columns
        for split in self.splits(UNCUT):
            yield from split.read(with_bad(split, wanted), at_most)

    def rows(self, *, is_tolerant: bool = False) -> Iterator[dict[str, Any]]:
        """The items one by one, as plain values, with None for a null."""
        for batch in self.tolerant_batches(1024) if is_tolerant else self.batches(1024):
            columns = [to_plain(column) for column in batch.columns]
            for row in zip(*columns, strict=True):
                yield dict(zip(batch.schema.names, row, strict=True))


def fields_of(name: str, schema: pa.Schema, advice: str = "cast it before") -> dict[str, pa.DataType]:
    """The flattened fields of a schema, all of types that a field may have."""
    for field in schema:
        if is_hidden(field.name) or not field.name:
            raise GraphError(f"{name}: a field's name may not be empty nor begin with '#'; got {field.name!r}")
        if pt.is_struct(field.type) and field.type.num_fields == 0:
            raise GraphError(f"{name}: a struct must have fields; {field.name!r} has none; leave it out")
    fields: dict[str, pa.DataType] = {}
    for field in empty(schema).schema:
        if field.name in fields:
            raise GraphError(f"{name}: fields must have different names; got {field.name!r} twice")
        if not types.is_supported(field.type):
            raise GraphError(
                f"{name}: a field must be one of {types.SUPPORTED}; {field.name!r} is {field.type}; {advice}"
            )
        fields[field.name] = field.type
    if not fields:
        raise GraphError(f"{name}: an item must have at least one field; got none")
    return fields


def from_table(name: str, data: Any) -> Items:
    """Items of an Arrow table, a record batch, or anything with a schema that gives record batches each time."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        raise GraphError(f"{name}: a RecordBatchReader can be read only once; give a table, or a dataset")
    if not hasattr(data, "to_batches") or not isinstance(getattr(data, "schema", None), pa.Schema):
        raise GraphError(f"{name}: must be an Arrow table, record batch or dataset; got {type(data).__name__}")
    fields = fields_of(name, data.schema)
    if isinstance(data, pa.Table):
        return Items(fields, lambda about_bytes, bounds, columns: slices(name, data, about_bytes), is_here=True)
    return Items(fields, lambda about_bytes, bounds, columns: fragments(name, data, about_bytes), is_here=True)


def table_of_dicts(name: str, items: Sequence[Mapping[str, Any]], schema: Any) -> pa.Table:
    """A table of a list of dicts: every key is a field, and a missing one is a null."""
    for at, item in enumerate(items):
        if not isinstance(item, Mapping) or not all(isinstance(key, str) for key in item):
            raise GraphError(f"{name}: every item must be a dict with names for keys; item {at} is {value_text(item)}")
    wanted = as_schema(name, schema) if schema is not None else None
    names = dict.fromkeys(key for item in items for key in item) if wanted is None else dict.fromkeys(wanted.names)
    if not names:
        raise GraphError(f"{name}: there must be an item to read the fields from, or schema=; got neither")
    for at, item in enumerate(items):
        unknown = item.keys() - names.keys()
        if unknown:
            raise GraphError(f"{name}: item {at} has fields that the schema has not: {sorted(unknown)}")
    columns = [
        _column(name, key, [item.get(key) for item in items], None if wanted is None else wanted.field(key).type)
        for key in names
    ]
    return pa.table(columns, names=list(names))


def table_of_frame(name: str, frame: Any) -> pa.Table:
    """A table of a pandas DataFrame, without its index. What pandas calls missing is a null."""
    if not type(frame).__module__.startswith("pandas") or not hasattr(frame, "columns"):
        raise GraphError(f"{name}: must be a DataFrame of pandas; got {type(frame).__name__}")
    if not all(isinstance(column, str) for column in frame.columns):
        raise GraphError(f"{name}: the columns must have names that are strings; got {list(frame.columns)}")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise GraphError(f"{name}: a column has no type of Arrow; {error}") from None


def _column(name: str, key: str, values: Any, wanted: pa.DataType | None) -> pa.Array:
    try:
        made = pa.array(values, wanted)
        if wanted is not None and types.is_integer(_innermost(wanted)) and not pt.is_uint64(_innermost(wanted)):
            array = pa.array(values)
            if types.is_float(_innermost(array.type)):
                made = array.cast(wanted)  # checked: the conversion above would cut a float silently
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
        raise GraphError(f"{name}: the values of {key!r} must have one type; {reason_text(error)}") from None
    if pt.is_null(made.type):
        raise GraphError(f"{name}: the type of {key!r} cannot be read from nulls alone; give schema=")
    return made


def _innermost(t: pa.DataType) -> pa.DataType:
    return _innermost(t.value_type) if types.is_list(t) or types.is_array(t) else t


def as_schema(name: str, schema: Any) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, Mapping):
        return pa.schema([(key, types.declared_type(t, f"{name}: {key!r}")) for key, t in schema.items()])
    raise GraphError(f"{name}: schema= must be an Arrow schema or a dict of names and types; got {schema!r}")


def table_of_arrays(name: str, arrays: Any) -> pa.Table:
    """A table of a dict of NumPy arrays, or of a structured array; a two-dimensional one is a field of arrays."""
    if isinstance(arrays, np.ndarray) and arrays.dtype.names:
        arrays = {field: arrays[field] for field in arrays.dtype.names}
    if not isinstance(arrays, Mapping) or not arrays:
        raise GraphError(f"{name}: must be a dict of NumPy arrays, or a structured array; got {type(arrays).__name__}")
    columns = {str(key): _array(name, str(key), np.asanyarray(value)) for key, value in arrays.items()}
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise GraphError(f"{name}: the arrays must have one length; got {lengths}")
    return pa.table(columns)


def _array(name: str, key: str, values: np.ndarray) -> pa.Array:
    if isinstance(values, np.ma.MaskedArray):
        if values.ndim != 1:
            raise GraphError(f"{name}: {key!r} is masked, and then it must have one dimension; got {values.ndim}")
        return pa.array(values.data, mask=np.ma.getmaskarray(values))
    if values.ndim == 2 and values.shape[1] > 0:
        flat = _column(name, key, np.ascontiguousarray(values).reshape(-1), None)
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    if values.ndim != 1:
        raise GraphError(f"{name}: {key!r} must have one dimension, or two; got the shape {values.shape}")
    return _column(name, key, values, None)


# Plain values


def _plain_type(t: pa.DataType) -> pa.DataType:
    if types.is_time(t):
        return pa.int32() if t.bit_width == 32 else pa.int64()
    if types.is_list(t):
        return pa.large_list(_plain_type(t.value_type)) if pt.is_large_list(t) else pa.list_(_plain_type(t.value_type))
    if types.is_array(t):
        return pa.list_(_plain_type(t.value_type), t.list_size)
    return t


def to_plain(column: pa.Array) -> list[Any]:
    """An Arrow column as plain values: times as integers in their unit."""
    return column.cast(_plain_type(column.type)).to_pylist()  # type: ignore[no-any-return]


def from_plain(values: list[Any], t: pa.DataType) -> pa.Array:
    return pa.array(values, _plain_type(t)).cast(t)


# Nulls


def fill_plain(value: Any, given: Any, t: pa.DataType) -> Any:
    """A plain value with `given` for its nulls: in a list for the elements, and a null list is empty."""
    if types.is_list(t) or types.is_array(t):
        if value is None:
            value = [None] * (t.list_size if types.is_array(t) else 0)
        return [fill_plain(element, given, t.value_type) for element in value]
    return to_plain(pa.array([given], t))[0] if value is None else value


def beyond_error(source: str, name: str, at: int) -> DataError:
    """What is said of the first unsigned integer that no signed one holds."""
    return DataError(
        f"{source}: an integer must fit 64 bits with a sign; {name!r} does not in item {at}; convert the column to "
        f"float64 or to a string before"
    )


def null_error(source: str, name: str, at: int, element: bool) -> DataError:
    """What is said of the first null, by every backend."""
    what = f"an element of {name!r}" if element else repr(name)
    filled = f"{name}=value" if name.isidentifier() else f"**{{{name!r}: value}}"
    return DataError(
        f"{source}: a field may not be null; {what} is null in item {at}; say .drop_nulls({name!r}) or "
        f".fill_null({filled}) right after the source"
    )
