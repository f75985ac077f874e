"""Where graphs are cut in which streams part and meet again, and why, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.plan.test_cut import ITEMS, Reset, Total, explained, keyed, running, text

import penstock as ps
from penstock.errors import GraphError
from penstock.graph.tree import Tree
from penstock.plan.cut import cut
from penstock.plan.idle import IdleLimit, idle_of


def parts(stream: ps.Stream) -> tuple[ps.Stream, ps.Stream]:
    return stream.filter(lambda v: v > 0).map(a=lambda v: v), stream.map(b=lambda v: v + 1)


def test_streams_meet_in_the_stage_that_they_part_in() -> None:
    assert explained(keyed(ps.align(*parts(ITEMS)), "k")) == text("""
        stage 1, over every split by itself: source 'items', filter, map 'a', map 'b', align
        stage 2, over every bucket of keys by itself, because map 'sum' has a state for each key: key_by 'k', map 'sum'
    """)
    behind = ITEMS.key_by("k")
    joined = ps.align(behind.map(sum=running, state=Total), behind.filter(lambda v: v > 0))
    assert explained(joined, is_ordered=True) == text("""
        stage 1, over every split by itself: source 'items'
        stage 2, over every bucket of keys by itself, because map 'sum' has a state for each key: key_by 'k', map 'sum', filter, align
        stage 3, over parts of the stream in order, because the result is to be in the stream's order: nothing but handing on
    """)  # noqa: E501


def test_signals_pass_with_what_was_joined() -> None:
    first, second = parts(ITEMS.emit(Reset, when=lambda v: v > 5))
    made = cut((keyed(ps.align(first, second), "k").node,))
    (exchange,) = made.exchanges
    assert exchange.signals == (Reset,)
    assert exchange.names == ("k", "j", "v", "l", "a", "b")


def test_an_edge_to_each_side_is_one_exchange() -> None:
    some = ITEMS.filter(lambda v: v > 0)
    joined = ps.align(some.map(sum=running, state=Total), some)
    assert explained(joined) == text("""
        stage 1, over every split by itself: source 'items', filter
        stage 2, over the whole stream in one task, because the state of map 'sum' has no key, so every item may change it: map 'sum', align
    """)  # noqa: E501
    beside = some.map(w=lambda v: v)
    made = explained(joined, beside)
    assert "stage 1, over every split by itself: source 'items', filter, map 'w'\n" in made


def test_what_is_left_out_is_not_sent() -> None:
    some = ITEMS.filter(lambda v: v > 0)
    joined = ps.align(some.map(sum=running, state=Total).select("k", "sum"), some.select("k"))
    (exchange,) = cut((joined.node,)).exchanges
    assert exchange.names == ("k", "v")


def twice(v: float) -> Iterator[float]:
    yield v
    yield -v


def two_keys(source: ps.Stream = ITEMS) -> ps.Stream:
    first = source.filter(lambda v: v > 0).key_by("k").map(a=running, state=Total).select("k", "a")
    second = source.key_by("j").map(b=running, state=Total).select("b")
    return ps.align(first, second, source.select("v"), how="outer", fill={"k": 0, "a": 0.0, "b": 0.0, "v": 0.0})


def test_streams_of_several_stages_meet_by_place() -> None:
    assert explained(two_keys().map(c=lambda a, b: a - b), meets_by_place=True) == text("""
        stage 1, over every split by itself: source 'items', filter, select 'v'
        stage 2, over every bucket of keys by itself, because map 'a' has a state for each key: key_by 'k', map 'a', select 'k', 'a'
        stage 3, over every bucket of keys by itself, because map 'b' has a state for each key: key_by 'j', map 'b', select 'b'
        stage 4, over parts of the stream in order, because align brings together streams that are spread each by itself, by key_by 'k' and key_by 'j': nothing but handing on
        stage 5, over parts of the stream in order, because align brings together streams that are spread each by itself, by key_by 'k' and key_by 'j': align, map 'c'
    """)  # noqa: E501


MET = {"meets_by_place": True}
APART = "align brings together streams that are spread each by itself, by key_by 'k' and key_by 'j'"


@pytest.mark.parametrize(
    ("stream", "options", "reason"),
    [
        (two_keys(), {}, APART),  # as in a running stream
        (keyed(two_keys(), "k"), {**MET, "signals": (Reset,)}, "signals pass both key_by 'j' and key_by 'k'"),
        (two_keys(ITEMS.flat_map(twice, to="v", at_most=2, keep=["k", "j"])), MET, APART),
        (two_keys(ITEMS.map(v=running, state=Total)), MET, "the state of map 'v' has no key"),
    ],
    ids=["not asked for", "signals pass", "no index of the source", "gathered before"],
)
def test_streams_of_several_stages_are_gathered(stream: ps.Stream, options: dict[str, Any], reason: str) -> None:
    found = explained(stream, **options)
    assert f"one task, because {reason}" in found
    assert "parts of the stream in order" not in found


def test_only_one_side_is_spread() -> None:
    some = ITEMS.filter(lambda v: v > 0)
    one = ps.align(some.key_by("k").map(a=running, state=Total), some.map(b=lambda v: v))
    assert "align brings together streams of which only one is spread by key_by 'k'" in explained(one)


def test_a_join_in_a_region_is_gathered_with_it() -> None:
    within = ITEMS.filter(lambda v: v > 0).enumerate("l", as_="x")
    both = ps.align(within.map(sum=lambda x, state: running(x, state), state=Total), within.map(y=lambda x: x))
    made = explained(both.aggregate(n=ps.count()))
    assert made.splitlines()[1] == (
        "stage 2, over the whole stream in one task, because the state of map 'sum' has no key, so every item may "
        "change it: enumerate 'l', map 'sum', map 'y', align, aggregate 'n'"
    )


def test_regions_behind_a_join_are_found_in_splits() -> None:
    assert "one task" not in explained(ps.align(*parts(ITEMS)).regions(by="k").aggregate(n=ps.count()))
    merged = ps.merge(*(side.select("k", "v") for side in parts(ITEMS))).regions(by="k").aggregate(n=ps.count())
    assert "regions by 'k' are found in the stream's own order" in explained(merged)


def test_nulls_are_not_handed_over() -> None:
    filled = ps.from_items([], schema={"k": int, "v": float}, name="items")
    both = ps.align(keyed(filled.fill_null(v=0.0), "k"), filled.drop_nulls().map(w=lambda v: v).select("w"))
    assert "one task" in cut((both.node,)).explain()
    with pytest.raises(GraphError, match="clean the rows once, before they part"):
        cut((both.node,), is_gathered_at_source=False)


def test_an_order_that_a_merge_would_lose_is_kept() -> None:
    first = ITEMS.filter(lambda v: v > 0).key_by("k").map(sum=running, state=Total)
    merged = ps.merge(first, first.map(sum=lambda sum: -sum))
    twice = merged.key_by("j").map(all=lambda sum, state: running(sum, state), state=Total)
    assert "merge makes several items of one, whose order would be lost behind key_by 'j'" in explained(
        twice, is_ordered=True
    )
    (_, second) = cut((twice.node,)).exchanges
    assert (second.has_places, second.is_numbered) == (True, False)


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (lambda s: ps.align(s, s.filter(lambda v: v > 0)), "j"),
        (lambda s: ps.align(s.select("k", "v", t="j"), s.map(w=lambda v: v).select("w")).select("k", "v", j="t"), "j"),
        (lambda s: ps.align(s.map(x=lambda j: j).select("x"), s.select("k", "v")).select("k", "v", j="x"), None),
        (lambda s: ps.merge(s, s.filter(lambda v: v > 0)), "j"),
        (lambda s: ps.merge(s, s.map(j=lambda j: j + 1)), None),
    ],
)
def test_the_time_of_windows_behind_a_join(made: Any, found: str | None) -> None:
    source = ps.from_items([], schema={"k": int, "j": int, "v": float}).key_by("k")
    leaf = made(source).window("j", length=10, late=0).aggregate(n=ps.count()).node
    if found is None:
        with pytest.raises(ps.GraphError, match="name it: time="):
            idle_of(source.node, Tree((leaf,)), IdleLimit(None, 5))  # type: ignore[arg-type]
        return
    idle = idle_of(source.node, Tree((leaf,)), IdleLimit(None, 5))  # type: ignore[arg-type]
    assert idle is not None and idle.time == found
