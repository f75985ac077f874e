"""The benchmark of variance: filtering, buffers, fusing, delay, and a join by itself."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

import benchmarks
import penstock as ps
from benchmarks import variance, variance_join, variance_pixels
from benchmarks.benchmark import Report
from examples.variance import PIXELS, build, pieces
from penstock.engine.statistics import Firing

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report() -> Report:
    return benchmarks.run("variance", "tiny", 1)


def test_the_cases_and_their_peers(report: Report) -> None:
    names = ["16-90", "zeros-90", "holds-256", "holds-1024", "join"]
    assert list(dict.fromkeys(run.case for run in report.runs)) == names
    by_case = {name: {run.what for run in report.runs if run.case == name} for name in names}
    assert by_case["16-90"] == {"penstock", *variance.WAYS}
    assert {"penstock", "all", "unfused", "threads", "threads-all", "welford", "numpy"} <= by_case["zeros-90"]
    assert by_case["holds-256"] == {"penstock", "one-thread", "two-threads"}
    assert by_case["join"] == {"penstock", "channels", "merge"}


def test_every_target_is_of_something_measured(report: Report) -> None:
    targets = [
        target.name for target in benchmarks.load("variance").targets if "@16-" in target.name or "@join" in target.name
    ]
    assert len(targets) == 4 and {*targets} <= {*report.ratios, *report.speeds}
    assert {"threads/threads-all@16-90", "filter/beat@16-90", "penstock/unfused@zeros-90"} <= set(report.ratios)


def test_delays_are_told_of_the_runs_that_are_traced(report: Report) -> None:
    told = {run.what for run in report.runs if "delay_ms" in run.facts}
    assert told == {"one-thread", "two-threads"}
    for run in report.runs:
        if run.what in told:
            assert 0 < run.facts["delay_ms"] <= run.facts["longest_ms"] <= 1e3 * run.seconds


def test_the_figures(report: Report, tmp_path: Path) -> None:
    drawn = benchmarks.load("variance").draw(report, tmp_path)
    assert [path.name for path in drawn] == ["figure-4.svg", "delay.svg"]
    for path, names in zip(drawn, (set(variance.WAYS), {"one-thread", "two-threads"}), strict=True):
        assert names <= {text.text for text in ElementTree.parse(path).getroot().iter(f"{SVG}text")}


@pytest.mark.parametrize("filtered", [True, False], ids=["filtered", "all"])
def test_pixel_by_pixel_the_answer_is_that_of_the_application(filtered: bool) -> None:
    images = pa.Table.from_batches(pieces(5, zeros=0.8))
    right = build(ps.from_arrow(images)).collect()
    given = variance_pixels.pixels(images)
    for options in ({"capacity": 32, "heartbeat": 16}, {"capacity": 1024, "heartbeat": 0, "trace": True}, {"cores": 2}):
        assert variance_pixels.by_pixels(given, filtered, options).table.equals(right)


def test_buffers_mean_fewer_heartbeats() -> None:
    given = variance_pixels.pixels(pa.Table.from_batches(pieces(5, zeros=0.8)))
    small, large = (
        variance_pixels.by_pixels(given, True, variance.WAYS[way].options(16)).facts["beats"]
        for way in ("filter", "filter-buffer")
    )
    assert small > 4 * large


def test_a_delay_is_from_the_last_pixel_taken_to_the_row_given() -> None:
    firings = (
        Firing("filter", 0.0, 1.0, PIXELS + 1, 0, 100),  # the first image, and a pixel of the second
        Firing("flat_map 'mean'", 1.0, 1.0, 100, 0, 1),
        Firing("map 'deviation'", 2.0, 1.0, 1, 0, 1),
        Firing("filter", 4.0, 1.0, PIXELS - 1, 0, 100),
        Firing("map 'deviation'", 4.5, 0.0, 0, 0, 0),
        Firing("map 'deviation'", 5.0, 1.0, 1, 0, 1),
    )
    assert variance_pixels.delay_facts(firings) == {"delay_ms": 2500.0, "longest_ms": 3000.0}
    assert variance_pixels.delay_facts(firings[:2]) == {}


def test_the_pass_alone_finds_what_both_sides_have() -> None:
    sides = np.array([1, 2, 4, 5]), np.array([0, 2, 3, 5, 6])
    assert variance_join.aligned(*sides).tolist() == [2, 5]
