"""CSV and JSON: any cuts give each row once, and what is wrong is told with its place."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.files.data import items_of, rows_of, write

import penstock as ps
from penstock.graph.files import csv as csv_module
from penstock.graph.files import line_blocks as lines_module

VALUES = st.text(st.sampled_from(['"', ",", "a", "é", " ", "日"]), max_size=6)
ROWS = st.lists(st.tuples(st.integers(-9, 99), VALUES), max_size=12)
SIZES = st.integers(1, 60)
BLOCKS = st.sampled_from([1, 16, 1 << 20])


def written(rows: list[tuple[int, str]], line_end: str) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator=line_end)
    writer.writerows([("n", "s"), *rows])
    return sink.getvalue()


@settings(deadline=None, max_examples=100)
@given(st.lists(ROWS, min_size=1, max_size=3), SIZES, BLOCKS, st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans())
def test_any_cuts_of_csv(files: list, about_bytes: int, block: int, line_end: str, ends: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module.blocks, "__defaults__", (block,))
        for number, rows in enumerate(files):
            text = written(rows, line_end)
            Path(folder, f"{number}.csv").write_bytes((text if ends else text.removesuffix(line_end)).encode())
        expected = [{"n": n, "s": s} for rows in files for n, s in rows]
        stream = ps.read_csv(folder, schema={"n": int, "s": str})
        assert rows_of(stream) == rows_of(stream, about_bytes, at_most=3) == expected
        assert rows_of(stream, about_bytes, columns={"s"}) == [{"s": row["s"]} for row in expected]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(st.sampled_from(['"', ",", "a", "\n", "é"]), max_size=6), max_size=8), SIZES)
def test_values_that_hold_newlines(values: list[str], about_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink = io.StringIO()
        csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("a", "b"), *((v, 1) for v in values)])
        Path(folder, "a.csv").write_bytes(sink.getvalue().encode())
        stream = ps.read_csv(folder, schema={"a": str, "b": int}, newlines_in_values=True)
        assert rows_of(stream) == rows_of(stream, about_bytes, at_most=2) == [{"a": v, "b": 1} for v in values]
        if any("\n" in value for value in values):  # never read another way
            with pytest.raises(ps.DataError, match=r"newlines_in_values=True|must have 2 fields"):
                rows_of(ps.read_csv(folder, schema={"a": str, "b": int}), about_bytes)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(st.sampled_from(['"', "a", "\n"]), max_size=4), min_size=1, max_size=8), SIZES)
def test_one_column_with_newlines_is_refused_or_right(values: list[str], about_bytes: int) -> None:
    """In one column nothing counts the fields, so that only the quotes tell that a value goes on."""
    with tempfile.TemporaryDirectory() as folder:
        sink = io.StringIO()
        csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("a",), *((v,) for v in values)])
        Path(folder, "a.csv").write_bytes(sink.getvalue().encode())
        stream = ps.read_csv(folder, schema={"a": str})
        try:
            found = rows_of(stream, about_bytes)
        except ps.DataError:
            assert any("\n" in value for value in values)
        else:
            assert found == [{"a": value} for value in values]


JSON_VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
OBJECTS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"n": JSON_VALUES, "l": st.lists(st.integers(0, 9), max_size=3), "s": st.text(max_size=4)}
    ),
    max_size=10,
)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(OBJECTS, min_size=1, max_size=3), SIZES, BLOCKS, st.sampled_from(["\n", "\r\n", "\n \n"]), st.booleans()
)
def test_any_cuts_of_json(files: list, about_bytes: int, block: int, line_end: str, ascii: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module.blocks, "__defaults__", (block,))
        for number, objects in enumerate(files):
            text = line_end.join(json.dumps(one, ensure_ascii=ascii) for one in objects)
            Path(folder, f"{number}.json").write_bytes(text.encode())
        expected = [{name: one.get(name) for name in ("s", "n", "l")} for objects in files for one in objects]
        stream = ps.read_json(folder, schema={"s": str, "n": int, "l": list[int]})
        assert rows_of(stream) == rows_of(stream, about_bytes, at_most=3) == expected
        assert rows_of(stream, about_bytes, columns={"n"}) == [{"n": row["n"]} for row in expected]


def test_inferred_types_of_csv(tmp_path: Path) -> None:
    write(tmp_path, a="", b="n,f,s,t,e\n", c="n,f,s,t,e\n1,1.5,x,2020-01-01 00:00:00,7\n2,NaN,,2020-01-02 00:00:00,\n")
    stream = ps.read_csv(tmp_path)
    assert stream.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.timestamp("s"), pa.int64()]
    one, two = rows_of(stream, 10)
    assert one == {"n": 1, "f": 1.5, "s": "x", "t": datetime.datetime(2020, 1, 1), "e": 7}
    assert two["f"] != two["f"] and two["s"] == "" and two["e"] is None  # NaN is a number, and '' is a string


def test_ways_to_write_csv(tmp_path: Path) -> None:
    write(tmp_path, a="1;'x;y'\n2;NA\n;''\n")
    stream = ps.read_csv(tmp_path, names=["n", "s"], delimiter=";", quote="'")
    assert rows_of(stream, 4) == [{"n": 1, "s": "x;y"}, {"n": 2, "s": "NA"}, {"n": None, "s": ""}]
    nulls = ps.read_csv(tmp_path, names=["n", "s"], delimiter=";", quote="'", nulls=["NA", ""])
    assert rows_of(nulls, 4)[1:] == [{"n": 2, "s": None}, {"n": None, "s": None}]
    write(tmp_path / "q", a='s\n5" pipe\n')
    assert rows_of(ps.read_csv(tmp_path / "q", quote=None)) == [{"s": '5" pipe'}]
    assert rows_of(ps.read_csv(tmp_path / "q")) == [{"s": '5" pipe'}]


def test_a_schema_of_csv_chooses_columns(tmp_path: Path) -> None:
    write(tmp_path, a="a,b,c\n1,2,x\n")
    assert rows_of(ps.read_csv(tmp_path, schema={"c": str, "a": float})) == [{"c": "x", "a": 1.0}]


def test_marks_before_a_text_and_empty_files(tmp_path: Path) -> None:
    write(tmp_path / "c", a=b"\xef\xbb\xbfn,s\n1,x\n", b="n,s\n2,y", c="", d="n,s\n", e="\ufeffn,s")
    assert rows_of(ps.read_csv(tmp_path / "c"), 5) == [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}]
    write(tmp_path / "j", a=b"\xef\xbb\xbf" + b'{"n": 1}\n', b="", c="\n")
    assert rows_of(ps.read_json(tmp_path / "j"), 5) == [{"n": 1}]
    write(tmp_path / "e", a="")
    assert rows_of(ps.read_csv(tmp_path / "e", schema={"v": int})) == []
    assert rows_of(ps.read_csv(tmp_path / "e", schema={"v": int}, newlines_in_values=True)) == []
    assert rows_of(ps.read_json(tmp_path / "e", schema={"v": int})) == []


def test_compressed_rows(tmp_path: Path) -> None:
    write(tmp_path / "c", a__csv__gz=gzip.compress(b"n\n1\n2\n"), b__csv="n\n3\n")
    assert rows_of(ps.read_csv(tmp_path / "c"), 1) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert rows_of(ps.read_csv(tmp_path / "c", newlines_in_values=True), 1) == [{"n": 1}, {"n": 2}, {"n": 3}]
    write(tmp_path / "j", a__json__gz=gzip.compress(b'{"n": 1}\n{"n": 2}'))
    assert rows_of(ps.read_json(tmp_path / "j"), 1) == [{"n": 1}, {"n": 2}]


def test_nested_json(tmp_path: Path) -> None:
    write(tmp_path, a='{"p": {"x": 1, "y": [1.5]}, "q": [{"t": 1}]}\n{"p": {"x": 2}}\n')
    assert rows_of(ps.read_json(tmp_path), 1) == [
        {"p.x": 1, "p.y": [1.5], "q.t": [1]},
        {"p.x": 2, "p.y": None, "q.t": None},
    ]
    assert rows_of(ps.read_json(tmp_path), columns={"p.x"}) == [{"p.x": 1}, {"p.x": 2}]


HEAD = "n,s\n"
BAD_CSV: dict[str, tuple[str | bytes, str]] = {
    "too few": (
        f"{HEAD}1,x\n2\n3,z\n",
        "line 3, byte 8: must have 2 fields; got 1 in '2'; mend or remove the line",
    ),
    "too many": (
        f"{HEAD}1,x\n2,y,z\n",
        "line 3, byte 8: must have 2 fields; got 3 in '2,y,z'; mend or remove the line",
    ),
    "no number": (
        f"{HEAD}1,x\n\ntwo,y\n",
        "line 4, byte 9: the field 'n' must be int64; got 'two'; give schema= another type for it",
    ),
    "not UTF-8": (b"n,s\n1,x\n2,b\xe9\n", ": must be text in UTF-8; it is not at line 3, byte 11 (0xe9)"),
    "a newline in quotes": (
        f'{HEAD}1,x\n2,"a\nb"\n',
        "line 3, byte 8: must be one row; a quote is not closed in '2,\"a'; does a value go on in the next line? "
        "then say newlines_in_values=True",
    ),
    "an open quote at the end": (f'{HEAD}1,x\n2,"y\n', "line 3, byte 8: must be one row; a quote is not closed in "),
    "a lone return": (f"{HEAD}1,x\r2,y\n", "line 2, byte 4: must be one row; it has a line end of another kind in it"),
}


@pytest.mark.parametrize(("content", "message"), BAD_CSV.values(), ids=BAD_CSV)
@pytest.mark.parametrize("about_bytes", [1, 5, 1 << 20])
def test_bad_csv(tmp_path: Path, content: Any, message: str, about_bytes: int) -> None:
    write(tmp_path, a__csv=content)
    with pytest.raises(ps.DataError) as error:
        rows_of(ps.read_csv(tmp_path, schema={"n": int, "s": str}, name="sensors"), about_bytes)
    said, comma = str(error.value), "" if message.startswith(":") else ", "
    assert said.startswith(f"source 'sensors': file '{tmp_path}/a.csv'{comma}{message}")


def test_a_value_that_does_not_fit_what_was_inferred(tmp_path: Path) -> None:
    write(tmp_path, a="n\n" + "1\n" * (1 << 20) + "1.5\n", b="n\n1\n")
    with pytest.raises(ps.DataError, match=r"a', line 1048578, byte 2097154: the field 'n' must be int64; got '1.5'"):
        rows_of(ps.read_csv(tmp_path), at_most=1 << 20)


def test_the_name_of_a_column_that_is_not_read_first(tmp_path: Path) -> None:
    write(tmp_path, a="a,b,c\n1,2,x\n")
    with pytest.raises(ps.DataError, match="line 2, byte 6: the field 'c' must be int64; got 'x'"):
        rows_of(ps.read_csv(tmp_path, schema={"c": int, "b": int}))


def test_bad_rows_in_files_with_newlines(tmp_path: Path) -> None:
    write(tmp_path, a='n,s\n1,"x\ny"\n2\n')
    with pytest.raises(ps.DataError, match=r"file '.*/a': must be CSV; .*Expected 2 columns, got 1: 2; mend the row"):
        rows_of(ps.read_csv(tmp_path, schema={"n": int, "s": str}, newlines_in_values=True))


def test_a_quote_that_is_never_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_module, "ROW_BYTES", 1000)
    write(tmp_path, a='n,s\n1,"' + "x\n" * 5000)
    with pytest.raises(
        ps.DataError, match=r"file '.*/a': a row must have at most 1000 bytes; one has more; is a quote"
    ):
        rows_of(ps.read_csv(tmp_path, schema={"n": int, "s": str}, newlines_in_values=True))


def test_headers_that_differ(tmp_path: Path) -> None:
    write(tmp_path, a="n,s\n1,x\n", b="s,n\nx,1\n")
    for options in ({}, {"newlines_in_values": True}):
        with pytest.raises(
            ps.DataError, match=r"b', line 1: must have the header of '.*/a', 'n', 's'; got 's', 'n'; write"
        ):
            rows_of(ps.read_csv(tmp_path, **options), 4)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("n,s\n1,x\n", {"schema": {"m": int}}, "schema= must name columns of the files; 'm' is none of 'n', 's'"),
        ("n,s\n1,x\n", {"schema": {"n": list[int]}}, "a field of CSV must be a number, a time, a boolean or a string"),
        ("n,n\n1,x\n", {}, "columns must have different names; got 'n', 'n'; give names="),
        ("n,s\n,x\n", {}, "the type of 'n' must be told by the first rows; all are null; give schema="),
        ("n,s\n", {}, "there must be a row to infer the types of the columns from; got none; give schema="),
        ("", {}, "all files are empty, so that there is no header; give schema="),
        ("1", {"names": "n"}, "names= must be the names of all columns, in their order; got 'n'"),
        ("1", {"delimiter": ";;"}, "delimiter= must be one ASCII character; got ';;'"),
        ("1", {"quote": "é"}, "quote= must be one ASCII character; got 'é'"),
        ("1", {"nulls": [0]}, "nulls= must be a list of strings"),
        ("1", {"schema": 3}, "schema= must be an Arrow schema or a dict of names and types; got 3"),
    ],
)
def test_what_is_refused_while_building(tmp_path: Path, content: str, options: dict, message: str) -> None:
    write(tmp_path, a__csv=content)
    with pytest.raises(ps.GraphError) as error:
        ps.read_csv(tmp_path, **options)
    assert str(error.value).startswith(f"source 'csv': {message}")


BAD_JSON: dict[str, tuple[str | bytes, str]] = {
    "cut": ('{"n": 1}\n{"n": 2\n', "line 2, byte 9: must be one JSON object, in one line; got '{\"n\": 2'; "),
    "over two lines": (
        '{"n": 1}\n{"n":\n2}\n',
        "line 2, byte 9: must be one JSON object, in one line; got '{\"n\":'; ",
    ),
    "two in a line": ('{"n": 1}{"n": 2}\n', "line 1, byte 0: must be one JSON object, in one line; got "),
    "no object": ("[1]\n", "line 1, byte 0: must be one JSON object, in one line; got '[1]'; "),
    "a string for a number": (
        '{"n": 1}\n{"n": "x"}\n',
        "line 2, byte 9: the field 'n' must be a number; got a string in '{\"n\": \"x\"}'; give schema=",
    ),
    "a fraction for an integer": (
        '{"n": 1}\n{"n": 1.5}\n',
        "line 2, byte 9: the field 'n' must be int64; got 1.5; give schema= another type for it",
    ),
    "not UTF-8": (b'{"n": 1}\n{"s": "\xe9"}\n', ": must be text in UTF-8; it is not at line 2, byte 16 (0xe9)"),
}


@pytest.mark.parametrize(("content", "message"), BAD_JSON.values(), ids=BAD_JSON)
@pytest.mark.parametrize("about_bytes", [1, 5, 1 << 20])
def test_bad_json(tmp_path: Path, content: Any, message: str, about_bytes: int) -> None:
    write(tmp_path, a__json=content)
    with pytest.raises(ps.DataError) as error:
        rows_of(ps.read_json(tmp_path, schema={"n": int, "s": str}), about_bytes)
    comma = "" if message.startswith(":") else ", "
    assert str(error.value).startswith(f"source 'json': file '{tmp_path}/a.json'{comma}{message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "all files are empty, so that there is no object to infer the fields from; give schema="),
        ('{"n": null}\n', "the type of 'n' must be told by the first rows; all are null; give schema="),
        ("{}\n", "an item must have at least one field; got none"),
    ],
)
def test_json_without_types(tmp_path: Path, content: str, message: str) -> None:
    write(tmp_path, a__json=content)
    with pytest.raises(ps.GraphError, match=message):
        ps.read_json(tmp_path)


def test_large_files_are_cut(tmp_path: Path) -> None:
    write(tmp_path, a__csv="n\n" + "1234567\n" * 1000)
    splits = items_of(ps.read_csv(tmp_path)).splits(1000)
    assert [split.label for split in splits][:2] == ["a.csv, bytes 0 to 889", "a.csv, bytes 889 to 1778"]
    assert len(splits) == 9
