"""The benchmark of heartbeat intervals."""

from __future__ import annotations

import pytest

import benchmarks
from benchmarks import heartbeat
from benchmarks.records import Run
from penstock.errors import InternalError
from penstock.plan.heartbeat.cycles import Edge


def test_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "CYCLE_EDGES_MOST", 1000)  # the cycles of dense-20 have more
    report = benchmarks.run("heartbeat", "tiny", 1)
    names = ["10", "20", "dense-10", "dense-20"]
    assert list(dict.fromkeys(run.case for run in report.runs)) == names
    by_case = {name: {run.what for run in report.runs if run.case == name} for name in names}
    for name in names:
        listed = set() if name == "dense-20" else {"cycles"}
        assert by_case[name] == {"penstock", "minimum"} | listed
        assert (f"sum/largest@{name}" in report.ratios) == (f"penstock/cycles@{name}" in report.ratios) == bool(listed)
    assert all(0.9 < ratio <= 1 for name, ratio in report.ratios.items() if name.startswith("sum/largest"))
    assert all(run.facts["sum"] >= run.facts["smallest"] >= 0 for run in report.runs)


def test_the_targets() -> None:
    runs = [Run("penstock", "20000", 20_000, 5.0, {"sum": 10}), Run("penstock", "10", 10, 5.0, {"sum": 10})]
    runs.append(Run("cycles", "10", 10, 50.0, {"sum": 10}))
    best = {(run.what, run.case): run.speed for run in runs}
    assert heartbeat.ratios(best) == {"penstock/cycles@10": 10.0, "allowed/penstock@20000": 3.0}
    assert heartbeat.shares(runs) == {"sum/largest@10": 1.0}
    assert heartbeat.BENCHMARK.target("allowed/penstock@20000") == 1.0
    assert heartbeat.BENCHMARK.target("sum/largest@10") == 0.98
    assert heartbeat.BENCHMARK.target("penstock/cycles@10") is None


def test_unsafe_intervals_are_found_in_both_ways() -> None:
    edges = [Edge(0, 1, 8), Edge(1, 2, 8), Edge(0, 2, 8)]
    known = heartbeat.inequalities(edges, 100)
    assert known is not None
    assert known.hold([3, 4, 7]) and not known.hold([4, 4, 7]) and not known.hold([3, 3, 8])
    for inequalities in (None, known):
        graph = heartbeat.Graph(3, edges, inequalities)
        assert graph.checked([3, 4, 7]).facts == {"sum": 14, "smallest": 3}
        with pytest.raises(InternalError, match="3 edges must be safe"):
            graph.checked([4, 4, 7])


def test_cycles_are_left_out_where_they_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = heartbeat.random_graph(10, 2)
    assert heartbeat.by_cycles(graph) is not None
    monkeypatch.setattr(heartbeat, "PATIENCE_S", 0.0)
    assert heartbeat.by_cycles(graph) is None


def test_the_graphs_are_the_same_every_time() -> None:
    assert heartbeat.random_graph(30, 4).edges == heartbeat.random_graph(30, 4).edges
    assert heartbeat.random_graph(30, 4).count == 7
