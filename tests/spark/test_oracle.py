"""Spark gives what the plain model of `tests/oracle` gives: in a batch, and as a stream that is stopped and started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.oracle import engines

GRAPHS = pytest.mark.parametrize("graphs", [3, pytest.param(30, marks=pytest.mark.long)])


@GRAPHS
def test_in_a_batch(spark: Any, tmp_path: Path, graphs: int) -> None:
    engines.check("spark", engines.with_windows(graphs), spark=spark, folder=tmp_path)


@GRAPHS
def test_as_a_stream_with_restarts(spark: Any, tmp_path: Path, graphs: int) -> None:
    engines.check("stream", engines.with_windows(graphs, late=True), spark=spark, folder=tmp_path)
