"""Flexible nodes: copies help, and what comes out, its order and the places of signals stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.graph.placed import flexible

import penstock as ps
from penstock.errors import FunctionError, GraphError
from penstock.graph import reference


class Level(ps.Signal):
    level: int


class Held(ps.State):
    level: int


def some(v: int) -> Iterator[int]:
    for at in range(v % 3):
        yield v * 10 + at


def numbers(count: int = 200) -> ps.Stream:
    return ps.from_numpy({"v": np.arange(count)}, name="numbers")


def graphs() -> dict[str, ps.Stream]:
    items = numbers()
    groups = items.map(g=lambda v: v // 7).regions(by="g")
    signals = flexible(items.emit(Level, when=lambda v: v % 9 == 0, level=lambda v: v).map(w=lambda v: 2 * v))
    return {
        "map": flexible(items.map(w=lambda v: v * v)).map(z=lambda w: w + 1),
        "a result": flexible(items.map(w=lambda v: v * v)),
        "filter": flexible(items.filter(lambda v: v % 3 == 0)).map(z=lambda v: v + 1),
        "flat_map": flexible(items.flat_map(some, to="w", at_most=2)).map(z=lambda w: w + 1),
        "select": flexible(items.select("v")).map(z=lambda v: v + 1),
        "two in a row": flexible(flexible(items.map(w=lambda v: v * v)).map(z=lambda w: w + 1)).filter(lambda z: z > 9),
        "in regions": flexible(groups.filter(lambda v: v % 2 == 0)).map(z=lambda v, g: v + g).aggregate(s=ps.sum("z")),
        "signals": signals.map(n=lambda w, state: w + state.level, state=Held).on(
            Level, level=lambda signal: signal.level
        ),
        "a side": ps.align(flexible(items.filter(lambda v: v % 2 == 0)).map(a=lambda v: v), items.map(b=lambda v: v)),
    }


NAMES = list(graphs())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("copies", [1, 2])
def test_copies_change_nothing(name: str, copies: int) -> None:
    stream = graphs()[name]
    wanted = reference.run((stream.node,)).tables[0]
    for capacity, credit, width in [(2, "queued", 1), (2, "balance", None), (5, "queued", 3), (None, "balance", 16)]:
        found = stream.collect(
            spark=False,
            cores=1 + copies,
            fuse=False,
            capacity=capacity,
            capacity_signals=None if capacity is None else capacity + 8,
            credit=credit,
            width=width,
            policy="random",
            seed=copies,
            compile=False,
            check=True,
        )
        assert found.equals(wanted.cast(found.schema)), (capacity, credit, width)


def test_without_cores_a_node_is_alone() -> None:
    stream = flexible(numbers().map(w=lambda v: v * v)).map(z=lambda w: w + 1)
    run = stream.prepare(spark=False)
    assert run.collect()["z"].to_pylist() == [v * v + 1 for v in range(200)]
    assert len(run.statistics().nodes) == 1


def test_copies_take_what_the_node_has_no_room_for() -> None:
    stream = flexible(numbers(20_000).map(w=lambda v: v * v)).map(z=lambda w: w + 1)
    run = stream.prepare(spark=False, fuse=False, cores=2, capacity=64, width=32, compile=False)
    assert run.collect()["z"].to_pylist() == [v * v + 1 for v in range(20_000)]
    items = {node.name: node.items for node in run.statistics().nodes}
    assert items["map 'w'"] + items["map 'w' (copy 1)"] == 20_000
    assert items["merge of map 'w'"] == 20_000


def test_compiled_copies() -> None:
    stream = flexible(numbers(300_000).map(w=lambda v: (v * v) % 1000)).filter(lambda w: w > 500)
    assert stream.collect(spark=False, fuse=False, cores=2, width=4096).equals(stream.collect(spark=False))


def test_an_error_in_a_copy_names_the_item() -> None:
    stream = flexible(numbers(500).map(w=lambda v: 1 // (v - 321))).map(z=lambda w: w)
    for capacity in (1, 8, 600):
        with pytest.raises(FunctionError, match="321"):
            stream.collect(spark=False, fuse=False, cores=2, capacity=capacity, width=1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: flexible(s.map(n=lambda v, state: v, state=Held)), "flexible: must remember nothing"),
        (lambda s: flexible(s.key_by("v")), "flexible: must be a map, filter, flat_map, map_columns or select"),
        (
            lambda s: flexible(s.map(w=lambda v: v), 0),
            "copies must be a whole number of at least 1; got 0",
        ),
    ],
)
def test_what_cannot_be_flexible_is_refused(build: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        build(numbers())


def test_more_copies_than_cores_are_refused() -> None:
    stream = flexible(numbers().map(w=lambda v: v), 2)
    with pytest.raises(GraphError, match="'w' is to have 2 copies beside its own, each on another core; there are 2"):
        stream.collect(spark=False, cores=2)


def test_explain_tells_where_loops_and_their_copies_are_at_work() -> None:
    first = numbers().map(a=lambda v: v + 1)
    second = flexible(first.map(b=lambda a: 2 * a))
    run = second.map(c=lambda b: b - 1).prepare(spark=False, cores=2, mapping={first: 0, second: 1}, compile=False)
    told = [line for line in run.explain().splitlines() if line.startswith("loop ")]
    assert told == [
        "loop 1, interpreted as asked for, on core 0: it reads the source",
        "loop 2, interpreted as asked for, on core 1, and 1 copy on others: map 'b' is flexible, and its copies are "
        "loops like its own",
        "loop 3, interpreted as asked for, on core 1: the loop before is flexible: what its copies give is put in "
        "order here",
    ]
