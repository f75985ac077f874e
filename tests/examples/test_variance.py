from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from examples import variance

SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
WAYS: dict[str, dict[str, Any]] = {
    "fused": {},
    "interpreted": {"compile": False},
    "unfused": {"fuse": False},
    "small channels": {"fuse": False, "width": 100, "capacity": 150, "check": True},
    "heartbeats after each firing": {"fuse": False, "width": 500, "heartbeat": 0},
    "two threads": {"fuse": False, "width": 500, "cores": 2},
    "balanced credit": {"fuse": False, "width": 500, "credit": "balance", "policy": "random", "seed": 3},
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few images of each share of zeros, in as many files."""
    folder = tmp_path_factory.mktemp("images")
    for number, zeros in enumerate(SHARES):
        table = pa.Table.from_batches(variance.pieces(3, seed=number, zeros=zeros))
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("filtered", [True, False], ids=["filtered", "all"])
def test_the_result_is_that_of_numpy(images: Path, filtered: bool, way: str) -> None:
    stream = variance.build(variance.read(images), filtered=filtered)
    assert stream.collect(spark=False, **WAYS[way]).to_pylist() == variance.reference(images)


def test_an_image_of_zeros_deviates_by_nothing() -> None:
    table = pa.Table.from_batches(variance.pieces(4, zeros=1.0))
    found = variance.build(ps.from_arrow(table)).collect()
    assert found.to_pydict() == {"image": [0, 1, 2, 3], "deviation": [0.0] * 4}


def test_without_images_there_is_no_row(tmp_path: Path) -> None:
    variance.generate(tmp_path, 0)
    assert variance.build(variance.read(tmp_path)).collect(spark=False).num_rows == 0
    assert variance.reference(tmp_path) == []


def test_zeros_do_not_pass_u() -> None:
    table = pa.Table.from_batches(variance.pieces(8, zeros=0.9))
    kept = np.count_nonzero(table["pixels"].combine_chunks().flatten().to_numpy())
    run = variance.build(ps.from_arrow(table)).prepare(fuse=False)
    run.collect()
    sums = [node.items for node in run.statistics().nodes if node.name.startswith("aggregate")]
    assert sums == [kept, kept] and kept < 8 * variance.PIXELS / 5


def test_welford_finds_the_same() -> None:
    source = ps.from_arrow(pa.Table.from_batches(variance.pieces(20, zeros=0.7)))
    by_welford = source.enumerate("pixels", as_="z").aggregate(variance=ps.variance("z")).collect()
    by_join = variance.build(source).collect()
    np.testing.assert_allclose(by_join["deviation"].to_numpy() ** 2, by_welford["variance"].to_numpy(), rtol=1e-12)


@pytest.mark.parametrize("zeros", [0.1, 0.5, 0.9])
def test_the_data_have_the_share_of_zeros_asked_for(zeros: float) -> None:
    values = np.concatenate([b.column("pixels").flatten().to_numpy() for b in variance.pieces(200, zeros=zeros)])
    assert len(values) == 200 * variance.PIXELS
    assert abs(np.mean(values == 0) - zeros) < 0.01
    assert values.min() >= 0 and values.max() <= variance.BRIGHTEST


def test_the_same_seed_gives_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variance, "PIECE_IMAGES", 10)
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        variance.generate(tmp_path / folder, 25, seed)
    a, b, c = (pq.read_table(tmp_path / folder) for folder in "abc")
    assert a.equals(b) and not a.equals(c)
    assert a["image"].to_pylist() == list(range(25))
    variance.generate(tmp_path / "a", 5)
    assert len(list((tmp_path / "a").iterdir())) == 1


def test_data_of_another_shape_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [1], "pixels": [[1, 2]]}), tmp_path / "lists.parquet")
    with pytest.raises(ps.DataError, match=r"fixed-size lists of 1024; got image \(int64\), pixels \(list<"):
        variance.read(tmp_path / "lists.parquet")
    pq.write_table(pa.table({"image": [1]}), tmp_path / "none.parquet")
    with pytest.raises(ps.DataError, match="must have the columns 'image' and 'pixels'"):
        variance.read(tmp_path / "none.parquet")
    with pytest.raises(ps.DataError, match=r"zeros from 0 to 1; got 3, 1\.5"):
        list(variance.pieces(3, zeros=1.5))
