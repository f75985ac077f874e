"""Columns that are filled behind and emptied in front, against plain lists; of every type that a channel carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.store import LINE_BYTES, Records, Rows, Scalars, store
from penstock.graph.source import from_plain, to_plain

INTEGERS, TEXTS, BYTES = st.integers(-100, 100), st.text(max_size=4), st.binary(max_size=4)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int8": (pa.int8(), INTEGERS),
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "bool": (pa.bool_(), st.booleans()),
    "timestamp": (pa.timestamp("us"), st.integers(0, 2**40)),
    "text": (pa.string(), TEXTS),
    "large text": (pa.large_string(), TEXTS),
    "bytes": (pa.binary(), BYTES),
    "list": (pa.list_(pa.int32()), st.lists(INTEGERS, max_size=4)),
    "large list": (pa.large_list(pa.float64()), st.lists(st.floats(allow_nan=False), max_size=4)),
    "list of booleans": (pa.list_(pa.bool_()), st.lists(st.booleans(), max_size=4)),
    "list of texts": (pa.list_(pa.string()), st.lists(TEXTS, max_size=3)),
    "list of lists": (pa.list_(pa.list_(pa.int64())), st.lists(st.lists(INTEGERS, max_size=3), max_size=3)),
    "array": (pa.list_(pa.int32(), 3), st.lists(INTEGERS, min_size=3, max_size=3)),
    "array of texts": (pa.list_(pa.string(), 2), st.lists(TEXTS, min_size=2, max_size=2)),
    "array of booleans": (pa.list_(pa.bool_(), 2), st.lists(st.booleans(), min_size=2, max_size=2)),
}
quick = settings(max_examples=60, deadline=None)


def column(values: list[Any], t: pa.DataType, offset: int) -> pa.Array:
    """A column of values that is a part of a longer one."""
    return from_plain([*values[:1] * offset, *values], t)[offset if values else 0 :]


@pytest.mark.parametrize("name", TYPES)
@quick
@given(data=st.data())
def test_what_was_put_is_there(name: str, data: st.DataObject) -> None:
    t, values = TYPES[name]
    first, second = data.draw(st.lists(values, max_size=6)), data.draw(st.lists(values, max_size=6))
    offset = data.draw(st.integers(0, 2))
    held = store(t, data.draw(st.sampled_from([1, 4, 20])))
    held.put(0, column(first, t, offset))
    held.put(len(first), column(second, t, offset))
    whole = [*first, *second]
    assert to_plain(held.column(len(whole))) == whole
    assert held.column(len(whole)).type == t

    start = data.draw(st.integers(0, len(whole)))
    held.move(start, len(whole))
    assert to_plain(held.column(len(whole) - start)) == whole[start:]
    held.put(len(whole) - start, column(first, t, offset))
    assert to_plain(held.column(len(whole) - start + len(first))) == [*whole[start:], *first]


@pytest.mark.parametrize("name", TYPES)
@quick
@given(data=st.data())
def test_rows_are_a_queue(name: str, data: st.DataObject) -> None:
    """Beside a column of integers, which must keep step."""
    t, values = TYPES[name]
    capacity = data.draw(st.integers(1, 5))
    rows, wanted = Rows({"value": t, "number": pa.int64()}, capacity), []
    count = 0
    for _ in range(data.draw(st.integers(1, 8))):
        rows.make_room()
        assert rows.avail() == capacity - len(wanted)
        new = [(data.draw(values), count + at) for at in range(data.draw(st.integers(0, rows.avail())))]
        count += len(new)
        for at, field in enumerate(rows.stores):
            rows.stores[field].put(rows.stop, from_plain([row[at] for row in new], (t, pa.int64())[at]))
        rows.stop += len(new)
        wanted += new
        gone = data.draw(st.integers(0, len(wanted)))
        rows.start, wanted = rows.start + gone, wanted[gone:]
        assert len(rows) == len(wanted) and rows.stop <= rows.size
        found = [to_plain(rows.stores[field].column(rows.stop)[rows.start :]) for field in rows.stores]
        assert list(zip(*found, strict=True)) == wanted


@quick
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12))
def test_records_are_a_queue(steps: list[tuple[int, int]]) -> None:
    rows, wanted = Records(np.dtype([("level", "i8"), ("up", "?")]), 3), []
    for number, (new, gone) in enumerate(steps):
        rows.make_room()
        for at in range(min(new, rows.avail())):
            rows.array[rows.stop] = (10 * number + at, at % 2 == 0)
            rows.stop += 1
            wanted.append((10 * number + at, at % 2 == 0))
        gone = min(gone, len(wanted))
        rows.start, wanted = rows.start + gone, wanted[gone:]
        assert rows.array[rows.start : rows.stop].tolist() == wanted


def test_the_index_that_follows_stays_when_rows_are_moved() -> None:
    """A column of indices holds one more than there are rows."""
    rows = Rows({"#index": pa.int64()}, 3)
    for first in range(0, 40, 2):
        rows.make_room()
        array = rows.array_of("#index")
        assert array[rows.stop] == first
        array[rows.stop : rows.stop + 3] = [first, first + 1, first + 2]
        rows.stop += 2
        rows.start = rows.stop - first // 2 % 2  # now and then a row is left, and moved


def test_arrays_begin_at_a_line_of_the_cache_also_where_they_grow() -> None:
    made = Scalars(pa.float64(), 3)
    for count in (3, 100, 5000):
        made.put(0, pa.array(np.arange(count) * 1.0))
        assert made.array.ctypes.data % LINE_BYTES == 0
        assert made.column(count).to_pylist() == list(range(count))


@pytest.mark.parametrize("kind", TYPES)
def test_some_values_are_copied(kind: str) -> None:
    t, _ = TYPES[kind]
    made, values = store(t, 4), from_plain([_some(t)] * 4, t)
    made.put(0, values)
    for at in (slice(1, 3), np.array([2, 0])):
        found = made.taken(at, 4)
        assert found.type == values.type
        assert to_plain(found) == to_plain(values)[:2]


def _some(t: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(t):
        return [_some(t.value_type)] * t.list_size
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return [_some(t.value_type)] * 2
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return "some"
    if pa.types.is_binary(t) or pa.types.is_large_binary(t):
        return b"some"
    return t == pa.bool_() or 7
