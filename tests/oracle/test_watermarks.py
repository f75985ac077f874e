"""Windows, watermarks and late items on all engines against the plain model: random graphs, windows upon windows."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from tests.oracle.draw import FIELDS, Built, Drawn, build, draw
from tests.oracle.model import Outcome, run
from tests.oracle.steps import Window
from tests.spark import simulated
from tests.spark.streaming.running import running

import penstock as ps
from penstock.graph import reference
from penstock.spark.streaming import pages
from penstock.spark.worker import block_writer, inbox

SCHEMA = dict.fromkeys(FIELDS, int)
ENGINES: dict[str, dict[str, Any]] = {
    "fused": {"compile": False},
    "small batches": {"compile": False, "batch_items": 3},
    "channels": {"compile": False, "fuse": False, "width": 2, "capacity": 8},
    "cores": {"compile": False, "cores": 2, "fuse": False, "width": 3},
}


def drawn(seed: int, **given: Any) -> tuple[Drawn, Built, Outcome]:
    found = draw(seed, raises=False, **given)
    return found, build(found.graph, ps.from_items(found.items, schema=SCHEMA)), run(found.graph, found.items)


def seeds(count: int, first: int = 0, **given: Any) -> list[int]:
    """The first seeds whose graphs have windows."""
    found, seed = [], first
    while len(found) < count:
        steps = draw(seed, raises=False, **given).graph.steps
        if any(isinstance(step, Window) for step in steps):
            found.append(seed)
        seed += 1
    return found


def wanted(found: Outcome, built: Built) -> list[list[dict[str, int]]]:
    return [found.rows, *(found.late[number] for number in built.late)]


def rows(tables: Any) -> list[list[dict[str, int]]]:
    return [table.to_pylist() for table in tables]


@pytest.mark.parametrize("seed", seeds(30))
def test_the_reference_means_what_the_model_means(seed: int) -> None:
    case, built, outcome = drawn(seed)
    assert rows(reference.run(built.leaves).tables) == wanted(outcome, built), case


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_in_this_process(engine: str) -> None:
    for seed in seeds(15, 1000):
        case, built, outcome = drawn(seed)
        found = ps.run(built.result, *built.late.values(), spark=False, **ENGINES[engine])
        assert rows(found) == wanted(outcome, built), case


@pytest.mark.parametrize(("is_ordered", "places"), [(False, False), (True, False), (False, True)])
def test_stages_of_a_batch_on_spark(is_ordered: bool, places: bool) -> None:
    in_order = list if is_ordered or places else lambda tables: [sorted(map(str, table)) for table in tables]
    for seed in seeds(15, 2000):
        case, built, outcome = drawn(seed)
        chance = random.Random(seed)
        small = mock.patch.multiple(
            block_writer, BLOCK_ITEMS=chance.choice([1, 2, 1000]), BLOCK_SIGNALS=chance.choice([1, 9])
        )
        with small, mock.patch.object(inbox, "HELD_BYTES", chance.choice([0, 300, 1 << 20])):
            graph: Any = SimpleNamespace(leaves=built.leaves, control=())
            _, found = simulated.run(graph, chance, is_ordered=is_ordered, places=places)
        assert in_order(rows(found.tables)) == in_order(wanted(outcome, built)), case


def test_stages_of_a_running_stream_cut_at_random() -> None:
    for seed in seeds(25, 3000, late=True):
        case = draw(seed, raises=False, late=True)
        chance, empty = random.Random(seed), ps.from_items([], schema=SCHEMA)
        outcome, at, found = run(case.graph, case.items, is_open=True), 0, []
        stream = running(build(case.graph, empty).result, buckets=chance.choice([1, 3]))
        with mock.patch.object(pages, "PAGE_BYTES", chance.choice([1, 400, 1 << 14])):
            while at < len(case.items):
                stop = at + chance.choice([1, 5, 20])
                middle = chance.randint(at, stop)
                found += stream.items(case.items[at:middle], case.items[middle:stop])
                at = stop
        assert sorted(map(str, found)) == sorted(map(str, outcome.rows)), case


def test_compiled_loops() -> None:
    given = ps.from_arrow(pa.Table.from_pylist(draw(7).items))
    windows = given.filter(lambda v: v % 5 != 0).key_by("k", "g").window("t", length=5, every=2, late=3)
    days = windows.aggregate(n=ps.count()).key_by("k").window("start", length=20, late=0, end=None)
    leaves = (days.aggregate(n=ps.sum("n")), windows.late)
    expected = rows(reference.run([leaf.node for leaf in leaves]).tables)
    assert rows(ps.run(*leaves, spark=False)) == rows(ps.run(*leaves, spark=False, fuse=False)) == expected
