"""Graphs with a channel on every edge, each a case that is easily got wrong, with the smallest queues that are legal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from tests.property.check import difference
from tests.property.settings import CREDITS, Setting

import penstock as ps
from penstock.engine.loop import RunningLoop
from penstock.engine.options import CONTEXTS
from penstock.engine.run import Run
from penstock.graph import reference
from penstock.graph.tree import At

SMALLEST = Setting(width=2, spare=0, spare_signals=0, policy="random", seed=5)


@dataclass(frozen=True)
class Graph:
    """Results that are run together, with signals from outside."""

    streams: tuple[ps.Stream, ...]
    control: tuple[At, ...] = ()

    def run(self, setting: Setting, *, compile: bool = False) -> Run:
        leaves = tuple(stream.node for stream in self.streams)
        return Run(leaves, self.control, compile=compile, trace=True, **setting.options(leaves, self.control))

    def agrees(self, setting: Setting, *, compile: bool = False) -> None:
        """The results, and the places of all signals, are those of the reference."""
        wanted = reference.run([stream.node for stream in self.streams], self.control)
        assert difference(wanted, self.run(setting, compile=compile).result()) is None, setting


def blobs(lists: list[list[int]]) -> ps.Stream:
    rows = [{"id": at, "values": values} for at, values in enumerate(lists)]
    return ps.from_items(rows, schema={"id": int, "values": list[int]})


class Echo(ps.Operator):
    """Pushes in `run` and in `end`, as many as it may in both."""

    n: int

    def run(self, v):  # type: ignore[no-untyped-def]
        for _ in range(3):
            yield v
        self.n += 1

    def end(self):  # type: ignore[no-untyped-def]
        for _ in range(3):
            yield -self.n


class Level(ps.Signal):
    level: int


class Seen(ps.State):
    """Whatever comes early, late or twice changes the sum."""

    sum: int = 1


def add(v, state):  # type: ignore[no-untyped-def]
    state.sum = (state.sum * 31 + v) % 1000003
    return state.sum


def shift(state, signal):  # type: ignore[no-untyped-def]
    return (state.sum * 37 + signal.level) % 1000003


def pushes_in_run_and_in_end() -> Graph:
    opened = blobs([[1, 2], [], [3]]).enumerate("values", as_="v")
    return Graph((opened.process(Echo, to="w", at_most=3).filter(lambda w: w != 2).aggregate(total=ps.sum("w")),))


def pushes_at_the_end_of_the_stream() -> Graph:
    plain = ps.from_items([{"v": v} for v in range(5)]).process(Echo, to="w", at_most=3)
    return Graph((plain.map(x=lambda w: w + 1),))


def hundreds_of_empty_regions() -> Graph:
    opened = blobs([[]] * 300 + [[1, 2, 3]] + [[]] * 200).enumerate("values", as_="v")
    return Graph((opened.filter(lambda v: v != 2).aggregate(n=ps.count()),))


def a_region_larger_than_any_queue() -> Graph:
    opened = blobs([[7], list(range(1000)), [], [1]]).enumerate("values", as_="v")
    return Graph((opened.aggregate(total=ps.sum("v"), n=ps.count()),))


def regions_found_in_the_stream() -> Graph:
    items = ps.from_items([{"k": at // 3, "v": at} for at in range(20)])
    by, start = items.regions(by="k"), items.regions(start=lambda v: v % 7 == 0)
    return Graph((by.filter(lambda v: v % 2 == 0).aggregate(total=ps.sum("v")), start.aggregate(n=ps.count())))


def nested_with_empty_inner_and_outer_ones() -> Graph:
    words: list[list[str]] = [["ab", "", "c"], [], [""], ["", ""], [], ["xyz"], []]
    docs = ps.from_items([{"words": each} for each in words], schema={"words": list[str]})
    letters = docs.enumerate("words", as_="word").enumerate("word", as_="letter")
    per_word = letters.filter(lambda letter: letter != 98).aggregate(n=ps.count())
    return Graph((per_word.aggregate(longest=ps.max("n", default=0), words=ps.count()),))


def a_branch_in_a_region_with_two_aggregates() -> Graph:
    opened = blobs([[1, 2, 3], [], [4], [5, 6]]).enumerate("values", as_="v").map(w=lambda v, id: v * 10 + id)
    odd = opened.filter(lambda v: v % 2 == 1)
    return Graph((odd.aggregate(total=ps.sum("w")), opened.aggregate(n=ps.count(), last=ps.last("w", default=-1))))


def signals_between_regions_and_inside() -> Graph:
    opened = blobs([[1, 2, 3], [], [4, 5], [6]]).enumerate("values", as_="v")
    emitted = opened.emit(Level, when=lambda v: v % 2 == 0, level=lambda v: v)
    inside = emitted.map(w=add, state=Seen).on(Level, sum=shift)
    total = inside.aggregate(v=ps.sum("w"))
    after = total.map(x=add, state=Seen).on(Level, sum=shift)
    return Graph((after,), (ps.at(0, Level(7)), ps.at(2, Level(8)), ps.at(2, Level(9)), ps.at(4, Level(10))))


def keys_in_regions() -> Graph:
    opened = blobs([[1, 2, 1], [], [2, 2, 3], [1]]).enumerate("values", as_="v")
    counted = opened.key_by("v").map(n=add, state=Seen).on(Level, sum=shift)
    return Graph((counted.aggregate(last=ps.last("n", default=0)),), (ps.at(1, Level(3)), ps.at(3, Level(4))))


def values_that_grow() -> Graph:
    """Texts and lists, each longer than all before, so that the memory of a queue is replaced again and again."""
    rows = [{"n": n, "text": "ab" * n * n, "values": list(range(n)), "words": ["x" * n] * n} for n in range(14)]
    source = ps.from_items(rows, schema={"n": int, "text": str, "values": list[int], "words": list[str]})
    kept = source.filter(lambda n: n % 5 != 1)
    return Graph((kept.enumerate("values", as_="v").aggregate(total=ps.sum("v")), kept.select("words")))


def an_empty_source() -> Graph:
    nothing = ps.from_items([], schema={"id": int, "values": list[int]})
    opened = nothing.enumerate("values", as_="v")
    return Graph((opened.filter(lambda v: v > 0).aggregate(n=ps.count()), nothing.process(Pushing, to="x", at_most=2)))


class Pushing(ps.Operator):
    """Pushes though there is nothing to push from."""

    def begin(self):  # type: ignore[no-untyped-def]
        yield 1

    def run(self, id):  # type: ignore[no-untyped-def]
        yield id

    def end(self):  # type: ignore[no-untyped-def]
        yield 2
        yield 3


def the_source_alone() -> Graph:
    return Graph((ps.from_items([{"v": v, "s": "x" * v} for v in range(5)]),))


GRAPHS: tuple[Callable[[], Graph], ...] = (
    pushes_in_run_and_in_end,
    pushes_at_the_end_of_the_stream,
    hundreds_of_empty_regions,
    a_region_larger_than_any_queue,
    regions_found_in_the_stream,
    nested_with_empty_inner_and_outer_ones,
    a_branch_in_a_region_with_two_aggregates,
    signals_between_regions_and_inside,
    keys_in_regions,
    values_that_grow,
    an_empty_source,
    the_source_alone,
)
made = cache(lambda graph: graph())


@pytest.mark.parametrize("credit", CREDITS)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_the_smallest_queues(graph: Callable[[], Graph], context: str, credit: str) -> None:
    made(graph).agrees(replace(SMALLEST, context=context, credit=credit))


@pytest.mark.parametrize("number", range(len(GRAPHS)))
def test_the_smallest_queues_compiled(number: int) -> None:
    """Each graph once; every context and credit in turn."""
    context, credit = CONTEXTS[number % 4], CREDITS[number // 2 % 2]
    made(GRAPHS[number]).agrees(replace(SMALLEST, context=context, credit=credit), compile=True)


@pytest.mark.parametrize("policy", ["upstream", "downstream"])
@pytest.mark.parametrize("width", [1, None])
@pytest.mark.parametrize("graph", GRAPHS)
def test_other_orders_and_widths(graph: Callable[[], Graph], width: int | None, policy: str) -> None:
    graph_made, number = made(graph), GRAPHS.index(graph)
    context, credit = CONTEXTS[number % 4], CREDITS[number // 2 % 2]
    graph_made.agrees(Setting(context=context, credit=credit, width=width, spare=0, spare_signals=0, policy=policy))


def many_tiny_regions(count: int) -> Graph:
    opened = blobs([[at, at + 1][: at % 3] for at in range(count)]).enumerate("values", as_="v")
    return Graph((opened.filter(lambda v: v % 5 != 0).aggregate(total=ps.sum("v"), n=ps.count()),))


@pytest.mark.parametrize("credit", CREDITS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_more_regions_alive_than_a_table_held_at_first(context: str, credit: str) -> None:
    count = 1000 if context == "sparse" else 5000  # where every boundary ends an ensemble, and all marks are checked
    many_tiny_regions(count).agrees(Setting(context=context, credit=credit))
    many_tiny_regions(1000).agrees(Setting(context=context, credit=credit, width=20, spare=30, spare_signals=11))


def test_more_regions_alive_than_a_table_held_at_first_compiled() -> None:
    many_tiny_regions(5000).agrees(Setting(context="lane"), compile=True)
    many_tiny_regions(1000).agrees(Setting(context="lane", spare=30, spare_signals=11), compile=True)


@pytest.mark.parametrize("credit", CREDITS)
@pytest.mark.parametrize("before", CONTEXTS)
@pytest.mark.parametrize("after", CONTEXTS)
def test_every_change_from_one_context_to_another(before: str, after: str, credit: str) -> None:
    opened = blobs([[1, 2, 3], [], [4], [5, 6], [], []]).enumerate("values", as_="v")
    kept = opened.filter(lambda v: v != 2)
    total = kept.aggregate(total=ps.sum("v"))
    options = replace(SMALLEST, credit=credit).options((total.node,), ())
    run = total.prepare(compile=False, **options | {"context": {opened: before, kept: after}})
    assert run.collect().to_pydict() == {"id": [0, 1, 2, 3, 4, 5], "total": [4, 0, 4, 11, 0, 0]}
    if "auto" not in (before, after):
        assert [edge.context for edge in run.statistics().edges] == [before, after]


def test_a_message_of_credit_among_tags() -> None:
    """Found by a random graph: the boundaries behind a message of credit were not counted."""
    items = ps.from_items([{"v": 1}, {"v": 2}])
    counted = items.regions(start=lambda v: v > 0).map(w=lambda v: v).aggregate(n=ps.count())
    Graph((counted,)).agrees(Setting(context="dense", spare_signals=0, credit="balance", threshold="none"))


def test_a_list_of_structs_that_leaves_piece_by_piece() -> None:
    """Found by a random graph: room for what is collected was asked for before the place in the list was known."""
    element = pa.struct({"f": pa.float64(), "l": pa.list_(pa.int64())})
    lists = [[{"f": 1.0, "l": [1, 2]}, {"f": 2.0, "l": list(range(500))}], []]
    source = ps.from_arrow(pa.table({"k": [3, 4], "q": pa.array(lists, pa.list_(element))}))
    opened = source.enumerate("q", as_="e")
    collected = opened.enumerate("e.l", as_="v").close().aggregate(all=ps.to_list("k"))
    computed = opened.map(m=lambda k: np.arange(k)).enumerate("m", as_="w")
    for setting in (Setting(fuse=True), Setting(fuse=True, spare=0, spare_signals=0)):
        Graph((collected, computed)).agrees(setting)


# What is refused before anything runs

FANNED = blobs([[1]]).flat_map(lambda id: (yield id), to="x", at_most=3).map(y=lambda x: x)
OPENED = blobs([[1]]).enumerate("values", as_="v").map(w=lambda v: v).aggregate(total=ps.sum("w"))


@pytest.mark.parametrize(
    ("stream", "options", "message"),
    [
        (FANNED, {"capacity": 0}, r"run: capacity must be a whole number of at least 1; got 0"),
        (FANNED, {"capacity": True}, r"run: capacity must be a whole number of at least 1; got True"),
        (FANNED, {"capacity_signals": 0}, r"run: capacity_signals must be a whole number of at least 1; got 0"),
        (FANNED, {"width": 0}, r"run: width must be a whole number of at least 1; got 0"),
        (FANNED, {"capacity": 2}, r"run: the channel behind flat_map 'x' must hold at least 3 items, .* one item gives in flat_map 'x'; got capacity=2; raise it, or lower at_most="),
        (OPENED, {"capacity_signals": 1, "credit": "balance"}, r"must hold at least 2 signals and boundaries of regions, .*, and a message of credit; got capacity_signals=1"),
        (FANNED, {"context": "dence"}, r"run: context must be one of 'auto', 'sparse', 'dense', 'lane'; got 'dence'"),
        (FANNED, {"context": {FANNED: "wide"}}, r"run: context must be one of .*; got 'wide'"),
        (FANNED, {"credit": "free"}, r"run: credit must be one of 'queued', 'balance'; got 'free'"),
        (FANNED, {"policy": "best"}, r"run: policy must be one of 'downstream', 'upstream', 'random'; got 'best'"),
        (FANNED, {"credit": "balance", "capacity": 4, "threshold": 2}, r"holds 4 items and its sender needs room for 3, so its threshold must be at most 1, .*; got threshold=2"),
        (FANNED, {"credit": "balance", "threshold": -1}, r"run: threshold must be a whole number of at least 0; got -1"),
        (FANNED, {"threshold": 0}, r"run: threshold= belongs to credit='balance'; got credit='queued'"),
        (FANNED, {"seed": "x"}, r"run: seed must be a whole number; got 'x'"),
    ],
)  # fmt: skip
def test_what_is_refused(stream: ps.Stream, options: dict[str, object], message: str) -> None:
    with pytest.raises(ps.GraphError, match=message):
        stream.prepare(fuse=False, **options)


def test_too_few_signals_for_what_comes_of_one_item() -> None:
    """An item behind which a region closes and the next opens sends two marks."""
    found = ps.from_items([{"k": 1, "v": 2}]).regions(by="k").map(w=lambda v: v).aggregate(total=ps.sum("w"))
    with pytest.raises(ps.GraphError, match=r"must hold at least 2 signals and boundaries .*; got capacity_signals=1"):
        found.prepare(fuse=False, capacity_signals=1)


def test_a_list_is_not_left_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a list's elements few pass: room for all was there when most had gone by, and the loop need not come back."""
    calls, call = [], RunningLoop._call
    monkeypatch.setattr(RunningLoop, "_call", lambda loop, *given: calls.append(loop) or call(loop, *given))
    lists = ps.from_items([{"v": list(range(100))} for _ in range(4)])
    last = lists.enumerate("v", as_="w").filter(lambda w: w % 10 == 0).map(x=lambda w: w + 1)
    run = last.prepare(spark=False, cores=2, mapping={last: 1}, width=16, capacity=32, compile=False)
    assert run.collect().num_rows == 40
    first = [loop for loop in calls if loop.code.segment is run.plan.segments[0]]
    assert len(first) <= 6


def _once(v: int) -> Iterator[int]:
    yield v


def test_a_channel_has_room_for_a_few_ensembles_beside_the_most_of_one_item() -> None:
    stream = ps.from_items([{"v": 1}]).flat_map(_once, to="w", at_most=50).map(x=lambda w: w)
    run = stream.prepare(spark=False, fuse=False, width=100, compile=False)
    assert {each.bounds.value.items for each in run.plan.channels.values()} == {64 * 100 + 50 - 1}


def test_a_run_runs_once() -> None:
    run = FANNED.prepare(fuse=False)
    run.collect()
    with pytest.raises(ps.GraphError, match=r"run: a run can be run once; prepare another"):
        run.collect()
