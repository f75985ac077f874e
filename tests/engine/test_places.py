"""An error names the item, the region or the signal that it happened at, however the graph runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps

WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"fuse": False},
    {"fuse": False, "context": "sparse"},
    {"fuse": False, "width": 2, "context": "dense"},
    {"fuse": False, "compile": False},
)
LISTS = [{"id": number, "v": [] if number == 3 else [1, 2]} for number in range(6)]


class Quotient(ps.Fold):
    n: int

    def run(self, e: int) -> None:
        self.n += e

    def end(self, id: int) -> int:
        return 10 // (id - 3)


class Divisor(ps.Signal):
    by: int


class Kept(ps.State):
    n: int


def inner() -> ps.Stream:
    return ps.from_items(LISTS).enumerate("v", as_="e").filter(lambda e: e > 0)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_at_the_end_of_a_region(way: dict[str, Any]) -> None:
    with pytest.raises(ps.DataError, match="the region that ends at item 3 has none"):
        inner().aggregate(least=ps.min("e")).collect(**way)
    with pytest.raises(ps.FunctionError, match=r"(where the region of item 3 ends|on item 3 \(id=3)"):
        inner().aggregate(quotient=Quotient).collect(**way)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_at_a_signal(way: dict[str, Any]) -> None:
    numbers = ps.from_items([{"v": v} for v in range(6)]).filter(lambda v: v > 0)
    handled = numbers.map(n=lambda v, state: v + state.n, state=Kept).on(Divisor, n=lambda signal: 1 // signal.by)
    with pytest.raises(ps.FunctionError, match="at a signal before item 4"):
        handled.collect(control=[ps.at(4, Divisor(0))], **way)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_deep_in_an_ensemble(way: dict[str, Any]) -> None:
    """Rows are noted a thousand at a time; the one that raised is found again."""
    numbers = ps.from_numpy({"v": np.arange(3000)}).filter(lambda v: v >= 10)
    with pytest.raises(ps.FunctionError, match=r"on item 1500 \(v=1500\)"):
        numbers.map(w=lambda v: 1 // (v - 1500)).collect(**way)
