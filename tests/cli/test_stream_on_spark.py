"""`penstock run` as a stream on the embedded Spark: the applications, and a stream of one's own.

Each is started over two files, and again when there is a third. All that was written is what a batch writes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from tests.examples.rows import close_rows

import penstock.spark
from examples import fraud_detection
from penstock.cli import commands
from penstock.examples import spike_detection, taxi, taxi_data
from penstock.spark import QUICK_START


@pytest.fixture(scope="module", autouse=True)
def spark() -> None:
    penstock.spark.session(cores=2, settings=QUICK_START)  # not stopped: it may be that of other tests


def run(target: object, folder: Path, *arguments: object, code: int = 0) -> Result:
    given = ("--stream", folder / "in", "--checkpoint", folder / "ck", "--trigger", "available", "--files-per-batch", 1)
    result = CliRunner().invoke(commands.commands, ["run", *map(str, (target, *given, *arguments))])
    assert result.exit_code == code, result.output
    return result


def arrive(made: Path, source: Path, *numbers: int) -> None:
    """Files come, one after the other: Spark takes them in the order of their times."""
    source.mkdir(exist_ok=True)
    files = sorted(made.iterdir())
    for number in numbers:
        os.utime(files[number], (1000 + number, 1000 + number))
        files[number].rename(source / files[number].name)


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


def lines_of_taxis(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taxi_data, "PIECE_LINES", 40)
    monkeypatch.setattr(taxi_data, "FILE_PIECES", 1)
    taxi.generate(path, 120, 3)


@pytest.mark.parametrize("name", ["spike-detection", "examples.fraud_detection", "taxi"])
def test_an_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    made, source = tmp_path / "made", tmp_path / "in"
    app: Any = {"spike-detection": spike_detection, "examples.fraud_detection": fraud_detection, "taxi": taxi}[name]
    if name == "taxi":
        lines_of_taxis(made, monkeypatch)
    elif name == "examples.fraud_detection":
        app.generate(made, 12_000, 3, customers=300, format="csv", files=3)
    else:
        app.generate(made, 3000, 3, files=3)
    expected = close_rows(app, in_order(app.reference(made)))
    arrive(made, source, 0, 1)
    first = run(name, tmp_path, "--output", tmp_path / "out")
    assert [line.partition(":")[0] for line in first.stdout.splitlines()[:2]] == ["batch 0", "batch 1"]
    assert "2 batches" in first.stdout and "0 files waiting" in first.stdout and "median" in first.stdout
    assert first.stderr == ""
    arrive(made, source, 0)  # which is the third by now
    second = run(name, tmp_path, "--output", tmp_path / "out")
    assert second.stdout.startswith("batch 2: ") and f"written to {tmp_path / 'out'}" in second.stdout
    assert in_order(pq.read_table(tmp_path / "out").to_pylist()) == expected != []


def test_a_stream_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "in").mkdir()
    (tmp_path / "mine.py").write_text(
        "import penstock as ps\n"
        "def stream(folder, least=3):\n"
        "    return ps.read_text(folder).map(n=lambda line: len(line)).filter(lambda n: n > least)\n"
    )
    target = f"{tmp_path / 'mine.py'}:stream"
    assert "no batch was done: there was nothing new" in run(target, tmp_path).stdout
    (tmp_path / "in" / "1.txt").write_text("one\nthree\n")
    text = run(target, tmp_path).stdout
    assert "three" in text and "→ 1 rows" in text and "2 items" in text
    (tmp_path / "in" / "2.txt").write_bytes(b"good\n\xff\n")
    refused = run(target, tmp_path, code=1).stderr
    assert refused.startswith("Error: ") and "2.txt" in refused and "Traceback" not in refused
    (tmp_path / "in" / "2.txt").write_bytes(b"good\n\n")  # nothing came of the batch, so that it may be mended
    text = run(target, tmp_path).stdout
    assert text.startswith("batch 1: 2 items") and "good" in text and "1 batch, 2 items" in text
