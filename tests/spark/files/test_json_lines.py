"""Batches as lines of JSON, against Python's own reader."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.files import json_lines


def written(batch: pa.RecordBatch) -> list[Any]:
    text = b"".join(memoryview(piece) for piece in json_lines.lines(batch)).decode()
    assert text.endswith("\n") or batch.num_rows == 0
    return [json.loads(line) for line in text.split("\n")[:-1]]


def column(values: list[Any], kind: pa.DataType) -> list[Any]:
    return [row["it"] for row in written(pa.record_batch({"it": pa.array(values, kind)}))]


texts = st.text(st.characters(codec="utf-8"))
floats = st.floats(allow_nan=True, allow_infinity=True)

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint8(): st.integers(0, 255),
    pa.float64(): floats,
    pa.bool_(): st.booleans(),
    pa.string(): texts,
    pa.large_string(): texts,
    pa.list_(pa.string()): st.lists(st.none() | texts, max_size=4),
    pa.list_(pa.list_(pa.int32())): st.lists(st.none() | st.lists(st.integers(-9, 9), max_size=3), max_size=3),
    pa.list_(pa.int8(), 2): st.lists(st.integers(-9, 9), min_size=2, max_size=2),
    pa.struct({"a": pa.int64(), 'b"': pa.list_(pa.float64())}): st.fixed_dictionaries(
        {"a": st.none() | st.integers(-9, 9), 'b"': st.none() | st.lists(floats, max_size=3)}
    ),
    pa.dictionary(pa.int32(), pa.string()): texts,
}


def expected(value: Any) -> Any:
    """What is read back: JSON has no text for a float that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [expected(inner) for inner in value]
    if isinstance(value, dict):
        return {key: expected(inner) for key, inner in value.items()}
    return value


@given(st.data())
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4))
    names = data.draw(st.lists(texts, min_size=len(kinds), max_size=len(kinds), unique=True))
    count = data.draw(st.integers(0, 6))
    columns = [data.draw(st.lists(st.none() | KINDS[kind], min_size=count, max_size=count)) for kind in kinds]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    start = data.draw(st.integers(0, count))
    batch = pa.RecordBatch.from_arrays(arrays, names=names).slice(start)
    rows = [dict(zip(names, map(expected, row), strict=True)) for row in zip(*columns, strict=True)]
    assert written(batch) == rows[start:]


def test_a_float_stays_a_float() -> None:
    found = column([1.0, -0.0, 1e300, 0.1, 3e-7], pa.float64())
    assert [repr(value) for value in found] == ["1.0", "-0.0", "1e+300", "0.1", "3e-07"]
    assert [repr(value) for value in column([1.0, 0.5], pa.float16())] == ["1.0", "0.5"]


def test_times_are_in_the_iso_form() -> None:
    noon = datetime.datetime(2024, 2, 29, 12, 0, 0, 250_000)
    assert column([noon, None], pa.timestamp("us")) == ["2024-02-29T12:00:00.250000", None]
    assert column([noon.replace(tzinfo=datetime.UTC)], pa.timestamp("ms", "Europe/Zurich")) == [
        "2024-02-29T12:00:00.250Z"
    ]
    assert column([noon.date()], pa.date32()) == ["2024-02-29"]
    assert column([noon.date()], pa.date64()) == ["2024-02-29"]
    assert column([noon.time()], pa.time64("us")) == ["12:00:00.250000"]


def test_decimals_and_nothing_at_all() -> None:
    assert column([Decimal("1.50"), None], pa.decimal128(5, 2)) == [1.5, None]
    assert column([None, None], pa.null()) == [None, None]
    assert written(pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))) == [{}, {}]


def test_many_rows_are_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "SLICE_ROWS", 7)
    batch = pa.record_batch({"it": list(range(30)), "text": ["x" * 50] * 30})
    assert len(list(json_lines.lines(batch))) == 5
    assert [row["it"] for row in written(batch)] == list(range(30))
    monkeypatch.setattr(json_lines, "SLICE_BYTES", 200)
    assert len(list(json_lines.lines(batch))) > 5
    assert [row["it"] for row in written(batch)] == list(range(30))


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.duration("s"), pa.map_(pa.string(), pa.int64()), pa.list_(pa.binary())]
)
def test_what_json_cannot_hold_is_known(kind: pa.DataType) -> None:
    assert not json_lines.holds(kind)
