"""Charts: every series and text in the picture, ticks at round numbers, and a message where nothing can draw."""

from __future__ import annotations

import random
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import GraphError, OutputError
from penstock.report.chart import Chart, Series, figure, save
from penstock.report.svg import COLOURS

SVG = "{http://www.w3.org/2000/svg}"
NASTY = ("<b>&amp;\"'</b>", "a\nb\tc", "]]> <!-- --> <?x?>", "日本語 é 🚰", "nul \x00 half \ud800", "x" * 500, "")
MARKS = "mark-symbol role-mark"


def chart(*series: Series, log_x: bool = False, log_y: bool = False, note: str = "") -> Chart:
    return Chart("Speed of sums", "threads", "items per second", series, log_x, log_y, note)


def up(*values: float, name: str = "values") -> Series:
    """These values, at 0, 1, 2, …"""
    return Series(name, tuple(enumerate(values)))


def words(text: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(text).iter(f"{SVG}text")]


def groups(text: str, role: str) -> list[ElementTree.Element]:
    return [group for group in ElementTree.fromstring(text).iter(f"{SVG}g") if role in group.get("class", "")]


def ticks(text: str) -> tuple[list[str], list[str]]:
    """The labels of the axes of one chart, across and up; each is there once for each layer that has an axis."""
    across, along = ([one.text or "" for one in group] for group in groups(text, "role-axis-label"))
    return across, along


def symbols(text: str) -> list[ElementTree.Element]:
    """The markers of points, without those of legends."""
    return [path for group in groups(text, MARKS) for path in group]


def random_chart(seed: int) -> Chart:
    rng = random.Random(seed)
    log_x, log_y = rng.random() < 0.5, rng.random() < 0.5

    def values(log: bool) -> list[float]:
        size, spread = 10 ** rng.uniform(-14, 14), rng.choice([0.1, 1, 3, 12])
        return [size * 10 ** rng.uniform(0, spread) if log else size * rng.uniform(-1, 1) for _ in range(60)]

    points = list(zip(values(log_x), values(log_y), strict=True))
    names = [f"series {at}" + " of many" * rng.randrange(4) for at in range(rng.randrange(1, 9))]
    series = (Series(name, tuple(rng.sample(points, rng.randrange(40))), rng.random() < 0.3) for name in names)
    return Chart("title " * rng.randrange(30), "across", "up", tuple(series), log_x, log_y, "note " * rng.randrange(40))


@pytest.mark.parametrize("seed", range(20))
def test_a_random_chart_has_all_its_points_on_a_page_of_a_usual_size(seed: int) -> None:
    drawn = random_chart(seed)
    text = figure(drawn)
    root = ElementTree.fromstring(text)
    assert all(200 < float(root.attrib[side]) < 1200 for side in ("width", "height"))
    assert len(symbols(text)) == sum(len(one.finite_points) for one in drawn.series)
    for symbol in symbols(text):
        place = re.match(r"translate\(([^,]+),([^)]+)\)", symbol.attrib["transform"])
        assert place is not None and -0.1 <= float(place[1]) <= 400.1 and -0.1 <= float(place[2]) <= 250.1
    assert all(len(labels) >= 2 for labels in ticks(text))


TICKS = {
    "0 20 40 60 80 100": (False, (0, 37, 100)),
    "0 500 1000 1500 2000 2500": (False, (3, 2500)),
    "0 5000 10k 15k 20k": (False, (3, 20_000)),
    "1 10 100 1000 10k": (True, (1, 3, 10_000)),
    "20 50 100 200": (True, (30, 150)),
    "1 2 4 8 16 32": (True, (1, 2, 4, 8, 16, 32)),
    "1Ki 4Ki 16Ki 64Ki 256Ki 1Mi": (True, (1024, 2**14, 2**20)),
}


@pytest.mark.parametrize(("labels", "log", "values"), [(key, *value) for key, value in TICKS.items()], ids=TICKS)
def test_ticks_stand_at_round_numbers(labels: str, log: bool, values: tuple[float, ...]) -> None:
    _, along = ticks(figure(chart(up(*values), log_y=log)))
    assert along == labels.split()


@pytest.mark.parametrize("value", [1, 7, -5, 0, 1e300, 1e-300])
def test_equal_values_have_an_axis_too(value: float) -> None:
    text = figure(chart(up(value, value)))
    assert len(symbols(text)) == 2 and "NaN" not in text


def test_points_that_are_no_numbers_are_left_out() -> None:
    text = figure(chart(up(1, float("nan"), 3, float("inf")), up(float("nan"), name="empty")))
    assert len(symbols(text)) == 2
    assert "values" in words(text) and "empty" not in words(text)


def test_without_points_it_says_so() -> None:
    assert "no data. Measured twice." in words(figure(chart(up(float("nan")), note="Measured twice.")))


def test_points_are_joined_in_their_order() -> None:
    (line,) = (
        path for group in groups(figure(chart(Series("a", ((2, 1), (1, 3), (3, 2))))), "mark-line") for path in group
    )
    places = [float(x) for x in re.findall(r"[ML]([\d.]+),", line.attrib["d"])]
    assert places[1] < places[0] < places[2]


def test_a_dashed_series_is_dashed_in_the_plot_and_in_the_legend() -> None:
    text = figure(chart(replace(up(1, 2, name="a"), dashed=True), up(1, 2, name="b")))
    assert text.count('stroke-dasharray="6,4"') == 2


@pytest.mark.parametrize("name", NASTY)
def test_any_text_gives_well_formed_xml(name: str) -> None:
    text = figure(Chart(name, name, name, (Series(name, ((1, 2), (3, 4))),), note=name))
    assert len(symbols(text)) == 2 and "<b>" not in text


def test_names_are_shown_as_they_are() -> None:
    name = "<a & b> \"c\" 'd'"
    assert words(figure(Chart(name, name, name, (Series(name, ((1, 2),)),), note=name))).count(name) == 5


def test_a_long_title_and_a_long_note_are_wrapped_and_a_long_name_cut_short() -> None:
    title, note = "a title of many words " * 5, "Medians of seven runs on one machine. " * 6
    found = words(figure(Chart(title, "x", "y", (Series("a name without an end " * 9, ((1, 2),)),), note=note)))
    together = "".join(found).replace(" ", "")
    assert title.replace(" ", "") in together and note.replace(" ", "") in together
    assert any(one.startswith("a name") and one.endswith("…") and len(one) <= 40 for one in found)


def test_the_svg_stands_alone_on_white_and_is_the_same_each_time() -> None:
    text = figure(random_chart(3))
    assert text == figure(random_chart(3)) and 'fill="#ffffff"' in text
    assert not re.search(r"<script|<style|<image|<a |@import", text)


def test_a_name_looks_the_same_in_all_charts_of_a_figure() -> None:
    text = figure([chart(up(1, name="a"), up(2, name="b")), chart(up(1, name="b"), up(float("nan"), name="c"))])
    looks = [(symbol.attrib["fill"], symbol.attrib["d"]) for symbol in symbols(text)]
    assert [fill for fill, _ in looks] == [COLOURS[1], COLOURS[0], COLOURS[1]]
    assert looks[0] == looks[2] and looks[0][1] != looks[1][1]


def test_charts_stand_in_rows_of_so_many_columns() -> None:
    def width(columns: int) -> float:
        return float(ElementTree.fromstring(figure([chart(up(1, 2))] * 3, columns)).attrib["width"])

    assert width(1) < width(2) < width(3)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(GraphError, match=r"^figure: there must be a chart to draw; got none$"):
        figure([])
    with pytest.raises(GraphError, match=r"^figure: there must be at least one column; got columns=0$"):
        figure(chart(up(1)), columns=0)
    with pytest.raises(GraphError, match="every series must have its own name"):
        chart(up(1), up(2))
    with pytest.raises(
        GraphError, match="y must be above 0 on a log axis; got 0; leave the point out, or set log_y=False"
    ):
        chart(up(1, 0), log_y=True)
    with pytest.raises(GraphError, match="change the unit"):
        chart(up(1e301))


def test_save_writes_what_figure_gives(tmp_path: Path) -> None:
    one = chart(up(1, 2, name="é → <b>"))
    path = save(one, tmp_path / "one.svg")
    assert path == tmp_path / "one.svg" and path.read_text(encoding="utf-8") == figure(one)
    with pytest.raises(GraphError, match=r"^save: the name must end in .svg; got 'one.png'$"):
        save(one, tmp_path / "one.png")


def test_without_altair_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(OutputError, match=re.escape("pip install 'penstock[plots]'")):
        figure(chart(up(1)))
