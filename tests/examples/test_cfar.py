from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy

import penstock as ps
from examples import cfar, cfar_data

DATA: dict[str, dict[str, Any]] = {
    "even": {"size": 60, "seed": 1, "burst": 1},
    "in bursts": {"size": 200, "seed": 2, "share": 0.013, "burst": 8, "burst_rows": 10},
    "no targets": {"size": 20, "share": 0},
    "rows shorter than the windows": {"size": 90, "seed": 3, "cells": 11},
    "nothing": {"size": 0},
}
WAYS: dict[str, dict[str, Any]] = {
    "fused": {},
    "unfused": {"fuse": False},
    "small channels": {"fuse": False, "width": 7, "capacity": 9},
    "two cores": {"fuse": False, "width": 8, "cores": 2},
}
REAL = Path(scipy.__file__).parent / "ndimage" / "tests" / "dots.png"
QUICK = 1e-6
"""The further work for a target, in microseconds: the least there is, one pass on any machine."""


def found(source: ps.Stream, **how: Any) -> list[dict[str, Any]]:
    return cfar.build(source, work_us=QUICK).collect(spark=False, **how).to_pylist()


def rows(real: list[list[int]], imaginary: list[list[int]]) -> ps.Stream:
    table = pa.table({"row": range(len(real)), "real": real, "imaginary": imaginary}, cfar_data.SCHEMA)
    return ps.from_arrow(table)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("data", DATA)
def test_the_result_is_that_of_numpy(tmp_path: Path, data: str, way: str) -> None:
    cfar.generate(tmp_path, **DATA[data])
    expected = cfar.reference(tmp_path)
    assert found(cfar.read(tmp_path), **WAYS[way]) == expected
    assert bool(expected) == (data not in ("no targets", "nothing"))


@pytest.mark.parametrize("way", [*WAYS, "flexible"])
def test_a_real_file_in_every_way(tmp_path: Path, way: str) -> None:
    """The spectrum of each row of a picture that comes with SciPy: complex samples that nobody made for this."""
    if not REAL.exists():
        pytest.skip("this SciPy comes without its test pictures")
    with pytest.importorskip("PIL.Image").open(REAL) as image:
        spectra = np.fft.fft(np.asarray(image.convert("L"), np.float64)[::4], axis=1).round()
    np.save(tmp_path / "spectra.npy", spectra)
    expected = cfar.reference(tmp_path / "spectra.npy")
    filters = cfar.filters(cfar.read(tmp_path / "spectra.npy"), work_us=QUICK)
    how = WAYS.get(way, {"cores": 2, "flexible": {filters["find targets"]: 1}, "block_items": 8})
    assert filters["report"].collect(spark=False, **how).to_pylist() == expected
    assert len(expected) > 100


def test_filters_can_be_put_on_cores(tmp_path: Path) -> None:
    cfar.generate(tmp_path, **DATA["even"])
    filters = cfar.filters(cfar.read(tmp_path), work_us=QUICK)
    assert list(filters) == ["magnitude", "noise", "find targets", "report"]
    mapping = {stream: int(name in ("find targets", "report")) for name, stream in filters.items()}
    run: Any = filters["report"].prepare(spark=False, fuse=False, cores=2, width=8, mapping=mapping)
    assert run.collect().to_pylist() == cfar.reference(tmp_path)
    assert len(run.statistics().nodes) == 4
    noise = filters["noise"].collect(spark=False)["noise"].to_pylist()
    assert len(noise) == 60 and all(len(row) == 114 for row in noise)


def test_interpreted_it_finds_the_same(tmp_path: Path) -> None:
    cfar.generate(tmp_path, 4, 5)
    assert found(cfar.read(tmp_path), compile=False) == cfar.reference(tmp_path)


def test_samples_that_are_not_whole_from_a_file_of_numpy(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    cells = random.normal(size=(30, 50)) + 1j * random.normal(size=(30, 50))
    cells[random.random(cells.shape) < 0.03] *= 20
    np.save(tmp_path / "cells.npy", cells.astype(np.complex64))
    got, expected = found(cfar.read(tmp_path / "cells.npy")), cfar.reference(tmp_path / "cells.npy")
    assert [(t["row"], t["cell"], t["kind"]) for t in got] == [(t["row"], t["cell"], t["kind"]) for t in expected]
    np.testing.assert_allclose([t["noise"] for t in got], [t["noise"] for t in expected], rtol=1e-9)
    assert len(got) > 10


def test_what_is_around_a_cell_by_hand() -> None:
    stream = rows(real=[[1, 2, 0, 0, 3, 9, 0]], imaginary=[[0, 0, 0, 1, 0, 0, 4]])
    noise = cfar.filters(stream, guard=1, window=2, work_us=0)["noise"].collect(compile=False)
    assert noise["power"].to_pylist() == [[1, 4, 0, 1, 9, 81, 16]]
    around = [
        (0 + 1) / 2,
        (1 + 9) / 2,
        (1 + 9 + 81) / 3,
        (1 + 4 + 81 + 16) / 4,
        (4 + 0 + 16) / 3,
        (0 + 1) / 2,
        (1 + 9) / 2,
    ]
    assert noise["noise"].to_pylist() == [around]
    [target] = cfar.build(stream, guard=1, window=2, threshold=20, work_us=0).collect(compile=False).to_pylist()
    assert target == {"row": 0, "cell": 5, "power": 81.0, "noise": 0.5, "kind": -1}


# The further work


@pytest.mark.parametrize("cell", [0, 3, 9, 19])
def test_more_passes_find_the_same_kind(cell: int) -> None:
    power = np.random.default_rng(cell).integers(0, 1000, 20).astype(float)
    fits = cfar.SHAPES.reshape(cfar.KINDS, cfar.TAPS) @ np.pad(power, cfar.REACH)[cell : cell + cfar.TAPS]
    assert {cfar.kind_of(power, cell, passes) for passes in (1, 2, 3, 17)} == {int(np.argmax(fits))}


def test_work_is_a_number_of_passes_in_proportion() -> None:
    assert cfar.passes_for(0) == 0
    assert cfar.passes_for(1e-6) == 1
    few, many = cfar.passes_for(160), cfar.passes_for(630)
    assert 1 <= few < many
    assert abs(many / few / (630 / 160) - 1) < 0.1


# The data


@pytest.mark.parametrize(("share", "burst"), [(0.013, 1), (0.013, 8), (0.073, 1), (0.073, 1.5)])
def test_the_data_have_the_share_of_targets_asked_for(tmp_path: Path, share: float, burst: float) -> None:
    cfar.generate(tmp_path, 2000, share=share, burst=burst, burst_rows=10)
    targets = cfar.reference(tmp_path)
    assert abs(len(targets) / (2000 * 114) / share - 1) < 0.05
    per_row = np.bincount([target["row"] for target in targets], minlength=2000)
    share_with_none = np.mean(per_row == 0)
    assert share_with_none >= 1 - 1 / burst - 0.02


def test_the_same_seed_gives_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cfar_data, "PIECE_ROWS", 10)
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        cfar.generate(tmp_path / folder, 25, seed)
    a, b, c = (pq.read_table(tmp_path / folder) for folder in "abc")
    assert a.equals(b) and not a.equals(c)
    assert a["row"].to_pylist() == list(range(25))
    cfar.generate(tmp_path / "a", 5)
    assert len(list((tmp_path / "a").iterdir())) == 1


# What cannot be


def test_rows_that_cannot_be() -> None:
    with pytest.raises(ps.FunctionError, match="'real' and 'imaginary' must be as long as each other; on item 1"):
        found(rows(real=[[1] * 20, [1] * 20], imaginary=[[1] * 20, [1] * 19]), compile=False)
    with pytest.raises(ps.FunctionError, match=r"a row must have more than 2 \* guard \+ 1 cells.*on item 0"):
        found(rows(real=[[1] * 9], imaginary=[[1] * 9]))
    assert found(rows([[], []], [[], []]), compile=False) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"guard": -1}, "cfar: guard must be a whole number of at least 0; got -1"),
        ({"window": 0}, "cfar: window must be a whole number of at least 1; got 0"),
        ({"threshold": float("nan")}, "cfar: threshold must be a number of at least 0; got nan"),
        ({"work_us": -3}, "cfar: work_us must be a number of at least 0; got -3"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.GraphError, match=f"^{message}$"):
        cfar.build(rows(real=[[1]], imaginary=[[1]]), **settings)


def test_files_of_another_shape_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"row": [1], "real": [1.0]}), tmp_path / "none.parquet")
    with pytest.raises(ps.DataError, match=r"lists of numbers; got row \(int64\), real \(double\)"):
        cfar.read(tmp_path / "none.parquet")
    pq.write_table(pa.table({"row": [1], "real": [["a"]], "imaginary": [["b"]]}), tmp_path / "texts.parquet")
    with pytest.raises(ps.DataError, match="lists of numbers"):
        cfar.read(tmp_path / "texts.parquet")
    (tmp_path / "text.npy").write_text("no matrix")
    with pytest.raises(ps.DataError, match=r"must be a matrix that numpy.save wrote"):
        cfar.read(tmp_path / "text.npy")
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    with pytest.raises(ps.DataError, match=r"got float64 of the shape \(2, 2, 2\)"):
        cfar.read(tmp_path / "cube.npy")


def test_data_that_cannot_be() -> None:
    with pytest.raises(ps.DataError, match=r"must be at most 0.12.*got 0.073 \* 4 = 0.292; lower one of them"):
        list(cfar.pieces(5, burst=4))
    with pytest.raises(ps.DataError, match=r"burst and burst_rows at least 1; got 0.073, 0.5, 50"):
        list(cfar.pieces(5, burst=0.5))
    with pytest.raises(ps.DataError, match="size must be at least 0"):
        list(cfar.pieces(-1))
