"""The model of fraud detection: an 18 × 18 matrix, a row for each state with the probabilities of the next ones.

A model is a NumPy array whose rows and columns go by `fraud_data.STATES`. As a file its first line has the names of the
states, in any order, and the others a row each, with commas between.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from examples.fraud_data import STATES

SCORES = ("miss-probability", "miss-rate", "entropy-reduction")
TOLERANCE = 1e-6
"""How far the sum of a row may be from 1: files have rounded numbers."""


def check_model(model: Any, where: str = "fraud detection") -> np.ndarray:
    """A model as an array; an error that begins with `where` if it is none."""
    try:
        matrix = np.array(model, np.float64)
    except (TypeError, ValueError):
        raise ps.DataError(f"{where}: a model must be a matrix of numbers; got {model!r}") from None
    if matrix.shape != (len(STATES), len(STATES)):
        raise ps.DataError(f"{where}: a model must have 18 rows of 18 probabilities; got the shape {matrix.shape}")
    for name, row in zip(STATES, matrix, strict=True):
        if not (row >= 0).all() or abs(row.sum() - 1) > TOLERANCE:
            raise ps.DataError(
                f"{where}: the probabilities behind {name} must be at least 0, with the sum 1; "
                f"the least is {row.min():g}, the sum {row.sum():g}"
            )
    return matrix


def load(path: str | Path) -> np.ndarray:
    """The model in a file."""
    where = f"fraud detection: {path}"
    try:
        names, *lines = Path(path).read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        raise ps.DataError(f"{where}: must be a model in text; {error}") from None
    order = names.split(",")
    if sorted(order) != sorted(STATES):
        raise ps.DataError(f"{where}: line 1 must have the names of the 18 states; got {names[:80]!r}")
    try:
        matrix = np.array([[float(number) for number in line.split(",")] for line in lines])
    except ValueError as error:
        raise ps.DataError(f"{where}: a model must have 18 rows of 18 probabilities; {error}") from None
    if matrix.shape == (len(STATES), len(STATES)):
        places = [order.index(name) for name in STATES]
        matrix = matrix[np.ix_(places, places)]
    return check_model(matrix, where)


def save(model: np.ndarray, path: str | Path) -> None:
    """Write a model to a file, from which `load` gives the same numbers."""
    rows = [",".join(map(repr, row)) for row in check_model(model).tolist()]
    Path(path).write_text("\n".join((",".join(STATES), *rows, "")), encoding="utf-8")


def from_counts(counts: np.ndarray, smoothing: float) -> np.ndarray:
    """The model of so many transitions from each state to each; `smoothing` is added to every count."""
    added = counts + smoothing
    sums = added.sum(axis=1, keepdims=True)
    return np.where(sums > 0, added / np.where(sums > 0, sums, 1.0), 1 / len(STATES))


def tables(model: np.ndarray, score: str) -> tuple[np.ndarray, np.ndarray]:
    """What a transition adds to a score's numerator and denominator, from each state to each.

    All three scores are quotients of two sums over the transitions, so these tables are all that is needed of them.
    """
    if score == "miss-rate":
        likeliest = model.argmax(axis=1)
        return (np.arange(len(STATES)) != likeliest[:, None]).astype(float), np.ones_like(model)
    if score == "miss-probability":
        return _others(model), np.ones_like(model)
    if score == "entropy-reduction":
        parts = np.array([[-p * math.log(p) if p > 0 else 0.0 for p in row] for row in model.tolist()])
        return _others(parts), np.repeat([[math.fsum(row)] for row in parts.tolist()], len(STATES), axis=1)
    raise ps.GraphError(f"fraud detection: score must be one of {', '.join(SCORES)}; got {score!r}")


def _others(parts: np.ndarray) -> np.ndarray:
    """For each element, the exact sum of all others of its row."""
    rows = parts.tolist()
    return np.array([[math.fsum(row[:at] + row[at + 1 :]) for at in range(len(row))] for row in rows])
