"""The benchmark of the performance model: its cases, what it makes of runs, and the graphs that it draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import benchmarks
from benchmarks import model, model_cases, model_figures, model_graphs
from benchmarks.benchmark import Report
from benchmarks.cluster import Compared
from benchmarks.measure import measure
from benchmarks.records import Case, Run

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report() -> Report:
    return benchmarks.run("model", "tiny", 1)


def test_the_cases_and_their_peers(report: Report) -> None:
    names = [
        *("mutex-01", "mapping-1", "var-16", "variance-50", "block-64", "buffer-1", "net-100", "net-200", "adviser-1"),
    ]
    assert list(dict.fromkeys(run.case for run in report.runs)) == names
    by_case = {name: {run.what for run in report.runs if run.case == name} for name in names}
    assert by_case["mutex-01"] == {"mapped"}
    assert by_case["mapping-1"] == {"on-001", "on-010", "on-011"}
    assert {"one", "pipeline", "flexible"} <= by_case["var-16"]
    assert {"one", "advice"} <= by_case["adviser-1"]


def test_every_run_of_a_graph_has_what_was_predicted(report: Report) -> None:
    for run in report.runs:
        if run.what == "simulator":
            assert run.facts["transitions"] >= int(run.case.removeprefix("net-"))
            continue
        assert run.facts["predicted"] > 0 and run.facts["measured"] == pytest.approx(run.speed)
        assert run.facts["error"] == pytest.approx(run.facts["predicted"] / run.speed - 1)
        assert run.facts["busy_measured"] > 0
        assert 0 < report.ratios[f"predicted/{run.what}@{run.case}"] <= 1


def test_every_target_is_of_something_measured(report: Report) -> None:
    measured = {*report.ratios, *report.speeds}
    assert {"advice/best@adviser-1", "logarithm/growth@net-200", "agreement@applications"} <= measured
    for name in ("predicted/mapped@mutex-01", "tau@mapping-1", "predicted/pipeline@var-16", "simulator@net-1000"):
        assert model.BENCHMARK.target(name) is not None
    assert model.BENCHMARK.target("predicted/one@var-16") is None


def test_the_figures(report: Report, tmp_path: Path) -> None:
    drawn = benchmarks.load("model").draw(report, tmp_path)
    assert [path.name for path in drawn] == [
        *("figure-24.svg", "figure-25.svg", "figure-28.svg", "model-sizes.svg", "simulator.svg", "clusters.svg"),
    ]
    assert {"measured", "predicted"} <= {text.text for text in ElementTree.parse(drawn[0]).getroot().iter(f"{SVG}text")}


def made(what: str, case: str, predicted: float, *speeds: float) -> list[Run]:
    return [Run(what, case, 100, 100 / speed, {"predicted": predicted}) for speed in speeds]


def test_rankings_count_where_runs_do_not_overlap() -> None:
    runs = [*made("a", "mapping-1", 10, 10, 12), *made("b", "mapping-1", 30, 20, 22), *made("c", "mapping-1", 20, 30)]
    assert model.tau(runs) == pytest.approx((2 - 1) / 3)
    assert model.tau([*runs[:4], *made("c", "mapping-1", 20, 21)]) == 1.0  # b and c overlap
    assert model.tau([*runs[:2], *made("c", "mapping-1", 20, 11)]) is None
    assert model.tau([*runs[:2], *made("c", "mapping-1", 10, 30)]) == 0.0


def test_agreement_is_with_the_best_of_the_repeats() -> None:
    runs = [*made("pipeline", "dedup", 11, 8, 10), *made("flexible", "dedup", 18, 20), *made("one", "dedup", 1, 5)]
    found = model.more([*runs, *made("mapped", "mutex-01", 49, 50)])
    assert found == pytest.approx(
        {
            "predicted/pipeline@dedup": 10 / 11,
            "predicted/flexible@dedup": 0.9,
            "predicted/one@dedup": 0.2,
            "predicted/mapped@mutex-01": 0.98,
            "agreement@applications": (10 / 11 + 0.9) / 2,
        }
    )


def test_an_advice_is_held_against_the_best_of_all_others() -> None:
    best = {("advice", "adviser-1"): 97.0, ("one", "adviser-1"): 50.0, ("on-01", "adviser-1"): 100.0}
    best |= {("simulator", "net-100"): 4e6, ("simulator", "net-10000"): 3e6}
    assert model.ratios(best) == {"advice/best@adviser-1": 0.97, "logarithm/growth@net-10000": pytest.approx(1.5)}


def test_jobs_on_spark_count_by_their_median() -> None:
    found = Compared("taxi", "large", "2 workers", 4.5, 5.0, (5.0, 4.0, 6.0))
    (run,) = measure(Case(found.name, (model.cluster_peer(found),)), 3)
    assert (run.what, run.case, run.seconds) == ("cluster", "taxi-large-2 workers", 5.0)
    assert model.more([run]) == {"predicted/cluster@taxi-large-2 workers": pytest.approx(0.9)}
    assert run.facts["error"] == pytest.approx(5.0 / 4.5 - 1)
    measured, predicted = model_figures.cluster_chart(Report("model", "tiny", (run,), {}, {}), "taxi").drawn
    assert (measured.points, predicted.points) == (((1.0, 5.0),), ((1.0, pytest.approx(4.5)),))


@pytest.mark.parametrize("seed", range(1, model.GRAPHS + 1))
def test_random_graphs_end_in_one_task(seed: int) -> None:
    tasks = model.FEWEST + seed % model.SIZES
    graph = model_graphs.random_graph(seed, tasks)
    assert graph == model_graphs.random_graph(seed, tasks)
    befores = [task.before for task in graph.tasks]
    assert len(befores) == tasks and befores[0] == ()
    assert all(before and max(before) < at for at, before in enumerate(befores) if at)
    assert {each for before in befores for each in before} == set(range(tasks - 1)), "only the last is taken by none"
    cores = model_graphs.random_mapping(seed, tasks)
    assert len(cores) == tasks and set(cores) == {0, 1} and cores[0] == 0
    assert graph.busiest_ns(cores) == max(graph.load_ns(cores, 0), graph.load_ns(cores, 1))


def test_some_random_graphs_have_branches_and_some_have_none() -> None:
    joins = [
        any(len(task.before) > 1 for task in model_graphs.random_graph(seed, model.FEWEST + seed % model.SIZES).tasks)
        for seed in range(1, model.GRAPHS + 1)
    ]
    assert 5 <= sum(joins) <= model.GRAPHS - 5


def test_mappings_are_all_different() -> None:
    assert len(set(model_graphs.random_mappings(3, 4, 5))) == 5
    assert sorted(model_graphs.random_mappings(3, 3, 100)) == [(0, 0, 1), (0, 1, 0), (0, 1, 1)]


def test_all_ways_to_run_are_tried() -> None:
    found = list(model_cases.ways(3))
    assert len(found) == len(set(found)) == 4 * 4


def test_uneven_work_changes_from_block_to_block() -> None:
    _, _, leaf = model_graphs.uneven(3 * model_graphs.BLOCK, 100.0)
    source: Any = leaf.node.source.items
    work = next(iter(source.batches(1 << 20)))["one"].to_numpy()
    assert len({*work[: model_graphs.BLOCK]}) == 1 and len({*work}) > 1
