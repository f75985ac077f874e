"""The first items of a stream, and one row for all of it: the same on every engine, as the reference has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock as ps
from penstock.graph import reference


class Count(ps.State):
    n: int


class Reset(ps.Signal):
    to: int


class Spread(ps.Fold):
    low: float = float("inf")
    high: float = float("-inf")

    def run(self, v: int) -> None:
        self.low = min(self.low, v)
        self.high = max(self.high, v)

    def end(self) -> float:
        return self.high - self.low


def count(state: Any) -> int:
    state.n += 1
    return state.n


def twice(v: int) -> Iterator[int]:
    yield v
    yield -v


def last(state: Any) -> Iterator[int]:
    yield state.n


def tally(state: Any) -> None:
    state.n += 1


def diamond(items: ps.Stream) -> ps.Stream:
    return ps.align(items.filter(lambda v: v > 3).map(a=lambda v: v), items.limit(9).map(b=lambda v: -v))


ALL = {
    "n": ps.count(),
    "s": ps.sum("v"),
    "m": ps.mean("v"),
    "low": ps.min("v", default=-1),
    "high": ps.max("v", default=-1),
    "first": ps.first("v", default=-1),
    "last": ps.last("v", default=-1),
    "spread": Spread,
}

GRAPHS: dict[str, Callable[[ps.Stream], ps.Stream]] = {
    "at the source": lambda i: i.limit(7),
    "none": lambda i: i.limit(0),
    "more than there are": lambda i: i.limit(1000),
    "behind a filter": lambda i: i.filter(lambda v: v % 7 == 3).limit(3),
    "of each other": lambda i: i.limit(20).filter(lambda v: v % 2 == 0).limit(4),
    "behind several of one": lambda i: i.flat_map(twice, to="w", at_most=2).limit(5),
    "of all keys": lambda i: i.key_by("k").limit(5),
    "behind a state by key": lambda i: i.key_by("k").map(n=count, state=Count).limit(8),
    "behind an aggregate by key": lambda i: i.key_by("k").aggregate(n=ps.count()).limit(2),
    "before keys": lambda i: i.limit(10).key_by("k").aggregate(n=ps.count()),
    "where streams meet": diamond,
    "behind where streams meet": lambda i: ps.merge(i.filter(lambda v: v > 5), i.filter(lambda v: v < 9)).limit(4),
    "before regions": lambda i: i.limit(11).regions(by="k").aggregate(n=ps.count()),
    "before what ends": lambda i: i.limit(6).flat_map(tally, to="n", at_most=1, state=Count, end=last),
    "all": lambda i: i.aggregate(**ALL),
    "all of nothing": lambda i: i.filter(lambda v: v < 0).aggregate(**ALL),
    "all of the first": lambda i: i.limit(3).aggregate(**ALL),
    "all of an aggregate by key": lambda i: i.key_by("k").aggregate(n=ps.count()).limit(2).aggregate(n=ps.sum("n")),
    "keys of all": lambda i: i.aggregate(n=ps.count()).key_by("n").map(m=count, state=Count),
}
WAYS: list[dict[str, Any]] = [
    {},
    {"compile": False, "batch_items": 4},
    {"fuse": False, "width": 4, "compile": False, "batch_items": 8},
    {"fuse": False, "compile": False, "width": 2, "cores": 2, "capacity": 4},
]


def items(number: int = 60) -> ps.Stream:
    return ps.from_items([{"k": v % 4, "v": v} for v in range(number)], schema={"k": int, "v": int})


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_engine_gives_what_the_reference_gives(name: str, way: dict[str, Any]) -> None:
    stream = GRAPHS[name](items())
    (wanted,) = reference.run((stream.node,)).tables
    assert repr(stream.collect(**way).to_pylist()) == repr(wanted.to_pylist())  # NaN too


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_of_a_stream_without_items(way: dict[str, Any]) -> None:
    first, all_of_it = items(0).limit(3), items(0).aggregate(n=ps.count(), s=ps.sum("v"))
    assert first.collect(**way).num_rows == 0
    assert all_of_it.collect(**way).to_pylist() == [{"n": 0, "s": 0}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_signals_pass_a_limit_that_is_full(way: dict[str, Any]) -> None:
    """What handles them behind it gives what it gives when the stream ends, so the source is read to its end."""
    first = items().emit(Reset, when=lambda v: v == 50, to=lambda v: v).limit(3)
    stream = first.flat_map(tally, to="n", at_most=1, state=Count, end=last).on(Reset, n=lambda signal: signal.to)
    assert stream.collect(**way).to_pylist() == [{"n": 50}]


def test_the_source_is_read_no_further() -> None:
    stream = items(1_000_000 // 100 * 3).filter(lambda v: v % 2 == 0).limit(3)
    run = stream.prepare(compile=False, batch_items=10)
    assert run.collect()["v"].to_pylist() == [0, 2, 4]
    assert run.statistics().nodes[0].items == 10
    run = stream.prepare(compile=False)
    run.collect()
    assert run.statistics().nodes[0].items == 1024
    run = stream.prepare(compile=False, on_error="skip", batch_items=10_000)  # every item counts there
    run.collect()
    assert run.statistics().nodes[0].items == 30_000


def test_what_has_another_result_is_read_to_its_end() -> None:
    source = items(100)
    first, everything = ps.run(source.limit(2), source.map(w=lambda v: v), compile=False, batch_items=10)
    assert (first.num_rows, everything.num_rows) == (2, 100)


def test_no_item_gives_a_least_one() -> None:
    with pytest.raises(ps.DataError, match=r"aggregate 'm': min\(v\) needs an item, and the region .* give a default="):
        items(0).aggregate(m=ps.min("v")).collect()
    with pytest.raises(ps.GraphError, match=r"to_list\(v\) would hold all items of the stream in memory"):
        items().aggregate(m=ps.to_list("v"))
    with pytest.raises(ps.GraphError, match="windows belong to a key, and there is none here; write key_by before"):
        items().window(count=3).aggregate(n=ps.count())


def test_a_limit_handles_no_signal() -> None:
    with pytest.raises(ps.GraphError, match="limit 3: on: must come right after a map, filter or flat_map with state="):
        items().limit(3).on(Reset, count=lambda signal: signal.to)
