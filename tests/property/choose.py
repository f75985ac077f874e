"""Where the choices of a random graph come from: a seed, or Hypothesis.

One primitive suffices, a whole number of a range, so both drive the same generator; and what Hypothesis shrinks, the
number, goes to the lower end, which is why the simplest choice always stands first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choose:
    """A source of choices. A subclass says how a number is chosen."""

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        raise NotImplementedError

    def choice(self, among: Sequence[T]) -> T:
        return among[self.integer(0, len(among) - 1)]

    def boolean(self, percent: int) -> bool:
        """True in about so many of a hundred cases."""
        return self.integer(1, 100) > 100 - percent

    def weighted(self, weights: dict[T, int]) -> T:
        at = self.integer(0, sum(weights.values()) - 1)
        for what, weight in weights.items():
            at -= weight
            if at < 0:
                return what
        raise AssertionError("the weights of a choice must be positive")

    def some(self, among: Sequence[T], at_least: int, at_most: int) -> list[T]:
        """Different elements, in any order."""
        left = list(among)
        count = self.integer(min(at_least, len(left)), min(at_most, len(left)))
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(count)]


class Seeded(Choose):
    """Choices that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


class Drawn(Choose):
    """Choices that Hypothesis makes, and shrinks when they lead to a failure."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return low if low == high else int(self.draw(st.integers(low, high)))
