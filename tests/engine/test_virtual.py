"""Virtual cores: times that can be worked out by hand, and the same results as everywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.graph.placed import flexible

import penstock as ps
from penstock.errors import FunctionError, GraphError
from penstock.graph import reference
from penstock.graph.tree import Tree
from penstock.report.timeline import lanes


class Level(ps.Signal):
    level: int


class Held(ps.State):
    level: int


def some(v: int) -> Iterator[int]:
    for at in range(v % 3):
        yield v * 10 + at


def numbers(count: int = 60) -> ps.Stream:
    return ps.from_numpy({"v": np.arange(count)}, name="numbers")


def pipeline(count: int = 6) -> tuple[ps.Stream, ps.Stream]:
    first = numbers(count).map(w=lambda v: 2 * v)
    return first, first.map(z=lambda w: w + 1)


def times(run: Any, name: str) -> list[tuple[float, float]]:
    return [(f.start_s, f.start_s + f.seconds) for f in run.statistics().firings if f.node == name]


def prepared(stream: ps.Stream, clock: ps.VirtualClock, **options: Any) -> Any:
    return stream.prepare(
        **{"spark": False, "fuse": False, "compile": False, "trace": True, "check": True} | options, clock=clock
    )


# Times


def test_a_firing_takes_its_time_and_is_seen_when_it_ends() -> None:
    first, second = pipeline()
    run = prepared(second, ps.VirtualClock({first: 1, second: 2}), cores=2, width=2)
    assert run.collect()["z"].to_pylist() == [2 * v + 1 for v in range(6)]
    assert times(run, "map 'w'") == [(0, 2), (2, 4), (4, 6)]
    assert [span for span in times(run, "map 'z'") if span[1] > span[0]] == [(2, 6), (6, 10), (10, 14)]
    assert run.seconds == 14


def test_nodes_of_one_core_take_turns() -> None:
    first, second = pipeline(3)
    clock = ps.VirtualClock({first: 1, second: 2})
    run = prepared(second, clock, width=1)
    run.collect()
    assert run.seconds == clock() == 9


def test_room_is_made_when_a_firing_ends() -> None:
    first, second = pipeline(4)
    run = prepared(second, ps.VirtualClock({first: 1, second: 3}), cores=2, width=1, capacity=1)
    run.collect()
    assert times(run, "map 'w'")[:4] == [(0, 1), (4, 5), (8, 9), (12, 13)]


def test_a_node_without_a_cost_takes_no_time() -> None:
    _, second = pipeline()
    run = prepared(second, ps.VirtualClock({second: 1}), cores=2, width=1)
    run.collect()
    assert run.seconds == 6
    assert set(times(run, "map 'w'")) == {(0, 0)}


def test_a_loop_of_several_nodes_costs_what_these_do() -> None:
    first, second = pipeline()
    run = prepared(second, ps.VirtualClock({first: 1, second: 2}), fuse=True)
    run.collect()
    assert run.seconds == 18


def test_a_cost_may_be_a_function_of_the_node_and_the_items() -> None:
    seen = []

    def cost(node: str, items: int) -> float:
        seen.append((node, items))
        return 5

    run = prepared(pipeline()[1], ps.VirtualClock(cost), cores=2, width=4)
    run.collect()
    assert ("map 'w'", 4) in seen
    assert ("map 'z'", 2) in seen
    assert times(run, "map 'w'")[:2] == [(0, 5), (5, 10)]


def test_seconds_are_counted_by_node() -> None:
    first, second = pipeline()
    run = prepared(second, ps.VirtualClock({first: 1, second: 2}), cores=2, width=4)
    run.collect()
    found = {node.name: (node.seconds, node.items, node.full) for node in run.statistics().nodes}
    assert found == {"map 'w'": (6, 6, 1), "map 'z'": (12, 6, 1)}


def test_a_timeline_is_drawn_from_it() -> None:
    first, second = pipeline()
    second = flexible(second)
    run = prepared(second.select("z"), ps.VirtualClock({first: 1, second: 2}), cores=2, width=2)
    run.collect()
    found = lanes(run.statistics())
    assert [lane.core for lane in found] == [0, 1]
    assert found[0].span == 1e9 * run.seconds


# Results


def graphs() -> dict[str, ps.Stream]:
    items = numbers()
    groups = items.map(g=lambda v: v // 7).regions(by="g")
    signals = flexible(items.emit(Level, when=lambda v: v % 9 == 0, level=lambda v: v).map(w=lambda v: 2 * v))
    return {
        "two in a row": flexible(flexible(items.map(w=lambda v: v * v)).map(z=lambda w: w + 1)).filter(lambda z: z > 9),
        "flat_map": flexible(items.flat_map(some, to="w", at_most=2), 2).map(z=lambda w: w + 1),
        "in regions": flexible(groups.filter(lambda v: v % 2 == 0)).map(z=lambda v, g: v + g).aggregate(s=ps.sum("z")),
        "signals": signals.map(n=lambda w, state: w + state.level, state=Held).on(
            Level, level=lambda signal: signal.level
        ),
        "a side": ps.align(flexible(items.filter(lambda v: v % 2 == 0)).map(a=lambda v: v), items.map(b=lambda v: v)),
    }


def delays(seed: int) -> ps.VirtualClock:
    random = Random(seed)
    return ps.VirtualClock(lambda node, items: random.choice((0, 1, random.random(), 10 * random.random())))


@pytest.mark.parametrize("name", list(graphs()))
@pytest.mark.parametrize("seed", range(4))
def test_delays_change_nothing(name: str, seed: int) -> None:
    stream = graphs()[name]
    wanted = reference.run((stream.node,)).tables[0]
    capacity, credit, width = [(2, "queued", 1), (2, "balance", None), (5, "queued", 3), (None, "balance", 16)][seed]
    signals = None if capacity is None else capacity + 8
    options = {"capacity": capacity, "capacity_signals": signals, "credit": credit, "width": width, "seed": seed}
    for policy in ("random", "downstream"):
        run = prepared(stream, delays(seed), cores=3, policy=policy, block_items=1 + 2 * seed, **options)
        found = run.collect()
        assert found.equals(wanted.cast(found.schema))


@pytest.mark.parametrize("name", ["two in a row", "flat_map", "in regions", "signals"])
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_a_bounded_memory_changes_nothing(name: str, blocks: int) -> None:
    stream = graphs()[name]
    wanted = reference.run((stream.node,)).tables[0]
    for seed in range(3):
        random = Random(seed)
        cost: Any = {ps.Stream(node): random.random() for node in Tree((stream.node,)).nodes[1:]}
        if seed == 2:  # splits and merges take time too
            cost = delays(seed).cost
        clock = ps.VirtualClock(cost, memory_blocks=blocks)
        policy = random.choice(["random", "upstream", "downstream"])
        found = prepared(stream, clock, cores=3, block_items=random.randint(1, 9), policy=policy).collect()
        assert found.equals(wanted.cast(found.schema))


def test_the_same_run_has_the_same_times() -> None:
    stream = graphs()["two in a row"]
    runs = [prepared(stream, delays(3), cores=3, policy="random", width=2, capacity=4) for _ in range(2)]
    for run in runs:
        run.collect()
    assert runs[0].statistics() == runs[1].statistics()
    assert runs[0].seconds > 0


def test_an_error_names_the_item() -> None:
    stream = flexible(numbers().map(w=lambda v: 1 // (v - 41))).map(z=lambda w: w)
    for seed in range(3):
        with pytest.raises(FunctionError, match="41"):
            prepared(stream, delays(seed), cores=2, width=1 + seed).collect()


# Blocks


def test_nodes_on_several_cores_take_a_block_at_a_time() -> None:
    stream = flexible(numbers().map(w=lambda v: v * v)).map(z=lambda w: w + 1)
    for clock in (ps.VirtualClock(), None):
        run = stream.prepare(
            spark=False,
            fuse=False,
            cores=2,
            block_items=7,
            compile=False,
            trace=True,
            **({"clock": clock} if clock else {}),
        )
        assert run.collect()["z"].to_pylist() == [v * v + 1 for v in range(60)]
        assert max(firing.items for firing in run.statistics().firings) == 7


def test_on_one_core_there_are_no_blocks() -> None:
    run = numbers().map(w=lambda v: v).prepare(spark=False, block_items=7, trace=True)
    run.collect()
    assert [firing.items for firing in run.statistics().firings] == [60]


# What is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda s: ps.VirtualClock(3),
            "VirtualClock: cost must be a dict from streams to seconds an item, or a function",
        ),
        (lambda s: ps.VirtualClock({s: -1}), "the cost must be a number of seconds, at least 0; got -1"),
        (lambda s: ps.VirtualClock({s: "1"}), "the cost must be a number of seconds, at least 0; got '1'"),
        (lambda s: ps.VirtualClock({s: float("nan")}), "the cost must be a number of seconds, at least 0; got nan"),
        (
            lambda s: ps.VirtualClock(memory_blocks=0),
            "memory_blocks must be a whole number of blocks, at least 1; got 0",
        ),
        (lambda s: ps.VirtualClock(memory_blocks=True), "memory_blocks must be a whole number of blocks"),
    ],
)
def test_clocks_that_are_refused(make: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make(numbers())


def test_runs_that_are_refused() -> None:
    first, second = pipeline()
    with pytest.raises(GraphError, match="cost takes a dict from streams to seconds; got the key 'w'"):
        prepared(second, ps.VirtualClock({"w": 1})).collect()
    with pytest.raises(GraphError, match="cost names map 'x', which is in no loop of this run"):
        prepared(second, ps.VirtualClock({first.map(x=lambda w: w): 1})).collect()
    with pytest.raises(GraphError, match="got -1 for 6 items of map 'w'"):
        prepared(second, ps.VirtualClock(lambda node, items: -1)).collect()
    with pytest.raises(GraphError, match="memory_blocks is for graphs in which no streams meet"):
        prepared(graphs()["a side"], ps.VirtualClock(memory_blocks=1), cores=2).collect()
    with pytest.raises(GraphError, match="memory_blocks needs credit='queued'"):
        prepared(second, ps.VirtualClock(memory_blocks=1), cores=2, credit="balance").collect()
    with pytest.raises(GraphError, match="block_items must be a whole number of at least 1; got 0"):
        prepared(second, ps.VirtualClock(), block_items=0)
