"""Fraud detection: transactions that end an unlikely run of their customer's transactions.

A line is `customer,transaction,state`, where a state is three letters, one of 18: `LNL` to `HHS`. Lines that have not
these three fields, or have no customer or an unknown state, are dropped and counted.

For each transaction, in the order of its customer's transactions, the customer's last `window` states are scored with a
model: the probabilities of going from each state to each. With fewer states there is no score. The scores are

- `miss-probability`: the mean over the transitions of the probability of all the other next states;
- `miss-rate`: the share of the transitions to another state than the likeliest one;
- `entropy-reduction`: the entropy of the next states without the actual ones, over that with them.

The result is one row for each transaction with a score above `threshold`: `customer`, `transaction`, `score`.

Transactions may also come as columns of these three names. How they are made stands in `fraud_data`, what a model is in
`fraud_model`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import penstock as ps
from examples.fraud_data import AMOUNTS, PRICES, SCHEMA, STATES, TIMES, generate, pieces
from examples.fraud_model import SCORES, check_model, from_counts, load, save, tables
from penstock.examples import datasets

__all__ = [
    "SCORES",
    "build",
    "frauds",
    "generate",
    "load",
    "malformed",
    "note",
    "parse",
    "pieces",
    "read",
    "reference",
    "reference_malformed",
    "results",
    "save",
    "train",
    "transactions",
    "usual_model",
]

USUAL_SIZE, SIZE_UNIT = 1_000_000, "transactions"
WINDOW = 5
THRESHOLD = 0.96
HISTORY = 1 << 17
NAME = "fraud detection"


def build(
    source: ps.Stream | str | Path,
    *,
    model: np.ndarray | str | Path | None = None,
    score: str = "miss-probability",
    threshold: float = THRESHOLD,
    window: int = WINDOW,
) -> ps.Stream:
    """The suspect transactions, `customer`, `transaction` and `score`, of a stream of lines or columns, or of files.

    `model` is a matrix or the file of one; unless given, it is trained from a history such as `generate` makes.
    """
    stream = source if isinstance(source, ps.Stream) else read(source)
    return frauds(transactions(stream), model=model, score=score, threshold=threshold, window=window)


def results(source: ps.Stream, **settings: Any) -> tuple[ps.Stream, ...]:
    """The suspect transactions, and the sizes of what was dropped as malformed; each is parsed once."""
    found = parse(source)
    kept = "line" if "line" in source.schema.names else "transaction"
    dropped = _bad(found).select(text=kept).map(size=lambda text: len(text)).select("size")
    return frauds(_good(found), **settings), dropped


def note(dropped: pa.Table) -> str:
    """What was dropped, in words."""
    return f"{dropped.num_rows:,} malformed transactions were dropped"


def read(path: str | Path) -> ps.Stream:
    """A file, or all files of a folder, as a stream: text as `line`, CSV and Parquet as columns."""
    return datasets.read(NAME, path, SCHEMA)


def transactions(source: ps.Stream) -> ps.Stream:
    """The `customer`, `transaction` and `code` (the number of the state) of all that are not malformed."""
    return _good(parse(source))


def malformed(source: ps.Stream) -> ps.Stream:
    """What is dropped: lines, or the `customer` and the `transaction` where there are columns."""
    return _bad(parse(source))


def parse(source: ps.Stream) -> ps.Stream:
    """Every transaction with its `code`, which is -1 where it is malformed."""
    if "line" not in source.schema.names:
        return source.select("customer", "transaction", letters="state").map(code=code_of_letters)
    return source.map(customer=ps.returns(str, customer_of), transaction=ps.returns(str, transaction_of), code=code_of)


def _good(found: ps.Stream) -> ps.Stream:
    return found.filter(lambda code: code >= 0).select("customer", "transaction", "code")


def _bad(found: ps.Stream) -> ps.Stream:
    kept = ("line",) if "line" in found.schema.names else ("customer", "transaction")
    return found.filter(lambda code: code < 0).select(*kept)


def frauds(
    found: ps.Stream,
    *,
    model: np.ndarray | str | Path | None = None,
    score: str = "miss-probability",
    threshold: float = THRESHOLD,
    window: int = WINDOW,
) -> ps.Stream:
    """The transactions with a score above the threshold, from a stream of `customer`, `transaction` and `code`."""
    if not isinstance(window, int) or window < 2:
        raise ps.GraphError(f"{NAME}: window must be a whole number of at least 2; got {window!r}")
    if not isinstance(threshold, (int, float)) or math.isnan(threshold):
        raise ps.GraphError(f"{NAME}: threshold must be a number; got {threshold!r}")
    scored = found.key_by("customer").flat_map(
        _scorer(*tables(_model(model), score), window),
        to="score",
        keep=("customer", "transaction"),
        at_most=1,
        state=_last(window),
    )
    return scored.filter(lambda score: score > threshold)


def _model(given: np.ndarray | str | Path | None) -> np.ndarray:
    if given is None:
        return usual_model()
    return load(given) if isinstance(given, (str, Path)) else check_model(given)


@functools.cache
def usual_model() -> np.ndarray:
    """The model of a history such as `generate` makes."""
    history = pa.Table.from_batches(pieces(HISTORY, frauds=False))
    return train(ps.from_arrow(history, name="history"))


def train(history: ps.Stream | str | Path, *, smoothing: float = 1.0) -> np.ndarray:
    """The model of a history: how often each state was followed by each, among every customer's transactions.

    `smoothing` is added to every count, so that what the history does not show is unlikely and not impossible.
    """
    stream = history if isinstance(history, ps.Stream) else read(history)
    steps = transactions(stream).key_by("customer").flat_map(transition, to="step", at_most=1, state=Before)
    counts = np.zeros(len(STATES) ** 2, np.int64)
    for batch in steps.batches():
        counts += np.bincount(batch.column("step").to_numpy(), minlength=len(counts))
    return from_counts(counts.reshape(len(STATES), len(STATES)), smoothing)


# The functions of the steps. They look at the bytes of a text.


class Before(ps.State):
    """The number of a customer's last state, or -1."""

    code: int = -1


def transition(code: int, state: Any) -> Iterator[int]:
    """The numbers of the last state and of this one, as one number."""
    if state.code >= 0:
        yield 18 * state.code + code
    state.code = code


def _last(window: int) -> type[ps.State]:
    class Last(ps.State):
        """The numbers of a customer's last states, the newest last, and how many there were."""

        codes: ps.array(int, window)  # type: ignore[valid-type]
        n: int

    return Last


def _scorer(above: np.ndarray, below: np.ndarray, window: int) -> Callable[..., Iterator[float]]:
    def score(code: int, state: Any) -> Iterator[float]:
        for at in range(window - 1):
            state.codes[at] = state.codes[at + 1]
        state.codes[window - 1] = code
        state.n = min(state.n + 1, window)
        if state.n == window:
            missed, whole = 0.0, 0.0
            for at in range(window - 1):
                missed += above[state.codes[at], state.codes[at + 1]]
                whole += below[state.codes[at], state.codes[at + 1]]
            yield missed / whole if whole > 0 else 0.0

    return score


COMMA = ord(",")


def _places(letters: str) -> np.ndarray:
    """The place of each byte among some letters, or -1."""
    return np.array([letters.find(chr(byte)) for byte in range(256)])


AMOUNT, PRICE, TIME = _places(AMOUNTS), _places(PRICES), _places(TIMES)


def code_of_letters(letters: str) -> int:
    """The number of a state, or -1 if it is none."""
    return code_at(letters.encode(), 0)


def code_of(line: str) -> int:
    """The number of the state that ends a line of three fields, or -1 where it is malformed."""
    data = line.encode()
    first, second, commas = parts(data)
    return code_at(data, second + 1) if commas == 2 and first > 0 else -1


def customer_of(line: str) -> bytes:
    data = line.encode()
    return data[: parts(data)[0]]


def transaction_of(line: str) -> bytes:
    data = line.encode()
    first, second, _ = parts(data)
    return data[min(first + 1, second) : second]


def parts(line: bytes) -> tuple[int, int, int]:
    """Where the first two commas stand, or the line's end, and how many there are."""
    first = second = len(line)
    commas = 0
    for at in range(len(line)):
        if line[at] == COMMA:
            first = at if commas == 0 else first
            second = at if commas == 1 else second
            commas += 1
    return first, second, commas


def code_at(text: bytes, start: int) -> int:
    if len(text) != start + 3:
        return -1
    amount, price, time = AMOUNT[text[start]], PRICE[text[start + 1]], TIME[text[start + 2]]
    return -1 if min(amount, price, time) < 0 else 6 * amount + 3 * price + time


# The answer by the plainest Python.


def reference(
    path: str | Path,
    *,
    model: np.ndarray | str | Path | None = None,
    score: str = "miss-probability",
    threshold: float = THRESHOLD,
    window: int = WINDOW,
) -> list[dict[str, Any]]:
    """The rows of the result, by the plainest Python."""
    matrix = _model(model).tolist()
    last: dict[str, list[str]] = {}
    found = []
    for customer, transaction, state in _reference_transactions(path)[0]:
        states = last.setdefault(customer, [])
        states.append(state)
        if len(states) >= window:
            value = _reference_score(matrix, score, [STATES.index(name) for name in states[-window:]])
            if value > threshold:
                found.append({"customer": customer, "transaction": transaction, "score": value})
    return found


def reference_malformed(path: str | Path) -> int:
    """How many transactions are malformed, by the plainest Python."""
    return _reference_transactions(path)[1]


def _reference_score(matrix: list[list[float]], score: str, codes: list[int]) -> float:
    above = below = 0.0
    for before, now in pairwise(codes):
        row = matrix[before]
        if score == "miss-probability":
            above += math.fsum(p for code, p in enumerate(row) if code != now)
            below += 1
        elif score == "miss-rate":
            above += now != row.index(max(row))
            below += 1
        else:
            entropies = [-p * math.log(p) if p > 0 else 0.0 for p in row]
            above += math.fsum(entropy for code, entropy in enumerate(entropies) if code != now)
            below += math.fsum(entropies)
    return above / below if below > 0 else 0.0


def _reference_transactions(path: str | Path) -> tuple[list[tuple[str, str, str]], int]:
    rows: list[tuple[str, ...]] = []
    for file in datasets.list_files(path):
        if file.suffix == ".parquet":
            rows += [tuple(row.values()) for row in pyarrow.parquet.read_table(file).to_pylist()]
        else:
            lines = file.read_text().splitlines()[1 if file.suffix == ".csv" else 0 :]
            rows += [tuple(line.split(",")) for line in lines]
    good = [(row[0], row[1], row[2]) for row in rows if len(row) == 3 and row[0] and row[2] in STATES]
    return good, len(rows) - len(good)
