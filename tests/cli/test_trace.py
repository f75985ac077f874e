from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import commands
from penstock.examples import region_sum


def trace(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(commands.commands, ["trace", *(str(argument) for argument in arguments)])
    assert result.exit_code == code, result.output
    return result


def test_an_application_is_drawn(tmp_path: Path) -> None:
    text = trace("region-sum", "--size", 5000, "--set", "positive=true", "-o", tmp_path / "sum.svg").stdout
    assert "core 0: " in text and "core 1: " in text and "aggregate 'total'" in text
    assert f"drawn to {tmp_path / 'sum.svg'}" in text
    drawn = (tmp_path / "sum.svg").read_text()
    assert drawn.startswith("<svg") and "region-sum on 2 cores" in drawn


def test_given_data_and_the_usual_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    region_sum.generate(tmp_path / "in", 500, 1)
    monkeypatch.chdir(tmp_path)
    text = trace("region-sum", "--input", tmp_path / "in", "--cores", 1, "--width", 64).stdout
    assert "drawn to region-sum.html" in text and "core 1" not in text
    assert "<script>" in (tmp_path / "region-sum.html").read_text()


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    refused = trace("region-sum", "-o", tmp_path / "sum.png", code=1).stderr
    assert refused.startswith("Error: trace: the output must end in .html or .svg; got ")
    refused = trace("region-sum", "--size", 5, "--input", tmp_path, code=1).stderr
    assert "--size is for data that is made" in refused
    refused = trace("region-sum", "--size", 5, "-o", tmp_path / "absent" / "sum.svg", code=1).stderr
    assert "must be a file that can be written; No such file or directory" in refused
    assert "must be one of region-sum," in trace("taxis", code=2).stderr
