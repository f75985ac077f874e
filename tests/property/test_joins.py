"""Streams that part and meet again: the engine gives what the reference gives, on random graphs and settings."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from tests.property.check import check_channels, difference, expected, try_many
from tests.property.graphs import Case
from tests.property.joins import MOST, from_joined_seed
from tests.property.shrink import shrink

import penstock as ps
from penstock.engine.run import Run
from penstock.graph import nodes
from penstock.graph.nodes.joins import stem
from penstock.graph.tree import Tree

GRAPHS = 400
PARTS = 8
THREADED = GRAPHS
COMPILED = 4
COUNTED = 150
A_FEW = 3


@pytest.mark.parametrize("part", range(PARTS))
def test_joined(part: int) -> None:
    """In parts, so that several processes share them. A failure prints the seed, and the command that repeats it."""
    seeds = range(part, GRAPHS, PARTS)
    assert try_many(seeds, compile=False, check=check_channels, make=from_joined_seed) == len(seeds)


def on_threads(seed: int) -> Case:
    """The graph of a seed, on two or three threads."""
    case = from_joined_seed(seed)
    return replace(case, setting=replace(case.setting, cores=2 + seed % 2))


@pytest.mark.parametrize("part", range(PARTS))
def test_joined_on_threads(part: int) -> None:
    seeds = range(part, THREADED, PARTS)
    assert try_many(seeds, compile=False, check=check_channels, make=on_threads) == len(seeds)


def compiled_case(number: int) -> Case:
    """Of several graphs the smallest, because it takes seconds to compile a large one; fused and unfused in turn."""
    case = min((from_joined_seed(10 * number + at) for at in range(10)), key=lambda case: len(case.lines))
    return replace(case, setting=replace(case.setting, fuse=number % 2 == 0))


@pytest.mark.parametrize("number", range(COMPILED))
def test_compiled(number: int) -> None:
    """Fixed seeds, so that the loops are found compiled on the disk the next time."""
    check_channels(compiled_case(number), compile=True)


def situations(case: Case) -> Iterator[str]:
    """What a test counts."""
    tree = Tree(case.leaves)
    meets = [node for node in tree.nodes if isinstance(node, nodes.Meet)]
    yield "a graph with a meet" if meets else "a graph without"
    yield f"{'fused' if case.setting.fuse else 'unfused'}, heartbeat {case.setting.heartbeat}"
    run = Run(case.leaves, case.control, compile=False, fuse=case.setting.fuse)
    yield from _joints(run, case)
    for meet in meets:
        yield from _about(meet, tree)


def _joints(run: Run, case: Case) -> Iterator[str]:
    joints = [segment.meet for segment in run.plan.segments if segment.sides]
    inside = [node for segment in run.plan.segments for node in segment.nodes if isinstance(node, nodes.Meet)]
    if case.setting.fuse:
        yield from (f"a {type(meet).__name__} in one loop" for meet in inside if meet is not None)
    yield from (f"a {type(meet).__name__} as channels, {case.setting.fuse=}" for meet in joints)
    if case.setting.spare == case.setting.spare_signals == 0 and joints:
        yield "smallest channels"
    if case.control and joints:
        yield "signals from outside"


def _about(meet: nodes.Meet, tree: Tree) -> Iterator[str]:
    fork = tree.fork[meet]
    between = [node for node in tree.below(fork) if meet in tree.below(node)]
    yield "an outer join" if isinstance(meet, nodes.Join) and meet.is_outer else f"a {type(meet).__name__}"
    yield from ("names for who is there",) * bool(getattr(meet, "present", ()))
    yield from (f"{len(meet.sides)} sides",)
    if len(set(meet.sides)) < len(meet.sides):
        yield "a side twice"
    if meet.shape.regions:
        yield f"within {type(meet.shape.regions[-1].opener).__name__}"
    if any(isinstance(node, nodes.Meet) for node in between):
        yield "a join of joins"
    if isinstance(stem(meet.sides[0]), nodes.Regions):
        yield "aggregates of found regions"
    if any(isinstance(node, nodes.Aggregate) for node in between) and fork in meet.sides:
        yield "an aggregate of a list beside its parent"
    yield from _signals(meet, fork, between, tree)
    yield from (f"{type(node).__name__} on a side" for node in between)
    if any(isinstance(node, nodes.Stateful) and node.state is not None and node.given.key for node in between):
        yield "a state by key on a side"


def _signals(meet: nodes.Meet, fork: nodes.GraphNode, between: list[nodes.GraphNode], tree: Tree) -> Iterator[str]:
    for node in tree.nodes:
        if isinstance(node, nodes.Emit) and (node is fork or fork in tree.below(node)):
            yield "a signal from before the streams part"
    for node in between:
        if isinstance(node, nodes.Emit):
            is_behind = stem(node) is stem(meet.sides[0])
            yield "a signal of one side" if is_behind else "a signal from within a list of one side"


WANTED = (
    *("a Merge", "a Join", "an outer join", "names for who is there", "2 sides", "3 sides", "a side twice"),
    *("within Enumerate", "within Regions", "a join of joins", "aggregates of found regions"),
    *("an aggregate of a list beside its parent", "a state by key on a side", "smallest channels"),
    *("signals from outside", "a signal from before the streams part", "a signal of one side"),
    *("a signal from within a list of one side", "MapColumns on a side", "Filter on a side", "Emit on a side"),
    *("a Join in one loop", "a Merge in one loop", "FlatMap on a side", "KeyBy on a side", "Aggregate on a side"),
    *(f"a {kind} as channels, case.setting.fuse={fuse}" for kind in ("Join", "Merge") for fuse in (True, False)),
    *(f"{how}, heartbeat {heartbeat}" for how in ("fused", "unfused") for heartbeat in (None, 0)),
)


def test_every_situation_is_drawn() -> None:
    counted: Counter[str] = Counter()
    for seed in range(COUNTED):
        counted.update(set(situations(from_joined_seed(seed))))
    assert [what for what in WANTED if counted[what] < A_FEW] == []
    assert counted["a graph with a meet"] == COUNTED


def test_graphs_are_small_and_of_any_form() -> None:
    sizes = [len(Tree(from_joined_seed(seed).leaves).nodes) for seed in range(60)]
    assert max(sizes) > MOST
    assert len(set(sizes)) > 8


def test_the_text_of_a_case_is_the_case() -> None:
    """What a failure prints is a program that makes the same graph, with the same results."""
    for seed in range(5):
        case = from_joined_seed(seed)
        program: dict[str, Any] = {"__name__": "program"}
        with redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.InterpretedWarning)
            exec(case.text(), program)
        again = replace(case, leaves=tuple(program["leaves"]), control=tuple(program["control"]))
        assert difference(expected(case), expected(again)) is None


def test_a_case_shrinks_through_meets_and_splits() -> None:
    """To the smallest graph that still joins, which is one line for the source and one for the join."""
    found = shrink(from_joined_seed(3), lambda case: any(".align(" in line for line in case.lines))
    assert [line.split(" = ")[1].split("(")[0] for line in found.lines] == ["ps.from_arrow", "ps.align"]
