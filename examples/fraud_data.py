"""The transactions of fraud detection: customers with habits, drawn from a Markov model, and some frauds among them.

The transactions are the same whatever the format and the number of files. A fraud is a short run of transactions of one
customer in which every next state is one of the least likely.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.examples.datasets import LINES, check, number_names, write

AMOUNTS, PRICES, TIMES = "LMH", "NH", "LNS"
STATES = tuple(amount + price + time for amount in AMOUNTS for price in PRICES for time in TIMES)
"""The 18 states: the amount low, medium or high; the price of the item normal or high; the time since the last
transaction large, normal or small."""
SCHEMA = pa.schema([("customer", pa.string()), ("transaction", pa.string()), ("state", pa.string())])
PIECE_ROWS = 1 << 18
FRAUD_SHARE, FRAUD_LENGTH, FRAUD_STATES = 0.001, 5, 4
"""A fraud begins with so many of the transactions, is so long, and picks among so many least likely states."""
LEVELS = 1 << 16
"""A next state is looked up by one of so many equally likely numbers."""


def habits() -> np.ndarray:
    """How customers go from state to state: amount, price and time each depend on what they were before."""
    amount = np.array([[0.60, 0.35, 0.05], [0.35, 0.55, 0.10], [0.30, 0.50, 0.20]])
    price = np.array([[0.90, 0.10], [0.70, 0.30]])
    time = np.array([[0.50, 0.40, 0.10], [0.30, 0.55, 0.15], [0.25, 0.45, 0.30]])
    return np.kron(amount, np.kron(price, time))


def generate(
    path: str | Path,
    size: int,
    seed: int = 0,
    *,
    customers: int = 5000,
    frauds: bool = True,
    format: str = "text",
    files: int | None = None,
) -> None:
    """Write `size` transactions as a folder of files: lines of `text`, or columns as `csv` or `parquet`.

    Without `frauds` they are a history to train a model from.
    """
    check("fraud detection", size, files, format, customers=customers)
    made = pieces(size, seed, customers=customers, frauds=frauds)
    if format == "text":
        write(path, LINES, map(_lines, made), size, files, format)
    else:
        write(path, SCHEMA, made, size, files, format)


def pieces(size: int, seed: int = 0, *, customers: int = 5000, frauds: bool = True) -> Iterator[pa.RecordBatch]:
    """The transactions that `generate` writes, as columns, piece by piece."""
    crowd = Crowd(np.random.default_rng([seed, 1]), customers, FRAUD_SHARE if frauds else 0.0)
    names = number_names("C", np.arange(customers), max(7, len(str(customers))))
    states = pa.array(STATES)
    for number, start in enumerate(range(0, size, PIECE_ROWS)):
        random, count = np.random.default_rng([seed, 0, number]), min(PIECE_ROWS, size - start)
        chosen = random.integers(0, customers, count)
        codes = crowd.go_on(random, chosen)
        columns = [
            names.take(pa.array(chosen)),
            number_names("T", np.arange(start, start + count), 10),
            states.take(pa.array(codes)),
        ]
        yield pa.record_batch(columns, schema=SCHEMA)


class Crowd:
    """The customers: `state` is each one's last, `left` how many transactions of a fraud are still to come."""

    def __init__(self, random: np.random.Generator, customers: int, fraud_share: float) -> None:
        model = habits()
        levels = (np.arange(LEVELS) + 0.5) / LEVELS
        self.next = np.stack([np.searchsorted(np.cumsum(row), levels) for row in model]).astype(np.int8)
        self.rare = np.argsort(model, axis=1, kind="stable")[:, :FRAUD_STATES].astype(np.int8)
        self.state = random.integers(0, len(STATES), customers).astype(np.int8)
        self.left = np.zeros(customers, np.int8)
        self.fraud_share = fraud_share

    def go_on(self, random: np.random.Generator, chosen: np.ndarray) -> np.ndarray:
        """The states of the next transactions of these customers, in this order.

        A customer's transactions depend on each other, those of different ones do not: so all the first ones of this
        piece are made together, then all the second ones, and so on.
        """
        count = len(chosen)
        levels = random.integers(0, LEVELS, count)
        picks = random.integers(0, FRAUD_STATES, count)
        begins = random.random(count) < self.fraud_share
        made = np.empty(count, np.int8)
        for at in _turns(chosen):
            who = chosen[at]
            self.left[who] = np.where(begins[at], FRAUD_LENGTH, self.left[who])
            usual, rare = self.next[self.state[who], levels[at]], self.rare[self.state[who], picks[at]]
            made[at] = self.state[who] = np.where(self.left[who] > 0, rare, usual)
            self.left[who] = np.maximum(self.left[who] - 1, 0)
        return made


def _turns(chosen: np.ndarray) -> Iterator[np.ndarray]:
    """Where each customer is for the first time, then where for the second time, and so on."""
    order = np.argsort(chosen, kind="stable")
    ordered = chosen[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    turn = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    by_turn = order[np.argsort(turn, kind="stable")]
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def _lines(piece: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([pc.binary_join_element_wise(*piece.columns, ",")], schema=LINES)
