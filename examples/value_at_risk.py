"""Value at risk: what a portfolio of stocks will not lose more than, at some confidence, over random walks.

An item is a step of a walk: `walk`, `step` and `is_last`. The pipeline is that of the paper on flexible filters; a
vector with a number for each stock goes from filter to filter:

- *uniform*: random numbers between 0 and 1, by a generator without memory: a number is a function of the seed, the
  walk, the step and the stock (Philox 4 × 32, of ten rounds), so it is the same on any number of cores;
- *box muller*: normal numbers, of each pair a pair;
- *cholesky*: correlated ones, by the factor of the correlation matrix. Its cost grows with the square of the stocks;
- *walk*: each stock moves by its drift and by its volatility times its number; behind the last step of a walk, what the
  portfolio has gained. Returns add up, so that gains are normal and the answer is known (`closed_form`);
- *quantile*: over all walks, the loss that is not exceeded with probability `level`.

The first three are stateless. The result is one row: `walks`, `value_at_risk`. What a portfolio is stands in
`portfolio`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from examples.philox import keys, philox
from examples.portfolio import Portfolio, load, of_prices, save, usual
from penstock.examples.datasets import is_empty

__all__ = [
    "Portfolio",
    "build",
    "closed_form",
    "error",
    "filters",
    "generate",
    "load",
    "of_prices",
    "pieces",
    "read",
    "reference",
    "save",
    "usual",
]

USUAL_SIZE, SIZE_UNIT = 4_096, "walks"
NAME = "value at risk"
SCHEMA = pa.schema([("walk", pa.int64()), ("step", pa.int64()), ("is_last", pa.bool_())])
PIECE_STEPS = 1 << 22
"""How many steps are made, and written to one file, at a time."""
STOCKS, STEPS = 64, 10
LEVEL = 0.99
UNIT = 2.0**-32
MOST_WALKS = 1 << 17
"""So many walks a run may have: their gains are kept until the end."""


def build(
    source: ps.Stream,
    *,
    portfolio: Portfolio | str | Path | None = None,
    stocks: int = STOCKS,
    level: float = LEVEL,
    random_seed: int = 0,
) -> ps.Stream:
    """One item, `walks` and `value_at_risk`, of a stream of steps.

    `portfolio` is one, or the file of one; unless given, it is a usual one of so many `stocks`.
    """
    return filters(source, portfolio=portfolio, stocks=stocks, level=level, random_seed=random_seed)["quantile"]


def filters(
    source: ps.Stream,
    *,
    portfolio: Portfolio | str | Path | None = None,
    stocks: int = STOCKS,
    level: float = LEVEL,
    random_seed: int = 0,
) -> dict[str, ps.Stream]:
    """The stream behind each filter, by the filter's name: to put them on cores, and to look at each."""
    _check(level, random_seed)
    held = portfolio_of(portfolio, stocks)
    uniform = source.map(uniform=_uniform(len(held.values), random_seed))
    normal = uniform.map(normal=_box_muller(_whole(len(held.values))))
    correlated = normal.map(correlated=_cholesky(held.factor))
    walk = correlated.flat_map(_walk(held), to="gain", at_most=1, state=_position(len(held.values)))
    names = ("walks", "value_at_risk")
    quantile = walk.flat_map(gather, to=names, at_most=1, state=Gains, end=_quantile(level))
    return {"uniform": uniform, "box muller": normal, "cholesky": correlated, "walk": walk, "quantile": quantile}


def _check(level: float, random_seed: int) -> None:
    if not isinstance(level, (int, float)) or not 0 < level < 1:
        raise ps.GraphError(f"{NAME}: level must be a number between 0 and 1, such as 0.99; got {level!r}")
    if not isinstance(random_seed, int) or not 0 <= random_seed < 1 << 63:
        raise ps.GraphError(
            f"{NAME}: random_seed must be a whole number of at least 0 and 63 bits; got {random_seed!r}"
        )


def portfolio_of(portfolio: Portfolio | str | Path | None, stocks: int = STOCKS) -> Portfolio:
    """The portfolio that is given, or in the file that is named, or else a usual one."""
    if portfolio is None:
        return usual(stocks)
    return portfolio if isinstance(portfolio, Portfolio) else load(portfolio)


def read(path: str | Path) -> ps.Stream:
    """Parquet files, or a folder of them, as a stream of steps."""
    found = ps.read_parquet(path, schema=SCHEMA if is_empty(path) else None, name="steps")
    missing = set(SCHEMA.names) - set(found.schema.names)
    if missing:
        raise ps.DataError(
            f"{NAME}: {str(path)!r} must have the columns {', '.join(SCHEMA.names)}; got "
            f"{', '.join(found.schema.names)}"
        )
    return found


def generate(path: str | Path, size: int, seed: int = 0, *, steps: int = STEPS) -> None:
    """Write the steps of `size` walks, of `steps` each, as a folder of Parquet files. The `seed` numbers the walks.

    Data sets of different seeds have no walk in common, and so no random number.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*.parquet"):
        stale.unlink()
    for number, piece in enumerate(pieces(size, seed, steps=steps)):
        pq.write_table(pa.Table.from_batches([piece]), folder / f"part-{number:05d}.parquet")


def pieces(size: int, seed: int = 0, *, steps: int = STEPS) -> Iterator[pa.RecordBatch]:
    """The data set that `generate` writes, piece by piece; at least one, though it may be empty."""
    if not 0 <= size <= MOST_WALKS or steps < 1 or seed < 0:
        raise ps.DataError(
            f"{NAME}: size must be from 0 to {MOST_WALKS:,} walks, seed at least 0 and steps at least 1; got "
            f"{size}, {seed}, {steps}"
        )
    whole = max(1, PIECE_STEPS // steps)
    for start in range(0, max(size, 1), whole):
        walks = np.arange(start, min(start + whole, size)) + seed * MOST_WALKS
        step = np.tile(np.arange(steps), len(walks))
        columns = [np.repeat(walks, steps), step, step == steps - 1]
        yield pa.record_batch([pa.array(column) for column in columns], schema=SCHEMA)


# The functions of the filters.


def _uniform(stocks: int, seed: int) -> Any:
    size, key = _whole(stocks), keys(seed)

    def uniform(walk: int, step: int) -> Any:
        """A number for each stock, and some more for the last block of four to be whole."""
        found = np.empty(size)
        low, high = np.uint64(walk & 0xFFFFFFFF), np.uint64(walk >> 32)
        for at in range(0, size, 4):
            a, b, c, d = philox(np.uint64(at >> 2), np.uint64(step), low, high, key)
            found[at] = (float(a) + 0.5) * UNIT
            found[at + 1] = (float(b) + 0.5) * UNIT
            found[at + 2] = (float(c) + 0.5) * UNIT
            found[at + 3] = (float(d) + 0.5) * UNIT
        return found

    return ps.returns(ps.array(float, size), uniform)


def _whole(stocks: int) -> int:
    """The stocks in whole blocks of four."""
    return (stocks + 3) // 4 * 4


def _box_muller(size: int) -> Any:
    def box_muller(uniform: Any) -> Any:
        """Normal numbers, a pair of each pair of uniform ones."""
        normal = np.empty(size)
        for at in range(0, size, 2):
            radius = math.sqrt(-2.0 * math.log(uniform[at]))
            angle = 2.0 * math.pi * uniform[at + 1]
            normal[at] = radius * math.cos(angle)
            normal[at + 1] = radius * math.sin(angle)
        return normal

    return ps.returns(ps.array(float, size), box_muller)


def _cholesky(factor: np.ndarray) -> Any:
    stocks = len(factor)

    def cholesky(normal: Any) -> Any:
        """Numbers with the correlations of the stocks: the lower triangle of the factor times independent ones."""
        correlated = np.empty(stocks)
        for row in range(stocks):
            total = 0.0
            for at in range(row + 1):
                total += factor[row, at] * normal[at]
            correlated[row] = total
        return correlated

    return ps.returns(ps.array(float, stocks), cholesky)


def _position(stocks: int) -> type[ps.State]:
    class Position(ps.State):
        """How far each stock has moved in this walk."""

        moved: ps.array(float, stocks)  # type: ignore[valid-type]

    return Position


def _walk(held: Portfolio) -> Callable[..., Any]:
    drifts, volatilities, values = held.drifts, held.volatilities, held.values

    def walk(correlated: Any, is_last: bool, state: Any) -> Iterator[float]:
        """A step of all stocks; behind the last one the gain, and the next walk begins where all did."""
        gain = 0.0
        for at in range(len(values)):
            moved = state.moved[at] + (drifts[at] + volatilities[at] * correlated[at])
            gain += values[at] * moved
            state.moved[at] = 0.0 if is_last else moved
        if is_last:
            yield gain

    return walk


class Gains(ps.State):
    """The gains of all walks so far."""

    gains: ps.array(float, MOST_WALKS)  # type: ignore[valid-type]
    n: int


def gather(gain: float, state: Any) -> None:
    if state.n == len(state.gains):
        raise ValueError("there must be at most 131,072 walks in a run")
    state.gains[state.n] = gain
    state.n += 1


def _quantile(level: float) -> Callable[..., Any]:
    share = 1 - level

    def quantile(state: Any) -> Iterator[tuple[int, float]]:
        """The loss at the level: between the two gains about it, by how near each is."""
        if state.n > 0:
            gains = np.sort(state.gains[: state.n])
            place = share * (state.n - 1)
            below = math.floor(place)
            part, above = place - below, min(below + 1, state.n - 1)
            apart = gains[above] - gains[below]
            found = gains[below] + apart * part if part < 0.5 else gains[above] - apart * (1 - part)
            yield state.n, -found

    return quantile


# The answer by NumPy, and by the closed form.


def reference(
    path: str | Path,
    *,
    portfolio: Portfolio | str | Path | None = None,
    stocks: int = STOCKS,
    level: float = LEVEL,
    random_seed: int = 0,
) -> list[dict[str, Any]]:
    """The rows of the result, by NumPy: all walks at once, a step and a stock at a time."""
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    table = pa.concat_tables([pq.read_table(file) for file in files])
    walks, counts = np.unique(table["walk"].to_numpy(), return_counts=True)
    if not len(walks):
        return []
    held, steps = portfolio_of(portfolio, stocks), int(counts[0])
    moved, gains = np.zeros((len(walks), len(held.values))), np.zeros(len(walks))
    for step in range(steps):
        normal = _reference_normal(random_seed, walks, step, len(held.values))
        correlated = np.zeros_like(moved)
        for at in range(len(held.values)):
            correlated += held.factor[:, at] * normal[:, at : at + 1]
        moved += held.drifts + held.volatilities * correlated
    for at, value in enumerate(held.values):
        gains += value * moved[:, at]
    return [{"walks": len(walks), "value_at_risk": -float(np.quantile(gains, 1 - level))}]


def _reference_normal(seed: int, walks: np.ndarray, step: int, stocks: int) -> np.ndarray:
    """The normal numbers of a step, with the logarithm and the angles of `math`, which NumPy's may differ from."""
    uniform = _reference_uniform(seed, walks, step, stocks)
    radius = np.array([math.sqrt(-2.0 * math.log(u)) for u in uniform[:, 0::2].flat])
    angle = [2.0 * math.pi * u for u in uniform[:, 1::2].flat]
    found = np.empty_like(uniform)
    found[:, 0::2] = (radius * [math.cos(a) for a in angle]).reshape(len(walks), -1)
    found[:, 1::2] = (radius * [math.sin(a) for a in angle]).reshape(len(walks), -1)
    return found


def _reference_uniform(seed: int, walks: np.ndarray, step: int, stocks: int) -> np.ndarray:
    """The uniform numbers of a step, of all walks and blocks at once, in words of 32 bits."""
    blocks = -(-stocks // 4)
    words = np.empty((4, len(walks), blocks), np.uint64)
    words[0], words[1] = np.arange(blocks), step
    words[2], words[3] = (walks % 2**32)[:, None], (walks // 2**32)[:, None]
    key = [seed % 2**32, seed // 2**32]
    for _ in range(10):
        products = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        (high0, low0), (high2, low2) = (np.divmod(product, np.uint64(2**32)) for product in products)
        words = np.stack([high2 ^ words[1] ^ np.uint64(key[0]), low2, high0 ^ words[3] ^ np.uint64(key[1]), low0])
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    found: np.ndarray = (words.transpose(1, 2, 0).reshape(len(walks), -1) + 0.5) / 2**32
    return found


def closed_form(portfolio: Portfolio, steps: int, level: float = LEVEL) -> float:
    """The value at risk itself: gains are normal, with the mean and the variance of a step, so many times."""
    mean, deviation = _moments(portfolio, steps)
    return -(mean + deviation * NormalDist().inv_cdf(1 - level))


def error(portfolio: Portfolio, steps: int, walks: int, level: float = LEVEL) -> float:
    """The standard error of a quantile over so many walks."""
    _, deviation = _moments(portfolio, steps)
    density = NormalDist().pdf(NormalDist().inv_cdf(1 - level)) / deviation
    return math.sqrt(level * (1 - level) / walks) / density


def _moments(portfolio: Portfolio, steps: int) -> tuple[float, float]:
    exposure = portfolio.values * portfolio.volatilities
    variance = steps * float(exposure @ portfolio.correlations @ exposure)
    return steps * float(portfolio.values @ portfolio.drifts), math.sqrt(variance)
