from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

from penstock import DataError, bench
from penstock.bench import measure
from penstock.bench.measure import Benchmark, Case, Peer, Run, Target

CASES = {
    "regions-local": ["4", "32", "33", "128", "129", "2048", "0-64"],
    "taxi-local": ["lines"],
    "keyed-local": ["54", "1000"],
}


@pytest.mark.parametrize("name", bench.NAMES)
def test_the_report_of_a_benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "first_results", lambda function, repeats: [])
    report = json.loads(json.dumps(bench.run(name, "tiny", 2).as_dict()))
    assert list(report) == ["name", "scale", "runs", "ratios"]
    assert (report["name"], report["scale"]) == (name, "tiny")
    assert list(dict.fromkeys(run["case"] for run in report["runs"])) == CASES[name]
    for run in report["runs"]:
        assert list(run) == ["what", "case", "items", "seconds"]
        assert run["items"] > 0 and run["seconds"] > 0
    for case in CASES[name]:
        peers = [run["what"] for run in report["runs"] if run["case"] == case]
        assert set(peers[: len(peers) // 2]) == set(peers[len(peers) // 2 :]), "repeats are interleaved"
        assert {"penstock", "hand", "python"} <= set(peers)
        assert report["ratios"][f"penstock/hand@{case}"] > 0
    assert ("fastest/slowest" in report["ratios"]) == (name == "regions-local")


def test_a_first_result_in_fresh_processes() -> None:
    runs = measure.first_results("penstock.bench.regions_local:first_result", 1)
    assert [run.what for run in runs] == ["penstock-cold", "penstock-warm"]
    assert {run.case for run in runs} == {"first-result"}
    assert list(measure.ratios(runs, even=False)) == ["warm/cold@first-result"]


def test_ratios_are_of_the_best_speeds() -> None:
    runs = [
        Run("penstock", "a", 100, 2.0),
        Run("penstock", "a", 100, 1.0),
        Run("hand", "a", 100, 0.5),
        Run("python", "a", 10, 10.0),
        Run("penstock", "b", 100, 4.0),
    ]
    found = measure.ratios(runs, even=True)
    assert found == {"penstock/hand@a": 0.5, "penstock/python@a": 100.0, "fastest/slowest": 0.25}


def test_a_target_covers_all_cases_of_its_ratio() -> None:
    targets = (Target("penstock/hand", 0.8), Target("fastest/slowest", 0.5))
    benchmark = Benchmark("b", "", "M items/s", lambda scale: [], "m:f", targets)
    assert benchmark.target("penstock/hand@33") == 0.8
    assert benchmark.target("fastest/slowest") == 0.5
    assert benchmark.target("penstock/python@33") is None


def test_peers_that_disagree_are_an_error() -> None:
    def peer(what: str, value: int) -> Peer:
        return Peer(what, lambda: pa.table({"v": [value]}), 1)

    assert len(measure.measure(Case("c", (peer("penstock", 1), peer("hand", 1))), 3)) == 6
    with pytest.raises(DataError, match="at c, hand must give the same 1 rows as penstock"):
        measure.measure(Case("c", (peer("penstock", 1), peer("hand", 2))), 1)


def test_each_repeat_begins_with_another_peer() -> None:
    peers = tuple(Peer(what, lambda: pa.table({"v": [1]}), 1) for what in "abc")
    assert "".join(run.what for run in measure.measure(Case("c", peers), 4)) == "abcbcacababc"


def test_one_core_is_given_back() -> None:
    threads = pa.cpu_count()
    with measure.one_core():
        assert pa.cpu_count() == 1
    assert pa.cpu_count() == threads


def test_a_time_is_taken_around_the_work_alone() -> None:
    seconds, answer = measure.timed(lambda: pa.table({"v": [1]}))
    assert 0 < seconds < math.inf
    assert answer.num_rows == 1
