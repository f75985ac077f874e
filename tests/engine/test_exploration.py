"""Small pipelines of three nodes, fired in every order that the queues allow: always the reference's result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pytest
from tests.engine.exploration import Explored, explore, total
from tests.property.check import difference
from tests.property.settings import CREDITS, Setting
from tests.property.test_channel_mutations import a_node_that_does_not_end, too_little_credit, too_much_credit

import penstock as ps
from penstock.engine import sinks
from penstock.engine.run import Run
from penstock.graph import reference
from penstock.graph.tree import At


class Level(ps.Signal):
    level: int


class Seen(ps.State):
    """Whatever comes early, late or twice changes the sum."""

    sum: int = 1


def add(v, state):  # type: ignore[no-untyped-def]
    state.sum = (state.sum * 31 + v) % 1009
    return state.sum


def shift(state, signal):  # type: ignore[no-untyped-def]
    return (state.sum * 37 + signal.level) % 1009


@dataclass(frozen=True)
class Graph:
    stream: ps.Stream
    control: tuple[At, ...] = ()
    batch_items: int | None = None


def emitted(items: int, signals: int) -> Graph:
    """A node that emits, one that pushes up to two items, one that handles the signals."""
    source = ps.from_items([{"v": v, "tells": v < signals} for v in range(items)], schema={"v": int, "tells": bool})
    told = source.emit(Level, when=lambda tells: tells, level=lambda v: v)

    def twice(v):  # type: ignore[no-untyped-def]
        yield v
        if v % 2 == 1:
            yield v + 10

    pushed = told.flat_map(twice, to="v", at_most=2)
    return Graph(pushed.map(w=add, state=Seen).on(Level, sum=shift))


def opened(items: int, signals: int) -> Graph:
    """Lists that are opened, a filter in the region, and a node in it that handles signals from outside."""
    lists = [[1, 2, 3], [], [4], [5, 6]]
    lists = [each for at, each in enumerate(lists) if sum(map(len, lists[: at + 1])) <= items]
    source = ps.from_items([{"values": each} for each in lists], schema={"values": list[int]})
    kept = source.enumerate("values", as_="v").filter(lambda v: v != 5)
    places = [1, 2, 2][:signals]
    control = tuple(ps.at(min(place, len(lists)), Level(at)) for at, place in enumerate(places))
    return Graph(kept.map(w=add, state=Seen).on(Level, sum=shift), control, batch_items=3)


def found(items: int, signals: int) -> Graph:
    """Regions found in the stream, a node in them that handles signals, and an aggregate."""
    source = ps.from_items([{"k": v // 2, "v": v} for v in range(items)], schema={"k": int, "v": int})
    seen = source.regions(by="k").map(w=add, state=Seen).on(Level, sum=shift)
    control = tuple(ps.at(min(place, items), Level(at)) for at, place in enumerate((0, 3, items)[:signals]))
    return Graph(seen.aggregate(total=ps.sum("w"), n=ps.count()), control, batch_items=4)


GRAPHS: dict[str, Callable[[int, int], Graph]] = {"emitted": emitted, "opened": opened, "found": found}
ITEMS, SIGNALS = 6, 3
WAYS = [
    (graph, context, credit)
    for graph, context, credit in product(GRAPHS, ("sparse", "lane", "dense"), CREDITS)
    if (graph, context) != ("emitted", "dense")  # without a region, it is as in lane
]
FLOOR = 200
"""How many states there must be in all queues of one way, so that the search cannot come to nothing unseen."""


@pytest.fixture(autouse=True)
def small_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are handed out often, and are quick to copy."""
    monkeypatch.setattr(sinks, "ROOM", 16)


def explored(graph: Graph, setting: Setting) -> Explored:
    """All orders of one setting, each with the results, and the places of all signals, of the reference."""
    leaves = (graph.stream.node,)
    wanted = reference.run(leaves, graph.control)
    options = {**setting.options(leaves, graph.control), "compile": False, "trace": True}
    count, ends = explore(Run(leaves, graph.control, batch_items=graph.batch_items, clock=lambda: 0.0, **options))
    for world in ends:
        assert difference(wanted, world.result()) is None, (setting, world.path)
    return count


@pytest.mark.parametrize(("graph", "context", "credit"), WAYS)
def test_every_order(graph: str, context: str, credit: str) -> None:
    """Queues that hold the smallest legal number of items and of marks, and one more of each."""
    made, found = GRAPHS[graph](ITEMS, SIGNALS), []
    for width, spare, signals in product((1, 2), (0, 1), (0, 1)):
        found.append(explored(made, Setting(False, context, width, spare, signals, credit)))
    print(f"{graph}, {context}, {credit}: {total(found)}")
    assert total(found).states > FLOOR


@pytest.mark.parametrize(("graph", "context", "credit"), WAYS)
def test_every_order_with_larger_queues(graph: str, context: str, credit: str) -> None:
    found = explored(GRAPHS[graph](ITEMS, SIGNALS), Setting(False, context, 1, 1, 2, credit))
    print(f"{graph}, {context}, {credit}: {found}")
    assert found.states > FLOOR // 2


@pytest.mark.parametrize(("graph", "context", "credit"), WAYS)
def test_every_order_of_fewer_items_and_signals(graph: str, context: str, credit: str) -> None:
    sizes = list(product(range(ITEMS), range(SIGNALS + 1)))
    found = [explored(GRAPHS[graph](*size), Setting(False, context, 2, 0, 1, credit)) for size in sizes]
    print(f"{graph}, {context}, {credit}: {total(found)}")
    assert total(found).states > FLOOR


@pytest.mark.parametrize("threshold", ["none", "most"])
def test_every_order_with_other_thresholds(threshold: str) -> None:
    found = [
        explored(make(ITEMS, SIGNALS), Setting(False, "lane", 1, 1, 1, "balance", threshold))
        for make in GRAPHS.values()
    ]
    print(f"threshold {threshold}: {total(found)}")
    assert total(found).states > FLOOR


@pytest.mark.parametrize("plant", [too_much_credit, too_little_credit, a_node_that_does_not_end])
@pytest.mark.parametrize("credit", CREDITS)
def test_a_fault_in_the_channels_is_found(plant: Callable[[pytest.MonkeyPatch], None], credit: str) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match=r"firing .* (fails|no node)"):
        plant(patch)
        explored(found(ITEMS, SIGNALS), Setting(False, "lane", 2, 1, 3, credit))
