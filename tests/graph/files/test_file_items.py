"""Files that arrive after the stream was built: found, cut and checked as those that were there."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from tests.graph.files.data import items_of, rows_of, write, write_parquet

import penstock as ps
from penstock.graph.files.file_items import FileItems
from penstock.graph.files.paths import File
from penstock.graph.source import UNCUT

SCHEMA = {"id": int, "name": str}


@dataclass(frozen=True)
class Kind:
    """A format: how to read it, and how to write rows of (id, name)."""

    read: Callable[..., ps.Stream]
    write: Callable[[Path, dict[str, list]], Any]
    options: dict[str, Any]
    """What is needed to read a folder that is empty."""


def write_lines(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_csv(path: Path, columns: dict[str, list]) -> None:
    rows = [columns.keys(), *zip(*columns.values(), strict=True)]
    write_lines(path, "".join(",".join(map(str, row)) + "\n" for row in rows))


def write_json(path: Path, columns: dict[str, list]) -> None:
    write_lines(path, "".join(f"{row}\n".replace("'", '"') for row in pa.table(columns).to_pylist()))


def write_text(path: Path, columns: dict[str, list]) -> None:
    write_lines(path, "".join(f"{row}\n" for row in pa.table(columns).to_pylist()))


KINDS = {
    "parquet": Kind(
        ps.read_parquet, lambda path, columns: write_parquet(path, columns, row_group_size=7), {"schema": SCHEMA}
    ),
    "csv": Kind(ps.read_csv, write_csv, {"schema": SCHEMA}),
    "json": Kind(ps.read_json, write_json, {"schema": SCHEMA}),
    "text": Kind(ps.read_text, write_text, {}),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def columns(start: int, count: int = 20) -> dict[str, list]:
    return {"id": list(range(start, start + count)), "name": [f"n{at}" for at in range(count)]}


def in_a_task(items: FileItems) -> FileItems:
    """As a task gets it."""
    held = cloudpickle.dumps(items.without_files())
    assert len(held) < 3000
    return pickle.loads(held)


def read(items: FileItems, files: list[File], about_bytes: int = UNCUT, columns: Any = None) -> list[dict[str, Any]]:
    splits = [pickle.loads(pickle.dumps(split)) for split in items.splits_of(files, about_bytes, columns)]
    return [row for split in splits for batch in split.read(columns, 1000) for row in batch.to_pylist()]


@pytest.mark.parametrize("about_bytes", [1, 100, UNCUT])
def test_a_file_that_arrives_is_read_as_in_a_batch(tmp_path: Path, kind: Kind, about_bytes: int) -> None:
    kind.write(tmp_path / "1", columns(0))
    items = items_of(kind.read(tmp_path))
    kind.write(tmp_path / "2", columns(100))
    expected = rows_of(kind.read(tmp_path / "2"))
    assert len(expected) == 20
    task = in_a_task(items)
    second = task.arrived_file(str(tmp_path / "2"))
    assert read(task, [second], about_bytes) == expected
    one = next(iter(expected[0]))
    assert read(task, [second], about_bytes, [one]) == [{one: row[one]} for row in expected]
    if about_bytes < UNCUT:  # the cuts are the same too
        alone = items_of(kind.read(tmp_path / "2")).splits(about_bytes)
        assert [split.label for split in task.splits_of([second], about_bytes)] == [split.label for split in alone]
    both = [items.arrived_file(str(tmp_path / name)) for name in "21"]
    assert read(items, both, about_bytes) == expected + rows_of(kind.read(tmp_path / "1"))  # in the order given
    assert read(items, [], about_bytes) == []
    assert [
        row for split in items.splits(about_bytes) for b in split.read(None, 9) for row in b.to_pylist()
    ] == rows_of(kind.read(tmp_path / "1"))  # a batch still reads what was found


def test_what_items_of_files_tell(tmp_path: Path, kind: Kind) -> None:
    kind.write(tmp_path / "1", columns(0))
    items = items_of(kind.read(tmp_path))
    assert isinstance(items, FileItems)
    assert KINDS[items.format] is kind
    assert items.path == tmp_path
    assert [file.name for file in items.files] == ["1"]
    assert items.has_partitions and not items_of(kind.read(tmp_path, partitions=False)).has_partitions
    assert in_a_task(items).files == ()
    with pytest.raises(ps.InternalError, match="its files were left out, so that only others can be cut"):
        in_a_task(items).splits(UNCUT)


def test_partition_folders_below_the_path(tmp_path: Path, kind: Kind) -> None:
    kind.write(tmp_path / "top=1" / "day=1" / "a", columns(0, 1))
    items = items_of(kind.read(tmp_path / "top=1"))
    kind.write(tmp_path / "top=1" / "day=2" / "b", columns(7, 1))
    kind.write(tmp_path / "top=1" / "day=__HIVE_DEFAULT_PARTITION__" / "b", columns(7, 1))
    (expected,) = rows_of(kind.read(tmp_path / "top=1" / "day=2" / "b"))
    file = items.arrived_file(f"file:{tmp_path}/top=1/day=2/b")
    assert file.keys == (("day", "2"),)
    assert read(in_a_task(items), [file]) == [expected | {"day": 2}]
    assert items.arrived_file(f"{tmp_path}/top=1/day=__HIVE_DEFAULT_PARTITION__/b").keys == (("day", None),)
    plain = items_of(kind.read(tmp_path / "top=1", partitions=False))
    assert read(plain, [plain.arrived_file(file.path)]) == [expected]


def test_partition_folders_that_do_not_fit(tmp_path: Path, kind: Kind) -> None:
    kind.write(tmp_path / "day=1" / "a", columns(0, 1))
    items = items_of(kind.read(tmp_path))
    for folder in ("night=1", "plain", "day=1/hour=2"):
        kind.write(tmp_path / folder / "b", columns(0, 1))
        with pytest.raises(
            ps.DataError, match=rf"{folder}/b': must lie in partition folders of the same names .* \['day'\]"
        ):
            items.arrived_file(str(tmp_path / folder / "b"))
    kind.write(tmp_path / "day=x" / "b", columns(0, 1))
    with pytest.raises(ps.PenstockError, match=r"day=x/b': the folder 'day=x' must give a value of int64; 'x' is none"):
        items.arrived_file(str(tmp_path / "day=x" / "b"))


@pytest.mark.parametrize("name", ["plain", "two words", "50%", "%41", "a#b?c", "a+b", "[1]", "ümlaut", "a:b"])
@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_paths_as_spark_writes_them(tmp_path: Path, name: str, form: str) -> None:
    folder = tmp_path / f"in {name}"
    write(folder, first="first")
    items = items_of(ps.read_text(folder, file="path"))
    write(folder, **{name: "x"})
    file = items.arrived_file(form.format(folder / name))
    assert (file.path, file.size) == (str(folder / name), 1)
    assert items.takes(form.format(folder / name))
    assert (
        read(items, [file])
        == [{"line": "x", "path": str(folder / name)}]
        == rows_of(ps.read_text(folder / name, file="path"))
    )


def test_an_address_that_was_given_is_encoded(tmp_path: Path) -> None:
    write(tmp_path / "two words", a="1", b="2")
    items = items_of(ps.read_text(f"file://{tmp_path}/two%20words/"))
    assert items.root == (f"file://{tmp_path}/two words", "*")
    assert read(items, [items.arrived_file(f"file:{tmp_path}/two words/b")]) == [{"line": "2"}]


def test_a_file_of_elsewhere(tmp_path: Path) -> None:
    write(tmp_path, in___a="x", out="x", inside="x")
    items = items_of(ps.read_text(tmp_path / "in"))
    for name in ("out", "inside"):
        with pytest.raises(ps.DataError, match=rf"{name}': must lie below 'file://{tmp_path}/in', which is read"):
            items.arrived_file(f"file:{tmp_path}/{name}")
        assert not items.takes(str(tmp_path / name))


def test_a_file_that_is_gone_or_another(tmp_path: Path, kind: Kind) -> None:
    kind.write(tmp_path / "a", columns(0))
    items = items_of(kind.read(tmp_path))
    kind.write(tmp_path / "b", columns(0))
    path, size = tmp_path / "b", (tmp_path / "b").stat().st_size
    assert items.arrived_file(str(path), size).size == size
    with pytest.raises(
        ps.DataError, match=rf"b': must have {size + 1} bytes, as when it was first seen; it has {size}"
    ):
        items.arrived_file(str(path), size + 1)
    file = items.arrived_file(str(path))
    path.unlink()
    with pytest.raises(ps.DataError, match=r"/b': must be there until it has been read; it is gone; put it back"):
        items.arrived_file(str(path), size)
    with pytest.raises(ps.DataError, match=r"/b': must be there while it is read; it is gone"):
        read(items, [file])
    path.mkdir()
    with pytest.raises(ps.DataError, match=r"/b': must be a file; it is none"):
        items.arrived_file(str(path))


@pytest.mark.parametrize("about_bytes", [1, UNCUT])
def test_a_file_of_another_schema(tmp_path: Path, about_bytes: int) -> None:
    """Refused as in a batch over both."""
    for name in ("parquet", "csv", "json"):
        kind, folder = KINDS[name], tmp_path / name
        kind.write(folder / "a", columns(0))
        items = items_of(kind.read(folder))
        kind.write(folder / "b", {"id": ["x"], "name": ["y"]} if name == "json" else {"id": [1], "other": [2]})
        with pytest.raises(ps.DataError) as batch:
            rows_of(kind.read(folder), about_bytes)
        with pytest.raises(ps.DataError) as later:
            task = in_a_task(items)
            read(task, [task.arrived_file(str(folder / "b"))], about_bytes)
        assert str(later.value) == str(batch.value)
        assert f"file '{folder}/b'" in str(later.value)


@pytest.mark.parametrize("about_bytes", [1, 100, UNCUT])
def test_an_empty_folder(tmp_path: Path, kind: Kind, about_bytes: int) -> None:
    (tmp_path / "in" / "deeper").mkdir(parents=True)
    stream = kind.read(tmp_path / "in", **kind.options)
    items = items_of(stream)
    assert items.files == () and not items.has_partitions
    assert items.root == (f"file://{tmp_path}/in", "*")
    message = rf"'{tmp_path}/in' must hold a file; the folder has none \(names that begin with"
    for run in (lambda: items.splits(about_bytes), lambda: stream.collect(spark=False), lambda: next(items.rows())):
        with pytest.raises(ps.GraphError, match=message):
            run()
    kind.write(tmp_path / "in" / "day=1" / "a", columns(0))
    task = in_a_task(items)
    expected = rows_of(kind.read(tmp_path / "in", partitions=False, **kind.options))
    assert read(task, [task.arrived_file(f"file:{tmp_path}/in/day=1/a")], about_bytes) == expected != []


def test_a_glob_that_fits_no_file_yet(tmp_path: Path, kind: Kind) -> None:
    stream = kind.read(tmp_path / "*.x", **kind.options)
    items = items_of(stream)
    assert items.files == () and items.root == (f"file://{tmp_path}", "*.x")
    assert items.takes(f"file:{tmp_path}/a.x") and not items.takes(f"file:{tmp_path}/a.y")
    with pytest.raises(ps.GraphError, match=r"'.*/\*.x' must match a file; it matches none"):
        stream.collect(spark=False)


def test_what_is_missing_is_no_empty_folder(tmp_path: Path, kind: Kind) -> None:
    for path in (tmp_path / "missing", tmp_path / "missing" / "*", tmp_path / "*" / "*.x", [tmp_path, tmp_path]):
        with pytest.raises(ps.GraphError, match=r"must (be a file, a folder or a glob|match a file|hold a file)"):
            kind.read(path, **kind.options)
    if kind.options:
        with pytest.raises(ps.GraphError, match="must hold a file; the folder has none"):
            kind.read(tmp_path)


def test_a_schema_is_checked_before_the_first_file(tmp_path: Path) -> None:
    with pytest.raises(
        ps.GraphError, match="a field of CSV must be a number, a time, a boolean or a string; 'v' is list"
    ):
        ps.read_csv(tmp_path, schema={"v": list[int]})
    with pytest.raises(ps.GraphError, match="schema= must name columns of the files; 'x' is none of 'v', 'w'"):
        ps.read_csv(tmp_path, schema={"x": int}, names=["v", "w"])
    with pytest.raises(ps.GraphError, match="an item must have at least one field"):
        ps.read_parquet(tmp_path, schema={})


def csv_items(folder: Path, **options: Any) -> FileItems:
    """Of a folder that is empty, or has only files without a header."""
    return in_a_task(items_of(ps.read_csv(folder, schema={"b": int, "a": str}, **options)))


@pytest.mark.parametrize("whole", [False, True])
def test_csv_before_its_first_header(tmp_path: Path, whole: bool) -> None:
    write(tmp_path, **{"empty__csv.gz": gzip.compress(b""), "nothing__csv": ""})
    items = csv_items(tmp_path, newlines_in_values=whole)
    write(tmp_path, one__csv="\ufeffa,more,b\nx,?,1\n", two__csv="b,a\n2,y\n3,z\n", three__csv="")
    expected = [{"b": 1, "a": "x"}, {"b": 2, "a": "y"}, {"b": 3, "a": "z"}]
    for about_bytes in (1, UNCUT):
        names = ["empty.csv.gz", "one.csv", "three.csv", "two.csv", "nothing.csv"]
        assert read(items, [items.arrived_file(str(tmp_path / name)) for name in names], about_bytes) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "b,c\n1,2\n": "line 1: must name the column 'a', as schema= does; got 'b', 'c'",
        "b,a,b\n": "line 1: columns must have different names; got 'b', 'a', 'b'; give names=",
        "b,a\nx,y\n": "line 2, byte 4: the field 'b' must be int64; got 'x'",
        "b,a\n1\n": "line 2, byte 4: must have 2 fields; got 1 in '1'",
    }.items(),
)
def test_csv_files_that_do_not_fit_the_schema(tmp_path: Path, text: str, message: str) -> None:
    items = csv_items(tmp_path)
    write(tmp_path, late__csv=text)
    with pytest.raises(ps.DataError) as error:
        read(items, [items.arrived_file(str(tmp_path / "late.csv"))])
    assert str(error.value).startswith(f"source 'csv': file '{tmp_path}/late.csv', {message}")


def test_csv_without_headers(tmp_path: Path) -> None:
    items = csv_items(tmp_path, names=["a", "b"])
    write(tmp_path, late__csv="x,1\ny,2\n")
    assert read(items, [items.arrived_file(str(tmp_path / "late.csv"))], 1) == [{"b": 1, "a": "x"}, {"b": 2, "a": "y"}]


def test_csv_goes_by_the_header_of_the_first_file_that_has_one(tmp_path: Path) -> None:
    write(tmp_path, **{"1__csv.gz": gzip.compress(b""), "2__csv": "a,b\nx,1\n", "3__csv": "b,a\n1,x\n"})
    assert rows_of(ps.read_csv([tmp_path / "1.csv.gz", tmp_path / "2.csv"])) == [{"a": "x", "b": 1}]
    with pytest.raises(
        ps.DataError, match=r"3.csv', line 1: must have the header of '.*/2.csv', 'a', 'b'; got 'b', 'a'"
    ):
        rows_of(ps.read_csv(tmp_path))


# Files of zero bytes


@pytest.mark.parametrize("about_bytes", [1, UNCUT])
def test_a_file_of_zero_bytes_is_a_file_without_items(tmp_path: Path, kind: Kind, about_bytes: int) -> None:
    kind.write(tmp_path / "2", columns(0))
    expected = rows_of(kind.read(tmp_path / "2"))
    for name in "13":
        (tmp_path / name).write_bytes(b"")
    stream = kind.read(tmp_path)
    assert rows_of(stream, about_bytes) == expected
    assert stream.collect(spark=False).to_pylist() == expected
    task = in_a_task(items_of(stream))
    assert read(task, [task.arrived_file(str(tmp_path / name)) for name in "123"], about_bytes) == expected


def test_of_files_of_zero_bytes_alone_no_fields_can_be_inferred(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "1").write_bytes(b"")
    assert rows_of(kind.read(tmp_path, **kind.options)) == []
    if kind.options:
        with pytest.raises(ps.GraphError, match=r"all files are empty, so that .*; give schema="):
            kind.read(tmp_path)
