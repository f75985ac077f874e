from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from tests.examples.rows import expected_rows

from examples import cfar, fraud_detection, value_at_risk, variance
from penstock.cli import commands
from penstock.cli.apps import app_of
from penstock.examples import region_sum, spike_detection, taxi

MODULES: dict[str, Any] = {
    "region-sum": region_sum,
    "taxi": taxi,
    "spike-detection": spike_detection,
    "examples.fraud_detection": fraud_detection,
    "examples.variance": variance,
    "examples.cfar": cfar,
    "examples.value_at_risk": value_at_risk,
}
every_app = pytest.mark.parametrize("name", MODULES)


def penstock(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(commands.commands, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def run(*arguments: object, code: int = 0) -> Result:
    return penstock("run", "--here", *arguments, code=code)


def test_apps_are_listed_with_what_can_be_set() -> None:
    text = " ".join(penstock("apps").stdout.split())
    assert f"region-sum {app_of('region-sum').about}" in text
    assert all(name in text for name in commands.APP_NAMES)
    assert "window=1000, threshold=0.03" in text
    assert "data made: region=none, largest=64" in text


@every_app
def test_run_on_given_data(tmp_path: Path, name: str) -> None:
    MODULES[name].generate(tmp_path / "in", 30_000 if name == "examples.fraud_detection" else 1000, 7)
    output = tmp_path / "out"
    text = run(name, "--input", tmp_path / "in", "--output", output).stdout
    assert pq.read_table(output).to_pylist() == expected_rows(MODULES[name], tmp_path / "in") != []
    assert f"written to {output}" in text


@every_app
def test_run_on_data_that_is_made(name: str) -> None:
    text = run(name, "--size", 400, "--seed", 1).stdout
    assert f"{name}  400 {app_of(name).unit} → " in text
    assert "0 rows" in run(name, "--size", 0).stdout


def test_what_was_dropped_is_told() -> None:
    text = run("taxi", "--size", 200, "--seed", 1).stdout
    assert "latitude" in text and "malformed pairs in" in text
    assert "3 incomplete lines were dropped" in run("spike-detection", "--size", 500).stdout
    assert "dropped" not in run("spike-detection", "--size", 500, "--set", "format=parquet").stdout
    assert "0 malformed transactions were dropped" in run("examples.fraud_detection", "--size", 100).stdout


def test_run_shows_what_nodes_and_channels_did() -> None:
    text = run("region-sum", "--size", 500, "--unfused", "--width", 16, "--statistics").stdout
    assert "enumerate 'values' → aggregate 'total'" in text and "occupancy" in text
    refused = run("region-sum", "--size", 5, "--context", "thick", code=1)
    assert refused.stderr.startswith("Error: run: context must be one of")


# Settings


def test_settings_reach_the_application_and_its_data(tmp_path: Path) -> None:
    region_sum.generate(tmp_path / "in", 500, 1)
    run("region-sum", "--input", tmp_path / "in", "--output", tmp_path / "out", "--set", "positive=true")
    expected = region_sum.reference(tmp_path / "in", positive=True)
    assert pq.read_table(tmp_path / "out").to_pylist() == expected
    assert "100 rows" in run("region-sum", "--size", 500, "--set", "region=5").stdout
    assert (
        "500 rows"
        in run("examples.fraud_detection", "--size", 504, "--set", "customers=1", "--set", "threshold=-1").stdout
    )


def test_a_model_is_a_file(tmp_path: Path) -> None:
    fraud_detection.save(fraud_detection.usual_model(), tmp_path / "model.txt")
    settings = ("examples.fraud_detection", "--size", 3000, "--set", "customers=20")
    by_file = run(*settings, "--set", f"model={tmp_path / 'model.txt'}").stdout.splitlines()
    assert by_file[:6] == run(*settings).stdout.splitlines()[:6] and "C00000" in by_file[1]
    (tmp_path / "model.txt").write_text("LNL")
    refused = run(*settings, "--set", f"model={tmp_path / 'model.txt'}", code=1)
    assert "line 1 must have the names of the 18 states" in refused.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("windw=5", "Error: run: spike-detection has no setting 'windw'; did you mean 'window'?"),
        ("colour=5", "Error: run: spike-detection has no setting 'colour'; there are 'window', 'threshold'"),
        ("window", "Error: run: --set takes name=value; got 'window'"),
        ("window=wide", "Error: run: --set window must be a whole number; got 'wide'"),
        ("named=perhaps", "Error: run: --set named must be true or false; got 'perhaps'"),
        ("window=0", "Error: spike detection: window must be a whole number of at least 1; got 0"),
        ("devices=0", "Error: spike detection: devices must be at least 1; got 0"),
    ],
)
def test_settings_that_cannot_be(given: str, message: str) -> None:
    refused = run("spike-detection", "--size", 5, "--set", given, code=1)
    assert refused.stderr.startswith(message) and refused.stderr.count("\n") == 1


def test_settings_of_data_are_not_for_given_data(tmp_path: Path) -> None:
    refused = run("spike-detection", "--input", tmp_path, "--set", "devices=5", code=1)
    assert "'devices' is a setting of data that is made; leave it out with --input or --stream" in refused.stderr


# Outputs


@pytest.mark.parametrize(
    ("name", "more", "ending"),
    [
        ("out.csv", (), ".csv"),
        ("out.json", (), ".json"),
        ("out", (), ".parquet"),
        ("out.d", (), ".parquet"),
        ("out.parquet", ("--format", "csv"), ".csv"),
    ],
)
def test_the_format_of_the_output(tmp_path: Path, name: str, more: tuple[str, ...], ending: str) -> None:
    output = tmp_path / name
    run("region-sum", "--size", 300, "--set", "region=30", "--output", output, *more)
    (part,) = output.iterdir()
    assert part.name.endswith(ending)
    if ending == ".csv":
        found = pyarrow.csv.read_csv(part).to_pylist()
    elif ending == ".json":
        found = [json.loads(line) for line in part.read_text().splitlines()]
    else:
        found = pq.read_table(part).to_pylist()
    assert [row["id"] for row in found] == list(range(10)) and set(found[0]) == {"id", "total"}


def test_an_output_is_replaced_only_when_asked_for(tmp_path: Path) -> None:
    output = tmp_path / "out"
    run("region-sum", "--size", 300, "--output", output)
    before = pq.read_table(output)
    refused = run("region-sum", "--size", 600, "--output", output, code=1)
    assert "must not be there yet" in refused.stderr and pq.read_table(output).equals(before)
    run("region-sum", "--size", 600, "--output", output, "--overwrite")
    assert pq.read_table(output).num_rows > before.num_rows


def test_a_result_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(200_000 * b'"1","[[1,2]]"\n' + b'"1","A\n')
    refused = run("taxi", "--input", tmp_path / "bad.txt", "--output", tmp_path / "out", code=1)
    assert "byte=2800000" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]
    assert "bad.txt" in run("region-sum", "--size", 10, "--output", tmp_path / "bad.txt", code=1).stderr


# Errors


def test_an_error_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b'"1","A\n')
    result = run("taxi", "--input", tmp_path / "bad.txt", code=1)
    assert result.stderr.startswith("Error: ") and "byte=0" in result.stderr
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
    arguments = ["--traceback", "run", "--here", "taxi", "--input", str(tmp_path / "bad.txt")]
    shown = CliRunner().invoke(commands.commands, arguments)
    assert shown.exception is not None and shown.exc_info is not None


@pytest.mark.parametrize("name", ["spike-detection", "examples.fraud_detection"])
def test_no_data(tmp_path: Path, name: str) -> None:
    assert "there is no such path" in run(name, "--input", tmp_path / "absent", code=1).stderr
    assert "the folder has none" in run(name, "--input", tmp_path, code=1).stderr


def test_wrong_arguments() -> None:
    assert "--size is for data that is made" in run("taxi", "--size", 1, "--input", "x", code=2).stderr
    assert "leave out --spark" in run("taxi", "--spark", "local[1]", code=2).stderr
    refused = run("taxy", code=2).stderr
    assert "must be one of region-sum, taxi, spike-detection, or a module such as" in refused and ":stream" in refused
    refused = run("penstock.errors", code=1).stderr
    assert "'penstock.errors' must have build, generate, read, USUAL_SIZE, SIZE_UNIT to be an application" in refused
    assert "the module 'examples.cfr' cannot be imported" in run("examples.cfr", code=1).stderr
