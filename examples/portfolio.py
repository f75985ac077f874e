"""The portfolio of value at risk: stocks, how each moves, and how they move together.

As a file it is a CSV file with a line for each stock: `stock,value,drift,volatility` and then its correlations with all
stocks, in the order of the lines. The first line has the names of the columns. The value is what is held, in any
currency; drift and volatility are the mean and the standard deviation of the return of one step.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps

NAME = "value at risk"
HEAD = ("stock", "value", "drift", "volatility")
MOST_STOCKS = 1024
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Portfolio:
    """What is held of each stock, how it moves, and the matrix of correlations. Valid by construction."""

    values: np.ndarray
    drifts: np.ndarray
    volatilities: np.ndarray
    correlations: np.ndarray
    stocks: tuple[str, ...] = ()
    where: str = NAME

    def __post_init__(self) -> None:
        for name in ("values", "drifts", "volatilities", "correlations"):
            try:
                object.__setattr__(self, name, np.array(getattr(self, name), np.float64))
            except (TypeError, ValueError):
                raise ps.DataError(f"{self.where}: {name} must be numbers; got {getattr(self, name)!r}") from None
        if not self.stocks:
            object.__setattr__(self, "stocks", tuple(f"S{at:03d}" for at in range(len(self.values))))
        self._check_shapes()
        self._check_numbers()
        _ = self.factor

    def _check_shapes(self) -> None:
        stocks = len(self.values)
        if not 1 <= stocks <= MOST_STOCKS:
            raise ps.DataError(f"{self.where}: a portfolio must have from 1 to {MOST_STOCKS} stocks; got {stocks}")
        wanted = {"values": (stocks,), "drifts": (stocks,), "volatilities": (stocks,), "correlations": (stocks, stocks)}
        for name, shape in wanted.items():
            found = getattr(self, name).shape
            if found != shape:
                raise ps.DataError(f"{self.where}: {name} of {stocks} stocks must have the shape {shape}; got {found}")

    def _check_numbers(self) -> None:
        if not all(np.isfinite(each).all() for each in (self.values, self.drifts, self.volatilities)):
            raise ps.DataError(f"{self.where}: values, drifts and volatilities must be finite numbers")
        if (self.volatilities < 0).any():
            at = int(self.volatilities.argmin())
            raise ps.DataError(
                f"{self.where}: volatilities must be at least 0; that of {self.stocks[at]} is {self.volatilities[at]:g}"
            )
        matrix = self.correlations
        is_even = np.abs(matrix - matrix.T).max() <= TOLERANCE
        if not (is_even and np.abs(np.diag(matrix) - 1).max() <= TOLERANCE):
            raise ps.DataError(f"{self.where}: correlations must be symmetric, with 1 on the diagonal")

    @cached_property
    def factor(self) -> np.ndarray:
        """The lower triangle whose product with its own transpose is the matrix of correlations."""
        try:
            return np.linalg.cholesky(self.correlations)
        except np.linalg.LinAlgError:
            least = float(np.linalg.eigvalsh(self.correlations).min())
            raise ps.DataError(
                f"{self.where}: correlations must be positive definite, or no stocks could move so; the least "
                f"eigenvalue is {least:g}; leave out stocks that move exactly as others do"
            ) from None


def usual(stocks: int) -> Portfolio:
    """A portfolio of so many stocks, the same each time: those of one industry, of eight, move together more."""
    if not isinstance(stocks, int) or not 1 <= stocks <= MOST_STOCKS:
        raise ps.DataError(f"{NAME}: stocks must be a whole number from 1 to {MOST_STOCKS}; got {stocks!r}")
    random = np.random.default_rng(stocks)
    industry = np.arange(stocks) % 8
    correlations = np.where(industry[:, None] == industry, 0.5, 0.2)
    np.fill_diagonal(correlations, 1.0)
    values = np.round(random.uniform(1_000, 100_000, stocks))
    return Portfolio(values, random.normal(0.0003, 0.0002, stocks), random.uniform(0.01, 0.03, stocks), correlations)


def of_prices(prices: Mapping[str, Sequence[float]], values: Mapping[str, float] | None = None) -> Portfolio:
    """The portfolio of some stocks, from the history of their prices: a step is from one price to the next.

    Drifts, volatilities and correlations are those of the returns, by logarithms. `values` is what is held of each;
    unless given, one share of each at its last price.

    >>> held = of_prices({"up": [100, 110, 121, 110], "down": [50, 45, 46, 41]})
    >>> held.stocks, held.values.tolist()
    (('up', 'down'), [110.0, 41.0])
    """
    found = {stock: _history(stock, given) for stock, given in prices.items()}
    if len({len(history) for history in found.values()}) != 1:
        lengths = ", ".join(f"{stock} with {len(history)}" for stock, history in found.items())
        raise ps.DataError(f"{NAME}: all histories must be of the same steps; got {lengths or 'none'}")
    unknown = sorted(set(values or ()) - set(found))
    if unknown:
        raise ps.DataError(f"{NAME}: what is held must be stocks with a history; got {', '.join(unknown)}")
    table = np.stack(list(found.values()))
    returns = np.diff(np.log(table))
    held = table[:, -1] if values is None else np.array([values.get(stock, 0.0) for stock in prices])
    correlations = np.corrcoef(returns).reshape(len(table), len(table))
    return Portfolio(held, returns.mean(axis=1), returns.std(axis=1, ddof=1), correlations, tuple(prices))


def _history(stock: str, given: Sequence[float]) -> np.ndarray:
    found = np.asarray(given, np.float64)
    if len(found) < 3 or not (np.isfinite(found) & (found > 0)).all():
        raise ps.DataError(
            f"{NAME}: the history of {stock} must have at least 3 prices, all above 0; got {len(found)}, the least "
            f"{found.min(initial=np.inf):g}"
        )
    return found


def load(path: str | Path) -> Portfolio:
    """The portfolio in a file."""
    where = f"{NAME}: {path}"
    try:
        head, *lines = csv.reader(Path(path).read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError) as error:
        raise ps.DataError(f"{where}: must be a portfolio in text; {error}") from None
    if tuple(head[:4]) != HEAD:
        raise ps.DataError(f"{where}: line 1 must begin with {','.join(HEAD)}; got {','.join(head)[:80]!r}")
    rows = [_numbers(where, number, line, len(lines)) for number, line in enumerate(lines, start=2)]
    names = tuple(line[0] for line in lines)
    columns = np.array(rows).reshape(len(lines), 3 + len(lines))
    return Portfolio(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3:], names, where)


def _numbers(where: str, number: int, line: list[str], stocks: int) -> list[float]:
    if len(line) != len(HEAD) + stocks:
        raise ps.DataError(
            f"{where}: line {number} must have a name, 3 numbers and {stocks} correlations, one for each stock; got "
            f"{len(line)} fields"
        )
    try:
        return [float(text) for text in line[1:]]
    except ValueError as error:
        raise ps.DataError(f"{where}: line {number} must have numbers behind the name; {error}") from None


def save(portfolio: Portfolio, path: str | Path) -> None:
    """Write a portfolio to a file, from which `load` gives the same numbers."""
    given = (portfolio.values, portfolio.drifts, portfolio.volatilities)
    rows: list[list[Any]] = [[*HEAD, *portfolio.stocks]]
    for at, name in enumerate(portfolio.stocks):
        numbers = [*(column[at] for column in given), *portfolio.correlations[at]]
        rows.append([name, *(repr(float(number)) for number in numbers)])
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
