"""What a run counts: nothing is lost on the way, no queue is overfull, and ensembles are as full as the context says."""

from __future__ import annotations

import json
import math

import pytest
from tests.property.settings import CREDITS, Setting

import penstock as ps
from penstock.engine.options import CONTEXTS
from penstock.engine.run import Run

WIDTH = 128
SIZES = (16, 127, 128, 129, 255, 256, 257, 300)
REGIONS = 6


def blobs(*lists: list[int]) -> ps.Stream:
    rows = [{"id": at, "values": values} for at, values in enumerate(lists)]
    return ps.from_items(rows, schema={"id": int, "values": list[int]})


class Level(ps.Signal):
    level: int


class Sum(ps.State):
    sum: int


def add(v, state):  # type: ignore[no-untyped-def]
    state.sum += v
    return state.sum


LISTS = ([1, 2, 3], [], [4, 5], [6], [], [7, 8])
EVEN = 4
"""How many of the values are even, and so emit a signal."""


def totals() -> ps.Stream:
    emitted = blobs(*LISTS).enumerate("values", as_="v").emit(Level, when=lambda v: v % 2 == 0, level=lambda v: v)
    handled = emitted.map(w=add, state=Sum).on(Level, sum=lambda signal: signal.level)
    return handled.filter(lambda v: v != 5).aggregate(total=ps.sum("w"))


@pytest.fixture(params=[(context, credit) for context in CONTEXTS for credit in CREDITS], ids=" ".join)
def run(request: pytest.FixtureRequest) -> Run:
    context, credit = request.param
    stream, control = totals(), [ps.at(1, Level(0)), ps.at(6, Level(0))]
    setting = Setting(context=context, credit=credit, width=2, spare=0, spare_signals=1, policy="random", seed=3)
    made = Run((stream.node,), control, compile=False, **setting.options((stream.node,), control))
    assert made.collect().num_rows == len(LISTS)
    return made


def test_items_add_up(run: Run) -> None:
    found = run.statistics()
    opened, emitted, mapped, kept, summed = found.nodes
    assert [node.items for node in found.nodes] == [len(LISTS), 8, 8, 8, 7]
    assert [node.outputs for node in found.nodes] == [8, 8, 8, 7, len(LISTS)]
    assert [edge.items for edge in found.edges] == [8, 8, 8, 7]
    for node in found.nodes:
        assert node.firings >= node.ensembles >= node.full
        assert sum(node.outputs_per_input.values()) == node.ensembles
        assert node.occupancy == node.items / (found.width * node.ensembles)
    assert (opened.name, summed.name) == ("enumerate 'values'", "aggregate 'total'")
    assert emitted.seconds + mapped.seconds + kept.seconds <= found.seconds


def test_signals_add_up(run: Run) -> None:
    """Two signals from outside, a boundary at each end of a region, those emitted; messages of credit do not count."""
    outside, boundaries = 2, 2 * len(LISTS)
    emitted = outside + boundaries + EVEN
    assert [node.signals for node in run.statistics().nodes] == [2, outside + boundaries, emitted, emitted, emitted]


def test_no_queue_is_overfull(run: Run) -> None:
    for edge in run.statistics().edges:
        assert 0 < edge.highest_items <= edge.capacity_items
        assert 0 < edge.highest_signals <= edge.capacity_signals


def test_credit_is_given_for_all_items_or_for_those_before_marks(run: Run) -> None:
    for edge in run.statistics().edges:
        assert edge.credits == edge.items if run.options.credit == "balance" else edge.credits <= edge.items
        assert edge.credit_messages == 0 or run.options.credit == "balance"


def test_statistics_are_plain_data(run: Run) -> None:
    found = run.statistics()
    assert json.loads(found.json())["nodes"][1]["items"] == 8
    assert found.node("filter").outputs == 7
    assert "filter" in str(found) and "aggregate" in str(found)


def test_before_anything_ran_nothing_was_counted() -> None:
    found = totals().prepare(compile=False, fuse=False).statistics()
    assert found.seconds == 0 and all(node.items == 0 for node in found.nodes)


def test_a_traced_run_has_every_firing() -> None:
    run = totals().prepare(compile=False, fuse=False, width=2, trace=True)
    run.collect()
    found = run.statistics()
    assert len(found.firings) == sum(node.firings for node in found.nodes)
    assert sum(firing.items for firing in found.firings) == sum(node.items for node in found.nodes)


# Occupancy


def occupied(size: int, context: str) -> ps.Statistics:
    """Regions of one size, on ensembles of a width."""
    opened = blobs(*[list(range(size))] * REGIONS).enumerate("values", as_="v")
    run = (
        opened.filter(lambda v: v % 2 == 0)
        .aggregate(n=ps.count())
        .prepare(compile=False, fuse=False, width=WIDTH, context=context)
    )
    assert run.collect().column("n").to_pylist() == [(size + 1) // 2] * REGIONS
    return run.statistics()


@pytest.mark.parametrize("size", SIZES)
def test_in_sparse_the_last_ensemble_of_a_region_is_what_is_left(size: int) -> None:
    node = occupied(size, "sparse").node("filter")
    assert node.ensembles == REGIONS * math.ceil(size / WIDTH)
    assert node.occupancy == pytest.approx(size / (WIDTH * math.ceil(size / WIDTH)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("context", ["lane", "dense"])
def test_in_lane_and_dense_all_but_the_last_ensemble_are_full(size: int, context: str) -> None:
    found = occupied(size, context)
    for name in ("filter", "aggregate"):
        node = found.node(name)
        assert node.ensembles == math.ceil(node.items / WIDTH)
        assert node.full == node.items // WIDTH
