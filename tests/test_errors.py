"""What messages quote of the data, and that nothing is left of it where values are hidden."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import HIDDEN, HIDE_VALUES
from penstock.graph import reference

SECRET = "s3cret"


def failing(name: str) -> str:
    if len(name) > 3:
        raise ValueError(f"no such name: {name}")
    return name


def named(**fields: Any) -> ps.Stream:
    return ps.from_items([{"name": SECRET, "v": 1} | fields])


def read(text: str, reader: Callable[..., ps.Stream], ending: str, **options: Any) -> Callable[[Path], Any]:
    def run(folder: Path) -> Any:
        path = folder / f"data.{ending}"
        path.write_text(text)
        return reader(path, **options).collect(spark=False)

    return run


NUMBER = pa.schema({"v": pa.int64()})
CASES: dict[str, Callable[[Path], Any]] = {
    "a function": lambda folder: named().map(w=ps.returns(str, failing)).collect(),
    "a function, interpreted": lambda folder: named().map(w=ps.returns(str, failing)).collect(compile=False),
    "a function, by the reference": lambda folder: reference.run((named().map(w=ps.returns(str, failing)).node,)),
    "a compiled function": lambda folder: named().map(w=lambda v: 1 // (v - 1)).collect(),
    "columns": lambda folder: named().map_columns(failing, to={"w": int}).collect(),
    "a column of another type": lambda folder: named().map_columns(lambda name: name, to={"w": int}).collect(),
    "items": lambda folder: ps.from_items([{"v": 1}, {"v": SECRET}]),
    "no item": lambda folder: ps.from_items([SECRET]),
    "a value of CSV": read(f"v\n1\n{SECRET}\n", ps.read_csv, "csv", schema=NUMBER),
    "a line of CSV": read(f"v\n1\n{SECRET},2\n", ps.read_csv, "csv", schema=NUMBER),
    "a value of JSON": read(f'{{"v": 1}}\n{{"v": "{SECRET}"}}\n', ps.read_json, "json", schema=NUMBER),
    "a line of JSON": read(f'{{"v": 1}}\n{SECRET}\n', ps.read_json, "json", schema=NUMBER),
}


def told(run: Callable[[Path], Any], folder: Path) -> str:
    """All that Python would print of the error."""
    with pytest.raises(ps.PenstockError) as raised:
        run(folder)
    return "".join(traceback.format_exception_only(raised.value)) + _causes(raised.value)


def _causes(error: BaseException) -> str:
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "" if cause is None else "".join(traceback.format_exception_only(cause)) + _causes(cause)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::penstock.errors.InterpretedWarning")
def test_hidden_values_are_in_no_message(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = told(CASES[name], tmp_path)
    assert SECRET in before and HIDDEN not in before
    monkeypatch.setenv(HIDE_VALUES, "1")
    hidden = told(CASES[name], tmp_path)
    assert SECRET not in hidden and HIDDEN in hidden
    monkeypatch.setenv(HIDE_VALUES, "0")
    assert told(CASES[name], tmp_path) == before


def test_where_is_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDE_VALUES, "1")
    message = told(CASES["a compiled function"], tmp_path)
    assert "map 'w': <lambda> raised ZeroDivisionError: (hidden); on item 0 (name=(hidden), v=(hidden)); at " in message
    assert "data.csv', line 3" in told(CASES["a value of CSV"], tmp_path)
