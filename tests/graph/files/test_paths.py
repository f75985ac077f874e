"""Which files a path means, in which order, and what partition folders give."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.graph.files.data import rows_of, write, write_parquet

import penstock as ps


def lines(path: Any, **options: Any) -> list[str]:
    return [row["line"] for row in rows_of(ps.read_text(path, **options))]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(
        tmp_path,
        a__txt="a",
        b___c__txt="bc",
        b___d___e__txt="bde",
        b10__txt="b10",
        b2__txt="b2",
        _hidden="no",
        b____SUCCESS="",
    )


def test_a_folder_gives_all_files_in_the_order_of_their_whole_paths(tmp_path: Path) -> None:
    write(tmp_path, b2__txt="b2", b10__txt="b10", b___z__txt="b/z", b___c___a__txt="b/c/a", a__txt="a")
    write(tmp_path, _left__txt="no", b____out__txt="no", __hidden___x="no")
    assert lines(tmp_path) == ["a", "b/c/a", "b/z", "b10", "b2"]  # '/' comes before '1'


@pytest.mark.parametrize(
    ("pattern", "found"),
    {
        "*.txt": ["a", "b10", "b2"],
        "b*": ["bc", "bde", "b10", "b2"],  # a folder stands for all files in it
        "b?.txt": ["b2"],
        "b[0-9].txt": ["b2"],
        "**/*.txt": ["a", "bc", "bde", "b10", "b2"],
        "**": ["a", "bc", "bde", "b10", "b2"],
        "b/**/e.txt": ["bde"],
        "*/c.txt": ["bc"],
        "_*": ["no"],
    }.items(),
)
def test_globs(tree: Path, pattern: str, found: list[str]) -> None:
    assert lines(f"{tree}/{pattern}") == found
    assert lines(f"file://{tree}/{pattern}") == found or "?" in pattern


def test_a_list_keeps_its_order(tree: Path) -> None:
    assert lines([tree / "b2.txt", f"{tree}/a*", str(tree / "b")]) == ["b2", "a", "bc", "bde"]


def test_a_path_that_is_there_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1]*.txt").write_text("odd")
    assert lines(tmp_path / "a[1]*.txt") == ["odd"]


def test_a_named_file_may_be_hidden(tree: Path) -> None:
    assert lines(tree / "_hidden") == ["no"]


def test_addresses_and_relative_paths(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert lines("b") == lines(f"file://{tree}/b") == lines(f"file://{tree}/b/") == lines("./b/../b") == ["bc", "bde"]


def test_partition_folders_are_fields(tmp_path: Path) -> None:
    for year, city in ((2020, "Ulm"), (2021, "Bad%20Urach"), (2021, "__HIVE_DEFAULT_PARTITION__")):
        write_parquet(tmp_path / f"year={year}" / f"city={city}" / "p.parquet", {"v": [1]})
    expected = [
        {"v": 1, "year": 2020, "city": "Ulm"},
        {"v": 1, "year": 2021, "city": "Bad Urach"},
        {"v": 1, "year": 2021, "city": None},
    ]
    assert rows_of(ps.read_parquet(tmp_path)) == expected
    assert rows_of(ps.read_parquet(tmp_path), 1) == expected
    assert rows_of(ps.read_parquet(f"{tmp_path}/year=*")) == expected
    assert rows_of(ps.read_parquet(tmp_path), columns={"year"}) == [{"year": 2020}, {"year": 2021}, {"year": 2021}]
    assert rows_of(ps.read_parquet(tmp_path / "year=2020"), columns={"city"}) == [{"city": "Ulm"}]
    assert rows_of(ps.read_parquet(tmp_path, partitions=False)) == [{"v": 1}] * 3
    typed = ps.read_parquet(tmp_path, schema={"v": float, "year": str})
    assert rows_of(typed)[0] == {"v": 1.0, "year": "2020", "city": "Ulm"}


def test_partition_folders_of_lines(tmp_path: Path) -> None:
    write(tmp_path, **{"day=a___x__csv": "v\n1\n", "day=7___x__csv": "v\n2\n"})
    assert rows_of(ps.read_csv(tmp_path)) == [{"v": 2, "day": "7"}, {"v": 1, "day": "a"}]
    write(tmp_path / "t", **{"day=1___x__txt": "a\nb"})
    assert rows_of(ps.read_text(tmp_path / "t"), 2) == [{"line": "a", "day": 1}, {"line": "b", "day": 1}]
    write(tmp_path / "j", **{"day=1___x__json": '{"v": 1}'})
    assert rows_of(ps.read_json(tmp_path / "j")) == [{"v": 1, "day": 1}]


@pytest.mark.parametrize(
    ("path", "message"),
    {
        "missing": "'{0}/missing' must be a file, a folder or a glob; there is no such path",
        "missing/*.txt": "'{0}/missing/*.txt' must match a file; it matches none",
        "*.parquet": "'{0}/*.parquet' must match a file; it matches none",
        "empty": "'{0}/empty' must hold a file; the folder has none",
        "a.txt/inside": "'{0}/a.txt/inside' ",
    }.items(),
)
def test_paths_without_files(tree: Path, path: str, message: str) -> None:
    (tree / "empty" / "_logs").mkdir(parents=True)
    with pytest.raises(ps.GraphError) as error:
        lines(f"{tree}/{path}", name="words")
    assert str(error.value).startswith("source 'words': " + message.format(tree))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ([], "there must be at least one file"),
        (3, "the path must be a string, a Path or a list"),
        (["a", 3], "the path must be a string, a Path or a list"),
        ("nosuch://host/file", "'nosuch://host/file' cannot be read; Unrecognized filesystem type"),
    ],
)
def test_what_is_no_path(path: Any, message: str) -> None:
    with pytest.raises(ps.GraphError, match=f"source 'text': {message}"):
        ps.read_text(path)


def test_a_file_given_twice(tree: Path) -> None:
    with pytest.raises(ps.GraphError, match=r"a file may be given only once; '.*/a.txt' is there twice"):
        ps.read_text([tree / "a.txt", tree / "*.txt"])


def test_files_in_other_partition_folders(tmp_path: Path) -> None:
    write(tmp_path, **{"x=1___a__txt": "1", "y=1___a__txt": "1"})
    with pytest.raises(
        ps.GraphError, match=r"same names as .*x=1/a.txt'; got \['y'\] and \['x'\]; say partitions=False"
    ):
        ps.read_text(tmp_path)
    assert lines(tmp_path, partitions=False) == ["1", "1"]


def test_a_field_in_the_files_and_in_the_folders(tmp_path: Path) -> None:
    write_parquet(tmp_path / "v=1" / "p.parquet", {"v": [5]})
    with pytest.raises(
        ps.GraphError, match=r"the field 'v' must come from the files or from folders 'v=...'; it is in both"
    ):
        ps.read_parquet(tmp_path)
    assert rows_of(ps.read_parquet(tmp_path, partitions=False)) == [{"v": 5}]


def test_a_folder_whose_value_does_not_fit(tmp_path: Path) -> None:
    write_parquet(tmp_path / "k=x" / "p.parquet", {"v": [5]})
    with pytest.raises(ps.GraphError, match="the folder 'k=x' must give a value of int64; 'x' is none; give schema="):
        ps.read_parquet(tmp_path, schema={"v": int, "k": int})
    with pytest.raises(ps.GraphError, match="an item must have a field that is in the files; got only 'k' of folders"):
        ps.read_parquet(tmp_path, schema={"k": str})
    with pytest.raises(ps.GraphError, match="'k' comes from folders and must be a number or a string"):
        ps.read_parquet(tmp_path, schema={"v": int, "k": pa.list_(pa.int64())})


SHUT = """
import os, sys
import penstock as ps
list(ps.read_text(sys.argv[1]).node.items.batches(10))  # all that is needed is imported while it can be
os.seteuid(65534)
for read in (ps.read_text, ps.read_parquet, ps.read_csv, ps.read_json):
    for path in sys.argv[2:]:
        try:
            list(read(path).node.items.batches(10))
        except ps.PenstockError as error:
            print(error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_paths_without_permission() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name), open="x", shut="x", folder___file="x")
        folder.chmod(0o755)
        (folder / "shut").chmod(0)
        (folder / "folder").chmod(0)
        paths = [str(folder / path) for path in ("open", "shut", "folder")]
        shut = subprocess.run([sys.executable, "-c", SHUT, *paths], capture_output=True, text=True)
    said = shut.stdout.splitlines()
    assert len(said) == 8, shut.stderr
    assert all("must be readable; permission was denied; ask for the right to read it" in line for line in said)
    assert all(f"{folder}/" in line for line in said)
