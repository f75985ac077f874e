from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

import benchmarks
from benchmarks import measure, speeds
from benchmarks.benchmark import Benchmark, Report
from benchmarks.records import Answer, Case, Peer, Run, Target
from penstock import DataError, InternalError

CASES = {
    "regions-local": ["4", "32", "33", "128", "129", "2048", "0-64"],
    "taxi-local": ["lines"],
    "keyed-local": ["54", "1000"],
}


@pytest.mark.parametrize("name", CASES)
def test_the_report_of_a_benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "first_results", lambda function, repeats: [])
    report = json.loads(json.dumps(benchmarks.run(name, "tiny", 2).as_dict()))
    assert list(report) == ["name", "scale", "runs", "ratios", "speeds", "stopped"]
    assert (report["name"], report["scale"]) == (name, "tiny")
    assert list(dict.fromkeys(run["case"] for run in report["runs"])) == CASES[name]
    for run in report["runs"]:
        assert list(run) == ["what", "case", "items", "seconds", "facts"]
        assert run["items"] > 0 and run["seconds"] > 0
    for case in CASES[name]:
        peers = [run["what"] for run in report["runs"] if run["case"] == case]
        assert set(peers[: len(peers) // 2]) == set(peers[len(peers) // 2 :]), "repeats are interleaved"
        assert {"penstock", "hand", "python"} <= set(peers)
        assert report["ratios"][f"penstock/hand@{case}"] > 0
    assert ("fastest/slowest" in report["ratios"]) == (name == "regions-local")


def test_a_first_result_in_fresh_processes() -> None:
    runs = measure.first_results("benchmarks.regions_local:first_result", 1)
    assert [run.what for run in runs] == ["penstock-cold", "penstock-warm"]
    assert {run.case for run in runs} == {"first-result"}
    assert list(speeds.warm_over_cold(speeds.best_speeds(runs))) == ["warm/cold@first-result"]


def test_ratios_are_of_the_best_speeds() -> None:
    runs = [
        Run("penstock", "a", 100, 2.0),
        Run("penstock", "a", 100, 1.0),
        Run("hand", "a", 100, 0.5),
        Run("python", "a", 10, 10.0),
        Run("penstock", "b", 100, 4.0),
    ]
    best = speeds.best_speeds(runs)
    assert speeds.penstock_over_peers(best) == {"penstock/hand@a": 0.5, "penstock/python@a": 100.0}
    assert speeds.slowest_over_fastest(best) == {"fastest/slowest": 0.25}
    assert speeds.over_best(best, "python", ("penstock", "hand")) == {"python/best@a": 0.005}
    assert speeds.warm_over_cold(best) == {}


def benchmark(*targets: Target, cases: tuple[Case, ...] = ()) -> Benchmark:
    return Benchmark("b", "", "M items/s", lambda scale: cases, targets, speeds.penstock_over_peers)


def test_an_interrupt_ends_with_what_was_measured() -> None:
    def interrupted() -> Answer:
        raise KeyboardInterrupt

    table = pa.table({"a": [1]})
    first = Case("first", (Peer("penstock", lambda: Answer(table), 1),))
    second = Case("second", (Peer("penstock", interrupted, 1),))
    report = benchmark(cases=(first, second)).run("tiny", 2)
    assert ([run.case for run in report.runs], report.stopped) == (["first"] * 2, "second")
    with pytest.raises(KeyboardInterrupt):
        benchmark(cases=(second, first)).run("tiny", 2)


def test_only_the_cases_that_match_are_made_and_measured() -> None:
    def unmade() -> tuple[Peer, ...]:
        raise AssertionError("nobody has asked for it")

    cases = (Case("touch-1", lambda: [peer("penstock", 1)]), Case("growth", unmade))
    report = benchmark(cases=cases).run("tiny", 1, only=["touch-*"])
    assert [run.case for run in report.runs] == ["touch-1"]
    with pytest.raises(DataError, match=r"a pattern must match a case of b; got 'grow', and there are touch-1, growth"):
        benchmark(cases=cases).run("tiny", 1, only=["grow"])


def test_a_target_covers_all_cases_of_its_ratio() -> None:
    aimed = benchmark(Target("penstock/hand", 0.8), Target("fastest/slowest", 0.5))
    assert aimed.target("penstock/hand@33") == 0.8
    assert aimed.target("fastest/slowest") == 0.5
    assert aimed.target("penstock/python@33") is None


def test_a_target_may_be_for_one_case() -> None:
    aimed = benchmark(Target("penstock/hand@33", 0.8))
    assert aimed.target("penstock/hand@33") == 0.8
    assert aimed.target("penstock/hand@3") is None
    assert aimed.target("penstock/hand") is None


def test_a_target_may_be_a_speed() -> None:
    cases = tuple(Case(name, (peer("penstock", 1), peer("hand", 1))) for name in "cd")
    report = benchmark(Target("hand@c", 1e6), cases=cases).run("tiny", 2)
    fastest = max(run.speed for run in report.runs if (run.what, run.case) == ("hand", "c"))
    assert report.speeds == {"hand@c": fastest}
    assert set(report.ratios) == {"penstock/hand@c", "penstock/hand@d"}


def peer(what: str, value: int) -> Peer:
    return Peer(what, lambda: pa.table({"v": [value]}), 1)


def test_peers_that_disagree_are_an_error() -> None:
    assert len(measure.measure(Case("c", (peer("penstock", 1), peer("hand", 1))), 3)) == 6
    with pytest.raises(DataError, match="at c, hand must give the same 1 rows as penstock"):
        measure.measure(Case("c", (peer("penstock", 1), peer("hand", 2))), 1)


def test_each_repeat_begins_with_another_peer() -> None:
    peers = tuple(Peer(what, lambda: pa.table({"v": [1]}), 1) for what in "abc")
    assert "".join(run.what for run in measure.measure(Case("c", peers), 4)) == "abcbcacababc"


def test_one_core_is_given_back() -> None:
    threads = pa.cpu_count()
    with measure.on_cores(1):
        assert pa.cpu_count() == 1
    assert pa.cpu_count() == threads


def test_a_time_is_taken_around_the_work_alone() -> None:
    seconds, answer = measure.timed(lambda: pa.table({"v": [1]}))
    assert 0 < seconds < math.inf
    assert answer.num_rows == 1


def watched(must: dict[str, float]) -> Case:
    answer = Answer(pa.table({"v": [1]}), {"occupancy": 0.25, "full_share": 0.0})
    return Case("c", (peer("penstock", 1), Peer("sparse", lambda: answer, 1, must=must)))


def test_a_run_keeps_the_facts_that_it_saw() -> None:
    plain, told = measure.measure(watched({"occupancy": 0.25}), 1)
    assert plain.facts == {}
    assert told.facts == {"occupancy": 0.25, "full_share": 0.0}


def test_a_fact_that_must_be_otherwise_is_an_error() -> None:
    with pytest.raises(InternalError, match=r"at c, sparse must come to occupancy 0\.5; it came to 0\.25"):
        measure.measure(watched({"occupancy": 0.5}), 1)


def test_a_line_has_the_fastest_run_of_each_case_that_was_run() -> None:
    runs = (Run("a", "1", 10, 2.0), Run("a", "1", 10, 1.0), Run("a", "2", 10, 3.0), Run("b", "1", 10, 4.0))
    line = Report("b", "tiny", runs, {}, {}).line("a", ("1", "2", "3"), lambda run: (float(run.case), run.seconds))
    assert (line.name, line.points) == ("a", ((1.0, 1.0), (2.0, 3.0)))
