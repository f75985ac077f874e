"""The benchmarks of contexts: `occupancy` and `context`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import benchmarks
from benchmarks import context, occupancy
from benchmarks.benchmark import Report
from benchmarks.records import Run

CASES = {
    "occupancy": [
        *("32", "127", "128", "129", "0-32", "0-127", "0-128", "0-129"),
        *("wide-32", "wide-128", "wide-1024", "wide-16384", "chain"),
    ],
    "context": ["4", "8", "wide-4", "wide-8"],
}
FIGURES = {"occupancy": ["figure-6.svg", "figure-7.svg"], "context": ["figure-8.svg"]}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=CASES)
def report(request: pytest.FixtureRequest) -> Report:
    return benchmarks.run(request.param, "tiny", 1)


def names_of(report: Report) -> set[str]:
    return {run.what for run in report.runs}


def test_the_cases_and_their_runs(report: Report) -> None:
    assert list(dict.fromkeys(run.case for run in report.runs)) == CASES[report.name]
    assert all(run.items > 0 and run.seconds > 0 for run in report.runs)
    known = json.loads(json.dumps(report.as_dict()))
    assert list(known) == ["name", "scale", "runs", "ratios", "speeds", "stopped"]
    assert known["runs"][1]["facts"] == dict(report.runs[1].facts)


def test_auto_is_compared_with_the_best_at_every_case(report: Report) -> None:
    wanted = {f"auto/best@{case}" for case in CASES[report.name] if case != "chain"}
    assert wanted <= set(report.ratios)
    assert all(benchmarks.load(report.name).target(name) == 0.9 for name in wanted)


def test_all_figures_are_drawn_with_a_line_for_each(report: Report, tmp_path: Path) -> None:
    drawn = benchmarks.load(report.name).draw(report, tmp_path)
    assert [path.name for path in drawn] == FIGURES[report.name]
    for path in drawn:
        root = ElementTree.parse(path).getroot()
        assert root.tag == f"{SVG}svg"
        texts = {text.text for text in root.iter(f"{SVG}text")}
        assert texts >= names_of(report) - {"unfused"} and "unfused" not in texts
        assert "no data" not in path.read_text(encoding="utf-8")


# Occupancy


def test_the_sizes_stand_around_the_multiples_of_the_width() -> None:
    sizes = occupancy.AT["full"].sizes
    assert sizes[:7] == (16, 32, 64, 96, 127, 128, 129)
    assert sizes[-3:] == (960, 1023, 1024)
    assert {multiple + beside for multiple in range(128, 1024, 128) for beside in (-1, 0, 1)} <= set(sizes)
    assert set(occupancy.AT["small"].sizes) < set(sizes)


@pytest.mark.parametrize("size", [16, 100, 127, 128, 129, 256, 300])
@pytest.mark.parametrize("context", ["sparse", "dense", "lane"])
def test_the_occupancy_is_what_arithmetic_says(size: int, context: str) -> None:
    table = occupancy.fixed(3000, size)
    answer = occupancy.by_unfused(table, context)
    items = 3000 // size * size
    in_one = size if context == "sparse" else items
    ensembles = items // in_one * -(-in_one // 128)
    assert answer.facts["occupancy"] == items / (128 * ensembles)
    assert answer.facts["full_share"] == items // in_one * (in_one // 128) / ensembles
    assert occupancy.unfused_peer(table, context, 128, size).must == {"occupancy": answer.facts["occupancy"]}


def test_what_auto_or_random_sizes_come_to_is_not_told_before() -> None:
    table = occupancy.fixed(256, 32)
    assert occupancy.unfused_peer(table, "auto", 128, 32).must == {}
    assert occupancy.unfused_peer(table, "sparse", 128, None).must == {}


def test_a_part_of_the_data_is_whole_regions() -> None:
    table = occupancy.fixed(1000, 100)
    assert occupancy.count(occupancy.first_regions(table, 250)) == 200
    assert occupancy.count(occupancy.first_regions(table, 300)) == 300
    assert occupancy.count(occupancy.first_regions(table, 1)) == 100
    assert occupancy.count(occupancy.first_regions(table, 5000)) == 1000


def test_what_is_aimed_at_besides_auto() -> None:
    ratios = {(what, f"wide-{size}"): 1.0 for size in occupancy.WIDE_SIZES for what in (*occupancy.UNFUSED, "fused")}
    aimed = {name: occupancy.BENCHMARK.target(name) for name in occupancy.ratios(ratios)}
    assert aimed["lane/sparse@wide-32"] == 50
    assert aimed["lane/fused@wide-32"] == 0.25
    assert aimed["lane/sparse@wide-128"] is None
    assert occupancy.BENCHMARK.target("unfused@chain") == 100e6
    assert occupancy.BENCHMARK.target("fused@chain") is None


# Context


def test_a_version_chooses_the_context_of_each_channel() -> None:
    chosen = {}
    for version in context.GIVEN:
        run = context.prepared(context.data(2), version, 128)
        run.collect()
        chosen[version] = [edge.context for edge in run.statistics().edges][1:]  # the first carries no regions
    assert chosen == {
        "sparse": ["sparse"] * 3,
        "sparse-dense": ["sparse", "dense", "dense"],
        "dense": ["dense"] * 3,
        "lane": ["lane"] * 3,
    }


def test_dense_fills_the_stage_that_it_leads_to() -> None:
    lines = context.data(30)
    sparse, mixed, dense = (context.by_version(lines, version, 128).facts for version in context.GIVEN[:3])
    assert sparse["stage_1_full_share"] == mixed["stage_1_full_share"] < dense["stage_1_full_share"]
    assert sparse["stage_2_full_share"] < mixed["stage_2_full_share"] == dense["stage_2_full_share"]
    assert 0.85 < sparse["stage_1_full_share"] < 0.95  # 91 % and 9 % in the paper
    assert sparse["stage_2_full_share"] < 0.2


def test_the_note_of_the_figure_tells_the_shares() -> None:
    facts = {"stage_1_full_share": 0.911, "stage_2_full_share": 0.09}
    runs = tuple(Run(version, "8", 1, 1.0, facts) for version in context.GIVEN)
    assert context.shares(Report("context", "tiny", runs, {}, {}), "8") == (
        "Full ensembles of stages 1 and 2: 91% and 9% (sparse), 91% and 9% (sparse-dense), 91% and 9% (dense)."
    )
