from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine.statistics import EdgeStatistics, Firing, Statistics
from penstock.report import timeline

SVG = "{http://www.w3.org/2000/svg}"


def edge(sender: str, receiver: str) -> EdgeStatistics:
    return EdgeStatistics(sender, receiver, "lane", *[0] * 10)


def firing(node: str, start_ms: float, ms: float, core: int = 0, items: int = 4, outputs: int = 4) -> Firing:
    return Firing(node, 100 + start_ms / 1e3, ms / 1e3, items, 0, outputs, core)


TWO_CORES = Statistics(
    4,
    0.01,
    (),
    (edge("a", "b"), edge("b", "c")),
    (firing("a", 0, 2), firing("b", 2, 3, core=1), firing("a", 2, 2), firing("c", 9, 1, core=1, outputs=0)),
)


def lines(text: str, colour: str) -> int:
    return len(re.findall(f'stroke="{colour}"', text))


def test_each_core_has_a_lane_of_what_it_did() -> None:
    first, second = timeline.lanes(TWO_CORES)
    assert [(b.node, b.start, b.stop) for b in first.blocks] == [("a", 0, 2_000_000), ("a", 2_000_000, 4_000_000)]
    assert [(b.node, b.start, b.stop) for b in second.blocks] == [
        ("b", 2_000_000, 5_000_000),
        ("c", 9_000_000, 10_000_000),
    ]
    assert (first.core, second.core, first.span, second.span) == (0, 1, 10_000_000, 10_000_000)
    assert (first.busy, second.busy) == (0.4, 0.4)


def test_stalls_are_the_gaps() -> None:
    first, second = timeline.lanes(TWO_CORES)
    assert list(first.waits(1)) == [(4_000_000, 10_000_000)]
    assert list(second.waits(1)) == [(0, 2_000_000), (5_000_000, 9_000_000)]
    assert list(second.waits(3_000_000)) == [(5_000_000, 9_000_000)]
    text = timeline.svg(TWO_CORES)
    assert "core 1 waits 4 ms" in text and "core 0 waits 6 ms" in text


def test_sends_and_receives_between_cores_are_marked() -> None:
    text = timeline.svg(TWO_CORES)
    assert lines(text, timeline._SEND) == 2  # of a; c gave nothing, and b is on the core of c
    assert lines(text, timeline._RECEIVE) == 1
    on_one = Statistics(4, 0.01, (), TWO_CORES.edges, tuple(firing(name, at, 1) for at, name in enumerate("abc")))
    assert lines(timeline.svg(on_one), timeline._SEND) == lines(timeline.svg(on_one), timeline._RECEIVE) == 0


def test_sends_of_a_flexible_node_are_those_of_its_split_and_its_copies() -> None:
    names = [("a", 0), ("split of b", 0), ("b", 1), ("b (copy 1)", 0), ("merge of b", 1), ("c", 1)]
    firings = tuple(firing(name, at, 1, core=core) for at, (name, core) in enumerate(names))
    senders, receivers = timeline._crossing(Statistics(4, 0.01, (), TWO_CORES.edges, firings))
    assert senders == {"split of b", "b (copy 1)"}
    assert receivers == {"b", "merge of b"}


def test_the_drawing_is_whole_and_tells_what_each_block_is() -> None:
    many = tuple(firing("a<&>", 3 * at, 1, core=at % 3) for at in range(50))
    text = timeline.svg(Statistics(4, 1.0, (), (), many), title="what <was>")
    root = ElementTree.fromstring(text)
    [lanes] = root.findall(f"{SVG}svg")
    blocks = [rect for rect in lanes.findall(f"{SVG}rect") if "a<&>" in (rect.findtext(f"{SVG}title") or "")]
    assert len(blocks) == 50
    assert all(0 <= float(b.attrib["x"]) <= float(b.attrib["x"]) + float(b.attrib["width"]) <= 1e6 + 1 for b in blocks)
    assert "a<&>: 1 ms from 3 ms, 4 items in, 4 out" in (found.text for found in root.iter(f"{SVG}title"))
    assert root.attrib["aria-label"] == "what <was>"


def test_many_firings_become_few_blocks() -> None:
    close = tuple(firing("a", at * 0.001, 0.0009) for at in range(20_000))
    apart = (firing("b", 20.5, 0.001), firing("a", 21, 1))
    [lane] = timeline.lanes(Statistics(4, 1.0, (), (), (*close, *apart)), most=100)
    assert len(lane.blocks) < 100
    assert sum(block.firings for block in lane.blocks) == 20_002
    assert all(before.stop <= after.start for before, after in pairwise(lane.blocks))


def test_a_run_on_two_cores(tmp_path: Path) -> None:
    first = ps.from_items([{"v": v} for v in range(40)]).map(w=lambda v: 2 * v)
    second = first.filter(lambda w: w > 10)
    last = second.map(x=lambda w: w + 1)
    options: dict[str, Any] = {"fuse": False, "width": 4, "compile": False, "trace": True}
    run: Any = last.prepare(**options, cores=2, mapping={first: 0, second: 1, last: 1})
    run.collect()
    statistics = run.statistics()
    assert {(f.node, f.core) for f in statistics.firings} == {("map 'w'", 0), ("filter", 1), ("map 'x'", 1)}
    assert [lane.core for lane in timeline.lanes(statistics)] == [0, 1]
    timeline.write(statistics, tmp_path / "run.html", "a run")
    page = (tmp_path / "run.html").read_text()
    assert page.startswith("<!doctype html>") and "<title>a run</title>" in page and "wheel" in page
    assert not re.search(r"(src|href)=", page), "a page must need nothing but itself"
    timeline.write(statistics, tmp_path / "run.svg")
    ElementTree.parse(tmp_path / "run.svg")


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    run: Any = ps.from_items([{"v": 1}]).map(w=lambda v: v).prepare(compile=False)
    run.collect()
    with pytest.raises(ps.GraphError, match="must note its firings; there are none; prepare it with trace=True"):
        timeline.svg(run.statistics())
    with pytest.raises(ps.GraphError, match=r"must end in .html or .svg; got '.*run.png'"):
        timeline.write(TWO_CORES, tmp_path / "run.png")
