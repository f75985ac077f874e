"""Graphs that random tests have found, each as small as it could be made: flexible nodes where something was wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.graph.placed import flexible
from tests.property.stepped import stepped

import penstock as ps
from penstock.engine.run import Run
from penstock.errors import GraphError
from penstock.graph import reference


class Level(ps.Signal):
    level: int


class Held(ps.State):
    level: int


def numbers(count: int = 12) -> ps.Stream:
    return ps.from_numpy({"v": np.arange(count)}, name="numbers")


def lists() -> ps.Stream:
    table = pa.table({"v": [1, 2, 3, 4], "l": [[1, 2, 3], [], [4, 5, 6], [7]]})
    return ps.from_arrow(table, name="lists")


def check(*streams: ps.Stream, steps: Iterable[int] = range(6), **options: Any) -> None:
    """What all these streams give, and where signals are handed over, is what the reference has."""
    leaves = tuple(stream.node for stream in streams)
    wanted = reference.run(leaves)
    for seed in steps:
        with stepped(seed):
            given = {"cores": 3, "fuse": False, "compile": False, "check": True, "trace": True, **options}
            found = Run(leaves, **given).result()
        for a, b in zip(wanted.tables, found.tables, strict=True):
            assert b.equals(a.cast(b.schema))
        assert sorted(map(str, found.signals)) == sorted(map(str, wanted.signals))


def test_all_nodes_on_one_core() -> None:
    """The copies are on others all the same."""
    before = numbers().map(u=lambda v: v + 1)
    stream = flexible(before.map(w=lambda u: 2 * u))
    check(stream, capacity=1, mapping={before: 1, stream: 1})


def test_a_function_over_columns_that_is_a_result() -> None:
    check(flexible(numbers().map_columns(lambda v: v, to={"w": int})))


def test_beside_a_list_that_is_opened() -> None:
    """A loop that stops within a list comes to its item several times, and gave it as often."""
    source = lists()
    sums = source.enumerate("l", as_="x").aggregate(s=ps.sum("x"))
    kept = flexible(source.select("v"))
    check(ps.merge(sums.select("v"), kept), capacity_signals=4, steps=range(4))
    check(kept, source.enumerate("l", as_="x").filter(lambda x: x > 1), capacity=1, steps=range(4))


def test_a_join_that_is_a_result_before_a_flexible_node() -> None:
    source = numbers()
    joined = ps.align(source.map(a=lambda v: v), source.map(b=lambda v: v).filter(lambda b: b % 2 == 0))
    check(joined, flexible(joined.filter(lambda a: a > 3)))


def several(v: int) -> Iterator[int]:
    for at in range(v % 3):
        yield v * 10 + at


def test_items_that_copies_number() -> None:
    many = flexible(numbers().flat_map(several, to="w", at_most=3))
    check(ps.merge(many, many), capacity=4)


@pytest.mark.parametrize("marks", [3, 4, 6])
def test_more_marks_in_a_run_than_there_is_room_for(marks: int) -> None:
    """The end of a run makes room for a mark only where it is at hand."""
    emitted = numbers(20).emit(Level, when=lambda v: v % 7 > 0, level=lambda v: v)
    twice = flexible(emitted.emit(Level, when=lambda v: v % 5 > 0, level=lambda v: -v).map(w=lambda v: v))
    held = twice.map(n=lambda w, state: w + state.level, state=Held).on(Level, level=lambda signal: signal.level)
    check(held, capacity=4, capacity_signals=marks, context="lane", policy="random", width=2)


def test_room_for_fewer_marks_than_a_copy_may_be_told_is_refused() -> None:
    stream = flexible(numbers().regions(start=lambda v: v % 4 == 0).map(w=lambda v: v)).aggregate(s=ps.sum("w"))
    with pytest.raises(GraphError, match=r"at least 4 signals .* or a copy must be told; got capacity_signals=3"):
        stream.prepare(spark=False, cores=2, fuse=False, capacity_signals=3)


@pytest.mark.parametrize("seed", [11, 47])
def test_a_join_behind_hears_how_far_a_run_has_come(seed: int) -> None:
    """A run of a beta split may end where one side has not come to yet; the join behind waits for what is before."""
    source = numbers(60)
    a, b = (
        source.filter(lambda v: v % 2 == 0).map(a=lambda v: v),
        source.filter(lambda v: v % 3 == 0).map(b=lambda v: v),
    )
    inner = flexible(ps.align(a, b), split="beta")
    outer = flexible(ps.align(inner, source.map(c=lambda v: v).filter(lambda c: c > 5)), split="beta")
    check(outer, steps=[seed], cores=2, fuse=True, capacity=5, width=3, policy="random", seed=seed)
