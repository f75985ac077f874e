"""Where a graph is cut into stages, and why, as text."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import penstock as ps
from penstock.graph.tree import Tree
from penstock.plan.beginnings import alignable
from penstock.plan.cut import cut


class Total(ps.State):
    sum: float


class Reset(ps.Signal):
    to: float


def running(v: float, state: Any) -> float:
    state.sum += v
    return state.sum


ITEMS = ps.from_items([], schema={"k": int, "j": int, "v": float, "l": list[float]}, name="items")


def explained(*streams: ps.Stream, signals: tuple[type[ps.Signal], ...] = (), **options: Any) -> str:
    leaves = tuple(stream.node for stream in streams)
    found = alignable(Tree(leaves))
    return cut(leaves, signals, aligned=[found] if found is not None else [], **options).explain()


def text(given: str) -> str:
    return dedent(given).strip()


def keyed(stream: ps.Stream, *names: str) -> ps.Stream:
    return stream.key_by(*names).map(sum=running, state=Total).on(Reset, sum=lambda signal: signal.to)


def test_items_and_the_regions_that_they_open_need_no_shuffle() -> None:
    stream = ITEMS.filter(lambda v: v > 0).enumerate("l", as_="x").aggregate(total=ps.sum("x")).key_by("k")
    assert explained(stream) == text("""
        stage 1, over every split by itself: source 'items', filter, enumerate 'l', aggregate 'total', key_by 'k'
    """)


def test_a_state_by_key_needs_its_keys_together() -> None:
    assert explained(keyed(ITEMS.map(w=lambda v: v), "k"), signals=(Reset,)) == text("""
        stage 1, over every split by itself: source 'items', map 'w'
        stage 2, over every bucket of keys by itself, because map 'sum' has a state for each key: key_by 'k', map 'sum'
    """)


def test_a_result_in_order_behind_keys_passes_one_more_stage() -> None:
    assert explained(keyed(ITEMS, "k"), is_ordered=True).splitlines()[-1] == (
        "stage 3, over parts of the stream in order, because the result is to be in the stream's order: nothing but "
        "handing on"
    )


def test_branches_share_what_comes_before() -> None:
    both = ITEMS.filter(lambda v: v > 0)
    assert explained(keyed(both, "k"), both.key_by("j").aggregate(n=ps.count())) == text("""
        stage 1, over every split by itself: source 'items', filter
        stage 2, over every bucket of keys by itself, because map 'sum' has a state for each key: key_by 'k', map 'sum'
        stage 3, over every bucket of keys by itself, because aggregate 'n' has a state for each key: key_by 'j', aggregate 'n'
    """)  # noqa: E501


def test_a_state_without_key_needs_all_items() -> None:
    unkeyed = ITEMS.map(sum=running, state=Total)
    assert explained(unkeyed) == text("""
        stage 1, over all splits in one task, because the state of map 'sum' has no key, so every item may change it: source 'items', map 'sum'
    """)  # noqa: E501
    behind = ITEMS.filter(lambda v: v > 0).map(sum=running, state=Total)
    assert "stage 2, over the whole stream in one task" in explained(behind)


def test_one_node_may_find_regions_in_splits() -> None:
    assert "one task" not in explained(ITEMS.filter(lambda v: v > 0).regions(by="k").aggregate(n=ps.count()))
    many = ITEMS.enumerate("l", as_="x").close("k").regions(by="k").aggregate(n=ps.count())
    assert "regions by 'k' are found in the stream's own order" in explained(many)


def test_signals_found_behind_a_key_gather_the_stream() -> None:
    late = ITEMS.filter(lambda v: v > 0).key_by("k").emit(Reset, when=lambda v: v > 5)
    found = explained(late.map(sum=running, state=Total).on(Reset, sum=lambda signal: signal.to))
    assert "emit 'Reset' places signals that all keys must see, and it stands behind key_by 'k'" in found
    early = ITEMS.emit(Reset, when=lambda v: v > 5)
    assert "one task" not in explained(keyed(early, "k"))


def test_signals_that_pass_two_keys_gather_the_stream() -> None:
    two = keyed(keyed(ITEMS.filter(lambda v: v > 0), "k"), "j")
    assert "one task" not in explained(two)
    assert "signals pass both key_by 'k' and key_by 'j'" in explained(two, signals=(Reset,))


def test_a_key_inside_a_region_gathers_the_stream() -> None:
    inside = (
        ITEMS.filter(lambda v: v > 0)
        .enumerate("l", as_="x")
        .key_by("x")
        .map(sum=lambda x, state: running(x, state), state=Total)
    )
    assert "key_by 'x' stands inside a region, whose items must stay together" in explained(inside)


def test_a_limit_counts_all_items_and_no_split_sends_more() -> None:
    assert explained(ITEMS.filter(lambda v: v > 0).limit(3)) == text("""
        stage 1, over every split by itself: source 'items', filter, limit 3 of each task
        stage 2, over the whole stream in one task, because limit 3 counts the items of the whole stream: limit 3
    """)


def test_a_limit_at_the_source_is_read_by_one_task() -> None:
    (stage,) = explained(ITEMS.limit(3).map(w=lambda v: v)).splitlines()
    assert stage.startswith(
        "stage 1, over all splits in one task, because limit 3 counts the items of the whole stream"
    )


def test_a_limit_behind_keys_gathers_the_stream_before_them() -> None:
    first, second = explained(keyed(ITEMS.map(w=lambda v: v), "k").limit(3)).splitlines()
    assert first == "stage 1, over every split by itself: source 'items', map 'w'"
    assert second.startswith(
        "stage 2, over the whole stream in one task, because limit 3 counts the items of the whole"
    )
    assert second.endswith(": key_by 'k', map 'sum', limit 3")


def test_an_aggregate_of_all_items_is_one_task() -> None:
    assert explained(ITEMS.filter(lambda v: v > 0).aggregate(n=ps.count())) == text("""
        stage 1, over every split by itself: source 'items', filter
        stage 2, over the whole stream in one task, because aggregate 'n' takes all items of the stream: aggregate 'n'
    """)
