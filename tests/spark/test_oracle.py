"""Spark gives what the plain model of `tests/oracle` gives: in a batch, and as a stream that is stopped and started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.oracle import engines

GRAPHS = 10


def test_in_a_batch(spark: Any, tmp_path: Path) -> None:
    engines.check("spark", engines.with_windows(GRAPHS), spark=spark, folder=tmp_path)


def test_as_a_stream_with_restarts(spark: Any, tmp_path: Path) -> None:
    engines.check("stream", engines.with_windows(GRAPHS, late=True), spark=spark, folder=tmp_path)
