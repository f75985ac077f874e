"""`penstock run` as a stream: what is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import commands, own
from penstock.errors import GraphError


def refused(*arguments: object, code: int) -> str:
    result = CliRunner().invoke(commands.commands, ["run", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["taxi", "--stream", "in"], "--stream needs a --checkpoint"),
        (["taxi", "--trigger", "2"], "--trigger, --files-per-batch and --restart are for a stream"),
        (["taxi", "--files-per-batch", "2"], "are for a stream"),
        (["taxi", "--restart"], "are for a stream"),
        (["taxi", "--stream", "in", "--checkpoint", "ck", "--here"], "--here is not for a stream"),
        (["taxi", "--stream", "in", "--checkpoint", "ck", "--input", "in"], "--input is not for a stream"),
        (["taxi", "--stream", "in", "--checkpoint", "ck", "--size", "0"], "--size is not for a stream"),
        (["taxi", "--stream", "in", "--checkpoint", "ck", "--overwrite"], "--overwrite is not for a stream"),
        (["taxi", "--stream", "in", "--checkpoint", "ck", "--trigger", "soon"], "above 0, or 'available'; got 'soon'"),
        (["taxi", "--stream", "in", "--checkpoint", "ck", "--trigger", "0"], "above 0, or 'available'; got '0'"),
        (["taxi", "--stream", "in", "--checkpoint", "ck", "--files-per-batch", "0"], "0 is not in the range"),
    ],
)
def test_options_that_do_not_fit(arguments: list[str], message: str) -> None:
    assert message in " ".join(refused(*arguments, code=2).split())


SOURCE = """
import penstock as ps
from pathlib import Path

def lines(folder, least=0):
    return ps.read_text(folder).filter(lambda line: len(line) > least)

def typed(folder: Path):
    assert isinstance(folder, Path)
    return ps.read_text(folder)

def nothing():
    return ps.from_items([{"v": 1}])

ready = nothing()
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "in").mkdir()
    return str(tmp_path / "mine.py")


def test_a_function_of_ones_own_gets_the_folder(file: str, tmp_path: Path) -> None:
    for name in ("lines", "typed"):
        stream = own.load(f"{file}:{name}", [], str(tmp_path / "in"))
        assert stream.schema.names == ["line"]
    assert own.load(f"{file}:lines", ["least=3"], str(tmp_path / "in")).schema.names == ["line"]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("ready", [], "must be a function of a folder, to be given one; it is <stream of .*; leave out --stream"),
        ("nothing", [], "must be a function of a folder, to be given one; it takes nothing"),
        ("lines", ["folder=x"], "has no setting 'folder'"),
    ],
)
def test_what_cannot_be_given_a_folder(file: str, name: str, settings: list[str], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        own.load(f"{file}:{name}", settings, "in")
