"""Text files, and what all files of lines have in common: each line is read exactly once, wherever a file is cut."""

from __future__ import annotations

import gzip
import itertools
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.files.data import items_of, rows_of, write

import penstock as ps
from penstock.graph.files import line_blocks as lines_module
from penstock.graph.files.line_blocks import Range, blocks
from penstock.graph.files.paths import find
from penstock.graph.files.text_lines import Lines
from penstock.kernels.line_bounds import line_bounds

PIECES = st.lists(st.sampled_from(["", "a", "é", "日本", "x" * 9, "\r", "\n", "\r\n", "\n\n", "12345678"]), max_size=30)


def plain(text: str) -> list[tuple[int, str]]:
    """The lines of a text and the bytes at which they begin, the slow way."""
    found, at = [], 0
    for line in text.encode().split(b"\n"):
        found.append((at, line))
        at += len(line) + 1
    if not found[-1][1]:
        found.pop()
    ends_with_newline = text.endswith("\n")
    return [
        (at, (line.removesuffix(b"\r") if ends_with_newline or place + 1 < len(found) else line).decode())
        for place, (at, line) in enumerate(found)
    ]


def read_ranges(path: Path, cuts: list[int]) -> list[tuple[int, str]]:
    (file,) = find("source 'text'", path).files
    fields = items_of(ps.read_text(path, offset="at")).splits(1 << 40)[0].fields if file.size else None
    found = []
    for start, stop in itertools.pairwise(cuts):
        if fields is not None and start < stop:
            for batch in Lines(fields, Range(file, start, stop)).read(None, 3):
                found += [(row["at"], row["line"]) for row in batch.to_pylist()]
    return found


@settings(deadline=None, max_examples=300)
@given(PIECES, st.data())
def test_any_cuts_give_each_line_once(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    size = len(text.encode())
    cuts = sorted([0, size, *data.draw(st.lists(st.integers(0, size), max_size=8))])
    block = data.draw(st.sampled_from([1, 2, 7, 64, 1 << 20]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "LOOK_BYTES", data.draw(st.sampled_from([1, 3, 1 << 16])))
        patch.setattr(lines_module.blocks, "__defaults__", (block,))
        path = Path(folder, "t.txt")
        path.write_bytes(text.encode())
        assert read_ranges(path, cuts) == plain(text)


@settings(deadline=None, max_examples=100)
@given(st.lists(PIECES, min_size=1, max_size=4), st.integers(1, 50))
def test_any_size_of_splits(files: list[list[str]], about_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, pieces in enumerate(files):
            Path(folder, f"{number}.txt").write_bytes("".join(pieces).encode())
        expected = [line for pieces in files for _, line in plain("".join(pieces))]
        stream = ps.read_text(folder)
        assert [row["line"] for row in rows_of(stream)] == expected
        assert [row["line"] for row in rows_of(stream, about_bytes, at_most=2)] == expected


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from([10, 13, 97, 0, 11, 138, 255]), max_size=40))
def test_line_bounds_are_those_of_numpy(values: list[int]) -> None:
    data = np.array(values, np.uint8)
    bounds = np.full(2 * len(data) + 3, -1, np.int32)
    count = line_bounds(data, data[: len(data) // 8 * 8].view(np.uint64), bounds)
    ends = np.flatnonzero(data == 10)
    starts = np.concatenate(([0], ends + 1))
    stripped = ends - ((ends > 0) & (data[np.maximum(ends, 1) - 1] == 13)) if len(ends) else ends
    if len(data) and data[-1] != 10:
        stripped, starts = np.append(stripped, len(data)), np.append(starts, len(data))
    assert bounds[:count].tolist() == np.concatenate(([0], np.stack([stripped, starts[1:]], 1).ravel())).tolist()


def test_the_range_of_a_line_is_where_it_begins(tmp_path: Path) -> None:
    write(tmp_path, t="abc\nd\n" + "e" * 100)
    (file,) = find("s", tmp_path / "t").files
    for start, stop, expected in [
        (0, 1, b"abc\n"),
        (1, 4, b""),
        (4, 5, b"d\n"),
        (3, 7, b"d\n" + b"e" * 100),
        (7, 106, b""),
    ]:
        assert b"".join(block.data.tobytes() for block in blocks(Range(file, start, stop))) == expected


def test_huge_lines(tmp_path: Path) -> None:
    huge = "x" * (9 << 20)
    write(tmp_path, t__txt=f"first\n{huge}\nlast")
    assert [len(row["line"]) for row in rows_of(ps.read_text(tmp_path), 1 << 20)] == [5, 9 << 20, 4]


def test_file_and_offset(tmp_path: Path) -> None:
    write(tmp_path, a="x\r\nyy\n", b="z")
    stream = ps.read_text(tmp_path, line="text", file="from", offset="at")
    assert stream.schema == pa.schema([("text", pa.string()), ("from", pa.string()), ("at", pa.int64())])
    a, b = f"{tmp_path}/a", f"{tmp_path}/b"
    expected = [
        {"text": "x", "from": a, "at": 0},
        {"text": "yy", "from": a, "at": 3},
        {"text": "z", "from": b, "at": 0},
    ]
    assert rows_of(stream) == rows_of(stream, 2) == expected
    for columns in ({"at"}, {"from"}, {"text"}, {"from", "at"}):
        assert rows_of(stream, columns=columns) == [{k: v for k, v in row.items() if k in columns} for row in expected]
    assert rows_of(stream, columns=()) == [{"at": row["at"]} for row in expected]
    with pytest.raises(ps.GraphError, match="the name of a field must be a string; got 3"):
        ps.read_text(tmp_path, file=3)
    with pytest.raises(ps.GraphError, match="fields must have different names; got 'line' twice"):
        ps.read_text(tmp_path, file="line")


def test_empty_files_have_no_lines(tmp_path: Path) -> None:
    write(tmp_path, a="", b="x", c="")
    assert rows_of(ps.read_text(tmp_path), 1) == [{"line": "x"}]
    assert rows_of(ps.read_text(tmp_path / "a")) == []
    assert items_of(ps.read_text(tmp_path / "a")).splits(10) == []


@pytest.mark.parametrize("ending", ["gz", "zst", "bz2"])
def test_compressed_files_are_read_whole(tmp_path: Path, ending: str) -> None:
    text = "".join(f"line {number}\n" for number in range(1000)).encode()
    codec = {"gz": "gzip", "zst": "zstd", "bz2": "bz2"}[ending]
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(text)
    (tmp_path / f"a.txt.{ending}").write_bytes(sink.getvalue().to_pybytes())
    read = ps.read_text(tmp_path, offset="at")
    assert len(items_of(read).splits(10)) == 1
    assert rows_of(read, 10)[:2] == [{"line": "line 0", "at": 0}, {"line": "line 1", "at": 7}]
    assert len(rows_of(read, 10)) == 1000


def test_gzip_in_several_members(tmp_path: Path) -> None:
    write(tmp_path, a__gz=gzip.compress(b"one\ntw") + gzip.compress(b"o\n"))
    assert rows_of(ps.read_text(tmp_path)) == [{"line": "one"}, {"line": "two"}]


def test_small_files_are_together_and_splits_are_small(tmp_path: Path) -> None:
    write(tmp_path, **{f"f{number:03d}": f"{number}\n" for number in range(300)})
    splits = items_of(ps.read_text(tmp_path)).splits(400)
    assert len(splits) == 3
    assert splits[0].label == "f000 to f126 (127 pieces)"
    assert splits[0].rows is None and splits[0].skipped_before == 0
    assert sum(split.bytes for split in splits) == 10 * 2 + 90 * 3 + 200 * 4
    assert len(pickle.dumps(splits[0])) < 127 * 300
    assert [batch.num_rows for batch in splits[0].read(None, 1000)] == [127]  # not a batch a file


BAD = {
    "not UTF-8": (
        {"a__txt": b"ok\nfine\nb\xe9d\n"},
        "file '{0}/a.txt': must be text in UTF-8; it is not at line 3, byte 9 (0xe9); convert the file to UTF-8",
    ),
    "a character cut by a newline": (
        {"a__txt": b"\xc3\n\xa9\n"},
        "file '{0}/a.txt': must be text in UTF-8; it is not at line 1, byte 0 (0xc3)",
    ),
    "a cut gzip file": (
        {"a__gz": gzip.compress(b"line\n" * 1000)[:-20]},
        "file '{0}/a.gz': must be gzip data, as its name says; ",
    ),
    "no gzip file": ({"a__gz": b"plain"}, "file '{0}/a.gz': must be gzip data, as its name says; "),
    "not UTF-8 inside a compressed file": (
        {"a__gz": gzip.compress(b"x\n\xff")},
        "file '{0}/a.gz': must be text in UTF-8; it is not at line 2, byte 2 of what is compressed in it (0xff)",
    ),
}


@pytest.mark.parametrize(("files", "message"), BAD.values(), ids=BAD)
def test_bad_text(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    write(tmp_path, **files)
    with pytest.raises(ps.DataError) as error:
        rows_of(ps.read_text(tmp_path))
    assert str(error.value).startswith("source 'text': " + message.format(tmp_path))


def test_a_file_that_changes_after_it_was_found(tmp_path: Path) -> None:
    write(tmp_path, a__txt="one\ntwo\n")
    stream = ps.read_text(tmp_path)
    write(tmp_path, a__txt="one\n")
    with pytest.raises(ps.DataError, match="must have 8 bytes, as when it was found; it has fewer now"):
        rows_of(stream)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(ps.DataError, match="must be there while it is read; it is gone; build the stream again"):
        rows_of(stream)
