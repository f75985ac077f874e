"""What a predicate says of single fields, and that what is left out is never missed."""

from __future__ import annotations

import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.files.data import items_of, write_parquet

import penstock as ps
from penstock.graph.files.pushdown import bounds_of
from penstock.graph.split import Bound

GLOBAL = 7
OTHER = "seven"
FIELDS = ps.from_items([{"v": 1, "f": 1.5, "s": "a", "b": True, "l": [1]}])


def bounds(predicate: Any, stream: ps.Stream = FIELDS) -> tuple[Bound, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        return bounds_of(stream.filter(predicate).node.functions[0])


def with_captured(limit: Any) -> Any:
    return lambda v: v > limit


def as_statements(v: Any, f: Any):  # type: ignore[no-untyped-def]
    if v > 3:
        return f < 2.5
    return False


UNDERSTOOD = {
    "one": (lambda v: v > 3, [("v", ">", 3)]),
    "the other way round": (lambda v: 3 >= v, [("v", "<=", 3)]),  # noqa: SIM300
    "a chain": (lambda v: 0 < v <= 10, [("v", ">", 0), ("v", "<=", 10)]),
    "several": (lambda v, f: v == 1 and f < 2.5 and v >= 0, [("v", "==", 1), ("f", "<", 2.5), ("v", ">=", 0)]),
    "a chain among others": (lambda v, f: 0 < v < 9 and f > 1, [("v", ">", 0), ("v", "<", 9), ("f", ">", 1)]),
    "a global": (lambda v: v < GLOBAL, [("v", "<", 7)]),
    "captured": (with_captured(-4), [("v", ">", -4)]),
    "captured from NumPy": (with_captured(np.float64(2.5)), [("v", ">", 2.5)]),
    "a boolean": (lambda b: b == True, [("b", "==", True)]),  # noqa: E712
    "statements": (as_statements, [("v", ">", 3), ("f", "<", 2.5)]),
    "unequal, which bounds nothing": (lambda v, f: v != 3 and f > 1, [("f", ">", 1)]),
    "a float for an integer": (lambda v: v > 1.5, [("v", ">", 1.5)]),
    "always more": (lambda v: v > 1 and True, [("v", ">", 1)]),
}

NOT_UNDERSTOOD = {
    "or": lambda v: v > 3 or v < 1,
    "not": lambda v: not v > 3,
    "both or neither": lambda v, f: (v > 1 and f > 2) or (not v > 1 and not f > 2),
    "another field": lambda v, f: v > f,
    "arithmetic": lambda v: v + 1 > 3,
    "a call": lambda v: abs(v) > 3,
    "an element": lambda l: l[0] > 3,  # noqa: E741
    "a string": ps.returns(bool, lambda s: s == "a"),
    "a field as it is": lambda b: b,
    "a field after a comparison": lambda v, b: v > 1 and b,
    "a string for a number": lambda v: v == OTHER,
    "never": lambda v: v > 1 and False,
    "a float of few bits": with_captured(np.float32(0.1)),
    "an integer that no float is": lambda f: f > 2**53 + 1,
    "a float beyond exact integers": lambda v: v > 1e18,
    "not a number": with_captured(math.nan),
}


@pytest.mark.parametrize(("predicate", "expected"), UNDERSTOOD.values(), ids=UNDERSTOOD)
def test_what_is_understood(predicate: Any, expected: list) -> None:
    assert [(bound.field, bound.relation, bound.value) for bound in bounds(predicate)] == expected


@pytest.mark.parametrize("predicate", NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD)
def test_what_is_not(predicate: Any) -> None:
    assert bounds(predicate) == ()


def test_a_predicate_with_state_is_not() -> None:
    class Limit(ps.State):
        at: int

    assert bounds_of(FIELDS.filter(lambda v, state: v > 1, state=Limit).node.functions[0]) == ()


@given(st.sampled_from(["<", "<=", ">", ">=", "=="]), st.integers(-3, 3), st.lists(st.integers(-3, 3), min_size=1))
def test_a_bound_refuses_only_what_is_outside(relation: str, value: int, values: list[int]) -> None:
    passes = [eval(f"{v} {relation} {value}") for v in values]
    if Bound("v", relation, value).refuses(min(values), max(values)):
        assert not any(passes)
    if relation != "==" and not any(passes):
        assert Bound("v", relation, value).refuses(min(values), max(values))


def skipped_and_kept(stream: ps.Stream, given_bounds: Any, columns: Any = None) -> tuple[int, list[tuple[int, Any]]]:
    """How many rows were left out, and the others with their indices."""
    at, skipped, kept = 0, 0, []
    for split in items_of(stream).splits(100, given_bounds, columns):
        skipped, at = skipped + split.skipped_before, at + split.skipped_before
        rows = [row for batch in split.read(columns, 5) for row in batch.to_pylist()]
        assert split.rows == len(rows)
        kept += list(enumerate(rows, at))
        at += len(rows)
    assert at == sum(split.rows for split in items_of(stream).splits(100))
    return skipped, kept


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.lists(st.integers(-5, 5), max_size=12), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(-5, 5),
    st.sampled_from(["<", "<=", ">", ">=", "=="]),
    st.sampled_from(
        [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.duration("ms")]
    ),
)
def test_rows_that_pass_are_never_left_out(files: list, group: int, value: int, relation: str, t: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, values in enumerate(files):
            shifted = [abs(v) if t == pa.uint64() else v for v in values]
            column = pa.array(shifted, pa.int32()).cast(pa.int32() if t == pa.date32() else pa.int64()).cast(t)
            write_parquet(Path(folder, f"{number}.parquet"), {"v": column}, row_group_size=group)
        stream = ps.read_parquet(folder)
        bound = Bound("v", relation, value)
        _, everything = skipped_and_kept(stream, ())
        _, kept = skipped_and_kept(stream, [bound])
        plain = [abs(v) if t == pa.uint64() else v for values in files for v in values]
        passing = [row for row, v in zip(everything, plain, strict=True) if eval(f"{v} {relation} {value}")]
        assert [row for row in kept if row in passing] == passing
        assert [row for row in everything if row in kept] == kept


def test_row_groups_are_left_out_and_counted(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"v": range(100), "w": ["x"] * 100}, row_group_size=10)
    write_parquet(tmp_path / "b.parquet", {"v": range(100, 200), "w": ["x"] * 100}, row_group_size=10)
    stream = ps.read_parquet(tmp_path)
    skipped, kept = skipped_and_kept(stream, bounds(lambda v: 35 <= v < 122, stream))
    assert [at for at, _ in kept] == list(range(30, 130)) == [row["v"] for _, row in kept]
    assert skipped == 100
    splits = items_of(stream).splits(1 << 20, bounds(lambda v: 35 <= v < 122, stream))
    assert [(split.skipped_before, split.rows) for split in splits] == [(30, 100), (70, 0)]
    assert list(splits[1].read(None, 10)) == []
    everything_out = items_of(stream).splits(1 << 20, bounds(lambda v: v > 1000, stream))
    assert [(split.skipped_before, split.rows) for split in everything_out] == [(200, 0)]


def test_partition_folders_are_left_out(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        write_parquet(tmp_path / f"day={day}" / "p.parquet", {"v": [day]})
    stream = ps.read_parquet(tmp_path)
    assert skipped_and_kept(stream, bounds(lambda day: day == 2, stream)) == (2, [(1, {"v": 2, "day": 2})])


def test_nothing_that_would_be_refused_goes_unseen(tmp_path: Path) -> None:
    """A null, or an integer beyond 64 bits, in a column that is read is an error, wherever it is."""
    columns = {
        "v": [1, 2],
        "null": [1, None],
        "large": pa.array([1, 2**63], pa.uint64()),
        "inside": [[1], [None]],
        "fine": [[1], [2]],
        "place": [{"x": 1}, {"x": None}],
    }
    write_parquet(tmp_path / "a.parquet", columns, row_group_size=1)
    stream = ps.read_parquet(tmp_path)
    never = [Bound("v", ">", 5)]
    assert skipped_and_kept(stream, never, ["v"])[0] == 2
    assert skipped_and_kept(stream, never, ["v", "fine"])[0] == 2
    for name in ("null", "large", "inside", "place.x"):
        assert skipped_and_kept(stream, never, ["v", name])[0] == 1
    assert skipped_and_kept(stream, never)[0] == 1


def test_without_statistics_nothing_is_left_out(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"v": [1, 2], "s": ["a", "b"]}, write_statistics=False)
    assert skipped_and_kept(ps.read_parquet(tmp_path), [Bound("v", ">", 5)])[0] == 0


def test_a_converted_column_is_not_judged_by_its_statistics(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"t": pa.array([1000], pa.timestamp("ms"))})
    stream = ps.read_parquet(tmp_path, schema={"t": pa.timestamp("us")})
    assert skipped_and_kept(stream, [Bound("t", ">", 5000)])[0] == 0
    assert skipped_and_kept(ps.read_parquet(tmp_path), [Bound("t", ">", 5000)])[0] == 1


TIMES = [pa.timestamp("ns"), pa.timestamp("ms", "Europe/Berlin"), pa.time32("ms"), pa.time64("ns"), pa.duration("ns")]


@pytest.mark.parametrize("t", TIMES)
def test_times_are_numbers_in_their_unit(tmp_path: Path, t: pa.DataType) -> None:
    plain = pa.int32() if t.bit_width == 32 else pa.int64()
    write_parquet(tmp_path / "a.parquet", {"t": pa.array([5, 7001], plain).cast(t)}, row_group_size=1)
    splits = items_of(ps.read_parquet(tmp_path)).splits(1, [Bound("t", ">=", 7001)])
    assert sum(split.rows for split in splits) in (1, 2)  # where a time is not told exactly, nothing is left out
    splits = items_of(ps.read_parquet(tmp_path)).splits(1, [Bound("t", "<", 6)])
    assert splits[0].rows == 1


def test_times_that_python_cannot_tell(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"t": pa.array([2**31 - 1], pa.int32()).cast(pa.date32())})
    assert items_of(ps.read_parquet(tmp_path)).splits(1, [Bound("t", "<", 6)])[0].rows == 1


def test_not_a_number_is_in_no_bounds(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"f": [math.nan, 1.0]})
    assert skipped_and_kept(ps.read_parquet(tmp_path), [Bound("f", ">", 1)])[0] == 2
