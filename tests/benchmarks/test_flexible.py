"""The benchmark of flexible filters: what it chooses, what it compares, and its figures. Times mean nothing here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import flexible, flexible_made
from benchmarks.benchmark import Report
from benchmarks.measure import measure
from benchmarks.records import Case, Run
from penstock.plan.node_profile import Profile


def dear(found: flexible.Flexed, name: str) -> flexible.Flexed:
    """The same with a profile in which one node takes most of the time."""
    nodes = [
        replace(node, seconds=(9.0 if name in node.name else 1.0), per_item_s=(9e-5 if name in node.name else 1e-5))
        for node in found.profile.nodes
    ]
    return replace(found, profile=Profile(found.profile.sample, tuple(nodes)))


@pytest.fixture(scope="module")
def radar() -> flexible.Flexed:
    return flexible.radar(flexible.AT["tiny"], 7.3, 16)


def test_the_bottleneck_is_made_flexible(radar: flexible.Flexed) -> None:
    found = dear(radar, "kinds")
    node, gains = found.node
    assert node.label == "map 'cells', 'kinds'" and gains
    assert found.ideal == pytest.approx(10 / 6)  # of 12 parts, the busiest core has 10, and half of all are 6
    case = Case("cfar", found.peers)
    assert [peer.what for peer in case.made()] == ["one", "pipeline", "flexible"]
    runs = measure(case, 1)
    assert set(runs[-1].facts) == {"ideal", "passing", "helped"}
    assert set(flexible.more(runs)) == {"flexible/ideal@cfar", "work/all@cfar"}


def test_where_nothing_gains_a_node_is_forced_too(radar: flexible.Flexed) -> None:
    even = replace(
        radar, profile=Profile(1, tuple(replace(n, seconds=1.0, per_item_s=1e-9) for n in radar.profile.nodes))
    )
    assert [peer.what for peer in even.peers()] == ["one", "pipeline", "flexible", "forced"]


def test_the_bottleneck_moves() -> None:
    runs = measure(Case("moving", flexible_made.moving_peers(0.002, 2)), 1)
    assert {run.what for run in runs} == {"one", "pipeline", "flexible"}


def test_the_figures() -> None:
    facts = {"ideal": 1.5, "passing": 0.01}
    made = [(what, case) for what in ("pipeline", "flexible") for case in ("work-30", "work-100", "block-64")]
    runs = tuple(Run(what, case, 100, 1.0, facts) for what, case in made)
    report = Report("flexible", "tiny", runs, {f"flexible/pipeline@{case}": 1.2 for _, case in made}, {})
    assert list(flexible.work_chart(report).series[0].points) == [(30.0, 1.2), (100.0, 1.2)]
    assert len(flexible.block_chart(report).series) == 2
