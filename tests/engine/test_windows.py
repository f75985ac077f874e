"""Aggregates and windows by key, and nodes that end their keys: on the reference and on every way to run."""

from __future__ import annotations

import datetime
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.property.check import check
from tests.property.graphs import from_seed

import penstock as ps
from penstock.codegen.end_rules import AT_END
from penstock.engine.intake import Arrival, arriving
from penstock.engine.run import Run
from penstock.graph import nodes, reference

INF, NAN = math.inf, math.nan


class Count(ps.State):
    n: int


class Total(ps.State):
    sum: float


class Add(ps.Signal):
    more: float


class Spread(ps.Fold):
    low: float
    high: float
    length: int

    def begin(self, k):  # type: ignore[no-untyped-def]
        self.length = len(k)
        self.low, self.high = 1e300, -1e300

    def run(self, v):  # type: ignore[no-untyped-def]
        self.low = min(self.low, v)
        self.high = max(self.high, v)

    def end(self, k, end):  # type: ignore[no-untyped-def]
        return self.high - self.low + 100.0 * self.length + 1000.0 * len(k) + 10000.0 * end


def rows(*given: tuple[Any, ...], names: Sequence[str] = ("k", "t", "v")) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=False)) for row in given]


def everywhere(stream: ps.Stream, control: Sequence[Any] = (), *, compile: bool = False) -> list[dict[str, Any]]:
    """The result, after checking that all ways to run agree on it; compiled too, where it is worth the time."""
    (table,) = reference.run([stream.node], control).tables
    ways: list[dict[str, Any]] = [{"batch_items": 1}, {}, {"fuse": False, "batch_items": 2}]
    ways += [{"fuse": False, "width": 1, "context": context} for context in ("sparse", "dense", "lane")]
    for way in ways:
        for is_compiled in (False, True) if compile and len(way) < 2 else (False,):
            found = stream.collect(control=control, compile=is_compiled, **way)
            assert found.schema == table.schema
            assert repr(found.to_pylist()) == repr(table.to_pylist()), way
    return table.to_pylist()  # type: ignore[no-any-return]


def fails(pattern: str, stream: ps.Stream, error: type[Exception] = ps.DataError) -> None:
    with pytest.raises(error, match=pattern):
        reference.run([stream.node])
    for compile, batch_items in ((False, None), (False, 1), (True, None)):
        with pytest.raises(error, match=pattern):
            stream.collect(compile=compile, batch_items=batch_items)


ITEMS = ps.from_items(rows(("a", 1, 1.0), ("b", 2, 4.0), ("a", 5, 2.0), ("a", 12, 8.0), ("b", 3, 16.0))).key_by("k")
NOTHING = ps.from_items([], schema={"k": str, "t": int, "v": float}).key_by("k")


# One row a key


def test_one_row_for_each_key_in_the_order_of_first_items() -> None:
    totals = ITEMS.aggregate(total=ps.sum("v"), n=ps.count(), first=ps.first("t"), last=ps.last("t"), low=ps.min("v"))
    assert everywhere(totals, compile=True) == [
        {"k": "a", "total": 11.0, "n": 3, "first": 1, "last": 12, "low": 1.0},
        {"k": "b", "total": 20.0, "n": 2, "first": 2, "last": 3, "low": 4.0},
    ]


def test_the_order_is_that_of_the_items_that_reach_the_aggregate() -> None:
    """The filter stands in the loop in which the keys are numbered, so `a` has its number before `b`."""
    items = ps.from_items(rows(("a", 0), ("b", 1), ("c", 0), ("a", 1)))
    late = items.filter(lambda t: t > 0).key_by("k").aggregate(n=ps.count())
    assert everywhere(late, compile=True) == [{"k": "b", "n": 1}, {"k": "a", "n": 1}]
    assert everywhere(items.key_by("k").filter(lambda t: t > 0).aggregate(n=ps.count())) == late.collect().to_pylist()


def test_an_empty_stream_has_no_keys_and_no_windows() -> None:
    assert everywhere(NOTHING.aggregate(n=ps.count())) == []
    assert everywhere(NOTHING.window(count=2).aggregate(n=ps.count())) == []
    assert everywhere(NOTHING.window("t", length=2).aggregate(n=ps.count())) == []


def test_the_key_stays_in_force() -> None:
    """A state behind the aggregate is that of the key."""

    def number(state):  # type: ignore[no-untyped-def]
        state.n += 1
        return state.n

    numbered = ITEMS.window(count=1).aggregate(v=ps.sum("v")).map(nth=number, state=Count)
    assert [row["nth"] for row in everywhere(numbered)] == [1, 1, 2, 3, 2]
    again = ITEMS.window(count=2).aggregate(v=ps.sum("v")).aggregate(windows=ps.count(), v=ps.max("v"))
    assert everywhere(again, compile=True) == [{"k": "a", "windows": 2, "v": 8.0}, {"k": "b", "windows": 1, "v": 20.0}]


def test_the_fields_of_the_key_are_those_that_it_was_given_with() -> None:
    changed = ITEMS.map(k=lambda t: t).select("k").aggregate(n=ps.count())
    assert everywhere(changed) == [{"k": "a", "n": 3}, {"k": "b", "n": 2}]
    assert everywhere(ITEMS.aggregate(keep=(), n=ps.count())) == [{"n": 3}, {"n": 2}]


@pytest.mark.parametrize(
    ("values", "t"),
    [
        ([3, -1, 3, 2**62], pa.int64()),
        ([3, 200, 3, 0], pa.uint8()),
        ([2**62, 1, 2**62, 0], pa.uint64()),
        ([0.0, 1.5, -0.0, INF], pa.float64()),
        ([0.5, -1.5, 0.5, -INF], pa.float32()),
        ([True, False, True, False], pa.bool_()),
        (["é", "", "é", "日本" * 300], pa.string()),
        ([b"\xff", b"", b"\xff", b"a\0b"], pa.large_binary()),
        ([0, 59, 0, -5], pa.timestamp("ms", tz="UTC")),
        ([0, 59, 0, -5], pa.date32()),
    ],
)
def test_keys_of_every_type_come_back(values: list[Any], t: pa.DataType) -> None:
    keys = pa.array(values, t)
    items = ps.from_arrow(pa.table({"k": keys, "j": [1, 2, 1, 2]}))
    expected = [keys[0].as_py(), keys[1].as_py(), *([] if t == pa.bool_() else [keys[3].as_py()])]
    assert [row["k"] for row in everywhere(items.key_by("k").aggregate(n=ps.count()), compile=True)] == expected
    both = everywhere(items.key_by("k", "j").aggregate(n=ps.count()))
    assert [(row["k"], row["j"]) for row in both] == list(zip(expected, (1, 2, 2), strict=False))
    assert [row["j"] for row in everywhere(items.key_by("j", "k").aggregate(n=ps.count(), keep="j"))] == [
        row["j"] for row in both
    ]


def test_three_fields_make_a_key() -> None:
    rng = random.Random(7)
    given = [
        {"a": rng.choice("xyz"), "b": rng.randrange(3), "c": rng.choice((b"", b"\0", b"q")), "v": v} for v in range(60)
    ]
    expected: dict[tuple[Any, ...], int] = defaultdict(int)
    for row in given:
        expected[row["a"], row["b"], row["c"]] += row["v"]
    found = everywhere(ps.from_items(given).key_by("a", "b", "c").aggregate(v=ps.sum("v")))
    assert [(tuple(row.values())) for row in found] == [(*key, v) for key, v in expected.items()]


def test_a_fold_sees_the_fields_of_the_key_and_the_bounds() -> None:
    items = ps.from_items(rows(("a", 1, 1.0), ("bb", 2, 4.0), ("a", 5, 2.5)))
    spread = items.key_by("k").window(count=2).aggregate(s=Spread)
    assert everywhere(spread, compile=True) == [
        {"k": "a", "start": 0, "end": 2, "s": 1.5 + 100 + 1000 + 20000},
        {"k": "bb", "start": 0, "end": 1, "s": 0.0 + 200 + 2000 + 10000},
    ]


def test_a_fold_that_does_not_compile() -> None:
    class Told(ps.Fold):
        n: int

        def run(self, v):  # type: ignore[no-untyped-def]
            self.n += len(format(v))

        def end(self) -> str:
            return format(self.n, "b")

    with pytest.warns(ps.InterpretedWarning):
        told = ITEMS.window(count=2).aggregate(s=Told)
    assert [row["s"] for row in everywhere(told)] == ["110", "111", "11"]


def test_sums_of_integers_are_exact_beyond_64_bits_in_between() -> None:
    big = 2**62
    items = ps.from_items(rows(("a", big), ("a", big), ("b", 1), ("a", -big), ("a", -big - 7)))
    sums = items.key_by("k").aggregate(t=ps.sum("t"))
    assert everywhere(sums, compile=True) == [{"k": "a", "t": -7}, {"k": "b", "t": 1}]
    over = ps.from_items(rows(("a", big), ("a", big))).key_by("k")
    fails(r"aggregate 't': sum\(t\) must fit 64 bits; it does not in a window", over.aggregate(t=ps.sum("t")))
    fails(r"must fit 64 bits", over.window(count=2).aggregate(t=ps.sum("t")))


def test_an_aggregate_in_a_region_still_closes_that_region() -> None:
    blobs = ps.from_items([{"id": 1, "vs": [1, 2, 1]}, {"id": 2, "vs": [1]}])
    inside = blobs.enumerate("vs", as_="v").key_by("v").aggregate(n=ps.count())
    assert everywhere(inside) == [{"id": 1, "n": 3}, {"id": 2, "n": 1}]
    closed = blobs.enumerate("vs", as_="v").key_by("v").close("id").aggregate(ids=ps.sum("id"))
    assert everywhere(closed, compile=True) == [{"v": 1, "ids": 4}, {"v": 2, "ids": 1}]
    behind = blobs.key_by("id").enumerate("vs", as_="v").aggregate(s=ps.sum("v")).aggregate(s=ps.max("s"))
    assert everywhere(behind) == [{"id": 1, "s": 4}, {"id": 2, "s": 1}]


def test_what_is_given_at_the_end_goes_through_what_is_behind() -> None:
    """Another key, an opened text, columns, and a second aggregate."""
    totals = ITEMS.aggregate(n=ps.count()).map_columns(lambda n: n, to={"m": int})
    by_count = totals.key_by("m").aggregate(keys=ps.count())
    assert everywhere(by_count, compile=True) == [{"m": 3, "keys": 1}, {"m": 2, "keys": 1}]
    letters = ITEMS.aggregate(n=ps.count()).enumerate("k", as_="letter").aggregate(s=ps.sum("letter"))
    assert everywhere(letters) == [{"n": 3, "s": 97}, {"n": 2, "s": 98}]


# Windows of items


def test_tumbling_windows_of_items() -> None:
    windows = ITEMS.window(count=2).aggregate(v=ps.sum("v"))
    assert everywhere(windows, compile=True) == [
        {"k": "a", "start": 0, "end": 2, "v": 3.0},
        {"k": "b", "start": 0, "end": 2, "v": 20.0},
        {"k": "a", "start": 2, "end": 3, "v": 8.0},
    ]
    assert (
        everywhere(ITEMS.window(count=2, partial=False).aggregate(v=ps.sum("v"))) == windows.collect().to_pylist()[:2]
    )


def test_sliding_windows_of_items_and_gaps_between_them() -> None:
    items = ps.from_items(rows(*(("a", t) for t in range(7)))).key_by("k")
    sliding = items.window(count=3, every=2, start="from", end="to").aggregate(t=ps.sum("t"))
    assert [tuple(row.values())[1:] for row in everywhere(sliding, compile=True)] == [
        (0, 3, 3),
        (2, 5, 9),
        (4, 7, 15),
        (6, 7, 6),
    ]
    gaps = items.window(count=2, every=3).aggregate(t=ps.sum("t"))
    assert [tuple(row.values())[1:] for row in everywhere(gaps, compile=True)] == [(0, 2, 1), (3, 5, 7), (6, 7, 6)]


# Windows of time


def times(*given: Any, **options: Any) -> list[tuple[Any, ...]]:
    items = ps.from_items([{"k": "a", "t": t, "v": at} for at, t in enumerate(given)]).key_by("k")
    windows = items.window("t", **options).aggregate(n=ps.count(), v=ps.sum("v"))
    return [tuple(row.values())[1:] for row in everywhere(windows, compile=True)]


def test_tumbling_windows_of_time() -> None:
    assert times(0, 9, 10, 25, length=10) == [(0, 10, 2, 1), (10, 20, 1, 2), (20, 30, 1, 3)]


def test_negative_times_lie_in_windows_that_begin_below() -> None:
    assert times(-1, -10, -11, 0, length=10, late=20) == [(-20, -10, 1, 2), (-10, 0, 2, 1), (0, 10, 1, 3)]


def test_sliding_windows_of_time() -> None:
    expected = [(-5, 5, 1, 0), (0, 10, 2, 1), (5, 15, 2, 3), (10, 20, 1, 2)]
    assert times(1, 7, 12, length=10, every=5) == expected


def test_a_window_that_is_no_multiple_of_its_step() -> None:
    assert times(0, 4, 6, 7, length=7, every=3) == [
        (-6, 1, 1, 0),
        (-3, 4, 1, 0),
        (0, 7, 3, 3),
        (3, 10, 3, 6),
        (6, 13, 2, 5),
    ]


def test_gaps_of_time_hold_nothing_and_are_not_late() -> None:
    assert times(0, 3, 12, 17, 21, length=4, every=10, late=0, on_late="error") == [
        (0, 4, 2, 1),
        (10, 14, 1, 2),
        (20, 24, 1, 4),
    ]


def test_a_jump_over_many_windows_closes_what_was_open() -> None:
    assert times(0, 10**15, -5, length=10, every=2, late=0)[:2] == [(-8, 2, 1, 0), (-6, 4, 1, 0)]
    assert len(times(0, 10**15, -5, length=10, every=2, late=0)) == 10
    assert len(times(0, 10**15, -5, length=10, every=2)) == 13  # without late= nothing is late


def test_late_items_are_left_out_or_an_error() -> None:
    assert times(0, 10, 9, length=10, late=0) == [(0, 10, 1, 0), (10, 20, 1, 1)]
    assert times(0, 10, 9, length=10) == times(0, 10, 9, length=10, late=1)
    assert times(0, 10, 9, length=10, late=1) == [(0, 10, 2, 2), (10, 20, 1, 1)]
    # one of its two windows is still open, and takes it
    assert times(0, 10, 9, length=10, every=5, late=0) == [(-5, 5, 1, 0), (0, 10, 1, 0), (5, 15, 2, 3), (10, 20, 1, 1)]
    items = ps.from_items(rows(("a", 0), ("a", 10), ("b", 3), ("a", 9))).key_by("k")
    late = items.window("t", length=10, late=0, on_late="error").aggregate(n=ps.count())
    fails(r"aggregate 'n': an item must come before its windows have closed; by 't', item 2 is late; raise late=", late)
    assert len(everywhere(items.window("t", length=10, late=1, on_late="error").aggregate(n=ps.count()))) == 3


def test_the_time_is_that_of_the_whole_stream_and_not_of_a_key() -> None:
    items = ps.from_items(rows(("a", 1000), ("b", 1), ("b", 2), ("a", 1001))).key_by("k")
    last = {"k": "a", "start": 1000, "end": 1010, "n": 2}
    first = {"k": "b", "start": 0, "end": 10, "n": 2}
    assert everywhere(items.window("t", length=10).aggregate(n=ps.count())) == [first, last]
    assert everywhere(items.window("t", length=10, late=0).aggregate(n=ps.count())) == [last]


def test_late_items_are_counted_warned_of_and_a_result() -> None:
    windows = ps.from_items(rows(("a", 1), ("b", 12), ("a", 2), ("b", 3), ("a", 13))).key_by("k")
    windows = windows.window("t", length=10, late=0)
    run = windows.aggregate(n=ps.count()).prepare()
    with pytest.warns(ps.LateWarning, match=r"2 items came after their windows by 't' had closed"):
        run.collect()
    assert run.statistics().late == 2 and "late items: 2" in str(run.statistics())
    assert [row["t"] for row in everywhere(windows.late, compile=True)] == [2, 3]
    with pytest.raises(ps.GraphError, match="without late= none does"):
        _ = ps.from_items(rows(("a", 1))).key_by("k").window("t", length=10).late


def test_windows_of_windows_of_an_ordered_stream_keep_every_item() -> None:
    """Hourly by two keys, then daily by one: what a window that closes by its own key alone would lose."""
    given = [{"k": at % 7, "j": at % 3, "hour": at // 10} for at in range(2000)]
    for late in (None, 0):
        hourly = ps.from_items(given).key_by("k", "j").window("hour", length=1, late=late).aggregate(n=ps.count())
        daily = hourly.key_by("k").window("start", length=24, late=late, start="day", end=None)
        assert sum(row["n"] for row in everywhere(daily.aggregate(n=ps.sum("n")))) == 2000


def test_a_time_that_is_computed_begins_its_watermark_there() -> None:
    items = ps.from_items([{"k": "a", "t": t, "x": x} for t, x in [(1, 0), (50, 0), (2, 1), (30, 1), (3, 1)]])
    by_source = items.filter(lambda x: x > 0).key_by("k").window("t", length=10, late=0)
    assert [row["t"] for row in everywhere(by_source.late)] == [2, 30, 3]  # the 50 was dropped, and counts
    computed = items.filter(lambda x: x > 0).map(u=lambda t: t + 0).key_by("k").window("u", length=10, late=0)
    assert [row["u"] for row in everywhere(computed.late)] == [3]


def test_a_time_passes_a_join() -> None:
    items = ps.from_items([{"k": "a", "t": t, "x": t % 4} for t in (1, 50, 2, 30, 61)])
    joined = ps.align(items.filter(lambda x: x != 2).select("k", "t"), items.map(y=lambda x: x + 1).select("y"))
    windows = joined.key_by("k").window("t", length=10, late=0)
    assert [row["t"] for row in everywhere(windows.late)] == []
    assert [row["start"] for row in everywhere(windows.aggregate(y=ps.sum("y")))] == [0, 60]


def test_times_that_are_floats() -> None:
    assert times(0.0, 0.3, 0.1, 0.75, length=0.1, late=1) == [
        (0.0, 0.1, 1, 0),
        (0.1, 0.2, 1, 2),
        (0.2, 0.30000000000000004, 1, 1),
        (0.7000000000000001, 0.8, 1, 3),
    ]
    assert times(-0.5, -0.0, length=1) == [(-1.0, 0.0, 1, 0), (0.0, 1.0, 1, 1)]


@pytest.mark.parametrize("time", [NAN, INF, -INF, 1e300])
def test_a_time_that_is_no_number_is_an_error(time: float) -> None:
    items = ps.from_items([{"k": "a", "t": 1.0}, {"k": "a", "t": time}]).key_by("k")
    fails(
        r"aggregate 'n': a time must be a number.*'t' is not in item 1",
        items.window("t", length=1.0).aggregate(n=ps.count()),
    )


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63)])
def test_a_time_whose_window_has_no_bounds_is_an_error(time: int) -> None:
    items = ps.from_items([{"k": "a", "t": time}]).key_by("k")
    fails(r"so near to 0 that its windows have bounds", items.window("t", length=60).aggregate(n=ps.count()))


def test_windows_of_timestamps_have_bounds_of_that_type() -> None:
    start = datetime.datetime(1969, 12, 31, 23, 59, 30, tzinfo=datetime.UTC)
    moments = [start + datetime.timedelta(seconds=s) for s in (0, 29, 31, 95)]
    items = ps.from_arrow(pa.table({"k": [1] * 4, "t": pa.array(moments, pa.timestamp("ms", tz="UTC"))})).key_by("k")
    minute = datetime.timedelta(minutes=1)
    windows = items.window("t", length=minute).aggregate(n=ps.count())
    assert windows.schema.field("start").type == pa.timestamp("ms", tz="UTC")
    assert [(row["start"], row["n"]) for row in everywhere(windows, compile=True)] == [
        (start - minute / 2, 2),
        (start + minute / 2, 1),
        (start + 3 * minute / 2, 1),
    ]
    assert items.window("t", length=60_000).aggregate(n=ps.count()).collect() == windows.collect()


def test_narrow_integers_have_wide_bounds() -> None:
    items = ps.from_arrow(pa.table({"k": ["a"], "t": pa.array([127], pa.int8())})).key_by("k")
    assert everywhere(items.window("t", length=100).aggregate(n=ps.count())) == [
        {"k": "a", "start": 100, "end": 200, "n": 1}
    ]


def test_windows_agree_with_a_plain_program() -> None:
    """A second opinion, written without the reference: all items at hand, one window at a time, times of all keys."""
    rng = random.Random(3)
    given = [{"k": rng.choice("abc"), "t": at + rng.randrange(-8, 8), "v": rng.randrange(100)} for at in range(300)]
    length, every, late = 12, 5, 4
    expected = []
    for key in "abc":
        newest, closed = -(10**9), {}
        for row in given:
            newest = max(newest, row["t"])
            for q in range(-10, 80):
                if (
                    row["k"] == key
                    and q * every <= row["t"] < q * every + length
                    and newest < q * every + length + late
                ):
                    closed.setdefault(q, []).append(row["v"])
        expected += [(key, q * every, q * every + length, sum(closed[q])) for q in sorted(closed)]
    found = everywhere(
        ps.from_items(given).key_by("k").window("t", length=length, every=every, late=late).aggregate(v=ps.sum("v"))
    )
    assert sorted(tuple(row.values()) for row in found) == sorted(expected)


# Many keys


@pytest.mark.parametrize("text", [False, True])
def test_many_keys_end_through_small_channels(text: bool) -> None:
    count = 100_000
    keys = np.arange(count)[::-1] * 7
    table = pa.table({"k": [f"key {key}" for key in keys] if text else keys, "v": np.arange(count)})
    totals = ps.from_arrow(table).key_by("k").aggregate(v=ps.sum("v"), n=ps.count())
    run = totals.map(w=lambda v, n: v + n).prepare(fuse=False, width=128, capacity=128)
    found = run.collect()
    assert found.column_names == ["k", "v", "n", "w"]
    assert found["k"].to_pylist() == table["k"].to_pylist()
    assert (found["w"].to_numpy() == np.arange(count) + 1).all()
    assert max(edge.highest_items for edge in run.statistics().edges) <= 128


def test_an_end_stops_and_goes_on_where_a_channel_is_full() -> None:
    """Each key gives three items, and the channel holds four; what comes before the end is not given twice."""

    class Last(ps.Operator):
        n: int

        def run(self, k):  # type: ignore[no-untyped-def]
            self.n += 1
            yield k

        def end(self):  # type: ignore[no-untyped-def]
            yield 5

    def count(state):  # type: ignore[no-untyped-def]
        state.n += 1

    def tell(state, k):  # type: ignore[no-untyped-def]
        yield k
        yield state.n
        yield -k

    items = ps.from_items([{"k": k} for k in range(20)]).process(Last, to="k", at_most=1).key_by("k")
    ended = items.flat_map(count, to="x", at_most=3, state=Count, end=tell)
    behind = ended.map(y=lambda x: 2 * x).filter(lambda y: y != 4)
    sibling = items.map(w=lambda k: k + 1)
    for fuse in (True, False):
        expected = reference.run([behind.node, sibling.node]).tables
        options: dict[str, Any] = {"fuse": fuse, "width": 2, **({} if fuse else {"capacity": 4})}
        assert ps.run(behind, sibling, compile=False, **options) == expected


# flat_map with an end


def running(v, state):  # type: ignore[no-untyped-def]
    state.sum += v
    if state.sum > 10.0:
        yield state.sum


def rest(state):  # type: ignore[no-untyped-def]
    yield -state.sum


def test_an_end_for_every_key() -> None:
    ended = ITEMS.flat_map(running, to="s", at_most=1, keep="k", state=Total, end=rest)
    assert everywhere(ended, compile=True) == [
        {"k": "a", "s": 11.0},
        {"k": "b", "s": 20.0},
        {"k": "a", "s": -11.0},
        {"k": "b", "s": -20.0},
    ]


def test_an_end_without_a_key_comes_once() -> None:
    items = ps.from_items(rows(("a", 1, 1.0), ("b", 2, 4.0)))
    assert everywhere(items.flat_map(running, to="s", at_most=1, state=Total, end=rest)) == [{"s": -5.0}]
    nothing = ps.from_items([], schema={"v": float})
    assert everywhere(nothing.flat_map(running, to="s", at_most=1, state=Total, end=rest)) == [{"s": -0.0}]


def test_an_end_sees_every_signal() -> None:
    ended = ITEMS.flat_map(running, to="s", at_most=1, keep="k", state=Total, end=rest)
    ended = ended.on(Add, sum=lambda state, signal: state.sum + signal.more)
    found = everywhere(ended, control=[ps.at(5, Add(100.0))])
    assert found[-2:] == [{"k": "a", "s": -111.0}, {"k": "b", "s": -120.0}]


def test_an_end_that_raises_names_the_key() -> None:
    def divide(state):  # type: ignore[no-untyped-def]
        yield 1 // (state.n - 2)

    def count(state):  # type: ignore[no-untyped-def]
        state.n += 1

    ended = ITEMS.flat_map(count, to="x", at_most=1, state=Count, end=divide)
    fails(r"raised ZeroDivisionError.*; at the end of the stream, for the key k='b'; at ", ended, ps.FunctionError)


def test_an_end_that_pushes_too_much() -> None:
    def twice(state):  # type: ignore[no-untyped-def]
        yield 1.0
        yield 2.0

    fails(r"may push at most 1 outputs", ITEMS.flat_map(running, to="s", at_most=1, state=Total, end=twice))


def test_what_is_given_at_the_end_has_places_behind_those_of_all_items() -> None:
    """In a task that has only some of the keys, so that many tasks can be put in the order of one."""
    rows = pa.RecordBatch.from_pydict({"k": ["a", "b", "a", "c"], "v": [1.0, 2.0, 3.0, 4.0]})
    received = nodes.Received(ps.from_arrow(pa.table(rows)).node.source.items, "received", True)
    keyed = ps.Stream(received).key_by("k")
    ended = keyed.flat_map(running, to="v", at_most=1, keep="k", state=Total, end=rest)
    for stream in (keyed.window(count=2).aggregate(v=ps.sum("v")), ended, keyed.aggregate(v=ps.sum("v"))):
        for fuse in (True, False):
            send = nodes.Send(stream.map(w=lambda v: v).node, ("k", "v"), True)
            batches = arriving(received, [Arrival(rows, (), np.array([10, 20, 30, 40]))])
            found = Run((send,), batches_in=batches, fuse=fuse, compile=False).collect()
            by_place = [
                (row["k"], row[nodes.PLACE] - AT_END) for row in found.to_pylist() if row[nodes.PLACE] >= AT_END
            ]
            assert by_place == [each for each in (("a", 10), ("b", 20), ("c", 40)) if each in by_place]
            assert len(by_place) >= 2 and found[nodes.PLACE].to_pylist() == sorted(found[nodes.PLACE].to_pylist())


# What is refused


def ints(state):  # type: ignore[no-untyped-def]
    yield 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda i: i.window(), r"window: give count=, or the field of the time and length="),
        (lambda i: i.window("t"), r"window: give count=, or the field"),
        (lambda i: i.window("t", length=1, count=3), r"and not both"),
        (lambda i: i.window(count=0), r"window: count= must be a whole number of at least 1; got 0"),
        (lambda i: i.window(count=2, every=1.5), r"window: every= must be a whole number of at least 1; got 1.5"),
        (lambda i: i.window(count=2, late=1), r"late= and on_late= belong to windows of time"),
        (lambda i: i.window("t", length=1, partial=False), r"partial= belongs to windows of count= items"),
        (lambda i: i.window("x", length=1).aggregate(n=ps.count()), r"window 'x': must be a field of the item"),
        (lambda i: i.window("k", length=1).aggregate(n=ps.count()), r"the time must be an integer, a float, a timestamp"),
        (lambda i: i.window("t", length=0).aggregate(n=ps.count()), r"length= must be more than 0; got 0"),
        (lambda i: i.window("t", length=1.5).aggregate(n=ps.count()), r"length= must be an int, because 't' is int64"),
        (lambda i: i.window("t", length=1, late=-1).aggregate(n=ps.count()), r"late= must be at least 0; got -1"),
        (lambda i: i.window("t", length=1, on_late="x").aggregate(n=ps.count()), r"must be 'drop' or 'error'; got 'x'"),
        (lambda i: i.window("t", length=10**9, every=1).aggregate(n=ps.count()), r"at most 65,536 windows of a key"),
        (lambda i: i.window("v", length=1e300, every=1e-300).aggregate(n=ps.count()), r"at most 65,536 windows of a key"),
        (lambda i: i.window("t", length=datetime.timedelta(1)).aggregate(n=ps.count()), r"length= must be an int"),
        (lambda i: i.window(count=2).aggregate(), r"must give at least one result"),
        (lambda i: i.window(count=2).aggregate(start=ps.count()), r"fields must have different names"),
        (lambda i: i.window(count=2, start="k").aggregate(n=ps.count()), r"fields must have different names"),
        (lambda i: i.aggregate(v=ps.to_list("v")), r"to_list\(v\) would hold all items of all keys in memory"),
        (lambda i: i.map(j=lambda k: k).aggregate(v=ps.last("j")), r"last\(j\) by key takes numbers and times"),
        (lambda i: i.aggregate(n=ps.count(), keep="v"), r"'v' must be a field of the key; there are 'k'"),
        (lambda i: i.aggregate(n=ps.count()).on(Add, n=lambda: 1), r"an aggregate handles no signal; use flat_map"),
        (lambda i: i.flat_map(running, to="s", at_most=1, end=rest), r"end= is a function of the state; give a state="),
        (lambda i: i.flat_map(running, to="s", at_most=1, state=Total, end=ints), r"must push the same types"),
        (lambda i: i.flat_map(running, to="s", at_most=1, state=Total, end=lambda state: 1), r"must be a generator"),
        (lambda i: i.flat_map(running, to="s", at_most=1, keep="v", state=Total, end=rest), r"'v' must be a field of the key"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ps.GraphError, match=message):
        build(ITEMS)


def test_windows_need_a_key_and_no_region() -> None:
    items = ps.from_items([{"id": 1, "vs": [1.0]}])
    with pytest.raises(ps.GraphError, match=r"windows belong to a key, and there is none here; write key_by before"):
        items.window(count=2).aggregate(n=ps.count())
    with pytest.raises(ps.GraphError, match=r"outside of all regions, and 1 are open here; close them"):
        items.enumerate("vs", as_="v").key_by("v").window(count=2).aggregate(n=ps.count())
    with pytest.raises(ps.GraphError, match=r"end= stands at the end of the stream.*1 are open"):
        items.enumerate("vs", as_="v").flat_map(running, to="s", at_most=1, state=Total, end=rest)
    date = ps.from_arrow(pa.table({"k": [1], "t": pa.array([1], pa.timestamp("s"))})).key_by("k")
    with pytest.raises(ps.GraphError, match=r"length= must be a whole number of the units of timestamp\[s\]"):
        date.window("t", length=datetime.timedelta(milliseconds=5)).aggregate(n=ps.count())


def test_signals_that_rows_of_windows_emit_stay_behind_these_rows() -> None:
    """A random graph that one loop got wrong: windows, an `emit` of their rows, and a state that handles it."""
    check(from_seed(700))
