"""Malformed records of files are skipped: each uses up an index, and a letter tells where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.errors.letters import letters_of

import penstock as ps
from penstock.graph import reference

NUMBERS = {"k": int, "v": int}


def skipped(stream: ps.Stream) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    """The rows and the letters, which are the same on the reference and the engine."""
    told = reference.run((stream.node,), on_error="skip")
    run = stream.prepare(spark=False, on_error="skip", compile=False)
    rows = run.collect().to_pylist()
    assert rows == told.tables[0].to_pylist()
    letters = letters_of(run.dead_letters())
    assert letters == list(told.letters)
    return rows, [(each.index, each.number, Path(each.file or "").name, each.position) for each in letters]


def test_malformed_lines_of_csv_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,v\n1,2\n1,x\n2\n\n3,4,5\n4,6\n")
    (tmp_path / "b.csv").write_text("k,v\n5,0\n6,9\n7,\n")
    stream = ps.read_csv(tmp_path, schema=NUMBERS).map(w=lambda v: 18 // v)
    rows, letters = skipped(stream)
    assert [row["w"] for row in rows] == [9, 3, 2]
    malformed = [
        (1, 0, "a.csv", "line 3, byte 8"),
        (2, 0, "a.csv", "line 4, byte 12"),
        (3, 0, "a.csv", "line 6, byte 15"),
    ]
    assert letters == [*malformed, (5, 1, "", None), (7, 0, "", None)]
    with pytest.raises(ps.DataError, match="line 3, byte 8"):
        stream.collect(spark=False)


def test_malformed_lines_of_json_and_text_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"k":1,"v":2}\n{"k":1,\n{"k":2,"v":"x"}\n{"k":3,"v":4}\n')
    rows, letters = skipped(ps.read_json(tmp_path / "a.json", schema=NUMBERS).filter(lambda v: v > 0))
    assert [row["k"] for row in rows] == [1, 3]
    assert letters == [(1, 0, "a.json", "line 2, byte 14"), (2, 0, "a.json", "line 3, byte 22")]
    (tmp_path / "a.txt").write_bytes(b"one\ntw\xff\r\nthree")
    rows, letters = skipped(ps.read_text(tmp_path / "a.txt").map(n=lambda line: len(line)))
    assert rows == [{"line": "one", "n": 3}, {"line": "three", "n": 5}]
    assert letters == [(1, 0, "a.txt", "line 2, byte 4")]


def test_one_bad_line_among_many_is_found_in_every_block(tmp_path: Path) -> None:
    bad = {0, 17, 4000, 9999}
    lines = [f"{at},{'x' if at in bad else at}" for at in range(10_000)]
    (tmp_path / "a.csv").write_text("k,v\n" + "\n".join(lines) + "\n")
    run = ps.read_csv(tmp_path, schema=NUMBERS).filter(lambda v: v >= 0).prepare(spark=False, on_error="skip")
    assert run.collect()["k"].to_pylist() == [at for at in range(10_000) if at not in bad]
    assert run.dead_letters()["index"].to_pylist() == sorted(bad)


def test_a_file_that_cannot_be_read_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(b"no gzip")
    stream = ps.read_csv(tmp_path, schema=NUMBERS, names=["k", "v"])
    with pytest.raises(ps.DataError, match="must be gzip data"):
        stream.collect(spark=False, on_error="skip")
