"""Arrow batches as lines of JSON, column by column: no Python object is made for a value.

Every value becomes the text that JSON has for it, in one array of strings a column; then the columns are joined, row by
row. A null is written as ``null``, and so is a float that JSON has no text for: NaN and the infinities. Timestamps with
a zone are written in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

SLICE_ROWS = 65_536
SLICE_BYTES = 64 << 20  # an array of strings holds less than 2 GB of text, and escaping can make six of one character
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
SPECIAL = '["\\\\\\x00-\\x1f]'


def holds(kind: pa.DataType) -> bool:
    """Whether values of this type can be written and read again as what they were."""
    if pa.types.is_dictionary(kind):
        return holds(kind.value_type)
    if _is_list(kind):
        return holds(kind.value_type)
    if pa.types.is_struct(kind):
        return all(holds(kind.field(at).type) for at in range(kind.num_fields))
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    text = (_is_text, pa.types.is_timestamp, pa.types.is_date, pa.types.is_time)
    return any(test(kind) for test in plain + text)


def lines(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """The rows of a batch as lines of JSON, in a few pieces.

    >>> batch = pa.record_batch({"id": [1, 2], "tags": [["a", 'b"c'], None]})
    >>> print(b"".join(lines(batch)).decode(), end="")
    {"id":1,"tags":["a","b\\"c"]}
    {"id":2,"tags":null}
    """
    rows = SLICE_ROWS if batch.nbytes <= SLICE_BYTES else max(1, batch.num_rows * SLICE_BYTES // batch.nbytes)
    for start in range(0, batch.num_rows, min(rows, SLICE_ROWS)):
        piece = batch.slice(start, min(rows, SLICE_ROWS))
        yield _text(_object(piece.schema.names, piece.columns, end="}\n", rows=piece.num_rows))


def _text(strings: pa.StringArray) -> pa.Buffer:
    """All strings of an array, one after the other."""
    offsets = strings.buffers()[1]
    first, last = (memoryview(offsets).cast("i")[strings.offset + at] for at in (0, len(strings)))
    return strings.buffers()[2].slice(first, last - first)


def _object(names: list[str], columns: list[pa.Array], *, end: str, rows: int) -> pa.Array:
    if not columns:
        return pa.repeat(pa.scalar("{" + end), rows)
    pieces: list[pa.Array | pa.Scalar] = []
    for at, (name, column) in enumerate(zip(names, columns, strict=True)):
        pieces.append(pa.scalar(("," if at else "{") + json.dumps(name, ensure_ascii=False) + ":"))
        pieces.append(values(column))
    return pc.binary_join_element_wise(*pieces, pa.scalar(end), pa.scalar(""))


def values(column: pa.Array) -> pa.Array:
    """The text of every value; never null."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.repeat(pa.scalar("null"), len(column))
    if pa.types.is_dictionary(kind):
        return values(column.dictionary_decode())
    return pc.fill_null(_valid(column, kind), "null")


def _valid(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The text of every value, and null where there is none."""
    if _is_list(kind):
        return _list(column)
    if pa.types.is_struct(kind):
        fields = [kind.field(at).name for at in range(kind.num_fields)]
        return _keep_nulls(column, _object(fields, column.flatten(), end="}", rows=len(column)))
    if _is_text(kind):
        return _quote(_escape(column.cast(pa.string())))
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_timestamp(kind):
        return _quote(_times(column, kind))
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return _quote(column.cast(pa.date32() if pa.types.is_date(kind) else kind).cast(pa.string()))
    return column.cast(pa.string())


def _quote(strings: pa.Array) -> pa.Array:
    quote = pa.scalar('"')
    return pc.binary_join_element_wise(quote, strings, quote, pa.scalar(""))


def _escape(strings: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(strings, SPECIAL)).as_py():
        return strings
    for character, escape in ESCAPES.items():
        strings = pc.replace_substring(strings, character, escape)
    if not pc.any(pc.match_substring_regex(strings, "[\\x00-\\x1f]")).as_py():
        return strings
    for code in range(32):
        strings = pc.replace_substring(strings, chr(code), f"\\u{code:04x}")
    return strings


def _floats(column: pa.Array) -> pa.Array:
    """Text that reads as a float again: 2.0 and not 2."""
    column = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    return pc.replace_substring_regex(finite.cast(pa.string()), r"^(-?\d+)$", r"\1.0")


def _times(column: pa.Array, kind: pa.DataType) -> pa.Array:
    in_utc = column if kind.tz is None else column.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit))
    text = pc.replace_substring(in_utc.cast(pa.string()), " ", "T", max_replacements=1)
    return text if kind.tz is None else pc.binary_join_element_wise(text, pa.scalar("Z"), pa.scalar(""))


def _list(column: pa.Array) -> pa.Array:
    as_list = column.cast(pa.list_(column.type.value_type))
    first, last = as_list.offsets[0].as_py(), as_list.offsets[-1].as_py()
    inside = values(as_list.values.slice(first, last - first))
    offsets = pc.subtract(as_list.offsets, pa.scalar(first, pa.int32()))
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, inside), ",")
    return _keep_nulls(column, pc.binary_join_element_wise(pa.scalar("["), joined, pa.scalar("]"), pa.scalar("")))


def _keep_nulls(column: pa.Array, strings: pa.Array) -> pa.Array:
    """The strings, and null where the column is."""
    return pc.if_else(pc.is_valid(column), strings, pa.scalar(None, pa.string()))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
