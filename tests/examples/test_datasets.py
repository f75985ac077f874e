"""Data sets as files, and folders into which these are still to come."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from examples import fraud_detection
from penstock.examples import region_sum, spike_detection, taxi
from penstock.examples.datasets import is_empty


@pytest.mark.parametrize("app", [spike_detection, fraud_detection, taxi], ids=lambda app: app.__name__)
def test_an_empty_folder_is_for_lines(tmp_path: Path, app: object) -> None:
    stream = app.read(tmp_path)  # type: ignore[attr-defined]
    assert stream.schema.names == ["line"]
    with pytest.raises(ps.GraphError, match="must hold a file; the folder has none"):
        stream.collect(spark=False)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_empty_folder_for_columns(tmp_path: Path, suffix: str) -> None:
    readings = spike_detection.read(tmp_path / f"*.{suffix}")
    assert readings.schema == pa.schema([("device", pa.int64()), ("value", pa.float64())])
    assert set(fraud_detection.read(f"{tmp_path}/*.{suffix}").schema.types) == {pa.string()}
    spike_detection.generate(tmp_path, 50, named=True, format=suffix)
    named = spike_detection.read(tmp_path / f"*.{suffix}").schema
    assert named.field("device").type == pa.string()  # as the files say, now that there are some


def test_an_empty_folder_for_regions(tmp_path: Path) -> None:
    assert region_sum.build(region_sum.read(tmp_path)).schema.names == ["id", "total"]


def test_is_empty(tmp_path: Path) -> None:
    assert is_empty(tmp_path) and is_empty(tmp_path / "*.csv")
    (tmp_path / "a.txt").write_text("")
    assert not is_empty(tmp_path) and is_empty(tmp_path / "*.csv") and not is_empty(tmp_path / "*.txt")
    assert not is_empty(tmp_path / "missing") and not is_empty(tmp_path / "missing" / "*.csv")
    assert not is_empty(tmp_path / "a.txt")
