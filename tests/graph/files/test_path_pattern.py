"""A path as Spark writes it and as the file system does, and what of a path Spark can watch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.fs as pf
import pytest
from tests.graph.files.data import items_of, write

import penstock as ps
from penstock.graph.files.path_pattern import PathPattern


def place(address: str, base: str) -> PathPattern:
    return PathPattern("given", pf.LocalFileSystem(), base, address, ())


@pytest.mark.parametrize(
    ("where", "path", "names"),
    [
        (place("s3a://bucket/in", "bucket/in"), "s3a://bucket/in/day=1/a %20b", ["day=1", "a %20b"]),
        (place("s3a://bucket/in", "bucket/in"), "s3://bucket/in/a", ["a"]),
        (place("s3a://bucket/in", "bucket/in"), "bucket/in/a", ["a"]),
        (place("s3a://bucket", "bucket"), "s3a://bucket/a", ["a"]),
        (place("s3a://bucket/in", "bucket/in"), "s3a://bucket/inside/a", None),
        (place("hdfs:///in", "/in"), "hdfs://host:8020/in/a", ["a"]),
        (place("abfs://box@account/in", "box/in"), "abfs://box@account/in/a", ["a"]),
        (place("file:///", "/"), "file:/a/b", ["a", "b"]),
        (place("file:///in", "/in"), "file:/in/../a", None),
        (place("file:///in", "/in"), "file:/in", None),
    ],
)
def test_addresses(where: PathPattern, path: str, names: list[str] | None) -> None:
    assert where.below(path) == names


@pytest.mark.parametrize(
    ("given", "root", "taken", "left"),
    [
        ("", ("", "*"), ["a.txt", "new", "deep/er/new"], ["_a", ".a", "_k=1/a", "deep/_er/a", "/else"]),
        ("*.txt", ("", "*.txt"), ["new.txt"], ["new", "deep/new.txt", "_a.txt"]),
        ("a[!b-d]?.*", ("", "a[!b-d]?.*"), ["ae1.txt"], ["ab1.txt"]),
        ("[^x]{*", ("", r"?\{*"), ["x{", "^{}"], ["y{", "x"]),
        ("d*/*.txt", ("/d*", "*.txt"), ["day/new.txt"], ["new.txt", "e/new.txt", "d/e/new.txt"]),
    ],
)
def test_what_spark_is_to_watch(tmp_path: Path, given: str, root: tuple[str, str], taken: list, left: list) -> None:
    write(tmp_path, **{"a__txt": "1", "ae1__txt": "1", "x{": "1", "d___a__txt": "1"})
    items = items_of(ps.read_text(f"{tmp_path}/{given}"))
    assert items.root == (f"file://{tmp_path}{root[0]}", root[1])
    assert [name for name in [*taken, *left] if items.takes(f"file:{tmp_path}/{name}")] == taken
    assert all(items.takes(file.path) for file in items.files)


def test_a_folder_that_looks_like_a_glob(tmp_path: Path) -> None:
    write(tmp_path / "a[1]{*}", x="1")
    items = items_of(ps.read_text(tmp_path / "a[1]{*}"))
    assert items.root == (rf"file://{tmp_path}/a\[1\]\{{\*\}}", "*")
    assert items_of(ps.read_text([tmp_path / "a[1]{*}"])).root == items.root  # a list of one


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (["a.txt", "d"], "a list of 2 paths; give the folder that they lie in"),
        ("a.txt", "the file '{0}/a.txt'; give its folder"),
        ("**/*.txt", "'{0}/**/*.txt', with any number of folders; give the folder where they begin"),
        ("d*", "'{0}/d*', which matches the folder of '{0}/d/b.txt'; give one folder"),
        ("_*", "'{0}/_*'; rename the files: Spark leaves out what begins with '_' or '.'"),
    ],
)
def test_what_cannot_be_watched(tmp_path: Path, given: Any, got: str) -> None:
    write(tmp_path, a__txt="1", d___b__txt="1", _h="1")
    path = [tmp_path / name for name in given] if isinstance(given, list) else f"{tmp_path}/{given}"
    with pytest.raises(ps.GraphError) as error:
        _ = items_of(ps.read_text(path)).root
    assert str(error.value) == (
        "source 'text': to be watched for new files, the path must be one folder, or a glob of names in a folder "
        f"('folder/*.text'); got {got.format(tmp_path)}"
    )
