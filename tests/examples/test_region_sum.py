from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.examples import region_sum

DATA = {
    "empty": {"size": 0},
    "one element": {"size": 1},
    "fixed": {"size": 1000, "region": 32},
    "fixed, last one short": {"size": 1000, "region": 33},
    "larger than all": {"size": 1000, "region": 5000},
    "uniform": {"size": 1000, "largest": 64},
    "mostly empty": {"size": 100, "largest": 1},
}


@pytest.mark.parametrize("compile", [False, True], ids=["interpreted", "compiled"])
@pytest.mark.parametrize("positive", [False, True], ids=["all", "positive"])
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_the_result_is_the_reference(tmp_path: Path, data: dict[str, int], positive: bool, compile: bool) -> None:
    region_sum.generate(tmp_path, seed=3, **data)
    result = region_sum.build(region_sum.read(tmp_path), positive=positive).collect(spark=False, compile=compile)
    assert result.to_pylist() == region_sum.reference(tmp_path, positive=positive)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_the_same_seed_gives_the_same_data_of_the_size_asked_for(tmp_path: Path, data: dict[str, int]) -> None:
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        region_sum.generate(tmp_path / folder, seed=seed, **data)
    a, b, c = (pq.read_table(tmp_path / folder) for folder in "abc")
    assert a.equals(b)
    assert not a.equals(c) or data["size"] < 2
    assert sum(map(len, a.column("values").to_pylist())) == data["size"]
    assert a.column("id").to_pylist() == list(range(a.num_rows))


def test_sizes_are_uniform_from_zero_to_the_largest() -> None:
    table = pa.Table.from_batches(region_sum.pieces(100_000, largest=4))
    sizes = [len(values) for values in table.column("values").to_pylist()]
    assert set(sizes) == {0, 1, 2, 3, 4}
    assert min(sizes.count(size) for size in range(5)) > 0.18 * len(sizes)


def test_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_sum, "PIECE_ELEMENTS", 100)
    region_sum.generate(tmp_path, 250, largest=8)
    assert len(list(tmp_path.iterdir())) == 3
    found = region_sum.build(region_sum.read(tmp_path)).collect(spark=False)
    assert found.to_pylist() == region_sum.reference(tmp_path)
    region_sum.generate(tmp_path, 50, largest=8)
    assert len(list(tmp_path.iterdir())) == 1


def test_data_of_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ps.GraphError, match="there is no such path"):
        region_sum.read(tmp_path / "absent.parquet")
    with pytest.raises(ps.GraphError, match="the folder has none"):
        region_sum.read(tmp_path).collect(spark=False)
    pq.write_table(pa.table({"id": [1], "numbers": [[1]]}), tmp_path / "other.parquet")
    with pytest.raises(ps.DataError, match="must have the columns 'id' and 'values'; got id, numbers"):
        region_sum.read(tmp_path)
    with pytest.raises(ps.DataError, match="at least"):
        list(region_sum.pieces(10, region=0))
