from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from penstock.cli import commands
from penstock.examples import region_sum


def advise(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(commands.commands, ["advise", *(str(argument) for argument in arguments)])
    assert result.exit_code == code, result.output
    return result


def test_an_application_is_advised() -> None:
    text = advise("region-sum", "--size", 5000, "--cores", 6, "--set", "positive=true").stdout
    assert "what the nodes of region-sum cost" in text
    assert "ns an item" in text and "aggregate 'total'" in text
    assert "items: cores=" in text and "times the speed of one core" in text


def test_given_data(tmp_path: Path) -> None:
    region_sum.generate(tmp_path / "in", 500, 1)
    text = advise("region-sum", "--input", tmp_path / "in", "--objective", "latency", "--sample", 100).stdout
    assert "measured on 100 items" in text and "items: cores=" in text


def test_what_cannot_be_advised(tmp_path: Path) -> None:
    refused = advise("region-sum", "--size", 5, "--input", tmp_path, code=1).stderr
    assert "advise: --size is for data that is made" in refused
    assert "had nothing to do; give it data" in advise("region-sum", "--size", 0, code=1).stderr
    assert "must be one of region-sum," in advise("taxis", code=2).stderr
    assert "--cores" in advise("region-sum", "--cores", 0, code=2).stderr
