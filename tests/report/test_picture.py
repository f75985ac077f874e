"""Pictures: well formed whatever the names, nothing overlapping whatever the graph."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from itertools import combinations, pairwise

import pytest

from penstock.report.mermaid import mermaid
from penstock.report.picture import Arrow, Box, Picture
from penstock.report.picture_svg import svg

SVG = "{http://www.w3.org/2000/svg}"
NASTY = (
    "<b>&amp;\"'</b>",
    "a\nb\tc\rd",
    "]]> <!-- --> <?x?>",
    "日本語 é \u0301 🚰 \u202e",
    "nul \x00 bell \x07 half \ud800 none \uffff",
    "x" * 500,
    "",
    'end; graph "TD" #35; #quot; `code` **b** %%{init: {}}%% $$x$$ \\n |a| [b] {c}',
)


# ---------------------------------------------------------------------------------------------------------------------
# Reading a drawing
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rect:
    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def of(cls, element: ElementTree.Element) -> Rect:
        x, y, width, height = (float(element.attrib[name]) for name in ("x", "y", "width", "height"))
        return cls(x, y, x + width, y + height)

    def overlaps(self, other: Rect) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def holds(self, x: float, y: float) -> bool:
        """Whether the point is inside, and not merely on the edge."""
        return self.left + 0.5 < x < self.right - 0.5 and self.top + 0.5 < y < self.bottom - 0.5

    def encloses(self, other: Rect) -> bool:
        return (
            self.left <= other.left
            and self.top <= other.top
            and self.right >= other.right
            and self.bottom >= other.bottom
        )

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


@dataclass(frozen=True)
class Drawing:
    page: Rect
    boxes: dict[str, Rect]
    groups: list[Rect]
    labels: list[Rect]
    arrows: list[list[tuple[float, float]]]  # points along each


def drawing(picture: Picture) -> Drawing:
    root = ElementTree.fromstring(svg(picture))
    boxes: dict[str, Rect] = {}
    for element in root.iter(f"{SVG}g"):
        if element.get("class") == "penstock-box":
            rect = element.find(f"{SVG}rect")
            assert rect is not None
            boxes[element.attrib["data-id"]] = Rect.of(rect)
    groups, labels = (
        [Rect.of(rect) for rect in root.iter(f"{SVG}rect") if rect.get("class") == f"penstock-{name}"]
        for name in ("group", "label")
    )
    arrows = [points(path.attrib["d"]) for path in root.iter(f"{SVG}path") if path.get("class") == "penstock-arrow"]
    page = Rect(0, 0, float(root.attrib["width"]), float(root.attrib["height"]))
    return Drawing(page, boxes, groups, labels, arrows)


def points(path: str) -> list[tuple[float, float]]:
    """Points along a path made of M, V and C, close enough to tell whether it crosses a box."""
    found: list[tuple[float, float]] = []
    for command, text in re.findall(r"([MVC])([^MVC]*)", path):
        numbers = [float(number) for number in text.split()]
        if command == "M":
            found.append((numbers[0], numbers[1]))
            continue
        x, y = found[-1]
        ends = [x, y, x, y, x, numbers[0], x, numbers[0]] if command == "V" else [x, y, *numbers]
        for step in range(1, 41):
            t = step / 40
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            found.append(
                (
                    sum(w * c for w, c in zip(weights, ends[0::2], strict=True)),
                    sum(w * c for w, c in zip(weights, ends[1::2], strict=True)),
                )
            )
    return found


def check(picture: Picture) -> Drawing:
    """All is on the page; boxes, labels and frames are apart; arrows go round boxes and lead where they should."""
    drawn = drawing(picture)
    assert list(drawn.boxes) == [box.id for box in picture.boxes]
    solid = (*drawn.boxes.values(), *drawn.labels)
    assert len(drawn.labels) == sum(bool(arrow.label) for arrow in picture.arrows)
    assert all(drawn.page.encloses(rect) for rect in (*solid, *drawn.groups))
    assert not [pair for pair in combinations(solid, 2) if pair[0].overlaps(pair[1])]
    assert not [pair for pair in combinations(drawn.groups, 2) if pair[0].overlaps(pair[1])]
    for box in picture.boxes:
        around = [frame for frame in drawn.groups if frame.overlaps(drawn.boxes[box.id])]
        assert len(around) == (box.group is not None)
        assert all(frame.encloses(drawn.boxes[box.id]) for frame in around)
    for arrow, way in zip(picture.arrows, drawn.arrows, strict=True):
        crossed = [name for name, rect in drawn.boxes.items() if any(rect.holds(*point) for point in way)]
        assert not crossed, (arrow, crossed)
        start, end = drawn.boxes[arrow.start], drawn.boxes[arrow.end]
        assert way[0][1] == pytest.approx(start.bottom, abs=0.11)
        assert start.left < way[0][0] < start.right
        assert way[-1][1] == pytest.approx(end.top - 7, abs=0.11)
        assert end.left < way[-1][0] < end.right
        assert all(upper[1] <= lower[1] + 1e-6 for upper, lower in pairwise(way))
    return drawn


# ---------------------------------------------------------------------------------------------------------------------
# Pictures to draw
# ---------------------------------------------------------------------------------------------------------------------


def chain(count: int, group: str | None = None) -> Picture:
    boxes = tuple(Box(f"b{at}", f"step {at}", kind="map", group=group) for at in range(count))
    arrows = tuple(Arrow(f"b{at}", f"b{at + 1}") for at in range(count - 1))
    return Picture(boxes, arrows, {} if group is None else {group: "one compiled loop"})


def fan(count: int) -> Picture:
    leaves = tuple(Box(f"leaf{at}", f"map {at}" + "!" * at, ("x: int64",) * (at % 3)) for at in range(count))
    return Picture((Box("root", "source", kind="source"), *leaves), tuple(Arrow("root", x.id) for x in leaves), {})


def random_picture(seed: int, parents: int) -> Picture:
    """A random tree, or for more parents than one a random graph, with fused subtrees, labels and regions."""
    rng = random.Random(seed)
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    for at in range(rng.randrange(2, 40)):
        above = sorted({rng.randrange(max(0, at - 7), at) for _ in range(rng.randint(1, parents))}) if at else []
        if rng.random() < 0.05:
            above = []
        fresh = rng.choice([None, f"g{at}", f"g{at}"])
        group = boxes[above[0]].group if above and rng.random() < 0.6 else fresh
        depth = max(0, (boxes[above[0]].depth if above else 0) + rng.choice([-1, 0, 0, 1]))
        details = tuple("field: float64"[: rng.randrange(15)] for _ in range(rng.randrange(4)))
        boxes.append(Box(f"b{at}", "node " * rng.randrange(1, 9), details, rng.choice(KINDS), group, depth))
        for other in above:
            label = rng.choice(["", "", "", "cut", "the chain ends here, because it must"])
            arrows.append(Arrow(f"b{other}", f"b{at}", label, control=rng.random() < 0.1))
    groups = {box.group: f"chain {box.group} · one loop" for box in boxes if box.group is not None}
    return Picture(tuple(boxes), tuple(arrows), groups, f"seed {seed}")


KINDS = ("source", "map", "filter", "flat_map", "hooks", "open", "close", "key", "signal", "columns", "sink", "odd")


def blob_sums() -> Picture:
    boxes = (
        Box("s", "read_parquet blobs/", ("id: int64", "values: list<float>"), "source"),
        Box("e", "enumerate values as v", ("v: float64",), "open", "c1", 1),
        Box("f", "filter v > 0", (), "filter", "c1", 1),
        Box("m", "map v", ("v: float64",), "map", "c1", 1),
        Box("t", "aggregate total", ("total: float64",), "close", "c1"),
        Box("c", "aggregate count", ("n: int64",), "close", "c1"),
        Box("n", "map_columns normalise", ("score: float64",), "columns"),
    )
    cut = Arrow("t", "n", "whole columns: the chain ends here")
    arrows = (Arrow("s", "e"), Arrow("e", "f"), Arrow("f", "m"), Arrow("m", "t"), Arrow("f", "c"), cut)
    return Picture(boxes, arrows, {"c1": "chain 1 · one compiled loop"}, "blob sums")


# ---------------------------------------------------------------------------------------------------------------------
# Layout
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_a_random_tree_is_drawn_without_collisions(seed: int) -> None:
    check(random_picture(seed, parents=1))


@pytest.mark.parametrize("seed", range(60))
def test_a_random_graph_is_drawn_without_collisions(seed: int) -> None:
    check(random_picture(seed, parents=3))


@pytest.mark.parametrize("count", [1, 2, 200])
@pytest.mark.parametrize("group", [None, "c1"])
def test_a_chain_is_a_straight_line(count: int, group: str | None) -> None:
    drawn = check(chain(count, group))
    assert len({rect.middle for rect in drawn.boxes.values()}) == 1
    assert len({round(x, 3) for way in drawn.arrows for x, _ in way}) <= 1


def test_a_chain_far_deeper_than_the_stack_is_drawn() -> None:
    assert svg(chain(3000)).count("penstock-box") == 3000


@pytest.mark.parametrize("count", [2, 3, 40])
def test_a_fan_keeps_its_order_below_the_middle_of_its_parent(count: int) -> None:
    root, *leaves = check(fan(count)).boxes.values()
    assert all(one.right < other.left for one, other in pairwise(leaves))
    assert len({leaf.top for leaf in leaves}) == 1
    assert root.middle == pytest.approx((leaves[0].middle + leaves[-1].middle) / 2, abs=0.2)


def test_a_join_stands_below_the_middle_of_its_parents() -> None:
    boxes = tuple(Box(name, f"node {name}") for name in "sabj")
    arrows = tuple(Arrow(*pair) for pair in ("sa", "sb", "aj", "bj"))
    drawn = check(Picture(boxes, arrows, {})).boxes
    assert drawn["s"].middle == pytest.approx(drawn["j"].middle, abs=0.2)
    assert drawn["a"].right < drawn["b"].left


def test_a_group_is_one_frame_around_its_subtree_only() -> None:
    drawn = check(blob_sums())
    assert len(drawn.groups) == 1
    assert drawn.boxes["n"].top > drawn.groups[0].bottom


def test_an_arrow_leaves_a_chain_beside_what_follows_in_it() -> None:
    boxes = (Box("r", "root", group="c"), *(Box(f"m{at}", "step", group="c") for at in range(3)), Box("x", "outside"))
    arrows = (Arrow("r", "x"), Arrow("r", "m0"), Arrow("m0", "m1"), Arrow("m1", "m2"))
    drawn = check(Picture(boxes, arrows, {"c": "chain"}))
    assert len(drawn.groups) == 1
    assert drawn.boxes["x"].top > drawn.groups[0].bottom


def test_a_group_that_is_left_and_entered_again_is_drawn_in_two_frames() -> None:
    boxes = (Box("a", "a", group="c"), Box("b", "b"), Box("d", "d", group="c"))
    arrows = (Arrow("a", "b"), Arrow("b", "d"), Arrow("a", "d"))
    assert len(check(Picture(boxes, arrows, {"c": "chain"})).groups) == 2


def test_pieces_that_do_not_hang_together_stand_side_by_side() -> None:
    boxes = tuple(Box(name, name, group="c") for name in "abcd")
    drawn = check(Picture(boxes, (Arrow("a", "b"), Arrow("c", "d")), {"c": "chain"}))
    assert len(drawn.groups) == 2
    assert drawn.boxes["a"].right < drawn.boxes["c"].left


def test_an_empty_picture_is_a_small_panel() -> None:
    root = ElementTree.fromstring(svg(Picture((), (), {})))
    assert float(root.attrib["width"]) > 0
    assert "empty picture" in "".join(root.itertext())


# ---------------------------------------------------------------------------------------------------------------------
# Text
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY)
def test_any_name_gives_well_formed_xml_and_keeps_its_id(name: str) -> None:
    boxes = (Box(name, name, (name, name), name, name, 1), Box("other", name))
    picture = Picture(boxes, (Arrow(name, "other", name),), {name: name}, name)
    drawn = drawing(picture)
    kept = "".join("\ufffd" if letter in "\x00\x07\ud800\uffff" else letter for letter in name)
    assert list(drawn.boxes) == [kept, "other"]


def test_long_text_is_cut_short_and_told_in_full_by_a_tooltip() -> None:
    lines = ("<detail> " * 60, *(f"field{at}" for at in range(30)))
    root = ElementTree.fromstring(svg(Picture((Box("a", "title & " * 50, lines),), (), {})))
    texts = {element.text or "": element.findtext(f"{SVG}title") for element in root.iter(f"{SVG}text")}
    title, detail, *rest = texts
    assert title.endswith("…") and texts[title] == "title & " * 50
    assert detail.endswith("…") and texts[detail] == lines[0]
    assert texts[rest[0]] is None
    assert rest[-1] == "… 24 more" and texts[rest[-1]] == "\n".join(lines[7:])


def test_the_svg_stands_alone() -> None:
    text = svg(random_picture(3, parents=2))
    root = ElementTree.fromstring(text)
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    assert not re.search(r"<script|<style|<image|href=|url\(|@import| id=", text)


def test_regions_show_as_rails_where_they_are_open() -> None:
    def rails(box: str) -> list[str]:
        root = ElementTree.fromstring(svg(blob_sums()))
        (group,) = (element for element in root.iter(f"{SVG}g") if element.get("data-id") == box)
        return [path.attrib["d"] for path in group.iter(f"{SVG}path")]

    assert [len(rails(box)) for box in ("s", "e", "f", "m", "t", "c", "n")] == [0, 1, 1, 1, 1, 1, 0]


def test_drawing_twice_gives_the_same_text() -> None:
    for seed in range(5):
        assert svg(random_picture(seed, 3)) == svg(random_picture(seed, 3))
        assert mermaid(random_picture(seed, 3)) == mermaid(random_picture(seed, 3))


# ---------------------------------------------------------------------------------------------------------------------
# Mermaid
# ---------------------------------------------------------------------------------------------------------------------


def test_mermaid_says_the_same_as_the_picture() -> None:
    boxes = (Box("a", "read", (), "source"), Box("b", "map", ("v int64",), "map", "c"), Box("d", "odd", (), "??", "c"))
    arrows = (Arrow("a", "b", "cut"), Arrow("a", "d", control=True), Arrow("b", "d", "why", control=True))
    assert mermaid(Picture(boxes, arrows, {"c": "one loop", "unused": "nothing"})).splitlines() == [
        "flowchart TD",
        '  subgraph g0["one loop"]',
        '    n1["map<br/>v int64"]:::kind_map',
        '    n2["odd"]:::kind_other',
        "  end",
        '  n0["read"]:::kind_source',
        '  n0 -->|"cut"| n1',
        "  n0 -.-> n2",
        '  n1 -.->|"why"| n2',
        "  class g0 group",
        "  classDef group fill:#f0f2f6,stroke:#d3d9e3,color:#56627a",
        "  classDef kind_map fill:#f2f3fa,stroke:#5b6bc0,color:#1f2430",
        "  classDef kind_other fill:#f3f4f5,stroke:#6b7280,color:#1f2430",
        "  classDef kind_source fill:#eff3f8,stroke:#3b6ea5,color:#1f2430",
    ]


@pytest.mark.parametrize("name", NASTY)
def test_mermaid_labels_hold_no_special_character(name: str) -> None:
    text = mermaid(
        Picture((Box(name, name, (name,), name, name), Box("x", "x")), (Arrow(name, "x", name),), {name: name})
    )
    labels = re.findall(r'"([^"]*)"', text)
    assert text.count('"') == 2 * len(labels) == (8 if name else 6)  # an arrow without label has none
    for label in labels:
        plain = re.sub(r"#\d+;", "", label.replace("<br/>", ""))
        assert re.fullmatch(r"[\w ,()=]*", plain)


def test_mermaid_labels_can_be_read_back() -> None:
    (label,) = re.findall(r'\["(.*)"\]', mermaid(Picture((Box("a", 'say "hi" & <go> #1;'),), (), {})))
    assert re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label) == 'say "hi" & <go> #1;'


# ---------------------------------------------------------------------------------------------------------------------
# Refusals
# ---------------------------------------------------------------------------------------------------------------------


def test_two_boxes_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match=r"picture 'p': every box must have its own id; got 'a' twice; rename"):
        Picture((Box("a", "x"), Box("a", "y")), (), {}, "p")


@pytest.mark.parametrize("arrow", [Arrow("a", "z"), Arrow("z", "a")])
def test_an_arrow_to_nowhere_is_refused(arrow: Arrow) -> None:
    with pytest.raises(ValueError, match=r"must join two boxes of the picture; got 'z', which is none; add the box"):
        Picture((Box("a", "x"),), (arrow,), {})


def test_a_group_without_caption_is_refused() -> None:
    with pytest.raises(ValueError, match=r"group of box 'a' must be one of \['c'\]; got 'g'; add it with a caption"):
        Picture((Box("a", "x", group="g"),), (), {"c": "chain"})


@pytest.mark.parametrize("pairs", [("aa",), ("ab", "ba")])
def test_a_cycle_is_refused(pairs: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"without a cycle; got one at or above 'a'; drop the arrow that goes back"):
        Picture((Box("a", "x"), Box("b", "y")), tuple(Arrow(*pair) for pair in pairs), {})


def test_a_negative_depth_is_refused() -> None:
    with pytest.raises(ValueError, match=r"box 'a': depth counts open regions, so it must be 0 or more; got -1"):
        Box("a", "x", depth=-1)
