"""`penstock run` on the embedded Spark: one session for all tests of the process, which the commands find."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from tests.examples.rows import expected_rows

import penstock.spark
from examples import fraud_detection, variance
from penstock.cli import commands
from penstock.examples import region_sum, spike_detection


@pytest.fixture(scope="module", autouse=True)
def spark() -> None:
    penstock.spark.session(cores=2)  # not stopped: it may be that of other tests


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(commands.commands, ["run", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize(
    ("name", "app", "size"),
    [
        ("region-sum", region_sum, 5000),
        ("spike-detection", spike_detection, 3000),
        ("examples.fraud_detection", fraud_detection, 20_000),
        ("examples.variance", variance, 100),
    ],
)
def test_the_result_is_the_reference(tmp_path: Path, name: str, app: Any, size: int) -> None:
    app.generate(tmp_path / "in", size, 3)
    text = run(name, "--input", tmp_path / "in", "--output", tmp_path / "out", "--ordered").stdout
    assert pq.read_table(tmp_path / "out").to_pylist() == expected_rows(app, tmp_path / "in") != []
    assert f"written to {tmp_path / 'out'}" in text
    assert "stage 1" in text and "seconds" in text and "skew" in text


def test_rows_progress_and_statistics_are_shown(tmp_path: Path) -> None:
    spike_detection.generate(tmp_path, 3000, 3, files=4)
    text = run("spike-detection", "--input", tmp_path).stdout
    assert f"{len(spike_detection.reference(tmp_path)):,} rows" in text
    assert f"{spike_detection.reference_incomplete(tmp_path)} incomplete lines were dropped" in text
    assert "device" in text and "key_by 'device'" in text


def test_an_error_in_a_task_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bad.txt").write_bytes(b"good\n\xff\n")
    refused = run("spike-detection", "--input", tmp_path / "in", "--output", tmp_path / "out", code=1)
    assert refused.stderr.startswith("Error: ") and "bad.txt" in refused.stderr
    assert "Traceback" not in refused.stderr and "java" not in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_stream_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "words.txt").write_text("one\nthree\nfive\n")
    (tmp_path / "mine.py").write_text(
        "import penstock as ps\n"
        "LEAST = 3\n"
        "def size(line):\n"
        "    return len(line)\n"
        "def stream(path):\n"
        "    return ps.read_text(path).map(n=size).filter(lambda n: n > LEAST)\n"
    )
    text = run(f"{tmp_path / 'mine.py'}:stream", "--set", f"path={tmp_path / 'words.txt'}").stdout
    assert "2 rows" in text and "stage 1" in text and "three" in text
