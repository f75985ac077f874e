from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.examples import taxi, taxi_data

GOOD = b'"1","A","[[1.5,2.5]]"\n'


def lines(path: Path) -> list[str]:
    found: list[str] = taxi.read(path).collect(False).column("line").to_pylist()
    return found


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        taxi.generate(tmp_path / folder, 200, seed)
    a, b, c = (b"".join(file.read_bytes() for file in sorted((tmp_path / folder).iterdir())) for folder in "abc")
    assert a == b != c
    assert a.count(b"\n") == 200


def test_what_is_read_is_what_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taxi_data, "PIECE_LINES", 16)
    monkeypatch.setattr(taxi_data, "FILE_PIECES", 2)
    taxi.generate(tmp_path, 100, 4)
    assert len(list(tmp_path.iterdir())) == 4
    assert lines(tmp_path) == pa.Table.from_batches(taxi.pieces(100, 4)).column("line").to_pylist()


def test_lines_are_as_long_as_in_the_paper() -> None:
    made = pa.Table.from_batches(taxi.pieces(5000)).column("line").to_pylist()
    pairs = [line.count("],[") + line.count("[[") for line in made]
    assert 1300 < sum(map(len, made)) / len(made) < 1500
    assert 42 < sum(pairs) / len(pairs) < 48
    assert max(pairs) > 8 * 45
    assert 0 in pairs


def test_ends_of_lines_and_names_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b'"TRIP_ID","X","POLYLINE"\r\n' + GOOD.replace(b"\n", b"\r\n") + GOOD.strip())
    assert lines(path) == [GOOD.decode().strip()] * 2
    path.write_bytes(b"")
    assert lines(path) == []
    path.write_bytes(b'"TRIP_ID","POLYLINE"\n')
    assert lines(path) == []


FAULTS = {
    "no quotes at all": (b"", b"1,A,[[1,2]]\n", "begin with a quoted trip id"),
    "no quoted trip id": (GOOD, b'1,"[[1,2]]"\n', "begin with a quoted trip id"),
    "an empty line": (GOOD, b"\n", "begin with a quoted trip id"),
    "an open quote": (GOOD, b'"1","A,"[[1,2]]"\n', "a quote must be closed"),
    "a cut line": (GOOD, b'"1","A","[[1,2],[3', "a quote must be closed"),
    "one field": (GOOD, b'"[[1,2]]"\n', "quoted trip id and a quoted polyline"),
    "text behind the last quote": (GOOD, b'"1","[[1,2]]"x\n', "ends outside a quote"),
    "another last field": (GOOD, b'"1","[[1,2]]","A"\n', "its last field is none"),
    "a polyline that is not closed": (GOOD, b'"1","[[1,2"\n', "end with a bracket"),
    "two polylines": (GOOD, b'"1","[[1,2]]","[]"\n', "only the last field"),
}


@pytest.mark.parametrize(("before", "line", "text"), FAULTS.values(), ids=FAULTS)
def test_a_malformed_file_is_an_error_that_names_the_byte(
    tmp_path: Path, before: bytes, line: bytes, text: str
) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(10 * before + line)
    with pytest.raises(ps.FunctionError, match=text) as caught:
        taxi.read(path).collect(False)
    assert "lines.txt" in str(caught.value) and f"byte={10 * len(before)})" in str(caught.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(GOOD + b'"1","\xff","[]"\n')
    with pytest.raises(ps.DataError, match="UTF-8") as caught:
        taxi.read(path).collect(False)
    assert "lines.txt" in str(caught.value) and str(len(GOOD) + 5) in str(caught.value)


def test_the_first_of_two_faults_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(GOOD + b'"1","[[1,2"\n' + b"\n" + GOOD)
    with pytest.raises(ps.FunctionError, match=rf"a polyline must end.*byte={len(GOOD)}\)"):
        taxi.read(path).collect(False)


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.txt"):
        with pytest.raises(ps.PenstockError, match="source 'lines'"):
            taxi.read(path).collect(spark=False)
    with pytest.raises(ps.DataError, match="at least 0 lines"):
        taxi.generate(tmp_path, -1)
