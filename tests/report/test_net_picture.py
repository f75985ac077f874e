"""Pictures of nets: well-formed, everything in them, and nothing on top of anything else."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from penstock.errors import ModelError
from penstock.report.net_picture import picture
from penstock.tune.model import Arc, Net, Place, Platform, Task, Transition, net_of

SVG = "{http://www.w3.org/2000/svg}"
TASKS = Task("a & b", 2, "core 1"), Task("b", 2, "core 2"), Task("c", 3, "core 3", ("core 2",))
EXAMPLE = Platform(TASKS, (Arc("a & b", "b", capacity=2), Arc("b", "c", capacity=9)), tokens=3, memory=2)


def test_every_transition_and_place_is_in_the_picture() -> None:
    net = net_of(EXAMPLE)
    root = ElementTree.fromstring(picture(net).svg())
    told = [element.text or "" for element in root.iter() if element.tag in (f"{SVG}text", f"{SVG}title")]
    for name in (*(t.name for t in net.transitions), *(p.name for p in net.places)):
        assert any(name in text for text in told), name


def test_bars_and_circles_lie_inside_and_apart() -> None:
    root = ElementTree.fromstring(picture(net_of(EXAMPLE)).svg())
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    rects = [
        {key: float(r.get(key, "0")) for key in ("x", "y", "width", "height", "rx")} for r in root.iter(f"{SVG}rect")
    ]
    bars = [(r["x"], r["y"], r["x"] + r["width"], r["y"] + r["height"]) for r in rects if r["rx"] == 3]
    rings = [c for c in root.iter(f"{SVG}circle") if c.get("fill") == "#ffffff"]
    boxes = bars + [
        (
            float(c.get("cx", "0")) - 12,
            float(c.get("cy", "0")) - 12,
            float(c.get("cx", "0")) + 12,
            float(c.get("cy", "0")) + 12,
        )
        for c in rings
    ]
    for number, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0 and top >= 0 and right <= width and bottom <= height
        for other in boxes[:number]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_data_in_a_circle_can_be_drawn() -> None:
    net = Net(
        (Place("p", 1), Place("q")), (Transition("t", 1, {"p": 1}, {"q": 1}), Transition("u", 1, {"q": 1}, {"p": 1}))
    )
    ElementTree.fromstring(picture(net)._repr_svg_())


def test_it_is_saved(tmp_path: Path) -> None:
    assert picture(net_of(EXAMPLE)).save(tmp_path / "net.svg").read_text().startswith("<svg")
    with pytest.raises(ModelError, match=r"the name must end in .svg; got 'net.png'"):
        picture(net_of(EXAMPLE)).save(tmp_path / "net.png")


def test_a_net_too_large_to_read_is_refused() -> None:
    core = {"core": 1}
    net = Net((Place("core", 1),), tuple(Transition(f"t{n}", 1, core, core) for n in range(301)))
    with pytest.raises(ModelError, match="at most 300 transitions to be drawn; got 301"):
        picture(net)
