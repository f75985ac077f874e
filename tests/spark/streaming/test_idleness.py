"""Keys that go idle in a running stream end. Without Spark, but for the last test."""

from __future__ import annotations

import datetime
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from tests.property.check import difference, expected
from tests.property.graphs import from_seed
from tests.spark.streaming.running import Count, Row, Running, by_key, counted, item, on, running, source
from tests.spark.streaming.simulated import _sorted, micro_batches, one_result
from tests.spark.streaming.test_streams import put

import penstock as ps
import penstock.plan.cut as cutting
from penstock.graph.reference import Result
from penstock.graph.split import NoItems
from penstock.plan.cut import cut
from penstock.plan.idle import Idle, IdleLimit
from penstock.spark.streaming import pages
from penstock.spark.streaming.arrived import ArrivedPiece as Arrived
from penstock.spark.wire import SenderOrigin


def test_a_whole_aggregate_is_given_once_when_its_key_ends_by_event_time() -> None:
    stream = running(source().key_by("k").aggregate(n=ps.count(), total=ps.sum("v")), time="t", expire_after=10)
    assert stream.items([item("a", 0), item("b", 3)], [item("a", 5, 2.0)]) == []
    assert stream.items([item("c", 13)]) == []  # neither is more than 10 behind
    assert stream.items([item("c", 15)]) == [{"k": "b", "n": 1, "total": 1.0}]
    assert stream.items([item("c", 16)]) == [{"k": "a", "n": 2, "total": 3.0}]
    assert stream.items([item("c", 20)]) == []
    assert stream.counts["keys"] == 1


def test_keys_that_come_back_start_anew() -> None:
    stream = running(source().key_by("k").map(n=counted, state=Count).select("k", "n"), time="t", expire_after=10)
    assert by_key(stream.items([item("a", 0), item("a", 1), item("b", 0)]), "k", "n") == [("a", 1), ("a", 2), ("b", 1)]
    assert by_key(stream.items([item("b", 20)]), "k", "n") == [("b", 2)]  # it ends at the end of the micro-batch
    assert by_key(stream.items([item("a", 21), item("b", 21)]), "k", "n") == [("a", 1), ("b", 3)]


def test_an_item_in_the_micro_batch_that_would_end_its_key_keeps_it() -> None:
    stream = running(source().key_by("k").aggregate(n=ps.count()), time="t", expire_after=10)
    stream.items([item("a", 0)])
    assert stream.items([item("b", 100)], [item("a", 95)]) == []
    assert stream.items([item("b", 106)]) == [{"k": "a", "n": 2}]


def test_processing_time() -> None:
    stream = running(source().key_by("k").aggregate(n=ps.count()), expire_after=datetime.timedelta(seconds=2))
    assert stream.items([item("a", 0), item("b", 0)], now=1_000) == []
    assert stream.items([item("b", 0)], now=3_000) == []
    assert stream.items([item("b", 0)], now=3_001) == [{"k": "a", "n": 1}]
    assert stream.items([], now=6_000) == [{"k": "b", "n": 3}]
    assert stream.counts["keys"] == 0 and stream.state_bytes == 0


def test_each_key_by_has_a_time_of_its_own() -> None:
    counts = source().key_by("k").map(n=counted, state=Count).select("n", at="t")
    totals = counts.key_by("n").aggregate(items=ps.count(), last=ps.last("at"))
    stream = running(totals, time={"n": "at"}, expire_after={"n": 25})
    assert stream.items([item("a", 0), item("b", 1)]) == []
    assert stream.items([item("a", 20)]) == []
    assert stream.items([item("b", 30)]) == [{"n": 1, "items": 2, "last": 1}]


def test_ends_of_ones_own_come_in_the_order_of_first_items() -> None:
    def push(v, state):
        state.n += 1
        if v < 0:
            yield state.n

    def end(state):
        yield 100 + state.n

    ended = source().key_by("k").flat_map(push, to="n", at_most=1, keep="k", state=Count, end=end)
    stream = running(ended, ordered=True, buckets=3, time="t", expire_after=10)
    names = [f"k{at}" for at in (5, 3, 8, 1, 9, 2)]
    for name in names:
        stream.items([item(name, 0), item(names[0], 0)])
    rows = stream.items([item("new", 50, -1.0)])
    assert [row["k"] for row in rows] == ["new", *names]
    assert [row["n"] for row in rows] == [1, 107, *[101] * 5]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (["k", "j"], lambda at: {"k": f"k{at % 5}", "j": at // 5}),
        (["k"], lambda at: {"k": f"{'x' * (at % 7)}{at}", "j": 0}),
        (["j"], lambda at: {"k": "", "j": at * 1_000_003 - 40}),
    ],
)
def test_all_kinds_of_keys(key: list[str], values: Callable[[int], Row]) -> None:
    stream = running(source(j=int).key_by(*key).aggregate(n=ps.count(), t=ps.last("t")), time="t", expire_after=50)
    with mock.patch.object(pages, "PAGE_BYTES", 300):
        given = [values(at) | {"t": at, "v": 0.0} for at in range(100)]
        rows = [row for start in range(0, 100, 10) for row in stream.items(given[start : start + 10])]
        rows += stream.items([values(1000) | {"t": 1000, "v": 0.0}])
    assert by_key(rows, *key, "n", "t") == sorted((*(each[k] for k in key), 1, each["t"]) for each in given)


def test_only_pages_with_something_to_do_are_touched_and_the_state_shrinks() -> None:
    stream = running(source(k=int).key_by("k").map(n=counted, state=Count), time="t", expire_after=1000, buckets=1)
    with mock.patch.object(pages, "PAGE_BYTES", 256):
        stream.items([item(key, key) for key in range(200)])
        most = stream.counts["pages"]
        assert most >= 20
        stream.items([item(0, 900)])
        assert (stream.counts["touched"], stream.counts["written"]) == (1, 1)
        stream.items([item(0, 1003)])  # 1 and 2 end
        assert stream.counts["keys"] == 198 and stream.counts["touched"] <= 3
        full = stream.state_bytes
        stream.items([item(0, 1150)])
        assert stream.counts["keys"] == 51 and stream.state_bytes < full / 2
        stream.items([item(0, 3000)])
        assert stream.counts["keys"] == 1 and stream.counts["touched"] <= most
        stream.items([item(0, 3001)])
        assert stream.counts["touched"] == 1
        stream.items([item(key, 3001) for key in range(200)])
    assert stream.counts["keys"] == 200 and stream.counts["pages"] == most


def test_times_that_are_no_numbers_are_passed_over() -> None:
    nan, infinite = float("nan"), float("inf")
    stream = running(source(t=float).key_by("k").aggregate(n=ps.count()), time="t", expire_after=1.5)
    assert stream.items([item("a", nan), item("b", infinite)]) == []  # no time is known yet
    assert stream.items([item("c", 1.0)]) == []  # from here on they are idle
    assert by_key(stream.items([item("c", 3.0)]), "k", "n") == [("a", 1), ("b", 1)]


def test_another_time_begins_anew() -> None:
    keyed = source(u=int).key_by("k").aggregate(n=ps.count())
    by_t, by_u = running(keyed, time="t", expire_after=10), running(keyed, time="u", expire_after=10)
    by_t.items([item("a", 500) | {"u": 0}, item("b", 500) | {"u": 0}])
    by_u.stores = by_t.stores
    assert by_u.items([item("b", 500) | {"u": 30}]) == []
    assert by_u.items([item("b", 500) | {"u": 41}]) == [{"k": "a", "n": 1}]


def test_an_end_that_fails_is_told() -> None:
    def push(state):
        state.n += 1
        yield state.n

    def end(state):
        yield 1 // (state.n - 1)

    ended = source().key_by("k").flat_map(push, to="n", at_most=1, keep="k", state=Count, end=end)
    stream = running(ended, time="t", expire_after=10)
    stream.items([item("a", 0)])
    with pytest.raises(ps.FunctionError, match="ZeroDivisionError"):
        stream.items([item("b", 100)])


def test_what_ends_give_goes_on_to_other_keys_in_its_order() -> None:
    def push(n, state):
        state.n += n
        yield state.n

    def end(state):
        yield 100 + state.n

    windows = source(k=int).key_by("k").window(count=3).aggregate(n=ps.count())
    pushed = windows.flat_map(push, to="m", at_most=1, keep="k", state=Count, end=end)
    graph = pushed.map(j=lambda k: k % 2).key_by("j").map(nth=counted, state=Count)
    stream, chance = running(graph, expire_after=1), random.Random(3)
    given = [item(chance.randint(0, 12), 0) for _ in range(60)]
    rows = [row for at in range(0, 60, 15) for row in stream.items(given[at : at + 15], now=1)]
    rows += stream.items([], now=2_000)
    table = pa.Table.from_pylist(given, pa.schema(list(graph.node.source.items.fields.items())))
    assert sorted(map(repr, rows)) == sorted(map(repr, on(graph, table).collect(compile=False).to_pylist()))


KEYED_SEEDS = range(330)


@pytest.mark.parametrize("first", range(0, len(KEYED_SEEDS), 22))
def test_when_all_keys_have_ended_all_is_as_at_the_end_of_a_batch(first: int) -> None:
    wrong = {seed: found for seed in KEYED_SEEDS[first : first + 22] if (found := ended_differs(seed)) is not None}
    assert not wrong


def ended_differs(seed: int) -> str | None:
    """What is wrong with a random graph all of whose keys end, or None; None also where it has no buckets of keys."""
    case, chance = one_result(from_seed(seed)), random.Random(seed)
    is_ordered, kinds = chance.random() < 0.5, {type(given.signal) for given in case.control}
    with mock.patch.object(cutting, "idle_of", lambda *_: Idle(None, expire_after=1)):
        made = cut(case.leaves, list(kinds), is_ordered=is_ordered, idle=IdleLimit())
    if made.is_whole or not made.exchanges or any(exchange.kind == "whole" for exchange in made.exchanges):
        return None
    wanted = expected(case)
    stream = Running(case.leaves[0], made, chance.choice([1, 2, 5]), fuse=chance.random() < 0.7)
    with mock.patch.object(pages, "PAGE_BYTES", chance.choice([1, 400, 1 << 14])), warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        try:
            found = pa.concat_tables(ended(stream, micro_batches(case, chance)))
        except ps.PenstockError as error:
            return None if type(error) is type(wanted) else f"wanted {wanted!r}, got {error!r}"
    if not isinstance(wanted, Result):
        return f"wanted {wanted!r}, got a result"
    is_sorted = is_ordered and [exchange.kind for exchange in made.exchanges] == ["key", "order"]
    pair = (wanted.tables[0], found) if is_sorted else (_sorted(wanted.tables[0]), _sorted(found))
    return difference(Result(pair[:1], ()), Result(pair[1:], ())) or ("keys are left" if stream.state_bytes else None)


def ended(stream: Running, batches: list[list[Arrived]]) -> Iterator[pa.Table]:
    for pieces in batches:
        yield stream.take(pieces, now=1)
    for again in range(1, 4):  # what a key gives at its end goes on to the next stage, whose keys end later
        yield stream.take([Arrived(SenderOrigin(False, "nothing"), NoItems())], now=100 * again)


def test_keys_expire_on_spark(tmp_path: Path, spark: Any) -> None:
    (tmp_path / "in").mkdir()
    graph = ps.read_parquet(tmp_path / "in", schema={"k": str, "t": int}).key_by("k").aggregate(n=ps.count())
    files = [[("a", 1), ("b", 2)], [("b", 30)], [("a", 31), ("c", 31)], [("c", 90)]]
    for number, rows in enumerate(files):
        table = pa.table({"k": [k for k, _ in rows], "t": [t for _, t in rows]})
        put(table, tmp_path / "in" / f"f{number}.parquet", number)
    seen: dict[int, list[tuple]] = {}

    def sink(table: pa.Table, number: int) -> None:
        seen[number] = by_key(table.to_pylist(), "k", "n")

    options = {"trigger": "available", "files_per_batch": 1, "spark": spark, "buckets": 2}
    for name, idle in (("event", {"time": "t", "expire_after": 20}), ("clock", {"expire_after": 0.001})):
        seen.clear()
        graph.start(sink, checkpoint=tmp_path / name, **idle, **options).await_termination(120)
        if name == "event":
            assert seen == {0: [], 1: [("a", 1)], 2: [], 3: [("a", 1), ("b", 2)]}
        else:
            assert seen == {0: [], 1: [("a", 1)], 2: [("b", 2)], 3: [("a", 1)]}
