from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock import __version__
from penstock.cli import commands, demo
from penstock.cli.apps import app_of


def penstock(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(commands.commands, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def test_version_and_help() -> None:
    assert penstock("--version").stdout.strip() == f"penstock, version {__version__}"
    text = penstock("--help").stdout
    assert all(name in text for name in ("apps", "demo", "run", "send"))


def test_the_names_offered_are_those_that_exist() -> None:
    for name in commands.APP_NAMES:
        assert app_of(name).name == name


def test_the_picture_of_the_demo_is_not_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "penstock-taxi.svg").symlink_to(precious)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = demo._write_picture("picture", None)
    assert path.parent == tmp_path and path.read_text() == "picture" and path.stat().st_mode & 0o777 == 0o600
    assert demo._write_picture("picture", None) != path
    assert precious.read_text() == "precious"


def test_demo(tmp_path: Path) -> None:
    picture = tmp_path / "taxi.svg"
    text = penstock("demo", "--lines", 200, "--picture", picture).stdout
    for part in ("The graph", "The result", "latitude", "malformed pairs", "The statistics", "Spark's own", "MB/s"):
        assert part in text
    assert picture.read_text(encoding="utf-8").startswith("<svg")
