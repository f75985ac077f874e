"""Whole plans as text. To write them anew, after a look at what changed: PENSTOCK_SNAPSHOTS=write pytest tests/plan."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.plan.cases import CASES

import penstock as ps
from penstock.codegen.generate import LOOPS, PASSES
from penstock.graph import nodes
from penstock.plan.describe import describe
from penstock.plan.make import plan
from penstock.plan.passes import fuse
from penstock.plan.plan import Plan
from penstock.plan.request import PlanRequest

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_as_it_was(name: str) -> None:
    path, found = SNAPSHOTS / f"{name.replace(' ', '_').replace(',', '')}.txt", describe(CASES[name].plan()) + "\n"
    if os.environ.get("PENSTOCK_SNAPSHOTS") == "write":
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_every_kind_of_node_is_planned() -> None:
    planned = [node for case in CASES.values() for node in case.plan().tree.nodes]
    assert {type(node) for node in planned} == set(nodes.KINDS)


def test_every_way_to_be_cut_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    used: Counter[str] = Counter()

    def counted(rule: Any) -> Any:
        def count(*given: Any) -> str | None:
            reason: str | None = rule(*given)
            used[rule.__name__] += reason is not None
            return reason

        return count

    names = {rule.__name__ for rule in fuse.RULES}
    monkeypatch.setattr(fuse, "RULES", tuple(counted(rule) for rule in fuse.RULES))
    reasons = {segment.reason for case in CASES.values() for segment in case.plan().segments}
    assert {name for name in names if not used[name]} == set()
    assert reasons >= {fuse.READS, fuse.MEETS, fuse.GIVES, fuse.FLEXIBLE, fuse.IN_ORDER}


def test_every_pass_adds_to_some_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: Counter[str] = Counter()
    for case in CASES.values():
        made = Plan.of(case.plan().tree.leaves, PlanRequest(**case.asked))
        for each in PASSES:
            after = each(made)
            changed[each.__name__] += after != made
            made = after
    assert all(changed[each.__name__] for each in PASSES)
    assert PASSES[: len(LOOPS)] == LOOPS


def test_a_plan_is_frozen() -> None:
    with pytest.raises(AttributeError):
        CASES["chain"].plan().segments = ()  # type: ignore[misc]


@pytest.mark.parametrize("fuse", [True, False])
def test_chained_diamonds_are_planned_in_no_time(fuse: bool) -> None:
    """Each of them doubles the ways from the source to the result."""
    stream = ps.from_items([{"v": 1}])
    for _ in range(24):
        stream = ps.align(stream.filter(lambda v: v > 0), stream.map(w=lambda v: v)).select("v")
    assert plan((stream.node,), PlanRequest(fuse=fuse, capacity=8)).segments
