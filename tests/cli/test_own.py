from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import commands

FILE = """
from __future__ import annotations

import penstock as ps
from helpers_of_mine import FACTOR

class Total(ps.State):
    sum: int

def running(v, state):
    state.sum += FACTOR * v
    return state.sum

def stream(n: int = 3, *, up_to=None, name: str = "v"):
    if up_to == "fail":
        raise ValueError("no such luck")
    items = ps.from_items([{name: v} for v in range(n)], schema={name: int})
    return items.map(total=running, state=Total) if name == "v" else items

def needy(path: str, size: int):
    return stream(size)

ready = stream(5)
number = 7
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    (tmp_path / "helpers_of_mine.py").write_text("FACTOR = 10\n")
    path = tmp_path / "mine_of_test.py"
    path.write_text(FILE)
    monkeypatch.chdir(tmp_path)
    for name in ("mine_of_test", "helpers_of_mine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return path


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(commands.commands, ["run", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_a_stream_of_a_file(file: Path) -> None:
    text = run(f"{file}:ready").stdout
    assert f"{file}:ready  its source → 5 rows in" in text
    assert [line.split() for line in text.splitlines()[1:6]][-1] == ["4", "100"]


def test_a_stream_of_a_module(file: Path) -> None:
    assert "5 rows" in run("mine_of_test:ready").stdout


def test_a_function_takes_the_settings(file: Path) -> None:
    assert "3 rows" in run("mine_of_test:stream").stdout
    assert "8 rows" in run(f"{file}:stream", "--set", "n=8", "--set", "up_to=[1, 2]").stdout
    assert "8 rows" in run(f"{file}:needy", "--set", "size=8", "--set", "path=x").stdout
    assert "other" in run(f"{file}:stream", "--set", "name=other").stdout


def test_the_result_is_written(file: Path, tmp_path: Path) -> None:
    run(f"{file}:ready", "--output", tmp_path / "out.csv")
    assert (tmp_path / "out.csv" / "part-00000.csv").read_text().splitlines()[-1] == "4,100"


@pytest.mark.parametrize(
    ("target", "settings", "message"),
    [
        ("mine_of_test:redy", [], "has no 'redy'; did you mean 'ready'?"),
        ("mine_of_test:zzz", [], "has no 'zzz'; its streams are 'ready'"),
        ("mine_of_test:number", [], "must be a stream or a function that returns one; got 7"),
        ("mine_of_test:Total", [], "must be a stream or a function that returns one"),
        ("mine_of_test:ready", ["n=1"], "is no function, so it takes no settings; got --set n=1"),
        ("mine_of_test:stream", ["m=1"], "has no setting 'm'; "),
        ("mine_of_test:stream", ["n=x"], "--set n must be a whole number; got 'x'"),
        ("mine_of_test:stream", ["up_to=fail"], "raised ValueError: no such luck"),
        ("mine_of_test:needy", ["size=1"], "must be given 'path'; say --set path=value"),
        ("no_such_module:x", [], "cannot be imported; ModuleNotFoundError: No module named 'no_such_module'"),
        ("absent.py:x", [], "'absent.py' must be a file of Python; there is none"),
        ("wrong.py:x", [], "'wrong.py' cannot be run; SyntaxError"),
        (":x", [], "must be an application, module:stream or path/to/file.py:stream; got ':x'"),
    ],
)
def test_what_is_no_stream(file: Path, target: str, settings: list[str], message: str) -> None:
    (file.parent / "wrong.py").write_text("x = (")
    given = [part for setting in settings for part in ("--set", setting)]
    refused = run(target, *given, code=1)
    assert refused.stderr.startswith("Error: run: ") and message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_data_is_not_made_for_it(file: Path) -> None:
    assert "--input and --size are for applications" in run(f"{file}:ready", "--size", 5, code=1).stderr


def test_an_error_while_it_runs_is_one_message(file: Path) -> None:
    file.write_text("import penstock as ps\nstream = ps.from_items([{'v': 1}, {'v': 0}]).map(w=lambda v: 1 // v)\n")
    refused = run(f"{file}:stream", code=1)
    assert refused.stderr.startswith("Error: map 'w': <lambda> raised ZeroDivisionError")
    assert "Traceback" not in refused.stderr


def test_items_that_fail_are_skipped_and_told_of(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "import penstock as ps\nstream = ps.from_items([{'v': v} for v in (1, 0, 2)]).map(w=lambda v: 4 // v)\n"
    )
    own, letters = f"{tmp_path / 'bad.py'}:stream", tmp_path / "dead"
    stopped = CliRunner().invoke(commands.commands, ["run", "--here", own])
    assert stopped.exit_code != 0
    shown = CliRunner().invoke(commands.commands, ["run", "--here", own, "--dead-letter", str(letters)])
    assert shown.exit_code == 0, shown.output
    assert "1 items failed and were skipped" in shown.output and list(letters.glob("*.parquet"))
