"""Windows by time in a running stream: they close once, also those of idle keys, and are a batch's. No Spark."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from tests.spark.streaming.running import Count, counted, item, on, running, source

import penstock as ps
from penstock.graph import reference
from penstock.spark.streaming import pages

HOUR = datetime.timedelta(hours=1)


def windows(case: str) -> tuple[ps.Stream, Callable[[float], Any]]:
    """Windows, and what makes a time of a number."""
    day = datetime.datetime(2024, 5, 1)
    if case == "float":
        return source(t=float).key_by("k").window("t", length=0.7, every=0.3, late=0.2), lambda t: t / 10
    if case == "timestamp":
        keyed = source(t=pa.timestamp("us")).key_by("k").filter(lambda v: v > 0.1)
        return keyed.window("t", length=HOUR, late=HOUR), lambda t: day + t * HOUR / 5
    if case == "date":
        keyed = source(t=pa.date32()).key_by("k")
        return keyed.window("t", length=4, late=2), lambda t: (day + t * 24 * HOUR).date()
    keyed = source().map(u=lambda t: 2 * t).key_by("k").map(v=lambda v: v + 1).select("k", "v", second="u")
    return keyed.window("second", length=20, every=5, late=6), lambda t: t


@pytest.mark.parametrize("case", ["float", "timestamp", "date", "int"])
@pytest.mark.parametrize("seed", range(3))
def test_windows_are_those_of_a_batch_wherever_the_stream_is_cut(case: str, seed: int) -> None:
    chance = random.Random(f"{case} {seed}")
    window, time = windows(case)
    given, newest = [], 0
    for _ in range(150):
        newest += chance.choice([0, 0, 1, 1, 2, 9])
        t = chance.randint(newest - 20, newest)
        given.append(item(f"k{chance.randint(0, t // 10 + 1 if t > 0 else 1)}", time(t), chance.random()))
    made = window.aggregate(n=ps.count(), high=ps.max("v")).map(nth=counted, state=Count)
    stream = running(made, buckets=chance.choice([1, 3]))
    rows, at = [], 0
    with mock.patch.object(pages, "PAGE_BYTES", chance.choice([1, 400, 1 << 14])):
        while at < len(given):
            stop = at + chance.choice([1, 5, 20])
            middle = chance.randint(at, stop)
            rows += stream.items(given[at:middle], given[middle:stop])
            at = stop
    batch = pa.Table.from_pylist(given, pa.schema(list(made.node.source.items.fields.items())))
    (whole,) = reference.run([on(made, batch).node], is_open=True).tables
    assert sorted(map(repr, rows)) == sorted(map(repr, whole.to_pylist())) and rows


@pytest.mark.parametrize("is_gathered", [False, True])
def test_many_keys_that_have_no_more_items(is_gathered: bool) -> None:
    """All keys hear of the time, also those whose pages are at rest, and where the time is made in their own task."""
    keyed = source(k=int).key_by("k").map(u=lambda t: t) if is_gathered else source(k=int, u=int).key_by("k")
    stream = running(keyed.window("u", length=10, late=0).aggregate(n=ps.count()), buckets=2)
    with mock.patch.object(pages, "PAGE_BYTES", 1):
        stream.items([item(key, 5) | {"u": 5} for key in range(100)])
        assert len(stream.items([item(0, 9) | {"u": 9}])) == 0
        assert len(stream.items([item(0, 50) | {"u": 50}])) == 100


def test_windows_of_an_idle_key_close_once_and_stay_closed() -> None:
    stream = running(source().key_by("k").window("t", length=10, late=0).aggregate(n=ps.count()), buckets=1)
    assert stream.items([item("a", 3), item("b", 4)]) == []
    assert stream.items([item("b", 23)]) == [
        {"k": "a", "start": 0, "end": 10, "n": 1},
        {"k": "b", "start": 0, "end": 10, "n": 1},
    ]
    assert stream.items([item("a", 5)]) == []  # late: left out
    assert stream.items([item("a", 20)]) == []
    assert stream.items([item("b", 99)]) == [
        {"k": "a", "start": 20, "end": 30, "n": 1},
        {"k": "b", "start": 20, "end": 30, "n": 1},
    ]
    assert stream.counts["keys"] == 2


def test_a_late_item_of_a_closed_window_is_an_error_where_that_was_asked_for() -> None:
    keyed = source().key_by("k").window("t", length=10, late=0, on_late="error").aggregate(n=ps.count())
    stream = running(keyed, buckets=1)
    stream.items([item("a", 3), item("b", 40)])
    with pytest.raises(ps.DataError, match="late"):
        stream.items([item("a", 5)])


def test_windows_without_late_are_refused() -> None:
    with pytest.raises(ps.GraphError, match=r"start: .* close when the stream ends, .* late=0 closes them at once"):
        running(source().key_by("k").window("t", length=10).aggregate(n=ps.count()))


def test_pages_rest_while_no_window_closes() -> None:
    stream = running(source(k=int).key_by("k").window("t", length=10, late=0).aggregate(n=ps.count()), buckets=1)
    with mock.patch.object(pages, "PAGE_BYTES", 400):
        stream.items([item(key, 5) for key in range(100)])
        assert len(stream.items([item(0, 50)])) == 100
        stream.items([item(0, 51)])
        assert stream.counts["touched"] == 1 < stream.counts["pages"] and stream.counts["keys"] == 100


def test_expiry_closes_windows_too_and_the_key_is_gone() -> None:
    stream = running(source().key_by("k").window("t", length=10, late=500).aggregate(n=ps.count()), expire_after=200)
    stream.items([item("a", 3)])
    assert stream.items([item("b", 100)]) == []
    assert stream.counts["keys"] == 2
    assert stream.items([item("b", 204)]) == [{"k": "a", "start": 0, "end": 10, "n": 1}]
    assert stream.counts["keys"] == 1
