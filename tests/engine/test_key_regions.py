"""Regions of a key: found in its items alone, and closed by an aggregate; on the reference and on every way to run."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.engine.test_windows import INF, NAN, Count, everywhere, fails, rows

import penstock as ps

GIVEN = [("a", 1, 1.0), ("b", 9, 4.0), ("a", 7, 2.0), ("b", 2, 8.0), ("a", 3, 16.0), ("a", 8, 32.0), ("b", 9, 64.0)]
ITEMS = ps.from_items(rows(*GIVEN)).key_by("k")


def high(t):  # type: ignore[no-untyped-def]
    return t > 5


class Headed(ps.Fold):
    total: float

    def begin(self, k, head):  # type: ignore[no-untyped-def]
        self.total = 1000.0 * head + 100.0 * len(k)

    def run(self, v):  # type: ignore[no-untyped-def]
        self.total += v

    def end(self, k, head):  # type: ignore[no-untyped-def]
        return self.total + 10000.0 * head + 0.5 * len(k)


# Where regions begin and end


def test_a_region_of_a_key_ends_before_the_next_of_that_key_begins() -> None:
    found = ITEMS.regions(start=high, keep={"head": "t"}).aggregate(n=ps.count(), total=ps.sum("v"), last=ps.last("v"))
    assert everywhere(found, compile=True) == [
        {"k": "a", "head": 1, "n": 1, "total": 1.0, "last": 1.0},
        {"k": "a", "head": 7, "n": 2, "total": 18.0, "last": 16.0},
        {"k": "b", "head": 9, "n": 2, "total": 12.0, "last": 8.0},
        {"k": "a", "head": 8, "n": 1, "total": 32.0, "last": 32.0},
        {"k": "b", "head": 9, "n": 1, "total": 64.0, "last": 64.0},
    ]


def test_a_region_begins_where_a_field_changes_and_a_value_may_come_back() -> None:
    items = ps.from_items(rows(("a", 1), ("b", 1), ("a", 1), ("b", 2), ("a", 3), ("b", 1), ("a", 1)))
    found = items.key_by("k").regions(by="t").aggregate(n=ps.count())
    assert everywhere(found, compile=True) == [
        {"k": "b", "t": 1, "n": 1},
        {"k": "a", "t": 1, "n": 2},
        {"k": "b", "t": 2, "n": 1},
        {"k": "a", "t": 3, "n": 1},
        {"k": "a", "t": 1, "n": 1},
        {"k": "b", "t": 1, "n": 1},
    ]


def test_several_fields_of_which_any_may_change() -> None:
    items = ps.from_items(rows(("a", 1, 1.0), ("a", 1, 2.0), ("a", 2, 2.0), ("a", 2, 2.0)))
    found = items.key_by("k").regions(by=["v", "t"]).aggregate(n=ps.count())
    assert [tuple(row.values()) for row in everywhere(found, compile=True)] == [
        ("a", 1.0, 1, 1),
        ("a", 2.0, 1, 1),
        ("a", 2.0, 2, 2),
    ]


def test_the_first_item_of_a_key_begins_a_region_and_is_asked_too() -> None:
    never = ITEMS.regions(start=lambda t: t > 100, keep="t").aggregate(n=ps.count())
    assert everywhere(never) == [{"k": "a", "t": 1, "n": 4}, {"k": "b", "t": 9, "n": 3}]
    on_first = ITEMS.regions(start=lambda t: 1 // (t - 1) > 0).aggregate(n=ps.count())
    fails(r"regions: <lambda> raised ZeroDivisionError.*; on item 0", on_first, ps.FunctionError)
    on_fifth = ITEMS.regions(start=lambda t: 1 // (t - 3) > 0).aggregate(n=ps.count())
    fails(r"raised ZeroDivisionError.*; on item 4 \(k='a', t=3", on_fifth, ps.FunctionError)


def test_nan_always_changes_and_both_zeros_are_one() -> None:
    items = ps.from_items([{"k": "a", "v": v} for v in (NAN, NAN, -0.0, 0.0, INF, INF)])
    found = items.key_by("k").regions(by="v").aggregate(n=ps.count())
    rows_found = [(row["v"], row["n"]) for row in everywhere(found, compile=True)]
    assert repr(rows_found) == "[(nan, 1), (nan, 1), (-0.0, 2), (inf, 2)]"


def test_an_empty_stream_has_no_regions() -> None:
    nothing = ps.from_items([], schema={"k": str, "t": int, "v": float}).key_by("k")
    assert everywhere(nothing.regions(by="t").aggregate(n=ps.count())) == []
    assert everywhere(nothing.regions(start=high).aggregate(n=ps.count())) == []


def test_a_start_that_does_not_compile() -> None:
    def odd(t) -> bool:  # type: ignore[no-untyped-def]
        return format(t, "b").endswith("1")

    with pytest.warns(ps.InterpretedWarning):
        found = ITEMS.regions(start=odd, keep="t").aggregate(n=ps.count())
    assert [(row["k"], row["t"], row["n"]) for row in everywhere(found)] == [
        ("a", 1, 1),
        ("a", 7, 1),
        ("b", 9, 2),
        ("a", 3, 2),
        ("b", 9, 1),
    ]


@pytest.mark.parametrize("by", [False, True])
def test_regions_agree_with_a_plain_program(by: bool) -> None:
    rng = random.Random(3)
    given = [{"k": rng.randrange(5), "t": rng.randrange(4), "v": rng.random()} for _ in range(300)]
    ended: list[list[dict[str, Any]]] = []
    open_: dict[int, list[dict[str, Any]]] = {}
    for row in given:
        region = open_.setdefault(row["k"], [])
        if region and (row["t"] != region[0]["t"] if by else row["t"] == 0):
            ended.append(region)
            region = open_[row["k"]] = []
        region.append(row)
    rule: dict[str, Any] = {"by": "t"} if by else {"start": lambda t: t == 0}
    found = ps.from_items(given).key_by("k").regions(**rule, keep={"head": "v"})
    told = found.aggregate(n=ps.count(), last=ps.last("v"), high=ps.max("v"), keep=["k", "head"])
    assert [tuple(row.values()) for row in everywhere(told)] == [
        (region[0]["k"], region[0]["v"], len(region), region[-1]["v"], max(row["v"] for row in region))
        for region in [*ended, *open_.values()]
    ]


# What a row holds


@pytest.mark.parametrize(
    ("values", "t"),
    [
        ([3, -1, 2**62, 0], pa.int64()),
        ([3, 200, 3, 0], pa.uint8()),
        ([2**62, 1, 2**62, 0], pa.uint64()),
        ([0.5, -1.5, -0.0, INF], pa.float64()),
        ([0.5, -1.5, 0.1, -INF], pa.float32()),
        ([True, False, True, True], pa.bool_()),
        ([0, 59, 7, -5], pa.timestamp("ms", tz="UTC")),
        ([0, 59, 7, -5], pa.date32()),
        ([0, 59, 7, 5], pa.time32("s")),
    ],
)
def test_fields_of_every_type_are_kept(values: list[Any], t: pa.DataType) -> None:
    fields = pa.array(values, t)
    items = ps.from_arrow(pa.table({"k": [1, 2, 2, 1], "x": fields, "new": [True, True, False, True]})).key_by("k")
    kept = everywhere(items.regions(start=lambda new: new, keep="x").aggregate(n=ps.count()), compile=True)
    assert [row["x"] for row in kept] == [fields[at].as_py() for at in (0, 3, 1)]
    by = everywhere(items.regions(by="x", keep={"y": "x"}).aggregate(n=ps.count()))
    firsts = (1, 0, 2) if values[0] == values[3] else (1, 0, 3, 2)
    assert [row["x"] for row in by] == [row["y"] for row in by] == [fields[at].as_py() for at in firsts]


def test_names_of_the_row() -> None:
    def names(**given: Any) -> list[str]:
        return ITEMS.regions(**given).aggregate(n=ps.count()).schema.names

    assert names(start=high) == ["k", "n"]
    assert names(start=high, keep="v") == ["k", "v", "n"]
    assert names(start=high, keep=["v", "t"]) == ["k", "v", "t", "n"]
    assert names(start=high, keep={"v": "t", "also": "v"}) == ["k", "v", "also", "n"]
    assert names(by="t", keep=["v"]) == ["k", "t", "v", "n"]
    found = ITEMS.regions(by="t", keep=["v"])
    assert found.aggregate(n=ps.count(), keep=["v", "k"]).schema.names == ["v", "k", "n"]
    assert found.aggregate(n=ps.count(), keep=()).schema.names == ["n"]


def test_a_fold_sees_the_fields_of_the_row_when_it_begins_and_ends() -> None:
    found = ITEMS.regions(start=high, keep={"head": "t"}).aggregate(s=Headed)
    assert [row["s"] for row in everywhere(found, compile=True)] == [
        1.0 + 1000 + 100 + 10000 + 0.5,
        18.0 + 7000 + 100 + 70000 + 0.5,
        12.0 + 9000 + 100 + 90000 + 0.5,
        32.0 + 8000 + 100 + 80000 + 0.5,
        64.0 + 9000 + 100 + 90000 + 0.5,
    ]


def test_a_kept_field_may_have_the_name_of_an_item_s_field_that_a_fold_takes() -> None:
    class First(ps.Fold):
        sum: float

        def begin(self, v):  # type: ignore[no-untyped-def]
            self.sum = -v

        def run(self, v):  # type: ignore[no-untyped-def]
            self.sum += v

        def end(self, v):  # type: ignore[no-untyped-def]
            return self.sum * 100.0 + v

    found = ITEMS.regions(start=high, keep="v").aggregate(s=First)
    assert [row["s"] for row in everywhere(found, compile=True)] == [1.0, 1602.0, 804.0, 32.0, 64.0]


def test_the_key_stays_in_force_and_rows_go_on_at_once() -> None:
    def number(state):  # type: ignore[no-untyped-def]
        state.n += 1
        return state.n

    found = ITEMS.regions(start=high).aggregate(v=ps.sum("v"))
    assert [row["nth"] for row in everywhere(found.map(nth=number, state=Count))] == [1, 2, 1, 3, 2]
    again = found.regions(start=lambda v: v > 15).aggregate(n=ps.count(), v=ps.sum("v"))
    assert everywhere(again, compile=True) == [
        {"k": "a", "n": 1, "v": 1.0},
        {"k": "a", "n": 1, "v": 18.0},
        {"k": "b", "n": 1, "v": 12.0},
        {"k": "a", "n": 1, "v": 32.0},
        {"k": "b", "n": 1, "v": 64.0},
    ]


def test_what_comes_before_and_behind() -> None:
    """A filter before leaves out what a region would begin with; a list may be opened and closed before."""
    before = ITEMS.filter(lambda t: t != 7).map(t=lambda t: t // 8).regions(by="t").aggregate(n=ps.count())
    assert [tuple(row.values()) for row in everywhere(before.filter(lambda n: n > 0))] == [
        ("b", 1, 1),
        ("a", 0, 2),
        ("b", 0, 1),
        ("a", 1, 1),
        ("b", 1, 1),
    ]
    lists = ps.from_items([{"k": 1, "vs": [1, 9]}, {"k": 2, "vs": [8]}, {"k": 1, "vs": [2, 7]}])
    opened = lists.enumerate("vs", as_="v").close("k").key_by("k").regions(start=lambda v: v > 5, keep="v")
    assert everywhere(opened.aggregate(n=ps.count()), compile=True) == [
        {"k": 1, "v": 1, "n": 1},
        {"k": 1, "v": 9, "n": 2},
        {"k": 1, "v": 7, "n": 1},
        {"k": 2, "v": 8, "n": 1},
    ]


def test_many_keys_end_through_small_channels() -> None:
    items = ps.from_items([{"k": key % 500, "t": key % 7} for key in range(2000)]).key_by("k")
    found = items.regions(by="t").aggregate(n=ps.count()).map(m=lambda k, n: k * 10 + n)
    right = found.collect(compile=False)
    assert right.num_rows == 2000
    for room in (1, 3, 64):
        assert found.collect(compile=False, fuse=False, width=room, batch_items=5) == right


def test_time_fields_as_times() -> None:
    at = [datetime.datetime(2024, 5, 1, 9, minute) for minute in (0, 1, 30)]
    items = ps.from_items([{"k": "a", "at": when, "new": new} for when, new in zip(at, (1, 0, 1), strict=True)])
    found = items.key_by("k").regions(start=lambda new: new == 1, keep={"since": "at"}).aggregate(until=ps.last("at"))
    assert everywhere(found) == [
        {"k": "a", "since": at[0], "until": at[1]},
        {"k": "a", "since": at[2], "until": at[2]},
    ]


# Bad input


def test_a_sum_beyond_64_bits_names_the_region() -> None:
    items = ps.from_items(rows(("a", 2**62), ("a", 2**62), ("a", 1))).key_by("k")
    found = items.regions(start=lambda t: t == 1).aggregate(t=ps.sum("t"))
    fails(r"aggregate 't': sum\(t\) must fit 64 bits; it does not in the region that ends at item 2", found)


def test_a_key_that_is_nan() -> None:
    items = ps.from_items(rows((1.0, 1), (NAN, 2))).key_by("k")
    fails(r"key_by 'k': a key may not be NaN.*'k' is NaN in item 1", items.regions(by="t").aggregate(n=ps.count()))


COUNT = {"n": ps.count()}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda i: i.regions(), r"regions: give start=predicate or by=field, and not both"),
        (lambda i: i.regions(start=high, by="t"), r"and not both"),
        (lambda i: i.regions(start=lambda v: v), r"regions: must be decided by a boolean; .* gives double"),
        (lambda i: i.regions(start=3), r"must be a function of the fields that it names; got 3"),
        (lambda i: i.regions(start=lambda w: w > 0), r"must be a field of the item .*\('k', 't', 'v'\).*; got 'w'"),
        (lambda i: i.regions(start=lambda t, state: True), r"'state'"),
        (lambda i: i.regions(by="tt"), r"regions by 'tt': 'tt' must be a field of the item; .*did you mean 't'"),
        (lambda i: i.regions(start=high, keep=["v", "w"]), r"regions: 'w' must be a field of the item"),
        (lambda i: i.regions(start=high, keep={"v": "w"}), r"regions: 'w' must be a field of the item"),
        (lambda i: i.regions(start=high, keep={"#": "v"}), r"a field's name must be a string that does not begin with"),
        (lambda i: i.regions(start=high, keep="k"), r"the row has the fields of the key already.*; got 'k' again"),
        (lambda i: i.regions(by="k"), r"the row has the fields of the key already, which never change"),
        (lambda i: i.regions(by="t", keep="t"), r"fields must have different names; got 't', 't'"),
        (lambda i: i.map(s=lambda k: k).regions(by="s"), r"whose size is fixed; 's' is string; make a number of it"),
        (lambda i: i.regions(start=high, keep={"s": "k"}), r"take numbers, booleans and times, .*; 'k' is string"),
        (lambda i: i.regions(by="t").aggregate(), r"must give at least one result"),
        (lambda i: i.regions(by="t").aggregate(t=ps.count()), r"fields must have different names; got 'k', 't', 't'"),
        (lambda i: i.regions(by="t").aggregate(keep="v", **COUNT), r"'v' must be a field of the key or of the region"),
        (lambda i: i.regions(by="t").aggregate(v=ps.to_list("v")), r"to_list\(v\) would hold all items of all keys"),
        (lambda i: i.regions(by="t").aggregate(f=ps.first("k")), r"first\(k\) by key takes numbers and times"),
        (lambda i: i.regions(start=high).aggregate(s=Headed), r"Headed.begin: .*\('k'\).*; got 'head'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ps.GraphError, match=message):
        build(ITEMS)


@pytest.mark.parametrize(
    "build",
    [
        lambda r: r.map(w=lambda v: v),
        lambda r: r.filter(high),
        lambda r: r.enumerate("k", as_="b"),
        lambda r: r.regions(by="v"),
        lambda r: r.window(count=2),
        lambda r: r.key_by("t"),
        lambda r: r.select("t"),
        lambda r: r.close(),
        lambda r: r.schema,
        lambda r: r.collect(),
        lambda r: r.explain(),
        lambda r: ps.run(ITEMS.aggregate(n=ps.count()), r),
    ],
)
def test_nothing_but_an_aggregate_may_follow(build: Any) -> None:
    found = ITEMS.regions(by="t")
    assert repr(found) == "<regions by 't' of each key after key_by 'k'>"
    with pytest.raises(ps.GraphError, match=r"regions by 't': the regions of a key must be closed by aggregate right"):
        build(found)


def test_regions_of_a_key_lie_outside_of_all_regions() -> None:
    opened = ps.from_items([{"id": 1, "vs": [1.0]}]).enumerate("vs", as_="v")
    with pytest.raises(ps.GraphError, match=r"outside of all regions, and 1 are open here; close them"):
        opened.key_by("v").regions(by="v")
    inside = ps.from_items([{"k": 1, "vs": [1, 1, 2]}]).key_by("k").enumerate("vs", as_="v", index="i").regions(by="v")
    assert everywhere(inside.aggregate(n=ps.count()).close("k")) == [{"k": 1, "v": 1, "n": 2}, {"k": 1, "v": 2, "n": 1}]


def test_without_a_key_kept_fields_need_new_names() -> None:
    with pytest.raises(ps.GraphError, match=r"keep= must give new names.*got 'v'; write keep={'new': 'old'}"):
        ps.from_items(rows(*GIVEN)).regions(start=high, keep="v")


def test_the_plan_tells_of_regions() -> None:
    assert "aggregate 'n' (for each region by 't')" in ITEMS.regions(by="t").aggregate(n=ps.count()).explain()
    assert "aggregate 'n' (for each region)" in ITEMS.regions(start=high).aggregate(n=ps.count()).explain()
