from __future__ import annotations

import csv
import importlib.resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from examples import portfolio, value_at_risk
from examples.philox import keys, philox
from examples.portfolio import Portfolio

FEW = Portfolio([1000.0, -500.0, 250.0], [0.01, 0.0, 0.002], [0.02, 0.05, 0.0], np.eye(3) * 0.7 + 0.3)
WAYS: dict[str, dict[str, Any]] = {
    "fused": {},
    "unfused": {"fuse": False},
    "small channels": {"fuse": False, "width": 7, "capacity": 9},
    "two cores": {"fuse": False, "width": 32, "cores": 2},
}


def steps_of(walks: int, steps: int, seed: int = 0) -> ps.Stream:
    return ps.from_arrow(pa.Table.from_batches(value_at_risk.pieces(walks, seed, steps=steps)))


def risk(source: ps.Stream, *, compile: bool = True, **settings: Any) -> float:
    [row] = value_at_risk.build(source, **settings).collect(spark=False, compile=compile).to_pylist()
    return float(row["value_at_risk"])


# Against what is not ours


@pytest.mark.parametrize(("held", "steps"), [(FEW, 1), (FEW, 7), (portfolio.usual(16), 4)])
@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_the_closed_form_within_the_statistical_error(held: Portfolio, steps: int, seed: int) -> None:
    walks = 20_000
    found = risk(steps_of(walks, steps, seed), portfolio=held)
    expected, error = value_at_risk.closed_form(held, steps), value_at_risk.error(held, steps, walks)
    assert abs(found - expected) < 3 * error < 0.1 * expected


def real_prices() -> dict[str, list[float]]:
    """What a share of five firms was worth at the beginning of each month, from when all of them had a price."""
    listed: dict[str, list[float]] = {}
    with importlib.resources.files("vega_datasets").joinpath("_data/stocks.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            listed.setdefault(row["symbol"], []).append(float(row["price"]))
    months = min(map(len, listed.values()))
    return {stock: prices[-months:] for stock, prices in listed.items()}


@pytest.mark.parametrize("way", [*WAYS, "flexible"])
def test_a_real_file_in_every_way(tmp_path: Path, way: str) -> None:
    """Five stocks as they were from 2004 to 2010: a year from there on, within the statistical error."""
    held, walks, steps = portfolio.of_prices(real_prices()), 8_000, 12
    assert held.stocks == ("MSFT", "AMZN", "IBM", "GOOG", "AAPL") and len(real_prices()["GOOG"]) == 68
    portfolio.save(held, tmp_path / "held.csv")
    filters = value_at_risk.filters(steps_of(walks, steps), portfolio=tmp_path / "held.csv")
    options = {"cores": 2, "flexible": {filters["cholesky"]: 1}} if way == "flexible" else WAYS[way]
    (found,) = filters["quantile"].collect(spark=False, **options)["value_at_risk"].to_pylist()
    expected, error = value_at_risk.closed_form(held, steps), value_at_risk.error(held, steps, walks)
    assert abs(found - expected) < 3 * error < 0.1 * expected
    assert found == risk(steps_of(walks, steps), portfolio=held)


@pytest.mark.parametrize("prices", [[1.0, 2.0], [1.0, 0.0, 2.0], [1.0, float("nan"), 2.0]])
def test_a_history_must_be_one_of_prices(prices: list[float]) -> None:
    with pytest.raises(ps.DataError, match=r"history of A must have at least 3 prices, all above 0; got"):
        portfolio.of_prices({"A": prices, "B": [1.0, 2.0, 3.0]})


def test_histories_must_be_as_long_as_each_other() -> None:
    with pytest.raises(ps.DataError, match="got A with 3, B with 4"):
        portfolio.of_prices({"A": [1.0, 2.0, 3.0], "B": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(ps.DataError, match="must be stocks with a history; got B"):
        portfolio.of_prices({"A": [1.0, 2.0, 3.0]}, {"B": 1.0})


def test_the_random_numbers_are_those_that_were_published() -> None:
    ones, pi = (0xFFFFFFFF,) * 4, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    published = {
        ((0, 0, 0, 0), 0): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        (ones, 2**64 - 1): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        (pi, 0x299F31D0A4093822): (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    }
    for (counter, seed), numbers in published.items():
        assert philox(*map(np.uint64, counter), keys(seed)) == numbers


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("held", [FEW, portfolio.usual(16)], ids=["3 stocks", "16 stocks"])
def test_the_result_is_that_of_numpy(tmp_path: Path, held: Portfolio, way: str) -> None:
    value_at_risk.generate(tmp_path, 50, 5, steps=6)
    stream = value_at_risk.build(value_at_risk.read(tmp_path), portfolio=held)
    found = stream.collect(spark=False, **WAYS[way]).to_pylist()
    assert found == value_at_risk.reference(tmp_path, portfolio=held) and found[0]["walks"] == 50


def test_interpreted_it_finds_the_same(tmp_path: Path) -> None:
    value_at_risk.generate(tmp_path, 5, steps=3)
    stream = value_at_risk.build(value_at_risk.read(tmp_path), portfolio=FEW)
    expected = value_at_risk.reference(tmp_path, portfolio=FEW)
    assert stream.collect(spark=False, compile=False).to_pylist() == expected


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("walks", [1, 2, 11])
def test_the_quantile_is_that_of_numpy(tmp_path: Path, walks: int, level: float) -> None:
    value_at_risk.generate(tmp_path, walks, steps=1)
    stream = value_at_risk.build(value_at_risk.read(tmp_path), portfolio=FEW, level=level)
    expected = value_at_risk.reference(tmp_path, portfolio=FEW, level=level)
    assert stream.collect(spark=False, compile=False).to_pylist() == expected


# The filters


def test_filters_can_be_put_on_cores() -> None:
    filters = value_at_risk.filters(steps_of(40, 6), portfolio=FEW)
    assert list(filters) == ["uniform", "box muller", "cholesky", "walk", "quantile"]
    mapping = {stream: int(name in ("cholesky", "walk", "quantile")) for name, stream in filters.items()}
    run: Any = filters["quantile"].prepare(spark=False, fuse=False, cores=2, width=16, mapping=mapping)
    expected = value_at_risk.build(steps_of(40, 6), portfolio=FEW).collect(spark=False)
    assert run.collect().equals(expected)
    assert len(run.statistics().nodes) == 5


def test_numbers_are_uniform_then_normal_then_correlated() -> None:
    filters = value_at_risk.filters(steps_of(500, 20), portfolio=FEW)
    table = filters["cholesky"].collect(spark=False)
    uniform, normal, correlated = (np.array(table[name].to_pylist()) for name in ("uniform", "normal", "correlated"))
    assert uniform.min() > 0 and uniform.max() < 1
    np.testing.assert_allclose(np.quantile(uniform, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.01)
    np.testing.assert_allclose(np.corrcoef(normal.T), np.eye(4), atol=0.04)
    np.testing.assert_allclose([normal.mean(), normal.std()], [0, 1], atol=0.02)
    np.testing.assert_allclose(np.corrcoef(correlated.T), FEW.correlations, atol=0.04)


def test_another_seed_gives_other_numbers() -> None:
    source = steps_of(2, 2)
    found = [risk(source, compile=False, portfolio=FEW, random_seed=seed) for seed in (0, 1, 2**40)]
    assert len({*found, risk(steps_of(2, 2, seed=9), compile=False, portfolio=FEW)}) == 4


# The data


def test_data_sets_of_any_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value_at_risk.generate(tmp_path / "one", 25, 1, steps=3)
    monkeypatch.setattr(value_at_risk, "PIECE_STEPS", 30)
    value_at_risk.generate(tmp_path / "many", 25, 1, steps=3)
    assert len(list((tmp_path / "many").iterdir())) == 3
    assert pq.read_table(tmp_path / "one").equals(pq.read_table(tmp_path / "many"))
    value_at_risk.generate(tmp_path / "many", 2)
    assert len(list((tmp_path / "many").iterdir())) == 1


def test_without_walks_there_is_no_row(tmp_path: Path) -> None:
    value_at_risk.generate(tmp_path, 0)
    assert value_at_risk.build(value_at_risk.read(tmp_path), portfolio=FEW).collect(spark=False).num_rows == 0
    assert value_at_risk.reference(tmp_path) == []


def test_data_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ps.DataError, match=r"steps at least 1; got 3, 0, 0"):
        list(value_at_risk.pieces(3, steps=0))
    pq.write_table(pa.table({"walk": [1]}), tmp_path / "walks.parquet")
    with pytest.raises(ps.DataError, match="must have the columns walk, step, is_last; got walk"):
        value_at_risk.read(tmp_path / "walks.parquet")
    with pytest.raises(ValueError, match="at most 131,072 walks"):
        value_at_risk.gather(1.0, SimpleNamespace(n=2, gains=[0.0, 0.0]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": 1}, "value at risk: level must be a number between 0 and 1, such as 0.99; got 1"),
        ({"random_seed": -1}, "value at risk: random_seed must be a whole number of at least 0 and 63 bits; got -1"),
        ({"stocks": 0}, "value at risk: stocks must be a whole number from 1 to 1024; got 0"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.PenstockError, match=f"^{message}$"):
        value_at_risk.build(steps_of(1, 1), **settings)


# The portfolio


def test_a_portfolio_is_a_file(tmp_path: Path) -> None:
    held = portfolio.usual(5)
    portfolio.save(held, tmp_path / "held.csv")
    found = portfolio.load(tmp_path / "held.csv")
    for name in ("values", "drifts", "volatilities", "correlations", "factor"):
        assert np.array_equal(getattr(found, name), getattr(held, name))
    assert found.stocks == held.stocks == ("S000", "S001", "S002", "S003", "S004")
    np.testing.assert_allclose(held.factor @ held.factor.T, held.correlations)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,value\n", r"held.csv: line 1 must begin with stock,value,drift,volatility; got 'name,value'"),
        ("stock,value,drift,volatility\n", "held.csv: a portfolio must have from 1 to 1024 stocks; got 0"),
        ("stock,value,drift,volatility,A\nA,1,0,0.1\n", "line 2 must have a name, 3 numbers and 1 correlations"),
        ("stock,value,drift,volatility,A\nA,one,0,0.1,1\n", "line 2 must have numbers behind the name; .*'one'"),
        ("stock,value,drift,volatility,A\nA,1,0,-0.1,1\n", "volatilities must be at least 0; that of A is -0.1"),
        ("stock,value,drift,volatility,A\nA,inf,0,0.1,1\n", "must be finite numbers"),
        ("stock,value,drift,volatility,A\nA,1,0,0.1,2\n", "correlations must be symmetric, with 1 on the diagonal"),
        (
            "stock,value,drift,volatility,A,B\nA,1,0,0.1,1,1\nB,1,0,0.1,1,1\n",
            "correlations must be positive definite.*the least eigenvalue is",
        ),
    ],
)
def test_files_that_are_no_portfolio(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "held.csv").write_text(text)
    with pytest.raises(ps.DataError, match=message):
        value_at_risk.build(steps_of(1, 1), portfolio=tmp_path / "held.csv")


def test_numbers_that_are_no_portfolio(tmp_path: Path) -> None:
    with pytest.raises(ps.DataError, match=r"drifts of 2 stocks must have the shape \(2,\); got \(1,\)"):
        Portfolio([1.0, 2.0], [0.0], [0.1, 0.1], np.eye(2))
    with pytest.raises(ps.DataError, match="values must be numbers"):
        Portfolio(["much"], [0.0], [0.1], [[1.0]])
    with pytest.raises(ps.DataError, match="must be a portfolio in text"):
        portfolio.load(tmp_path / "absent.csv")
