"""`python -m benchmarks`: what it prints, draws and refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks import measure, occupancy
from benchmarks.__main__ import bench


def benchmarks(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(bench, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def test_wrong_arguments() -> None:
    assert "no-such" in benchmarks("no-such", code=2).stderr


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "first_results", lambda function, repeats: [])


@pytest.mark.usefixtures("no_processes")
def test_bench_prints_json_and_nothing_else() -> None:
    result = benchmarks("keyed-local", "--scale", "tiny", "--repeats", 1, "--json")
    assert json.loads(result.stdout)["name"] == "keyed-local"
    assert result.stderr == ""


@pytest.mark.usefixtures("no_processes")
def test_bench_prints_tables() -> None:
    text = benchmarks("keyed-local", "--scale", "tiny", "--repeats", 2).stdout
    assert "min..max" in text and "M items/s" in text and "penstock/hand@54" in text
    assert "✓" in text or "✗" in text


def test_bench_measures_just_some_cases() -> None:
    found = json.loads(benchmarks("keyed-local", "--scale", "tiny", "--case", "54*", "--json").stdout)
    assert {run["case"] for run in found["runs"]} == {"54"}
    told = benchmarks("keyed-local", "--scale", "tiny", "--case", "55", code=1).stderr
    assert "must match a case of keyed-local" in told


def test_bench_draws_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "new" / "figures"
    monkeypatch.setitem(occupancy.AT, "tiny", replace(occupancy.AT["tiny"], sizes=(32, 128)))
    text = benchmarks("occupancy", "--scale", "tiny", "--repeats", 1, "--figures", folder).stdout
    assert "occupancy" in text and "full" in text and "unfused@chain" in text and "≥ 100" in text
    assert [path.name for path in sorted(folder.iterdir())] == ["figure-6.svg", "figure-7.svg"]
    assert str(folder / "figure-7.svg") in text.replace("\n", "")


def test_bench_draws_figures_beside_json(tmp_path: Path) -> None:
    result = benchmarks("context", "--scale", "tiny", "--repeats", 1, "--json", "--figures", tmp_path)
    assert json.loads(result.stdout)["name"] == "context"
    assert result.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["figure-8.svg"]


def test_bench_refuses_figures_before_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "measure", lambda case, repeats: pytest.fail("measured"))
    folder = tmp_path / "figures"
    result = benchmarks("keyed-local", "--figures", folder, code=2)
    said = " ".join(result.stderr.split())
    assert "--figures is for occupancy, context, variance, flexible, model; keyed-local draws none" in said
    assert not folder.exists()
    result = benchmarks("occupancy", "--case", "chain", "--figures", folder, code=2)
    assert "--figures needs all cases; leave --case out" in " ".join(result.stderr.split())
    (tmp_path / "file").write_text("")
    result = benchmarks("occupancy", "--figures", tmp_path / "file" / "figures", code=1)
    assert "the figures cannot be written to" in result.stderr


def test_bench_refuses_a_scale_that_a_benchmark_has_not() -> None:
    result = benchmarks("keyed-local", "--scale", "double", code=2)
    assert "keyed-local has small and full" in result.stderr
