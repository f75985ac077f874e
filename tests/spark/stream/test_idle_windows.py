"""Windows by time of keys that go idle in a running stream: they close once, and are those of a batch. No Spark."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from tests.spark.stream.running import Count, counted, item, on, running, source

import penstock as ps
from penstock.spark.stream import pages

HOUR = datetime.timedelta(hours=1)


def windows(case: str) -> tuple[ps.Stream, Callable[[float], Any], float]:
    """Windows, what makes a time of a number, and how far an item may be behind the newest."""
    day = datetime.datetime(2024, 5, 1)
    if case == "float":
        return source(t=float).key_by("k").window("t", length=0.7, every=0.3), lambda t: t / 10, 7
    if case == "timestamp":
        keyed = source(t=pa.timestamp("us")).key_by("k").filter(lambda v: v > 0.1)
        return keyed.window("t", length=HOUR, late=HOUR), lambda t: day + t * HOUR / 5, 10
    if case == "date":
        return source(t=pa.date32()).key_by("k").window("t", length=4), lambda t: (day + t * 24 * HOUR).date(), 4
    keyed = source().map(u=lambda t: 2 * t).key_by("k").map(v=lambda v: v + 1).select("k", "v", second="u")
    return keyed.window("second", length=20, every=5, late=6), lambda t: t, 13


@pytest.mark.parametrize("case", ["float", "timestamp", "date", "int"])
@pytest.mark.parametrize("seed", range(6))
def test_windows_are_those_of_a_batch_within_the_bound(case: str, seed: int) -> None:
    chance = random.Random(f"{case} {seed}")
    window, time, bound = windows(case)
    given, newest = [], 0
    for _ in range(150):
        newest += chance.choice([0, 0, 1, 1, 2, 9])
        t = chance.randint(newest - bound, newest)
        given.append(item(f"k{chance.randint(0, t // 40 + 1)}", time(t), chance.random()))
    last = item("last", time(newest + 1000))
    made = window.aggregate(n=ps.count(), high=ps.max("v")).map(nth=counted, state=Count)
    stream = running(made, buckets=chance.choice([1, 3]))
    rows, at = [], 0
    with mock.patch.object(pages, "PAGE_BYTES", chance.choice([1, 400, 1 << 14])):
        while at < len(given):
            stop = at + chance.choice([1, 5, 20])
            middle = chance.randint(at, stop)
            rows += stream.items(given[at:middle], given[middle:stop])
            at = stop
        before = len(rows)
        rows += stream.items([last])
    batch = pa.Table.from_pylist([*given, last], pa.schema(list(made.node.source.items.fields.items())))
    whole = on(made, batch).collect(compile=False).to_pylist()
    assert sorted(map(repr, rows)) == sorted(repr(row) for row in whole if row["k"] != "last")
    assert 0 < before < len(rows)


def test_windows_of_an_idle_key_close_once_and_stay_closed() -> None:
    stream = running(source().key_by("k").window("t", length=10).aggregate(n=ps.count()), buckets=1)
    assert stream.items([item("a", 3), item("b", 4)]) == []
    assert stream.items([item("b", 23)]) == [{"k": "b", "start": 0, "end": 10, "n": 1}]  # by its own item
    assert stream.items([item("b", 24)]) == [{"k": "a", "start": 0, "end": 10, "n": 1}]  # 3 + 10 + 10 is before
    assert stream.items([item("b", 25)]) == []
    assert stream.items([item("a", 5)]) == []  # late, by more than the bound: left out
    assert stream.items([item("a", 16)]) == []
    assert stream.items([item("b", 99)]) == [
        {"k": "b", "start": 20, "end": 30, "n": 3},
        {"k": "a", "start": 10, "end": 20, "n": 1},
    ]
    assert stream.counts["keys"] == 2


def test_a_late_item_of_a_closed_window_is_an_error_where_that_was_asked_for() -> None:
    keyed = source().key_by("k").window("t", length=10, late_items="error").aggregate(n=ps.count())
    stream = running(keyed, buckets=1)
    stream.items([item("a", 3), item("b", 40)])
    with pytest.raises(ps.DataError, match="late"):
        stream.items([item("a", 5)])


def test_pages_of_closed_windows_rest() -> None:
    stream = running(source(k=int).key_by("k").window("t", length=10).aggregate(n=ps.count()), buckets=1)
    with mock.patch.object(pages, "PAGE_BYTES", 400):
        stream.items([item(key, 5) for key in range(100)])
        assert len(stream.items([item(0, 50)])) == 100
        stream.items([item(0, 51)])
        assert stream.counts["touched"] == 1 < stream.counts["pages"] and stream.counts["keys"] == 100


def test_windows_wait_for_their_own_key_where_more_would_end_with_them() -> None:
    window = source().key_by("k").window(count=2).aggregate(t=ps.last("t")).window("t", length=10)
    stream = running(window.aggregate(n=ps.count()))
    assert stream.items([item("a", 1), item("a", 2), item("b", 500)]) == []


def test_expiry_closes_windows_too_and_the_key_is_gone() -> None:
    stream = running(source().key_by("k").window("t", length=10).aggregate(n=ps.count()), expire_after=200)
    stream.items([item("a", 3)])
    assert stream.items([item("b", 100)]) == [{"k": "a", "start": 0, "end": 10, "n": 1}]
    assert stream.counts["keys"] == 2
    assert stream.items([item("b", 204)]) == [{"k": "b", "start": 100, "end": 110, "n": 1}]
    assert stream.counts["keys"] == 1
