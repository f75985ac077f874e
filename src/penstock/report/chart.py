"""Line charts, drawn by Altair as standalone SVG text: what was measured against what was varied.

A line has a colour that colour-blind eyes can tell from the others and a marker of its own; a name has the same ones in
all charts of a figure. Altair and vl-convert come with the extra `plots`, and are imported when something is drawn.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.errors import GraphError, OutputError
from penstock.report.svg import COLOURS, FAINT, FONT, INK, flat, printable

_FAR = 1e300  # values beyond have no unit, and their differences overflow; the same for those nearer to 0 than 1 / _FAR
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
"""One more than there are colours, so that 56 lines go by before a pair of colour and shape returns."""
_WIDTH, _HEIGHT = 400, 250
_TITLE_LETTERS, _NOTE_LETTERS, _LEGEND_LETTERS = 50, 80, 40  # in a line as wide as the plot
_TICKS = "abs(datum.value) >= 1e4 || abs(datum.value) < 1e-3 ? format(datum.value, '~s') : format(datum.value, '~g')"
_MOST_STEPS = 8
_AXIS = {
    "labelFontSize": 11,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "titleColor": INK,
    "labelColor": FAINT,
    "gridColor": "#e8eaee",
    "domainColor": "#9aa1ae",
    "tickColor": "#9aa1ae",
    "labelOverlap": True,
    "labelFlush": False,
}
_BINARY_TICKS = (
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~g') + 'Mi' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~g') + 'Ki' : format(datum.value, '~g')"
)


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its points are joined in the order in which they stand here.

    A point with a NaN or an infinity is skipped, as if it were not there.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False

    @property
    def finite_points(self) -> tuple[tuple[float, float], ...]:
        return tuple((x, y) for x, y in self.points if math.isfinite(x) and math.isfinite(y))


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over one pair of axes; labels of axes name their units. A series without a finite point is left out."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        known: set[str] = set()
        for one in self.series:
            where = f"chart {self.title!r}, series {one.name!r}"
            if one.name in known:
                raise GraphError(
                    f"{where}: every series must have its own name; got this one twice; rename one of them"
                )
            known.add(one.name)
            for x, y in one.finite_points:
                _check(f"{where}: x", x, self.log_x, "log_x")
                _check(f"{where}: y", y, self.log_y, "log_y")

    @property
    def drawn(self) -> tuple[Series, ...]:
        return tuple(one for one in self.series if one.finite_points)


def _check(where: str, value: float, log: bool, option: str) -> None:
    if log and value <= 0:
        raise GraphError(
            f"{where} must be above 0 on a log axis; got {value:g}; leave the point out, or set {option}=False"
        )
    if value and not 1 / _FAR <= abs(value) <= _FAR:
        raise GraphError(
            f"{where} must be 0 or of a size from {1 / _FAR:g} to {_FAR:g}; got {value:g}; change the unit"
        )


# Figures


def figure(charts: Chart | Sequence[Chart], columns: int = 2) -> str:
    """The charts side by side as one <svg> element, row by row, with so many in a row.

    A name has the same colour and the same marker in all of them, also where it has no point in one.

    >>> speed = Series("compiled", ((1, 1.9e6), (2, 3.7e6), (4, 7.2e6)))
    >>> figure(Chart("Speed", "threads", "items/s", (speed,), log_x=True)).startswith("<svg ")
    True
    """
    charts = (charts,) if isinstance(charts, Chart) else charts
    if not charts:
        raise GraphError("figure: there must be a chart to draw; got none")
    if columns < 1:
        raise GraphError(f"figure: there must be at least one column; got columns={columns}")
    altair, vl_convert = plots()
    looks = _looks(charts)
    drawn = altair.concat(*(_chart(altair, chart, looks) for chart in charts), columns=columns, spacing=30)
    drawn = drawn.resolve_scale(color="independent", shape="independent", strokeDash="independent")
    whole = drawn.configure(font=FONT, background="#ffffff", padding=14, view={"stroke": None})
    text: str = vl_convert.vegalite_to_svg(whole.to_dict())
    return text


def save(charts: Chart | Sequence[Chart], path: str | Path, columns: int = 2) -> Path:
    """Write the chart, or several as one figure, to an SVG file."""
    path = Path(path)
    if path.suffix != ".svg":
        raise GraphError(f"save: the name must end in .svg; got {path.name!r}")
    path.write_text(figure(charts, columns), encoding="utf-8")
    return path


def plots() -> tuple[ModuleType, ModuleType]:
    """Altair and vl-convert, or an error that says how to install them."""
    try:
        import altair
        import vl_convert
    except ImportError:
        raise OutputError(
            "chart: drawing one needs the packages altair and vl-convert-python, which are not installed; "
            "pip install 'penstock[plots]'"
        ) from None
    return altair, vl_convert


@dataclass(frozen=True, slots=True)
class _ChartStyle:
    colour: str
    shape: str


def _looks(charts: Sequence[Chart]) -> dict[str, _ChartStyle]:
    """A look for every name, also for those without a point: a failed run changes no other colour."""
    names = dict.fromkeys(one.name for chart in charts for one in chart.series)
    return {name: _ChartStyle(COLOURS[at % len(COLOURS)], _SHAPES[at % len(_SHAPES)]) for at, name in enumerate(names)}


# One chart


def _chart(altair: ModuleType, chart: Chart, looks: Mapping[str, _ChartStyle]) -> Any:
    names = {one.name: f"{at}" for at, one in enumerate(chart.drawn)}
    rows: list[dict[str, Any]] = [
        {"name": names[one.name], "at": at, "x": x, "y": y}
        for one in reversed(chart.drawn)  # the first lies on top
        for at, (x, y) in enumerate(one.finite_points)
    ]
    base = altair.Chart(altair.Data(values=rows)).encode(
        x=_axis(altair.X, "x", chart.x_label, [row["x"] for row in rows], chart.log_x),
        y=_axis(altair.Y, "y", chart.y_label, [row["y"] for row in rows], chart.log_y),
        color=_channel(altair, altair.Color, chart, [looks[one.name].colour for one in chart.drawn]),
    )
    dashes = _channel(altair, altair.StrokeDash, chart, [[6, 4] if one.dashed else [1, 0] for one in chart.drawn])
    shapes = _channel(altair, altair.Shape, chart, [looks[one.name].shape for one in chart.drawn])
    lines = base.mark_line(strokeWidth=1.8).encode(order="at:Q", strokeDash=dashes)
    points = base.mark_point(filled=True, size=55, opacity=1, stroke="#ffffff", strokeWidth=0.8).encode(shape=shapes)
    return (lines + points).properties(width=_WIDTH, height=_HEIGHT, title=_title(altair, chart, bool(rows)))


def _title(altair: ModuleType, chart: Chart, has_data: bool) -> Any:
    note = chart.note if has_data else f"no data. {chart.note}".strip()
    return altair.TitleParams(
        _lines(chart.title, _TITLE_LETTERS) or [""],
        subtitle=_lines(note, _NOTE_LETTERS) or altair.Undefined,
        anchor="start",
        color=INK,
        subtitleColor=FAINT,
        fontSize=14,
        subtitleFontSize=10.5,
        offset=12,
    )


def _axis(channel: Any, field: str, label: str, values: Sequence[float], log: bool) -> Any:
    axis: dict[str, Any] = _AXIS | {"labelExpr": _TICKS}
    scale: dict[str, Any] = {}
    if not values:
        axis |= {"values": []}
        scale = {"domain": [0, 1]}
    elif log:
        is_binary = 2 * sum(math.frexp(value)[0] == 0.5 for value in set(values)) > len(set(values))
        ticks = _log_ticks(values, 2 if is_binary else 10)
        axis |= {"values": ticks, "labelExpr": _BINARY_TICKS if is_binary else _TICKS}
        scale = {"type": "log", "domain": [ticks[0], ticks[-1]], "nice": False}
    else:  # from 0 where that costs a third of the room or less
        axis |= {"tickCount": 6}
        scale = {"zero": 0 <= min(values) <= max(values) / 3, "nice": True}
    return channel(f"{field}:Q", title=_line(label, _NOTE_LETTERS), scale=scale, axis=axis)


def _log_ticks(values: Sequence[float], base: int) -> list[float]:
    """Powers of the base, or, where they are few, also 2 and 5 times powers of ten; all values lie between the ends."""
    exponent = math.log2 if base == 2 else math.log10
    first, last = math.floor(exponent(min(values))), math.ceil(exponent(max(values)))
    last = max(last, first + 1)
    if base == 10 and last - first <= 3:
        fine = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in (1, 2, 5)]
        low = max(tick for tick in fine if tick <= min(values))
        high = min(tick for tick in fine if tick > low and tick >= max(values))
        return [tick for tick in fine if low <= tick <= high]
    step = math.ceil((last - first) / _MOST_STEPS)
    return [float(base) ** power for power in range(first, last + step, step)]


def _channel(altair: ModuleType, channel: Any, chart: Chart, range_: list[Any]) -> Any:
    """A channel that shows which series a point is of; its legend is above the plot, in the order of the series.

    A series stands by its number in the data, and by its name only in the legend, where it may be of any text.
    """
    names = [_line(one.name, _LEGEND_LETTERS) for one in chart.drawn]
    numbers = [str(at) for at in range(len(names))]
    legend = altair.Legend(
        orient="top",
        title=None,
        columns=max(1, 64 // (8 + max(map(len, names), default=0))),
        labelExpr=f"{json.dumps(names)}[+datum.value]",
        labelLimit=_WIDTH,
        labelFontSize=12,
        labelColor=INK,
        symbolStrokeWidth=1.8,
    )
    scale = altair.Scale(domain=numbers, range=range_)
    return channel("name:N", scale=scale, legend=legend if names else None)


def _line(text: str, letters: int) -> str:
    """The text in one line of at most so many letters, the last of which is an ellipsis where some are left out."""
    text = printable(flat(text))
    return text if len(text) <= letters else text[: letters - 1].rstrip() + "…"


def _lines(text: str, letters: int) -> list[str]:
    return textwrap.wrap(printable(flat(text)), letters, break_on_hyphens=False)
