"""Parquet files: any sizes of row groups and splits give the same items, only the columns in use, and clear errors."""

from __future__ import annotations

import datetime
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.files.data import items_of, rows_of, write_parquet

import penstock as ps
from penstock.graph.files import parquet
from penstock.graph.files.paths import File
from penstock.graph.split import Bound

NESTED = pa.table(
    {
        "id": pa.array(range(10), pa.int32()),
        "values": pa.array([list(range(n)) for n in range(10)], pa.list_(pa.int32())),
        "kind": pa.array(["a", "b"] * 5).dictionary_encode(),
        "place": pa.array([{"x": float(n), "name": str(n)} for n in range(10)]),
        "points": pa.array([[{"t": n, "v": 0.5}] * (n % 3) for n in range(10)]),
        "when": pa.array([datetime.datetime(2020, 1, 1 + n) for n in range(10)], pa.timestamp("us")),
        "a.b": pa.array(range(10)),
    }
)


def flat_rows() -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "values": list(range(n)),
            "kind": "ab"[n % 2],
            "place.name": str(n),
            "place.x": float(n),
            "points.t": [n] * (n % 3),
            "points.v": [0.5] * (n % 3),
            "when": datetime.datetime(2020, 1, 1 + n),
            "a.b": n,
        }
        for n in range(10)
    ]


def test_nested_columns(tmp_path: Path) -> None:
    write_parquet(tmp_path / "n.parquet", NESTED, row_group_size=4)
    stream = ps.read_parquet(tmp_path)
    assert rows_of(stream) == rows_of(stream, 1, at_most=3) == flat_rows()
    assert rows_of(stream, 1, columns={"place.x", "a.b"}) == [{"place.x": float(n), "a.b": n} for n in range(10)]
    assert rows_of(stream, 1, columns=()) == [{"id": n} for n in range(10)]
    assert stream.select("id", "kind").collect(spark=False).to_pylist() == [
        {"id": n, "kind": "ab"[n % 2]} for n in range(10)
    ]


def test_files_that_are_not_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are asked for their bytes, where a local file is mapped into memory."""
    monkeypatch.setattr(File, "is_local", False)
    monkeypatch.setattr(pa, "memory_map", None)
    write_parquet(tmp_path / "n.parquet", NESTED, row_group_size=4)
    assert rows_of(ps.read_parquet(f"file://{tmp_path}"), 1) == flat_rows()


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), min_size=1, max_size=4),
    st.integers(1, 2000),
    st.integers(1, 50),
)
def test_any_row_groups_and_splits(files: list[tuple[int, int]], about_bytes: int, at_most: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        expected = []
        for number, (rows, group) in enumerate(files):
            values = [1000 * number + row for row in range(rows)]
            expected += [{"v": v, "w": str(v)} for v in values]
            table = pa.table({"v": pa.array(values, pa.int64()), "w": pa.array(map(str, values), pa.string())})
            write_parquet(Path(folder, f"{number}.parquet"), table, row_group_size=group)
        stream = ps.read_parquet(folder)
        assert rows_of(stream) == rows_of(stream, about_bytes, at_most) == expected
        splits = items_of(stream).splits(about_bytes)
        assert sum(split.rows for split in splits) == len(expected)
        for split in splits:
            assert split.rows == sum(batch.num_rows for batch in split.read((), at_most))
            assert split.skipped_before == 0


def test_splits_are_row_groups_and_small_files_are_together(tmp_path: Path) -> None:
    write_parquet(
        tmp_path / "a.parquet", {"v": range(6000)}, row_group_size=1000, use_dictionary=False, compression="none"
    )
    for name in "bcd":
        write_parquet(tmp_path / f"{name}.parquet", {"v": range(10)})
    splits = items_of(ps.read_parquet(tmp_path)).splits(16_200)
    assert [(split.label, split.rows) for split in splits] == [
        ("a.parquet, row groups 0 to 1", 2000),
        ("a.parquet, row groups 2 to 3", 2000),
        ("a.parquet, row groups 4 to 5", 2000),
        ("b.parquet, row group 0 to d.parquet, row group 0 (3 pieces)", 30),
    ]
    assert 16_000 < splits[0].bytes < 16_200
    assert len(pickle.dumps(splits[0])) < 2000
    (whole,) = items_of(ps.read_parquet(tmp_path)).splits(1 << 40)
    assert whole.rows == 6030 and len(whole.parts) == 4


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """A folder with many small files, one of zero bytes, and the names of those that are opened from now on."""
    for number in range(parquet.MANY + 6):
        write_parquet(tmp_path / f"{number:03}.parquet", {"v": [number], "w": ["x"]})
    (tmp_path / "005.parquet").write_bytes(b"")
    names: list[str] = []
    whole = parquet.open_parquet
    monkeypatch.setattr(parquet, "open_parquet", lambda file: names.append(file.name) or whole(file))
    return tmp_path, names


def test_many_small_files_are_cut_without_their_footers(many: tuple[Path, list[str]]) -> None:
    folder, names = many
    stream = ps.read_parquet(folder)
    names.clear()
    splits = items_of(stream).splits(20_000, [Bound("v", "<", 5)])
    assert names == [] and 1 < len(splits) < 20
    assert splits[0].rows is None and splits[0].label.startswith("000.parquet to ")
    found = [row["v"] for split in splits for batch in split.read({"v"}, 10) for row in batch.to_pylist()]
    assert found == [number for number in range(parquet.MANY + 6) if number != 5]


def test_a_large_file_among_many_small_ones_is_cut(many: tuple[Path, list[str]]) -> None:
    folder, names = many
    table = {"v": range(20_000), "w": map(str, range(20_000))}
    write_parquet(folder / "030.parquet", {k: list(v) for k, v in table.items()}, row_group_size=5000)
    stream = ps.read_parquet(folder)
    names.clear()
    splits = items_of(stream).splits(40_000)
    assert names == ["030.parquet"]
    labels = [split.label for split in splits]
    assert sum("030.parquet" in label for label in labels) >= 4
    assert rows_of(stream, 40_000) == rows_of(stream)
    skipped = items_of(stream).splits(40_000, [Bound("v", "<", 5)])  # items are left out, so that all are counted
    assert sum(split.rows + split.skipped_before for split in skipped) == parquet.MANY + 4 + 20_000


def test_a_folder_leaves_out_many_small_files(tmp_path: Path) -> None:
    for day in range(parquet.MANY + 6):
        write_parquet(tmp_path / f"day={day}" / "p.parquet", {"v": [day]})
    splits = items_of(ps.read_parquet(tmp_path)).splits(1 << 20, [Bound("day", "==", 2)])
    assert sum(split.rows for split in splits) == 1


def test_rows_with_long_lists_come_in_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "BATCH_BYTES", 8000)
    write_parquet(tmp_path / "l.parquet", {"l": [list(range(100))] * 100})
    (split,) = items_of(ps.read_parquet(tmp_path)).splits(1 << 40)
    assert {batch.num_rows for batch in split.read(None, 1000)} == {10}


def test_only_the_columns_in_use_are_read(tmp_path: Path) -> None:
    """The pages of the other column are overwritten: whoever reads them fails."""
    path = write_parquet(tmp_path / "p.parquet", {"v": range(1000), "broken": [str(n) for n in range(1000)]})
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(1)
    content = bytearray(path.read_bytes())
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    content[at : at + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)
    stream = ps.read_parquet(tmp_path)
    assert len(rows_of(stream, columns={"v"})) == 1000
    with pytest.raises(ps.DataError, match=r"must be a whole Parquet file; .*; leave it out, or write it again"):
        rows_of(stream)


def test_a_schema_chooses_and_converts(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"v": [1], "w": [1.5], "x": ["?"]})
    write_parquet(tmp_path / "b.parquet", {"w": pa.array([2], pa.int8()), "v": pa.array([2], pa.int32())})
    with pytest.raises(ps.DataError, match=r"file '.*/b.parquet': "):
        rows_of(ps.read_parquet(tmp_path))
    stream = ps.read_parquet(tmp_path, schema={"w": float, "v": int})
    assert rows_of(stream) == rows_of(stream, 1) == [{"w": 1.5, "v": 1}, {"w": 2.0, "v": 2}]


def test_kinds_of_strings_are_one(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"s": pa.array(["x"], pa.string())})
    write_parquet(tmp_path / "b.parquet", {"s": pa.array(["y"], pa.large_string())})
    write_parquet(tmp_path / "c.parquet", {"s": pa.array(["z"]).dictionary_encode()})
    assert rows_of(ps.read_parquet(tmp_path), 1) == [{"s": "x"}, {"s": "y"}, {"s": "z"}]


def test_a_file_without_rows(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", pa.table({"v": pa.array([], pa.int64())}))
    assert rows_of(ps.read_parquet(tmp_path)) == rows_of(ps.read_parquet(tmp_path), 1) == []
    assert ps.read_parquet(tmp_path).collect(spark=False).num_rows == 0


DIFFERENT = {
    "another type": (
        {"v": [1.5], "w": ["x"]},
        "file '{0}/b.parquet': the field 'v' must be int64, as in '{0}/a.parquet'; it is double; write the file again, "
        "or give schema= to convert it",
    ),
    "a field less": (
        {"v": [1]},
        "file '{0}/b.parquet': must have the field 'w', as '{0}/a.parquet' has; there is ['v']",
    ),
    "a field more": (
        {"v": [1], "w": ["x"], "z": [1]},
        "file '{0}/b.parquet': must have the fields of '{0}/a.parquet' and no others; it also has ['z']; give schema=",
    ),
    "another struct": (
        {"v": [1], "w": [{"x": 1}]},
        "file '{0}/b.parquet': the field 'w' must be string, as in '{0}/a.parquet'; it is None",
    ),
}


@pytest.mark.parametrize(("columns", "message"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_schema_that_differs(tmp_path: Path, columns: Any, message: str) -> None:
    write_parquet(tmp_path / "a.parquet", {"v": [1], "w": ["x"]})
    write_parquet(tmp_path / "b.parquet", columns)
    stream = ps.read_parquet(tmp_path)
    for read in (lambda: rows_of(stream), lambda: items_of(stream).splits(1)):
        with pytest.raises(ps.DataError) as error:
            read()
        assert str(error.value).startswith("source 'parquet': " + message.format(tmp_path))


BAD_FILES = {
    "text": (b"v,w\n1,2\n" * 10, ""),
    "cut": (None, ""),
}


@pytest.mark.parametrize(("content", "reason"), BAD_FILES.values(), ids=BAD_FILES)
@pytest.mark.parametrize("first", [True, False])
def test_a_file_that_is_no_parquet(tmp_path: Path, content: bytes | None, reason: str, first: bool) -> None:
    good = write_parquet(tmp_path / "m.parquet", {"v": range(100)})
    name = "a.parquet" if first else "z.parquet"
    (tmp_path / name).write_bytes(good.read_bytes()[:-100] if content is None else content)
    message = rf"source 'parquet': file '{tmp_path}/{name}': must be a whole Parquet file; {reason}.*; leave it out"
    with pytest.raises(ps.DataError, match=message):
        rows_of(ps.read_parquet(tmp_path))
    if not first:
        with pytest.raises(ps.DataError, match=message):
            items_of(ps.read_parquet(tmp_path)).splits(1)


def test_what_a_schema_cannot_do(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"v": [1.5], "d": [datetime.timedelta(1)], "m": pa.array([None], pa.null())})
    with pytest.raises(ps.GraphError, match="'m' is null; leave it out: give schema= with the fields to read"):
        ps.read_parquet(tmp_path)
    with pytest.raises(ps.DataError, match=r"must have the field 'q', as schema= has; there is \['v', 'd', 'm'\]"):
        ps.read_parquet(tmp_path, schema={"q": int})
    with pytest.raises(
        ps.DataError, match=r"the field 'v' must be int64, as schema= says; it is double, and .*truncated"
    ):
        rows_of(ps.read_parquet(tmp_path, schema={"v": int}))


def test_nulls_are_given_as_they_are(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"v": [1, None]})
    assert ps.read_parquet(tmp_path).fill_null(v=5).collect(spark=False).to_pydict() == {"v": [1, 5]}
