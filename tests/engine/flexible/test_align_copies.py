"""Flexible nodes with several outputs and several inputs: the same items, in the same order, and no end to wait for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from tests.graph.placed import flexible
from tests.property.builder import Builder, Point
from tests.property.check import check_channels, try_many
from tests.property.choose import Seeded
from tests.property.graphs import Case
from tests.property.joins import build_joined
from tests.property.stepped import stepped

import penstock as ps
from penstock.engine.run import Run
from penstock.errors import DeadlockError, FunctionError, GraphError
from penstock.graph import nodes, reference
from penstock.graph.tree import Tree

SPLITS = ("central", "beta")
SETTINGS = [
    {"fuse": False, "cores": 2, "capacity": 2, "credit": "queued", "width": 1},
    {"fuse": False, "cores": 3, "capacity": 3, "credit": "balance", "width": None},
    {"fuse": True, "cores": 2, "capacity": 5, "credit": "queued", "width": 3},
    {"fuse": True, "cores": 4, "capacity": None, "credit": "balance", "width": 16},
]
"""All have room for what two functions of a join may give; where an item gives one at most, 1 is enough."""


class Level(ps.Signal):
    level: int


class Mark(ps.Signal):
    at: int


class Held(ps.State):
    level: int


def numbers(count: int = 60) -> ps.Stream:
    return ps.from_numpy({"v": np.arange(count)}, name="numbers")


def heard(stream: ps.Stream, field: str) -> ps.Stream:
    """What follows a stream remembers the last signal, so that places of signals can be seen."""
    made = stream.map(n=eval(f"lambda {field}, state: {field} + 1000 * state.level"), state=Held)
    return made.on(Level, level=lambda signal: signal.level).on(
        Mark, level=lambda signal, state: state.level + signal.at
    )


def same(streams: tuple[ps.Stream, ...], control: Any = (), **options: Any) -> None:
    """The engine gives what the reference gives."""
    leaves = tuple(stream.node for stream in streams)
    wanted = reference.run(leaves, control).tables
    options = {"policy": "random", "compile": False, "check": True, **options}
    found = Run(leaves, control, **options).tables()
    for a, b in zip(wanted, found, strict=True):
        assert b.equals(a.cast(b.schema)), options


def is_threaded() -> bool:
    return any(thread.name.startswith("penstock-core-") for thread in threading.enumerate())


# Several outputs


def some(v: int) -> Iterator[int]:
    for at in range(v % 3):
        yield v * 10 + at


def outputs() -> dict[str, tuple[ps.Stream, ...]]:
    items = numbers()
    squares = flexible(items.map(w=lambda v: v * v))
    odd, big = squares.split(lambda w: w % 2 == 1, lambda w: w > 99)
    low, high = squares.split(lambda w: (w < 50, w % 3 == 0), outputs=2)
    fan = flexible(items.flat_map(some, to="w", at_most=2))
    parts = fan.split(lambda w: w % 2 == 0, lambda w: w % 3 == 0)
    signals = flexible(items.emit(Level, when=lambda v: v % 9 == 0, level=lambda v: v).map(w=lambda v: 2 * v))
    groups = flexible(items.map(g=lambda v: v // 7).regions(by="g").filter(lambda v: v % 3 != 0))
    columns = flexible(items.map_columns(lambda v: pc.add(v, 1), to={"w": int}))
    return {
        "two maps": (squares.map(a=lambda w: w + 1), squares.map(b=lambda w: -w)),
        "a result that feeds others": (squares, squares.map(a=lambda w: w + 1), squares.filter(lambda w: w > 9)),
        "split": (odd, big, odd.map(a=lambda w: w)),
        "split by one function": (low, flexible(high), squares),
        "parts that meet": (ps.align(odd, big.map(b=lambda w: w)), squares),
        "parts of many that meet": (ps.merge(*parts), fan),
        "signals": (heard(signals, "w"), heard(signals.filter(lambda w: w % 4 == 0), "w"), signals),
        "regions": (
            groups.aggregate(s=ps.sum("v")),
            groups.map(z=lambda v, g: v + g).aggregate(m=ps.max("z", default=0)),
        ),
        "map_columns": (columns, columns.map(a=lambda w: w), columns.filter(lambda w: w > 9)),
    }


OUTPUTS = (
    "two maps", "a result that feeds others", "split", "split by one function", "parts that meet",
    "parts of many that meet", "signals", "regions", "map_columns",
)  # fmt: skip
"""By name, so that nothing is built before it is needed."""


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("setting", range(len(SETTINGS)))
def test_several_outputs(name: str, setting: int) -> None:
    same(outputs()[name], **SETTINGS[setting])


def test_names() -> None:
    assert (tuple(outputs()), tuple(joins("central"))) == (OUTPUTS, JOINS)


def test_a_merge_for_each_output() -> None:
    squares = flexible(numbers(2000).map(w=lambda v: v * v))
    run = _prepared((squares, squares.map(a=lambda w: w), squares.filter(lambda w: w > 9)), cores=2)
    for _ in run.batches():
        pass
    merged = [node.items for node in run.statistics().nodes if node.name.startswith("merge of")]
    assert merged == [2000] * 3


def _prepared(streams: tuple[ps.Stream, ...], **options: Any) -> Run:
    given = {"fuse": False, "capacity": 16, "width": 8, "compile": False, "check": True, **options}
    return Run(tuple(stream.node for stream in streams), **given)


# Several inputs


def sides(items: ps.Stream) -> tuple[ps.Stream, ps.Stream]:
    return (
        items.filter(lambda v: v % 2 == 0).map(a=lambda v: v // 2),
        items.filter(lambda v: v % 3 == 0).map(b=lambda v: v * v),
    )


CASES = {(0, 1): lambda a, b: a + b, (0,): lambda a: -a}
FILL = {"a": -1, "b": -1}


def joins(split: str, copies: int = 1) -> dict[str, tuple[ps.Stream, ...]]:
    items = numbers()
    a, b = sides(items)
    inner = flexible(ps.align(a, b), copies, split)
    outer = flexible(ps.align(a, b, how="outer", fill=FILL, present=("has_a", "has_b")), copies, split)
    cases = flexible(ps.align(a, b, how=CASES, to="w"), copies, split)
    none = items.filter(lambda v: v < 0).map(c=lambda v: v)
    loud = items.emit(Level, when=lambda v: v % 9 == 0, level=lambda v: v)
    marked = a.emit(Mark, when=lambda a: a % 4 == 0, at=lambda a: a)
    groups = items.map(g=lambda v: v // 7).regions(by="g")
    lists = ps.from_items([{"v": at, "values": list(range(at % 5))} for at in range(40)]).enumerate("values", as_="e")
    joined_lists = ps.align(lists.filter(lambda e: e != 1).map(x=lambda e: e), lists.map(y=lambda e: -e))
    texts = ps.from_items([{"v": at, "t": "ab" * (at % 3)} for at in range(40)])
    return {
        "inner": (inner,),
        "inner, a result that feeds others": (inner, inner.map(z=lambda a, b: a - b), inner.filter(lambda a: a > 9)),
        "outer": (outer.map(z=lambda a, b, has_a, has_b: a + b if has_a and has_b else 0).filter(lambda z: z != 1),),
        "functions": (cases.map(z=lambda w: w + 1),),
        "functions, a result that feeds others": (cases, cases.map(z=lambda w: w + 1), cases.filter(lambda w: w > 0)),
        "one function": (flexible(ps.align(a, b, how={(1,): lambda b: b + 1}, to="w"), copies, split),),
        "three sides": (flexible(ps.align(a, b, items.map(c=lambda v: v), how="outer", fill=FILL), copies, split),),
        "an empty side": (flexible(ps.align(none, a, how="outer", fill={"c": 0, "a": 0}), copies, split), inner),
        "an empty side behind": (flexible(ps.align(a, none, how="outer", fill={"c": 0, "a": 0}), copies, split),),
        "a stream twice": (flexible(ps.align(a, a), copies, split).map(z=lambda a: a),),
        "the source": (flexible(ps.align(items, a), copies, split).map(z=lambda v, a: v + a),),
        "flexible sides": (flexible(ps.align(flexible(a), flexible(b)), copies, split),),
        "a flexible node behind": (flexible(inner.map(z=lambda a, b: a * b)).filter(lambda z: z % 2 == 0),),
        "joined again": (ps.align(outer.filter(lambda a: a > 3).map(y=lambda a: a), items.map(x=lambda v: v + 1)),),
        "functions joined again": (
            ps.align(
                cases.filter(lambda w: w > 0).map(y=lambda w: w), cases.map(x=lambda w: w), how="outer", fill={"y": 0}
            ),
        ),
        "two in a row": (flexible(ps.align(inner, items.map(c=lambda v: v).filter(lambda c: c > 5)), copies, split),),
        "signals that all sides have": (heard(flexible(ps.align(*sides(loud)), copies, split), "a"),),
        "signals of one side": (heard(flexible(ps.align(marked, b, how="outer", fill=FILL), copies, split), "a"),),
        "signals of the second side": (
            heard(flexible(ps.align(b, marked, how="outer", fill=FILL), copies, split), "a"),
        ),
        "in regions": (flexible(ps.align(*sides(groups)), copies, split).aggregate(s=ps.sum("b")),),
        "functions in regions": (
            flexible(
                ps.align(*sides(groups), how={(0, 1): lambda a, g: a + g, (1,): lambda b: b}, to="w"), copies, split
            ).aggregate(s=ps.sum("w")),
        ),
        "in lists": (flexible(joined_lists, copies, split).aggregate(s=ps.sum("x"), n=ps.count()),),
        "texts": (
            flexible(ps.align(texts.filter(lambda v: v % 2 == 0), texts.map(b=lambda t: len(t))), copies, split),
        ),
    }


JOINS = (
    "inner", "inner, a result that feeds others", "outer", "functions", "functions, a result that feeds others",
    "one function", "three sides", "an empty side", "an empty side behind", "a stream twice", "the source",
    "flexible sides", "a flexible node behind", "joined again", "functions joined again", "two in a row",
    "signals that all sides have", "signals of one side", "signals of the second side", "in regions",
    "functions in regions", "in lists", "texts",
)  # fmt: skip


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", JOINS)
def test_several_inputs(name: str, split: str) -> None:
    for at, setting in enumerate(SETTINGS):
        same(joins(split, 1 + at % (setting["cores"] - 1))[name], seed=at, **setting)
    assert not is_threaded()


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "name", ["inner", "outer", "one function", "three sides", "signals of one side", "joined again"]
)
def test_room_for_one(name: str, split: str) -> None:
    for cores in (2, 3, 4):
        for credit in ("queued", "balance"):
            same(joins(split)[name], fuse=False, cores=cores, capacity=1, width=1, credit=credit, seed=cores)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", JOINS)
def test_threads_at_any_pace(name: str, split: str) -> None:
    """The order of all steps follows from a seed: threads that are slow now and then, and messages that are late."""
    for seed in range(2):
        with stepped(seed):
            same(joins(split, 2)[name], fuse=seed == 1, cores=3, capacity=2 + seed, width=2, seed=seed)


@pytest.mark.parametrize("split", SPLITS)
def test_signals_from_outside(split: str) -> None:
    a, b = sides(numbers(60))
    stream = heard(flexible(ps.align(a, b, how="outer", fill=FILL), split=split), "a")
    control = [ps.at(0, Level(1)), ps.at(7, Level(2)), ps.at(7, Level(3)), ps.at(30, Level(4)), ps.at(60, Level(5))]
    for setting in SETTINGS:
        same((stream,), control, **setting)


def test_without_cores_a_join_is_alone() -> None:
    stream = joins("beta")["functions"][0]
    run = stream.prepare(spark=False)
    run.collect()
    assert len(run.statistics().nodes) == 1
    assert not any("split" in node.name for node in run.statistics().nodes)


@pytest.mark.parametrize("split", SPLITS)
def test_copies_take_what_the_join_has_no_room_for(split: str) -> None:
    a, b = sides(numbers(6000))
    run = _prepared((flexible(ps.align(a, b, how=CASES, to="w"), split=split),), cores=2)
    for _ in run.batches():
        pass
    items = {node.name: node.items for node in run.statistics().nodes}
    assert items["align"] + items["align (copy 1)"] == 3000 + 2000
    assert items["merge of filter … merge"] == 3000
    splits = [name for name in items if name.startswith("split of")]
    assert splits == (["split of align"] if split == "central" else ["split of align", "split of align (side 1)"])


@pytest.mark.parametrize("split", SPLITS)
def test_a_join_of_one_loop_is_cut_out(split: str) -> None:
    """Fused, the sides come from one loop, and would meet within it."""
    stream = joins(split)["inner"][0]
    run = stream.prepare(spark=False, cores=2, compile=False)
    assert sum(1 for segment in run.plan.segments if segment.sides) == 1
    run = stream.prepare(spark=False, compile=False)
    assert not any(segment.sides for segment in run.plan.segments)


@pytest.mark.parametrize("split", SPLITS)
def test_compiled(split: str) -> None:
    a, b = sides(numbers(40_000))
    stream = flexible(ps.align(a, b, how=CASES, to="w"), split=split)
    found = stream.collect(spark=False, cores=2, width=1024)
    assert found["w"].to_pylist() == [v // 2 + v * v if v % 3 == 0 else -(v // 2) for v in range(0, 40_000, 2)]


@pytest.mark.parametrize("split", SPLITS)
def test_an_error_in_a_copy_names_the_function(split: str) -> None:
    a, b = sides(numbers(600))
    stream = flexible(ps.align(a, b, how={(0, 1): lambda a, b: 1 // (a - 222)}, to="w"), split=split)
    for capacity in (1, 8, 600):
        with pytest.raises(FunctionError, match="ZeroDivisionError"):
            stream.collect(spark=False, cores=2, capacity=capacity, width=1, compile=False)
        assert not is_threaded()


@pytest.mark.parametrize("split", SPLITS)
def test_threads_that_all_wait_are_noticed(split: str) -> None:
    """Without heartbeats a side that drops everything keeps the others waiting: it is said, and by name."""
    items = numbers(1000)
    late, every = items.filter(lambda v: v > 998).map(a=lambda v: v), items.map(b=lambda v: v)
    for streams in ((late, every), (every, late)):
        stream = flexible(ps.align(*streams), split=split)
        options: dict[str, Any] = {"spark": False, "fuse": False, "capacity": 4, "batch_items": 1, "compile": False}
        with pytest.raises(DeadlockError, match="split of align"):
            stream.collect(**options, cores=2, heartbeat="never")
        assert stream.collect(**options, cores=2).num_rows == 1
        assert not is_threaded()


def test_explain_tells_how_sides_come_to_copies() -> None:
    items = numbers()
    loud = items.emit(Level, when=lambda v: v % 9 == 0, level=lambda v: v)

    def told(*streams: ps.Stream) -> list[str]:
        run = streams[0].prepare(spark=False, cores=2, compile=False)
        return [line for line in run.explain().splitlines() if line.startswith("loop ") and "shared out" in line]

    (central,) = told(flexible(ps.align(*sides(items))))
    assert ", and 1 copy on others, its sides shared out together: " in central
    (beta,) = told(flexible(ps.align(*sides(items)), split="beta"))
    assert ", and 1 copy on others, each side shared out by itself: " in beta
    fallen = flexible(ps.align(*sides(loud)), split="beta")
    (central,) = told(heard(ps.align(fallen, loud.map(c=lambda v: v)), "c"))
    assert "its sides shared out together, because what is behind waits to hear how far all have come: " in central


# What is refused


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda a, b: flexible(ps.align(a, b), 0),
            "align: flexible: the number of copies must be .* at least 1; got 0",
        ),
        (lambda a, b: flexible(ps.align(a, b), split="gamma"), "split= must be 'central' or 'beta'; got 'gamma'"),
        (lambda a, b: flexible(a, split="beta"), "split='beta' is for joins, which have several inputs; leave it out"),
        (
            lambda a, b: flexible(ps.merge(a.select("v"), b.select("v"))),
            "merge: flexible: a merge does nothing with its items but put them in order, .* make a node before or",
        ),
    ],
)
def test_what_cannot_be_flexible_is_refused(build: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        build(*sides(numbers()))


def test_more_copies_than_cores_are_refused() -> None:
    stream = flexible(ps.align(*sides(numbers())), 2)
    with pytest.raises(GraphError, match="align is to have 2 copies beside its own, each on another core; there are 2"):
        stream.collect(spark=False, cores=2)


# Random graphs


GRAPHS, PARTS = 80, 4


class JoinBuilder(Builder):
    """Makes most joins flexible, and some other nodes."""

    cores = 2

    def _named(self, text: str, stream: ps.Stream, point: Point) -> Point:
        if text.startswith("ps.align(") and self.choose.boolean(85):
            copies, split = self.choose.integer(1, self.cores - 1), self.choose.choice(SPLITS)
            text, stream = f"flexible({text}, {copies}, {split!r})", flexible(stream, copies, split)
        elif nodes.can_have_copies(stream.node) and self.choose.boolean(20):
            text, stream = f"flexible({text})", flexible(stream)
        return super()._named(text, stream, point)


def random_case(seed: int) -> Case:
    """A graph in which streams meet, on two to four cores."""
    choose = Seeded(seed)
    cores = choose.integer(2, 4)
    case = build_joined(choose, seed, type("Maker", (JoinBuilder,), {"cores": cores}))
    mapping = choose.integer(0, 2**16) if choose.boolean(60) else None
    setting = replace(case.setting, fuse=choose.boolean(40), cores=cores, mapping=mapping)
    if any(isinstance(node, nodes.Emit) and node.shape.regions for node in Tree(case.leaves).nodes):
        setting = replace(setting, spare_signals=None)  # a channel must hold the signals of one list
    return replace(case, setting=setting)


def check_some_stepped(case: Case, *, compile: bool = False) -> None:
    """On real threads, and one step after the other as a seed says."""
    assert case.seed is not None
    with stepped(case.setting.seed) if case.seed % 3 else nullcontext():
        check_channels(case, compile=compile)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_graphs(part: int) -> None:
    seeds = range(part, GRAPHS, PARTS)
    assert try_many(seeds, compile=False, check=check_some_stepped, make=random_case) == len(seeds)


def test_random_graphs_have_flexible_joins() -> None:
    lines = [line for seed in range(60) for line in random_case(seed).lines]
    for split in SPLITS:
        assert sum(line.endswith(f", {split!r})") for line in lines) >= 15
