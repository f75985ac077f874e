"""Charts: every point where its axes say, ticks at round numbers, and nothing over anything else."""

from __future__ import annotations

import math
import random
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.errors import GraphError
from penstock.report.chart import Chart, Series, figure, save, svg
from penstock.report.drawing import text_width, wrapped

SVG = "{http://www.w3.org/2000/svg}"
NASTY = ("<b>&amp;\"'</b>", "a\nb\tc", "]]> <!-- --> <?x?>", "日本語 é 🚰", "nul \x00 half \ud800", "x" * 500, "")

Place = tuple[float, float]


# ---------------------------------------------------------------------------------------------------------------------
# Reading a drawing
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A line of text; x and y are those of its anchor, on the page."""

    words: str
    x: float
    y: float
    size: float
    anchor: str

    @property
    def left(self) -> float:
        return self.x - self.width * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def width(self) -> float:
        return text_width(self.words, self.size)

    @property
    def middle(self) -> float:
        """Halfway up a digit, where the tick is."""
        return self.y - 0.35 * self.size


@dataclass(frozen=True)
class Line:
    places: list[Place]
    markers: list[Place]
    look: tuple[str, str]  # colour and shape of the markers
    dashed: bool
    tooltips: list[str]


@dataclass(frozen=True)
class Drawn:
    """One chart as it stands on the page."""

    left: float
    top: float
    right: float
    bottom: float
    lines: dict[str, Line]
    x_ticks: list[Text]
    y_ticks: list[Text]
    legend: list[Text]
    legend_looks: list[tuple[str, str]]
    note: list[Text]
    texts: list[Text]  # all that are not turned

    def holds(self, place: Place) -> bool:
        return self.left <= place[0] <= self.right and self.top <= place[1] <= self.bottom


def drawn(chart: Chart) -> Drawn:
    (only,) = charts(svg(chart))
    return only


def charts(text: str) -> list[Drawn]:
    root = ElementTree.fromstring(text)
    return [read(element) for element in root.iter(f"{SVG}g") if element.get("class") == "penstock-chart"]


def page(text: str) -> tuple[float, float]:
    root = ElementTree.fromstring(text)
    return float(root.attrib["width"]), float(root.attrib["height"])


def read(chart: ElementTree.Element) -> Drawn:
    left, top = moved(chart)
    (plot,) = (rect for rect in chart.iter(f"{SVG}rect") if rect.get("class") == "penstock-plot")
    assert (plot.attrib["x"], plot.attrib["y"]) == ("0", "0")
    parts = {name: part(chart, name) for name in ("legend", "x-ticks", "y-ticks", "note")}
    series = [element for element in chart.iter(f"{SVG}g") if element.get("class") == "penstock-series"]
    turned = [element for element in chart.iter(f"{SVG}g") if "rotate" in element.get("transform", "")]
    aside = {id(text) for element in turned for text in element.iter(f"{SVG}text")}
    return Drawn(
        left,
        top,
        left + float(plot.attrib["width"]),
        top + float(plot.attrib["height"]),
        {element.attrib["data-name"]: line(element, left, top) for element in series},
        texts(parts["x-ticks"].iter(f"{SVG}text"), left, top),
        texts(parts["y-ticks"].iter(f"{SVG}text"), left, top),
        texts(parts["legend"].iter(f"{SVG}text"), left, top),
        [look(marker) for marker in markers(parts["legend"])],
        texts(parts["note"].iter(f"{SVG}text"), left, top),
        texts((text for text in chart.iter(f"{SVG}text") if id(text) not in aside), left, top),
    )


def part(chart: ElementTree.Element, name: str) -> ElementTree.Element:
    (found,) = (element for element in chart.iter(f"{SVG}g") if element.get("class") == f"penstock-{name}")
    return found


def moved(element: ElementTree.Element) -> Place:
    found = re.match(r"translate\((\S+) (\S+)\)", element.attrib["transform"])
    assert found is not None
    return float(found[1]), float(found[2])


def texts(elements: Iterable[ElementTree.Element], left: float, top: float) -> list[Text]:
    return [
        Text(
            element.text or "",
            left + float(element.attrib["x"]),
            top + float(element.attrib["y"]),
            float(element.attrib["font-size"]),
            element.get("text-anchor", "start"),
        )
        for element in elements
    ]


def markers(element: ElementTree.Element) -> list[ElementTree.Element]:
    return [path for path in element.iter(f"{SVG}path") if path.get("class") == "penstock-point"]


def look(marker: ElementTree.Element) -> tuple[str, str]:
    return marker.attrib["fill"], marker.attrib["d"]


def line(series: ElementTree.Element, left: float, top: float) -> Line:
    (path,) = (path for path in series.iter(f"{SVG}path") if path.get("class") is None)
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.attrib["d"])]
    points = markers(series)
    (same,) = {(*look(point), path.attrib["stroke"]) for point in points}
    assert same[0] == same[2]
    return Line(
        [(left + x, top + y) for x, y in zip(numbers[::2], numbers[1::2], strict=True)],
        [(left + x, top + y) for x, y in map(moved, points)],
        same[:2],
        "stroke-dasharray" in path.attrib,
        [point.findtext(f"{SVG}title") or "" for point in points],
    )


def check(text: str) -> list[Drawn]:
    """Points and ticks are on their plots, texts on the page and apart, and legends above the plots."""
    width, height = page(text)
    found = charts(text)
    for chart in found:
        for one in chart.lines.values():
            assert all(map(chart.holds, (*one.places, *one.markers)))
        assert all(chart.left <= tick.x <= chart.right and tick.y > chart.bottom for tick in chart.x_ticks)
        assert all(chart.top - 0.1 <= tick.middle <= chart.bottom + 0.1 for tick in chart.y_ticks)
        assert all(tick.right < chart.left for tick in chart.y_ticks)
        assert all(one.right < other.left for one, other in pairwise(chart.x_ticks))
        assert all(lower.y - upper.y > upper.size for upper, lower in pairwise(chart.y_ticks[::-1]))
        for ticks in (chart.x_ticks, chart.y_ticks):
            assert len({tick.words for tick in ticks}) == len(ticks)
            assert len(ticks) >= 2 or not chart.lines
        assert all(entry.y + entry.size / 2 < chart.top for entry in chart.legend)
        assert not [
            pair for pair in pairwise(chart.legend) if pair[0].y == pair[1].y and pair[0].right >= pair[1].left - 34
        ]
        assert all(one.left >= 0 and one.right <= width and one.size <= one.y <= height for one in chart.texts)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Charts to draw
# ---------------------------------------------------------------------------------------------------------------------


def chart(*series: Series, log_x: bool = False, log_y: bool = False, note: str = "") -> Chart:
    return Chart("Speed of sums", "threads", "items per second", series, log_x, log_y, note)


def up(*values: float, name: str = "values") -> Series:
    """These values, at 0, 1, 2, …"""
    return Series(name, tuple(enumerate(values)))


def along(*values: float, name: str = "values") -> Series:
    """These values across, and 1, 2, 3, … up."""
    return Series(name, tuple((value, at) for at, value in enumerate(values, 1)))


def random_chart(seed: int) -> Chart:
    rng = random.Random(seed)
    log_x, log_y = rng.random() < 0.5, rng.random() < 0.5

    def value(log: bool, size: float, spread: float, offset: float) -> float:
        return size * 10 ** rng.uniform(0, spread) if log else size * (rng.uniform(-1, 1) + offset)

    def values(log: bool) -> list[float]:
        size, spread = 10 ** rng.uniform(-14, 14), rng.choice([0.1, 1, 3, 12])
        offset = rng.choice([0, 0, 1, 10, 1e4])
        return [value(log, size, spread, offset) for _ in range(60)]

    points = list(zip(values(log_x), values(log_y), strict=True))
    names = [f"series {at}" + " of many" * rng.randrange(4) for at in range(rng.randrange(1, 9))]
    series = (Series(name, tuple(rng.sample(points, rng.randrange(40))), rng.random() < 0.3) for name in names)
    title = "title " * rng.randrange(30)
    return Chart(title, "across", "up", tuple(series), log_x, log_y, "note " * rng.randrange(40))


# ---------------------------------------------------------------------------------------------------------------------
# Axes
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(150))
def test_a_random_chart_keeps_points_in_the_plot_and_texts_apart(seed: int) -> None:
    check(svg(random_chart(seed)))


LINEAR = {
    "0 20 40 60 80 100": (0, 37, 100),
    "0 0.2 0.4 0.6 0.8 1": (0.02, 0.3, 0.97),
    "0.3 0.35 0.4 0.45 0.5 0.55 0.6": (0.3, 0.6),
    "0 500 1000 1500 2000 2500": (3, 2500),
    "0 5k 10k 15k 20k": (0, 20_000),
    "0 0.5M 1M 1.5M 2M": (10, 1_999_000),
    "0 20G 40G 60G 80G": (0, 8e10),
    "−2 −1 0 1 2 3": (-1.5, 2.5),
    "−40k −30k −20k −10k 0": (-40_000, -500),
    "100 102 104 106 108 110": (100, 110),
    "1M 1.01M 1.02M 1.03M 1.04M": (1_000_000, 1_040_000),
    "1000000 1000002 1000004 1000006 1000008": (1_000_000, 1_000_007),
    "0 10µ 20µ 30µ 40µ": (1e-6, 4e-5),
    "0 2×10⁻¹² 4×10⁻¹² 6×10⁻¹² 8×10⁻¹²": (0, 7e-12),
    "0 10²⁰ 2×10²⁰ 3×10²⁰ 4×10²⁰": (0, 4e20),
}


@pytest.mark.parametrize(("labels", "values"), LINEAR.items(), ids=LINEAR)
def test_ticks_of_a_linear_axis_are_round_and_short(labels: str, values: tuple[float, ...]) -> None:
    (found,) = check(svg(chart(up(*values))))
    assert " ".join(tick.words for tick in found.y_ticks) == labels


LOG = {
    "1 10 100 1k 10k": (1, 10_000),
    "100µ 0.001 0.01 0.1 1 10": (0.0001, 3, 10),
    "1 1k 1M 1G 1T 10¹⁵": (1, 1e17),
    "20 50 100 200": (30, 150),
    "500 1k 2k 5k": (600, 4_000),
    "1 2 4 8 16 32": (1, 2, 4, 8, 16, 32),
    "1 2 4 8 16": (1, 2, 4, 8, 12, 16),
    "1 4 16 64": (1, 8, 64),
    "0.25 0.5 1 2": (0.25, 2),
    "256 512 1024 2048 4096": (256, 512, 4096),
    "1Ki 4Ki 16Ki 64Ki 256Ki 1Mi": (1024, 2**14, 2**20),
    "2⁵⁰ 2⁵¹ 2⁵²": (2.0**50, 2.0**52),
}


@pytest.mark.parametrize(("labels", "values"), LOG.items(), ids=LOG)
def test_ticks_of_a_log_axis_are_powers_of_ten_or_two_or_round(labels: str, values: tuple[float, ...]) -> None:
    (found,) = check(svg(chart(up(*values), log_y=True)))
    assert " ".join(tick.words for tick in found.y_ticks) == labels


def test_ticks_across_are_as_many_as_have_room_for_their_labels() -> None:
    (short,) = check(svg(chart(along(0, 8))))
    (long,) = check(svg(chart(along(1_700_000_000, 1_700_000_008))))
    assert len(short.x_ticks) == 9
    assert 2 <= len(long.x_ticks) < len(short.x_ticks)


@pytest.mark.parametrize("log", [False, True])
def test_a_point_stands_at_the_tick_of_its_value(log: bool) -> None:
    points = tuple((value, value) for value in ((1, 10, 100, 1000) if log else (0, 20, 40, 60)))
    found = drawn(chart(Series("a", points), log_x=log, log_y=log))
    across = {tick.words: tick.x for tick in found.x_ticks}
    down = {tick.words: tick.middle for tick in found.y_ticks}
    names = ("1", "10", "100", "1k") if log else ("0", "20", "40", "60")
    for (x, y), name in zip(found.lines["a"].places, names, strict=True):
        assert x == pytest.approx(across[name], abs=0.11)
        assert y == pytest.approx(down[name], abs=0.11)


def test_more_is_right_and_up() -> None:
    first, second = drawn(chart(Series("a", ((1, 1), (2, 3))))).lines["a"].places
    assert first[0] < second[0] and first[1] > second[1]


# ---------------------------------------------------------------------------------------------------------------------
# Few points, odd points
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("value", [1, 7, 0.001, 123_456.789])
def test_one_point_is_a_marker_well_inside(value: float, log: bool) -> None:
    (found,) = check(svg(chart(Series("a", ((value, value),)), log_x=log, log_y=log)))
    ((x, y),) = found.lines["a"].markers
    assert found.left + 50 < x < found.right - 50
    assert found.top + 50 < y < found.bottom - 50


@pytest.mark.parametrize("value", [5, -5, 1e9, -3e-7])
def test_equal_values_are_a_level_line_halfway_up(value: float) -> None:
    (found,) = check(svg(chart(up(value, value, value))))
    (level,) = {y for _, y in found.lines["values"].places}
    assert found.top + 50 < level < found.bottom - 50


def test_all_zero_is_a_line_at_the_bottom() -> None:
    (found,) = check(svg(chart(up(0, 0, 0))))
    assert {y for _, y in found.lines["values"].places} == {found.bottom}
    assert found.y_ticks[0].words == "0"


def test_values_that_differ_by_rounding_only_count_as_equal() -> None:
    (found,) = check(svg(chart(up(0.3, 0.1 + 0.2))))
    assert len({y for _, y in found.lines["values"].places}) == 1


def test_points_that_are_not_finite_are_skipped() -> None:
    points = ((0, 1), (1, math.nan), (2, math.inf), (math.nan, 4), (-math.inf, 5), (5, 6))
    (found,) = check(svg(chart(Series("a", points))))
    assert found.lines["a"].tooltips == ["a: 0, 1", "a: 5, 6"]
    assert len(found.lines["a"].places) == 2


def test_a_point_that_is_skipped_is_not_checked() -> None:
    check(svg(chart(Series("a", ((1, 1), (math.nan, 0), (-1, math.inf))), log_x=True, log_y=True)))


def test_a_series_without_points_is_left_out() -> None:
    (found,) = check(svg(chart(up(1, 2, name="a"), Series("b", ()), up(math.nan, name="c"), up(3, 4, name="d"))))
    assert set(found.lines) == {"a", "d"}
    assert [entry.words for entry in found.legend] == ["a", "d"]


def test_a_series_without_points_changes_no_colour() -> None:
    full = drawn(chart(up(1, name="a"), up(2, name="b"), up(3, name="c")))
    less = drawn(chart(up(1, name="a"), Series("b", ()), up(3, name="c")))
    assert full.lines["c"].look == less.lines["c"].look


@pytest.mark.parametrize("log", [False, True])
def test_a_chart_without_points_says_so(log: bool) -> None:
    (found,) = check(svg(chart(Series("a", ()), log_x=log, log_y=log)))
    assert not found.lines and not found.legend and not found.x_ticks and not found.y_ticks
    assert "no data" in [text.words for text in found.texts]


def test_many_points_are_all_on_the_line_and_few_have_a_marker() -> None:
    (found,) = check(svg(chart(up(*range(1000)), up(*range(40), name="few"))))
    assert len(found.lines["values"].places) == 1000
    assert 12 <= len(found.lines["values"].markers) <= 20
    assert len(found.lines["few"].markers) == 40


# ---------------------------------------------------------------------------------------------------------------------
# Refusals
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -2.5])
def test_a_log_axis_refuses_what_is_not_above_zero(value: float) -> None:
    where = "chart 'Speed of sums', series 'slow'"
    with pytest.raises(GraphError) as refused:
        chart(up(1, name="good"), Series("slow", ((1, 1), (2, value))), log_y=True)
    assert str(refused.value) == (
        f"{where}: y must be above 0 on a log axis; got {value:g}; leave the point out, or set log_y=False"
    )
    with pytest.raises(GraphError) as refused:
        chart(Series("slow", ((1, 1), (value, 2))), log_x=True)
    assert str(refused.value) == (
        f"{where}: x must be above 0 on a log axis; got {value:g}; leave the point out, or set log_x=False"
    )


@pytest.mark.parametrize("value", [1e301, -1e301, 1e-301])
@pytest.mark.parametrize("log", [False, True])
def test_values_at_the_end_of_the_floats_are_refused(value: float, log: bool) -> None:
    with pytest.raises(GraphError) as refused:
        chart(up(1, value, name="far"), log_y=log and value > 0)
    assert str(refused.value) == (
        f"chart 'Speed of sums', series 'far': y must be 0 or of a size from 1e-300 to 1e+300; got {value:g}; "
        f"change the unit"
    )


@pytest.mark.parametrize("values", [(-1e300, 1e300), (1e-300, 2e-300), (1e-300, 1e300), (1e300, 1e300)])
def test_values_just_short_of_that_are_drawn(values: tuple[float, ...]) -> None:
    check(svg(chart(up(*values))))
    if min(values) > 0:
        check(svg(chart(along(*values), log_x=True)))
        check(svg(chart(up(*values), log_y=True)))


def test_two_series_of_one_name_are_refused() -> None:
    with pytest.raises(GraphError) as refused:
        chart(up(1), up(2))
    assert str(refused.value) == (
        "chart 'Speed of sums', series 'values': every series must have its own name; got this one twice; "
        "rename one of them"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Looks
# ---------------------------------------------------------------------------------------------------------------------


def test_lines_differ_in_colour_and_in_marker() -> None:
    found = drawn(chart(*(up(at, at + 1, name=f"s{at}") for at in range(7))))
    colours, shapes = zip(*(one.look for one in found.lines.values()), strict=True)
    assert len(set(colours)) == len(set(shapes)) == 7


def test_fifty_six_lines_differ_in_one_of_them() -> None:
    found = drawn(chart(*(up(at, at + 1, name=f"s{at}") for at in range(56))))
    assert len({one.look for one in found.lines.values()}) == 56


def test_the_legend_shows_each_line_in_its_look_and_order() -> None:
    names = ["fused", "unfused", "model"]
    found = drawn(chart(*(Series(name, ((1, at),), name == "model") for at, name in enumerate(names))))
    assert [entry.words for entry in found.legend] == names
    assert found.legend_looks == [found.lines[name].look for name in names]


def test_the_first_series_lies_on_top() -> None:
    found = drawn(chart(up(1, name="first"), up(1, name="second")))
    assert list(found.lines) == ["second", "first"]


def test_a_dashed_series_is_dashed_in_the_plot_and_in_the_legend() -> None:
    text = svg(chart(replace(up(1, 2, name="a"), dashed=True), up(1, 2, name="b")))
    found = drawn(chart(replace(up(1, 2, name="a"), dashed=True), up(1, 2, name="b")))
    assert found.lines["a"].dashed and not found.lines["b"].dashed
    assert text.count("stroke-dasharray") == 2


@pytest.mark.parametrize("count", [1, 5, 30])
def test_a_legend_of_any_size_stays_above_the_plot_and_below_the_title(count: int) -> None:
    names = [f"a series with a name, number {at}" for at in range(count)]
    (found,) = check(svg(chart(*(up(at, 1, name=name) for at, name in enumerate(names)))))
    assert [entry.words for entry in found.legend] == names
    (title,) = (text for text in found.texts if text.words == "Speed of sums")
    assert all(entry.y - entry.size > title.y for entry in found.legend)


# ---------------------------------------------------------------------------------------------------------------------
# Text
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY)
def test_any_text_gives_well_formed_xml(name: str) -> None:
    nasty = Chart(name, name, name, (Series(name, ((1, 2), (3, 4))),), note=name)
    (found,) = check(svg(nasty))
    assert list(found.lines) == ["".join("\ufffd" if letter in "\x00\ud800" else letter for letter in name)]


def test_names_are_escaped_and_read_back_as_they_were() -> None:
    name = "<a & b> \"c\" 'd'"
    text = svg(Chart(name, name, name, (Series(name, ((1, 2),)),), note=name))
    assert "<a" not in text
    found = drawn(Chart(name, name, name, (Series(name, ((1, 2),)),), note=name))
    assert [entry.words for entry in found.legend] == [name]
    assert found.lines[name].tooltips == [f"{name}: 1, 2"]
    assert [text.words for text in found.texts].count(name) == 4  # title, legend, x label, note


def test_title_labels_and_note_are_written() -> None:
    text = svg(Chart("Latency", "batch size (items)", "latency (ms)", (up(1, 2),), note="median of 7 runs"))
    root = ElementTree.fromstring(text)
    assert root.attrib["aria-label"] == "Latency"
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert {"Latency", "batch size (items)", "latency (ms)", "median of 7 runs"} <= set(words)


def test_a_note_stands_below_the_chart_in_as_many_lines_as_it_needs() -> None:
    note = "Medians of seven runs on one machine. " * 6
    (found,) = check(svg(chart(up(1, 2), note=note)))
    assert len(found.note) > 1
    assert " ".join(one.words for one in found.note) == note.strip()
    (label,) = (text for text in found.texts if text.words == "threads")
    assert all(one.y - one.size > label.y for one in found.note)
    assert drawn(chart(up(1, 2))).note == []
    assert page(svg(chart(up(1, 2), note=note)))[1] > page(svg(chart(up(1, 2))))[1]


def test_a_long_title_is_wrapped_and_a_long_name_cut_short() -> None:
    title = "A title that has a great deal to say about what was measured, and on which machine"
    name = "a name without an end " * 9
    (found,) = check(svg(replace(chart(up(1, name=name)), title=title)))
    lines = [text.words for text in found.texts if text.size == 14]
    assert len(lines) == 2 and " ".join(lines) == title
    assert found.legend[0].words.endswith("…")
    assert found.legend[0].right <= found.right


def test_wrapping_keeps_every_word_and_the_room() -> None:
    lines = wrapped("one two  three\nfour " + "x" * 50 + " five", 10, 70)
    assert " ".join(lines).split() == ["one", "two", "three", "four", "x" * 50, "five"]
    assert all(text_width(one, 10) <= 70 or " " not in one for one in lines)
    assert wrapped(" ", 10, 70) == ()


def test_the_svg_stands_alone_on_white() -> None:
    text = svg(random_chart(3))
    root = ElementTree.fromstring(text)
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    assert not re.search(r"<script|<style|<image|href=|url\(|@import| id=", text)
    background = root[0]
    assert background.tag == f"{SVG}rect" and background.attrib["fill"] == "#ffffff"
    assert (float(background.attrib["width"]), float(background.attrib["height"])) == page(text)


def test_drawing_twice_gives_the_same_text() -> None:
    assert svg(random_chart(5)) == svg(random_chart(5))


# ---------------------------------------------------------------------------------------------------------------------
# Figures and files
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 2, 3, 7])
def test_charts_of_a_figure_stand_in_rows_and_columns(columns: int) -> None:
    text = figure([random_chart(seed) for seed in range(5)], columns)
    found = check(text)
    assert len(found) == 5
    rows = [found[at : at + columns] for at in range(0, 5, columns)]
    for row in rows:
        assert len({one.top for one in row}) == 1
        assert all(one.right < other.left for one, other in pairwise(row))
    for at in range(min(columns, 5)):
        assert len({row[at].left for row in rows if at < len(row)}) == 1
    for upper, lower in pairwise(rows):
        lowest = max(text.y for one in upper for text in one.texts)
        assert all(lowest < text.y - text.size for one in lower for text in one.texts)


def test_texts_of_neighbours_are_apart() -> None:
    found = check(figure([random_chart(seed) for seed in range(20, 26)], columns=3))
    for one, other in ((found[at], found[at + 1]) for at in (0, 1, 3, 4)):
        assert max(text.right for text in one.texts) < min(text.left for text in other.texts)


def test_two_charts_stand_side_by_side_unless_told_otherwise() -> None:
    pair = [chart(up(1, 2)), chart(up(3, 4))]
    assert figure(pair) == figure(pair, columns=2)
    assert page(figure(pair))[0] > page(figure(pair, columns=1))[0]


def test_a_chart_alone_is_a_figure_of_one() -> None:
    assert svg(chart(up(1, 2))) == figure([chart(up(1, 2))])


def test_a_name_looks_the_same_in_all_charts_of_a_figure() -> None:
    left, right = charts(figure([chart(up(1, name="a"), up(2, name="b")), chart(up(1, name="b"), up(2, name="c"))]))
    assert left.lines["b"].look == right.lines["b"].look
    assert len({left.lines["a"].look, left.lines["b"].look, right.lines["c"].look}) == 3


def test_a_figure_needs_a_chart_and_a_column() -> None:
    with pytest.raises(GraphError, match=r"^figure: there must be a chart to draw; got none$"):
        figure([])
    with pytest.raises(GraphError, match=r"^figure: there must be at least one column; got columns=0$"):
        figure([chart(up(1))], columns=0)


def test_save_writes_what_svg_and_figure_give(tmp_path: Path) -> None:
    one = chart(up(1, 2, name="é → <b>"))
    path = save(one, tmp_path / "one.svg")
    assert path == tmp_path / "one.svg"
    assert path.read_text(encoding="utf-8") == svg(one)
    both = save([one, one], str(tmp_path / "both.svg"), columns=1)
    assert both.read_text(encoding="utf-8") == figure([one, one], columns=1)


@pytest.mark.parametrize("name", ["chart.png", "chart", "chart.svg.txt"])
def test_save_refuses_another_suffix(tmp_path: Path, name: str) -> None:
    with pytest.raises(GraphError) as refused:
        save(chart(up(1)), tmp_path / name)
    assert str(refused.value) == f"save: the name must end in .svg; got {name!r}"
    assert not (tmp_path / name).exists()
