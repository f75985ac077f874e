"""Graphs that cannot be joined, each refused while it is built, with the reason and what to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from tests.graph.placed import flexible, on_core

import penstock as ps


def source(name: str = "items") -> ps.Stream:
    return ps.from_items([{"i": i, "t": "a" * i, "l": [1] * i} for i in range(5)], name=name)


def count_up(i):
    for k in range(i):
        yield k + 0


def refused(build: Callable[[], object], *parts: str) -> None:
    """The error must hold all of these, in this order."""
    with pytest.raises(ps.GraphError) as error:
        build()
    at = -1
    for part in parts:
        found = str(error.value).find(part, at + 1)
        assert found > at, f"{part!r} is missing in: {error.value}"
        at = found


def test_sides_without_a_common_source() -> None:
    a, b = source("a"), source("b").map(j=lambda i: i)
    refused(
        lambda: ps.align(a, b),
        "align: all sides must come from one source",
        "'a'",
        "'b'",
        "read both as one source, or bring them together by key",
    )


@pytest.mark.parametrize(
    "breaking",
    [
        lambda s: s.flat_map(count_up, to="j", at_most=4),
        lambda s: s.enumerate("l", as_="v").close("i"),
        lambda s: ps.merge(s, s),
        lambda s: s.key_by("i").window(count=2, start="a", end="b").aggregate(n=ps.count()),
    ],
    ids=["flat_map", "enumerate", "merge", "window"],
)
def test_an_irregular_node_breaks_the_index(breaking: Callable[[ps.Stream], ps.Stream]) -> None:
    items = source()
    refused(
        lambda: ps.align(items, breaking(items)),
        "align: all sides must have the same indices; side 0 has those of",
        "which may give many for one",
        "split behind",
        "or bring the sides together before it",
    )


def test_sides_behind_one_irregular_node_may_be_joined() -> None:
    many = source().flat_map(count_up, to="j", at_most=4)
    joined = ps.align(many.filter(lambda j: j > 0), many.map(k=lambda j: -j))
    assert joined.collect(compile=False).to_pydict() == {"j": [1, 1, 2, 1, 2, 3], "k": [-1, -1, -2, -1, -2, -3]}


def test_a_join_inside_a_region_with_a_side_outside() -> None:
    items = source()
    inside = items.regions(start=lambda i: i % 2 == 0)
    refused(
        lambda: ps.align(items.map(j=lambda i: i), inside),
        "align: all sides must lie in the same regions; side 0 lies in none, side 1 in regions",
        "close regions with aggregate or close before, or split inside of them",
    )
    assert ps.align(inside.filter(lambda i: i > 2), inside.map(j=lambda i: i)).close().collect().num_rows == 2


def test_sides_that_change_the_same_field() -> None:
    items = source()
    a, b = items.map(i=lambda i: i + 1), items.map(j=lambda i: i)
    refused(
        lambda: ps.align(a, b),
        "align: a field of several sides must be the same in all; 'i' of side 0 is made by map 'i', that of side 1 by",
        "give one of them another name with select",
    )
    assert ps.align(a.select(k="i"), b).collect().num_rows == 5


def test_a_field_that_may_be_filled_is_not_the_same_any_more() -> None:
    """What an outer join puts where a side lacks an item differs from what the other side has there."""
    items = source().select("i")
    few, other = items.filter(lambda i: i > 2), items.select(k="i")
    outer = ps.align(few, other, how="outer", fill={"i": -1})
    refused(lambda: ps.align(items, outer), "'i' of side 0 is made by", "that of side 1 by align", "with select")


def test_a_field_that_a_region_keeps_of_its_first_item_is_made_there() -> None:
    items = source().select("i")
    first = items.regions(start=lambda i: i % 2 == 0, keep={"j": "i"}).close("j")
    joined = ps.align(first.select("j"), items)
    assert joined.collect(compile=False).to_pydict() == {"j": [0, 0, 2, 2, 4], "i": [0, 1, 2, 3, 4]}


def test_outer_without_fill() -> None:
    items = source().select("i")
    few, all_ = items.filter(lambda i: i > 2).map(j=lambda i: i), items
    refused(
        lambda: ps.align(few, all_, how="outer"),
        "align: outer: 'j' is missing where side 0 drops an item; give fill={'j': ...}",
    )


def test_fill_of_a_text() -> None:
    items = source()
    few, all_ = items.filter(lambda i: i > 2).select("t"), items.select("i")
    refused(
        lambda: ps.align(few, all_, how="outer", fill={"t": ""}),
        "align: outer: 't' is string, and only numbers, booleans and times can stand for what is missing",
        "make a number of it before, or keep the field on all sides",
    )


def test_a_fill_of_the_wrong_type_and_one_for_nothing() -> None:
    items = source().select("i")
    few = items.filter(lambda i: i > 2).map(j=lambda i: i)
    refused(lambda: ps.align(few, items, how="outer", fill={"j": "x"}), "align: outer: 'j' is int64; got fill= 'x'")
    refused(lambda: ps.align(few, items, how="outer", fill={"j": 0, "z": 0}), "'z'", "'i', 'j'")


def test_a_wrong_how() -> None:
    items = source()
    refused(lambda: ps.align(items, items, how="left"), "align: how= must be 'inner', 'outer', or functions", "'left'")
    refused(lambda: ps.align(items, items, how={(0, 2): lambda i: i}, to="x"), "from 0 to 1; got (0, 2)")
    refused(lambda: ps.align(items, items, how={(0, 1): lambda i: i}), "need to=, the field that they give")
    refused(lambda: ps.align(items, items, how="outer", present=("a",)), "present= must name a field for each of 2")
    refused(lambda: ps.align(items), "align: brings at least two streams together; got 1")
    refused(lambda: ps.align(items, "items"), "align: brings streams together; got 'items'")


def test_a_function_for_a_set_of_sides_may_name_their_fields_only() -> None:
    items = source()
    a, b = items.select(x="i"), items.select(y="i")
    refused(lambda: ps.align(a, b, how={(0,): lambda y: y}, to="z"), "align (0,)", "('x'); got 'y'")


def test_a_merge_of_different_fields() -> None:
    items = source()
    refused(
        lambda: ps.merge(items.select("i"), items.select("t")),
        "merge: all sides must have the same fields; side 0 has 'i' (int64), side 1 has 't' (string)",
        "bring them into one form with map and select",
    )


def test_a_capacity_that_no_interval_can_satisfy() -> None:
    """Between two heartbeats at least one index goes by, so a channel must hold what comes of one item."""
    many = source().flat_map(count_up, to="j", at_most=4)
    joined = ps.align(many.filter(lambda j: j > 0), many.map(k=lambda j: -j))
    refused(
        lambda: joined.prepare(fuse=False, capacity=3),
        "must hold at least 4 items, which is the most that one item gives in flat_map",
        "got capacity=3; raise it, or lower at_most=",
    )
    refused(
        lambda: joined.prepare(fuse=False, capacity=4, credit="balance", threshold=4),
        "its threshold must be at most 0, or both sides could wait for each other; got threshold=4",
    )
    refused(
        lambda: joined.prepare(fuse=False, capacity_signals=1, credit="balance"),
        "must hold at least 2 signals and boundaries of regions",
    )
    assert joined.prepare(fuse=False, capacity=4, compile=False).collect().num_rows == 6


def test_a_cycle_cannot_be_built() -> None:
    """A stream is immutable and names the streams before it, which must be there already: none can lead to itself."""
    items = source()
    joined = ps.align(items, items.filter(lambda i: i > 1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        joined.node.sides = (joined.node, joined.node)  # type: ignore[attr-defined]
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        items.node = joined.node  # type: ignore[misc]


# Keys


class Count(ps.State):
    n: int


def count(state) -> int:
    state.n += 1
    return state.n


def letters() -> ps.Stream:
    return ps.from_items([{"k": k, "v": v, "w": v % 2} for v, k in enumerate("aababb")], name="letters")


def counted(stream: ps.Stream) -> list[int]:
    """How many items each key has had, or the stream."""
    return stream.map(z=count, state=Count).collect(spark=False, compile=False)["z"].to_pylist()


BY_KEY = [1, 2, 1, 3, 2, 3]


def test_a_join_of_sides_that_are_grouped_one_by_one_keeps_the_key() -> None:
    s = letters()
    one, other = (s.key_by("k").map(n=count, state=Count), s.key_by("k").map(m=count, state=Count))
    assert counted(ps.align(one, other)) == BY_KEY


@pytest.mark.parametrize(
    "other",
    [
        lambda s: s.map(m=lambda v: v + 1).key_by("k"),
        lambda s: s.key_by("k").named("keys").map(m=count, state=Count),
        lambda s: s.select("v", q="k").key_by("q").select("v"),
        lambda s: s.key_by("w").map(m=count, state=Count).key_by("k"),
        lambda s: s.key_by("k", "k"),
    ],
    ids=["behind a map", "named", "under another name", "behind another key", "twice"],
)
def test_one_key_given_at_several_places_is_kept(other: Callable[[ps.Stream], ps.Stream]) -> None:
    s = letters()
    assert counted(ps.align(s.key_by("k").map(n=count, state=Count), other(s))) == BY_KEY


def test_the_key_comes_from_the_side_that_has_the_item() -> None:
    s = letters()
    low = s.filter(lambda v: v < 3).key_by("k").map(n=count, state=Count)
    high = s.filter(lambda v: v > 1).key_by("k").map(m=count, state=Count)
    assert counted(ps.align(low, high, how="outer", fill={"n": 0, "m": 0})) == BY_KEY
    assert (
        counted(ps.align(low, high, how={(0,): lambda n: n, (1,): lambda m: m, (0, 1): lambda n: -n}, to="x")) == BY_KEY
    )
    assert counted(ps.merge(low.select("k", x="n"), high.select("k", x="m"))) == [1, 2, 1, 2, 3, 3, 4]
    even, odd = s.split(lambda v: v % 2 == 0, lambda v: v % 2 == 1)
    assert counted(ps.merge(even.key_by("k"), odd.key_by("k"))) == BY_KEY


def test_a_key_of_two_fields_in_any_order() -> None:
    s = letters()
    joined = ps.align(s.key_by("k", "w"), s.filter(lambda v: v < 9).key_by("w", "k"))
    assert counted(joined) == [1, 1, 1, 2, 2, 1]
    assert joined.aggregate(n=ps.count()).schema.names == ["k", "w", "n"]


@pytest.mark.parametrize("use", ["state", "regions", "window", "aggregate"])
@pytest.mark.parametrize(
    ("sides", "reason"),
    [
        (
            lambda s: (s.key_by("k"), s.map(m=lambda v: v)),
            "side 0 is grouped by 'k' of source 'letters', side 1 by nothing",
        ),
        (lambda s: (s.key_by("k"), s.key_by("w")), "'k' of source 'letters', side 1 by 'w' of source 'letters'"),
        (
            lambda s: (s.key_by("k"), s.map(k=lambda v: v).key_by("k").select(x="k")),
            "'k' of source 'letters', side 1 by 'k' of map 'k'",
        ),
    ],
    ids=["a key and none", "two keys", "one name, two fields"],
)
def test_sides_of_several_keys_meet_but_have_no_state(sides: Callable[..., object], reason: str, use: str) -> None:
    joined = ps.align(*sides(letters()))  # type: ignore[misc]
    assert joined.filter(lambda v: v > 3).collect(spark=False, compile=False).num_rows == 2
    uses = {
        "state": lambda s: s.map(z=count, state=Count),
        "regions": lambda s: s.regions(by="w"),
        "window": lambda s: s.window(count=2).aggregate(n=ps.count()),
        "aggregate": lambda s: s.aggregate(n=ps.count()),
    }
    refused(lambda: uses[use](joined), "must belong to one key", reason, "write key_by behind align to choose the key")
    assert counted(joined.key_by("k")) == BY_KEY


@pytest.mark.parametrize("lose", [lambda s: s.select("v"), lambda s: s.select("v", x="k")], ids=["dropped", "renamed"])
def test_a_key_without_its_fields_is_refused_or_kept(lose: Callable[[ps.Stream], ps.Stream]) -> None:
    s = letters()
    sides = [lose(each.key_by("k")) for each in (s, s.filter(lambda v: v >= 0))]
    reasons = ("all sides of align are grouped by 'k'", "keep it on all sides, unchanged, or write key_by behind align")
    refused(lambda: ps.align(*sides).map(z=count, state=Count), *reasons)
    assert counted(ps.align(*(lose(s.key_by("k")) for _ in range(2)))) == BY_KEY
    before = s.key_by("k")
    assert counted(ps.align(*(lose(each) for each in (before, before.filter(lambda v: v >= 0))))) == BY_KEY


def test_an_outer_join_does_not_take_what_is_filled_in_for_a_key() -> None:
    s = letters()
    some, others = s.filter(lambda w: w > 0).key_by("v"), s.filter(lambda v: v > 1).key_by("v").select("k")
    joined = ps.align(some, others, how="outer", fill={"v": 0, "w": 0})
    refused(lambda: joined.map(z=count, state=Count), "all sides of align are grouped by 'v'", "keep it on all sides")


def test_a_join_with_its_key_may_be_flexible_and_have_a_core() -> None:
    s = letters()
    joined = ps.align(s.key_by("k").map(n=count, state=Count), s.filter(lambda v: v >= 0).key_by("k"))
    for stream in (flexible(joined), on_core(joined, 1)):
        found = stream.map(z=count, state=Count).collect(spark=False, compile=False, fuse=False, cores=2)
        assert found["z"].to_pylist() == BY_KEY
