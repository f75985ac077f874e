"""Flexible nodes: with copies on other cores a graph gives what the reference gives, on random graphs and settings."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.property.check import check_channels, try_many
from tests.property.flexible import CORES, from_flexible_seed
from tests.property.graphs import Case
from tests.property.settings import parse
from tests.property.shrink import shrink

from penstock.engine.flexible.copy_split import FlexSplit
from penstock.engine.run import Run
from penstock.graph import nodes
from penstock.plan.segment import Segment

GRAPHS = 304
PARTS = 8
COMPILED = 3
COUNTED = 120
A_FEW = 3


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads that are real take turns as often as can be."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.parametrize("part", range(PARTS))
def test_flexible(part: int) -> None:
    """In parts, so that several processes share them. A failure prints the seed, and the command that repeats it."""
    seeds = range(part, GRAPHS, PARTS)
    assert try_many(seeds, compile=False, check=check_channels, make=from_flexible_seed) == len(seeds)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-core")]


def compiled_case(number: int) -> Case:
    """Of several graphs with copies the smallest, because it takes seconds to compile a large one."""
    cases = [from_flexible_seed(12 * number + at) for at in range(12)]
    case = min((case for case in cases if flexible_segments(case)), key=lambda case: len(case.lines))
    return replace(case, setting=replace(case.setting, fuse=number % 2 == 0))


@pytest.mark.parametrize("number", range(COMPILED))
def test_compiled(number: int) -> None:
    """Fixed seeds, so that the loops are found compiled on the disk the next time."""
    check_channels(compiled_case(number), compile=True)


# What is drawn


def flexible_segments(case: Case) -> list[Segment]:
    """What has copies in a run of a case."""
    return [segment for segment in planned(case).plan.segments if segment.copies]


def planned(case: Case) -> Run:
    placed = case.setting.placed(case.leaves)
    return Run(case.leaves, case.control, compile=False, fuse=case.setting.fuse, heartbeat="never", **placed)


def situations(case: Case) -> Iterator[str]:
    """What a test counts."""
    setting = case.setting
    yield f"on {setting.cores} cores"
    yield f"credit {setting.credit}"
    if setting.cores == 1:
        return
    yield "steps" if setting.steps is not None else "costs" if setting.costs is not None else "threads"
    yield "cores as given" if setting.mapping is not None else "cores as chosen"
    run = planned(case)
    flexible = [segment for segment in run.plan.segments if segment.copies]
    if not flexible:
        yield "none flexible"
    if setting.spare == setting.spare_signals == 0 and flexible:
        yield "smallest channels"
    for segment in flexible:
        yield f"{segment.copies} copies"
        yield from _about(run, segment, case)


def _about(run: Run, segment: Segment, case: Case) -> Iterator[str]:
    node = segment.only
    if node is None:
        yield "a join by cases"
        return
    behind = run.plan.tree.below(node)
    yield f"a {type(node).__name__}, fuse={case.setting.fuse}"
    yield from (f"within {type(region.opener).__name__}" for region in node.shape.regions[-1:])
    if segment.feeder is not None and segment.feeder.copies:
        yield "two in a row"
    if node in case.leaves:
        yield "a result"
    if any(isinstance(each, nodes.Meet) for each in run.plan.tree.children[node]):
        yield "before a join"
    if isinstance(node.inputs[0], nodes.Meet):
        yield "behind a join"
    if any(isinstance(each, nodes.Stateful) and each.handlers for each in behind):
        yield "signals pass by"
    if len(run.plan.tree.children[node]) > 1:
        yield "several outputs"


WANTED = (
    *(f"on {cores} cores" for cores in CORES),
    *("credit queued", "credit balance", "steps", "costs", "threads", "cores as given", "cores as chosen"),
    *("smallest channels", "two in a row", "a result", "before a join", "behind a join", "signals pass by"),
    *(
        "a join by cases",
        "several outputs",
        "within Enumerate",
        "within Regions",
        "1 copies",
        "2 copies",
        "3 copies",
        "5 copies",
    ),
    *(f"a {kind}, fuse={fuse}" for kind in ("Map", "Filter", "FlatMap", "Select") for fuse in (True, False)),
    *(f"a MapColumns, fuse={fuse}" for fuse in (True, False)),
)


def test_every_situation_is_drawn() -> None:
    counted: Counter[str] = Counter()
    for seed in range(COUNTED):
        counted.update(set(situations(from_flexible_seed(seed))))
    assert [what for what in WANTED if counted[what] < A_FEW] == []
    assert counted["none flexible"] < COUNTED // 5


def test_copies_have_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most graphs do not only have copies: these help, in more than one run."""
    runs: list[int] = []
    original = FlexSplit._end_run

    def end_run(self: FlexSplit) -> None:
        if self.current:
            runs.append(self.current)
        original(self)

    monkeypatch.setattr(FlexSplit, "_end_run", end_run)
    helped = 0
    for seed in range(20):
        runs.clear()
        check_channels(from_flexible_seed(seed))
        helped += len(runs) > 1
    assert helped >= 5


def test_a_seed_makes_one_graph_and_one_setting() -> None:
    for seed in range(10):
        case, again = from_flexible_seed(seed), from_flexible_seed(seed)
        assert case.text() == again.text()
        assert case.setting == again.setting == parse(str(case.setting))


def test_a_case_shrinks_to_one_flexible_node() -> None:
    found = shrink(from_flexible_seed(3), lambda case: any("flexible(" in line for line in case.lines))
    assert len(found.lines) <= 3
    assert "flexible(" in found.lines[-1]
