"""Compiled loops give back all memory that functions take: as many arrays are freed as were made."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

import penstock as ps

ITEMS = 100


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    was_counted = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield
    if not was_counted:
        _nrt_python.memsys_disable_stats()


def numbers() -> ps.Stream:
    return ps.from_numpy({"v": np.arange(ITEMS)}, name="numbers")


def row(v: int) -> list[float]:
    made: Any = np.empty(4)
    for at in range(4):
        made[at] = v + at
    return made  # type: ignore[no-any-return]


def doubled(row: Any) -> list[float]:
    made: Any = np.empty(len(row))
    for at in range(len(row)):
        made[at] = 2 * row[at]
    return made  # type: ignore[no-any-return]


def fresh(v: int) -> Iterator[list[float]]:
    for at in range(v % 3):
        made: Any = np.empty(3)
        made[0] = at
        yield made


def one(v: int) -> Iterator[list[float]]:
    made: Any = np.zeros(3)
    for at in range(v % 3):
        made[0] = at
        yield made


def pair(v: int) -> Iterator[tuple[list[float], int]]:
    for at in range(v % 3):
        made: Any = np.zeros(3)
        yield made[:at], at


def elements(row: Any) -> Iterator[float]:
    for at in range(len(row)):
        yield row[at]


def parts(row: Any) -> Iterator[list[float]]:
    for at in range(len(row)):
        yield row[at:]


def itself(row: Any) -> list[float]:
    return row  # type: ignore[no-any-return]


class Last(ps.State):
    last: ps.array(float, 4)  # type: ignore[valid-type]


def since(row: Any, state: Any) -> Iterator[list[float]]:
    made: Any = np.empty(4)
    for at in range(4):
        made[at] = row[at] - state.last[at]
        state.last[at] = row[at]
    yield made


class Rows(ps.Fold):
    total: float

    def run(self, row: Any) -> None:
        for at in range(len(row)):
            self.total += row[at]

    def end(self) -> float:
        return self.total


class Seen(ps.Operator):
    count: int

    def run(self, v: int) -> Iterator[list[float]]:
        self.count += 1
        made: Any = np.full(self.count, 1.0)
        yield made

    def end(self) -> Iterator[list[float]]:
        made: Any = np.zeros(2)
        yield made


STREAMS: dict[str, Callable[[], ps.Stream]] = {
    "arrays": lambda: numbers().map(row=row).map(row=doubled).filter(lambda row: row[0] > 3),
    "an argument that is returned": lambda: numbers().map(row=row).map(row=itself),
    "a generator of new arrays": lambda: numbers().flat_map(fresh, to="row", at_most=3),
    "a generator of one array": lambda: numbers().flat_map(one, to="row", at_most=3),
    "a generator of pairs": lambda: numbers().flat_map(pair, to=("row", "at"), at_most=3),
    "a generator over an array": lambda: numbers().map(row=row).flat_map(elements, to="e", at_most=4),
    "a generator of parts of an array": lambda: numbers().map(row=row).flat_map(parts, to="row", at_most=4),
    "a state with an array": lambda: numbers().map(row=row).flat_map(since, to="row", at_most=1, state=Last),
    "lists that are opened": lambda: numbers().map(row=row).enumerate("row", as_="e").aggregate(s=ps.sum("e")),
    "lists in regions": lambda: numbers().regions(start=lambda v: v % 7 == 0).map(row=row).aggregate(s=Rows),
    "lists that are collected": lambda: numbers().regions(start=lambda v: v % 7 == 0).aggregate(all=ps.to_list("v")),
    "keys": lambda: numbers().key_by("v").map(row=row).flat_map(since, to="row", at_most=1, state=Last),
    "hooks": lambda: numbers().regions(start=lambda v: v % 7 == 0).process(Seen, to="row", at_most=2),
}


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", STREAMS)
def test_all_arrays_are_freed(name: str, fuse: bool) -> None:
    stream = STREAMS[name]()
    for _ in range(2):
        gc.collect()
        before = rtsys.get_allocation_stats()
        stream.collect(spark=False, fuse=fuse, width=16)
        gc.collect()
        after = rtsys.get_allocation_stats()
        made = after.alloc - before.alloc
        assert (made, after.mi_alloc - before.mi_alloc) == (after.free - before.free, after.mi_free - before.mi_free)
    assert made > 0
