from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock import __version__, bench
from penstock.bench import measure, occupancy
from penstock.cli import commands, demo


def penstock(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(commands.commands, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def test_version_and_help() -> None:
    assert penstock("--version").stdout.strip() == f"penstock, version {__version__}"
    text = penstock("--help").stdout
    assert all(name in text for name in ("apps", "bench", "demo", "run"))


def test_the_names_offered_are_those_that_exist() -> None:
    from penstock.cli.apps import APPS

    assert tuple(APPS) == commands.APP_NAMES
    assert bench.NAMES == commands.BENCH_NAMES


def test_wrong_arguments() -> None:
    assert "no-such" in penstock("bench", "no-such", code=2).stderr


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "first_results", lambda function, repeats: [])


@pytest.mark.usefixtures("no_processes")
def test_bench_prints_json_and_nothing_else() -> None:
    result = penstock("bench", "keyed-local", "--scale", "tiny", "--repeats", 1, "--json")
    assert json.loads(result.stdout)["name"] == "keyed-local"
    assert result.stderr == ""


@pytest.mark.usefixtures("no_processes")
def test_bench_prints_tables() -> None:
    text = penstock("bench", "keyed-local", "--scale", "tiny", "--repeats", 2).stdout
    assert "min..max" in text and "M items/s" in text and "penstock/hand@54" in text
    assert "✓" in text or "✗" in text


def test_bench_measures_just_some_cases() -> None:
    found = json.loads(penstock("bench", "keyed-local", "--scale", "tiny", "--case", "54*", "--json").stdout)
    assert {run["case"] for run in found["runs"]} == {"54"}
    told = penstock("bench", "keyed-local", "--scale", "tiny", "--case", "55", code=1).stderr
    assert "must match a case of keyed-local" in told


def test_bench_draws_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "new" / "figures"
    monkeypatch.setitem(occupancy.AT, "tiny", replace(occupancy.AT["tiny"], sizes=(32, 128)))
    text = penstock("bench", "occupancy", "--scale", "tiny", "--repeats", 1, "--figures", folder).stdout
    assert "occupancy" in text and "full" in text and "unfused@chain" in text and "≥ 100" in text
    assert [path.name for path in sorted(folder.iterdir())] == ["figure-6.svg", "figure-7.svg"]
    assert str(folder / "figure-7.svg") in text.replace("\n", "")


def test_bench_draws_figures_beside_json(tmp_path: Path) -> None:
    result = penstock("bench", "context", "--scale", "tiny", "--repeats", 1, "--json", "--figures", tmp_path)
    assert json.loads(result.stdout)["name"] == "context"
    assert result.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["figure-8.svg"]


def test_bench_refuses_figures_before_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "measure", lambda case, repeats: pytest.fail("measured"))
    folder = tmp_path / "figures"
    result = penstock("bench", "keyed-local", "--figures", folder, code=2)
    said = " ".join(result.stderr.split())
    assert "--figures is for occupancy, context, variance, flexible, model; keyed-local draws none" in said
    assert not folder.exists()
    result = penstock("bench", "occupancy", "--case", "chain", "--figures", folder, code=2)
    assert "--figures needs all cases; leave --case out" in " ".join(result.stderr.split())
    (tmp_path / "file").write_text("")
    result = penstock("bench", "occupancy", "--figures", tmp_path / "file" / "figures", code=1)
    assert "the figures cannot be written to" in result.stderr


def test_the_picture_of_the_demo_is_not_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "penstock-taxi.svg").symlink_to(precious)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = demo._written("picture", None)
    assert path.parent == tmp_path and path.read_text() == "picture" and path.stat().st_mode & 0o777 == 0o600
    assert demo._written("picture", None) != path
    assert precious.read_text() == "precious"


def test_demo(tmp_path: Path) -> None:
    picture = tmp_path / "taxi.svg"
    text = penstock("demo", "--lines", 200, "--picture", picture).stdout
    for part in ("The graph", "The result", "latitude", "malformed pairs", "The statistics", "Spark's own", "MB/s"):
        assert part in text
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_bench_refuses_a_scale_that_a_benchmark_has_not() -> None:
    result = penstock("bench", "keyed-local", "--scale", "double", code=2)
    assert "keyed-local has small and full" in result.stderr
