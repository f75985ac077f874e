"""Line charts, as standalone SVG text: what was measured against what was varied.

The reader of a chart wants to tell the lines apart, in colour or in grey, and to read a value off an axis. So a line
has a colour that colour-blind eyes can tell from the others and a marker of its own, ticks stand at round numbers, and
the legend stands above the plot, where no line goes.

How the layout works. Every chart has a plot of the same size, and as much room around it as its own texts need. Charts
in one figure stand in a table: the room above, left of and below the plots is that of the neediest chart in the row or
column, so that plots line up.

The file is longer than the house likes because half of it is axes, which nothing but a chart has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from penstock.errors import GraphError
from penstock.report.drawing import COLOURS, FAINT, INK, flat, opening, px, rect, text_line, text_width, wrapped, xml

# ---------------------------------------------------------------------------------------------------------------------
# What is drawn
# ---------------------------------------------------------------------------------------------------------------------

_FAR = 1e300  # values beyond have no unit, and their differences overflow; the same for those nearer to 0 than 1 / _FAR


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


# ---------------------------------------------------------------------------------------------------------------------
# Measures, in pixels, and looks
# ---------------------------------------------------------------------------------------------------------------------

_PLOT_WIDTH, _PLOT_HEIGHT = 400.0, 250.0
_INSET = 14.0  # from the sides of the plot to the ends of the x axis, so that no marker sits on the edge
_EDGE = 14.0  # around each chart
_TITLE, _LABEL, _TICK, _NOTE = 14.0, 12.0, 11.0, 10.5  # sizes of type
_LEADING = 1.35  # from line to line, in sizes of type
_SAMPLE = 34.0  # the piece of line in a legend
_SAMPLE_GAP, _ENTRY_GAP, _LEGEND_ROW = 6.0, 16.0, 18.0
_LEGEND_PAD = 12.0  # between the legend and the plot
_TICK_MARK, _TICK_GAP = 4.0, 7.0  # from the plot to the end of a tick mark, and to its label
_X_LABEL_DOWN = 38.0  # from the plot to the line that the x label stands on
_NOTE_GAP = 5.0  # and from there to the note
_MOST_TICKS = (8, 6)  # across and up
_MOST_MARKERS = 40  # of one line; where it has more points, about half as many are spread over them

_GRID, _AXIS = "#e8eaee", "#9aa1ae"
# One more than there are colours, so that 56 lines go by before a pair of colour and marker returns.
_MARKERS = (
    "M-4 0A4 4 0 1 1 4 0A4 4 0 1 1 -4 0Z",  # disc
    "M-3.6 -3.6H3.6V3.6H-3.6Z",  # square
    "M0 -4.8L4.5 3.4H-4.5Z",  # triangle
    "M0 -5.2L4.6 0L0 5.2L-4.6 0Z",  # diamond
    "M0 4.8L4.5 -3.4H-4.5Z",  # triangle on its head
    "M-1.4 -4.6H1.4V-1.4H4.6V1.4H1.4V4.6H-1.4V1.4H-4.6V-1.4H-1.4Z",  # plus
    "M0 -5.5L1.4 -1.7L5.2 -1.7L2.2 0.7L3.2 4.4L0 2.2L-3.2 4.4L-2.2 0.7L-5.2 -1.7L-1.4 -1.7Z",  # star
    "M-4.4 -2.4L-2.4 -4.4L0 -2L2.4 -4.4L4.4 -2.4L2 0L4.4 2.4L2.4 4.4L0 2L-2.4 4.4L-4.4 2.4L-2 0Z",  # cross
)


# ---------------------------------------------------------------------------------------------------------------------
# Axes
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Axis:
    """A range of values, with its ticks and their labels.

    Invariant: ``low < high``, and every tick and every value that the axis was made for lies between them, but for
    what floats round away.
    """

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    minor: tuple[float, ...] = ()  # marks without a label

    def share(self, value: float) -> float:
        """How far along the axis the value stands, from 0 to 1."""
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


def _axis(values: Sequence[float], log: bool, most: int) -> _Axis:
    """An axis for these values, with two ticks or more, and about `most` at most; without values, one without ticks."""
    if not values:
        return _Axis(1.0, 2.0, log, (), ())
    if not log:
        return _linear_axis(min(values), max(values), most)
    distinct = set(values)
    if 2 * sum(math.frexp(value)[0] == 0.5 for value in distinct) > len(distinct):
        return _binary_axis(min(values), max(values), most)
    return _decimal_axis(min(values), max(values), most)


def _x_axis(values: Sequence[float], log: bool) -> _Axis:
    """With as many ticks as have room for their labels side by side."""
    for most in range(_MOST_TICKS[0], 1, -1):
        axis = _axis(values, log, most)
        places = [axis.share(tick) * (_PLOT_WIDTH - 2 * _INSET) for tick in axis.ticks]
        halves = [text_width(label, _TICK) / 2 + _TICK_GAP for label in axis.labels]
        spans = zip(pairwise(places), pairwise(halves), strict=True)
        if all(right - left >= sum(needed) for (left, right), needed in spans):
            break
    return axis


def _linear_axis(low: float, high: float, most: int) -> _Axis:
    """From one multiple of a round step to another. It begins at 0 where that costs a third of the room or less."""
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # all equal, or as good as
        low, high = (0.0, 1.0) if high == 0 else (min(0.0, 2 * high), max(0.0, 2 * high))
    low = 0.0 if 0 < low <= high / 3 else low
    high = 0.0 if low / 3 <= high < 0 else high
    power = math.floor(math.log10((high - low) / most))
    for exponent, digit in ((power + more, digit) for more in range(3) for digit in (1, 2, 5)):
        step = _decimal(digit, exponent)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first <= most:
            break
    ticks = tuple(_decimal(digit * count, exponent) for count in range(first, last + 1))
    top = max(map(abs, ticks))
    unit = _unit(top)
    if 1e3 <= top < 1e4 or step < unit.size / 1000:  # 2500 is shorter than 2.5k, and 1700000020 than 1.70000002G
        unit = _Unit(1.0)
    return _Axis(ticks[0], ticks[-1], False, ticks, tuple(map(unit.label, ticks)))


def _decimal_axis(low: float, high: float, most: int) -> _Axis:
    """A log axis from one of …, 1, 2, 5, 10, … to another, with ticks at all of them or at powers of ten."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    round_ones = [_decimal(digit, power) for power in powers for digit in (1, 2, 5)]
    first = max(at for at, value in enumerate(round_ones) if value <= low * (1 + 1e-9))
    last = min(at for at, value in enumerate(round_ones) if value >= high * (1 - 1e-9))
    if first == last:
        first, last = first - 1, last + 1
    inside = round_ones[first : last + 1]
    tens = [value for at, value in enumerate(round_ones) if at % 3 == 0 and first <= at <= last]
    options = (inside, tens, *(tens[::every] for every in range(2, len(tens))), [inside[0], inside[-1]])
    ticks = next(option for option in options if 2 <= len(option) <= most)
    minor = (_decimal(digit, power) for power in powers for digit in range(1, 10)) if len(tens) < 8 else tens
    between = tuple(value for value in minor if inside[0] <= value <= inside[-1])
    labels = tuple(_unit(tick).label(tick) for tick in ticks)
    return _Axis(inside[0], inside[-1], True, tuple(ticks), labels, between)


def _binary_axis(low: float, high: float, most: int) -> _Axis:
    """A log axis from one power of two to another, for values most of which are such powers."""
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    if first == last:
        first, last = first - 1, last + 1
    every = math.ceil((last - first) / (most - 1))
    powers = range(first, last + 1, every)
    labels = tuple(_binary_label(power, short=last >= 14) for power in powers)
    return _Axis(2.0**first, 2.0**last, True, tuple(2.0**power for power in powers), labels)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers for people
# ---------------------------------------------------------------------------------------------------------------------

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _decimal(digits: int, power: int) -> float:
    """The float nearest to that many times that power of ten, as multiplying would not give."""
    return float(f"{digits}e{power}")


@dataclass(frozen=True, slots=True)
class _Unit:
    size: float
    suffix: str = ""

    def label(self, value: float) -> str:
        """
        >>> _Unit(1e3, "k").label(-2500), _Unit(1.0).label(0.1 + 0.2), _Unit(1.0).label(2e-15)
        ('−2.5k', '0.3', '2×10⁻¹⁵')
        """
        if value == 0:
            return "0"
        digits, _, power = f"{abs(value) / self.size:.12g}".partition("e")
        if power:
            digits = ("" if digits == "1" else f"{digits}×") + f"10{str(int(power)).translate(_SUPERSCRIPTS)}"
        return ("−" if value < 0 else "") + digits + self.suffix


_UNITS = (  # each from this size on
    (1e15, _Unit(1.0)),
    (1e12, _Unit(1e12, "T")),
    (1e9, _Unit(1e9, "G")),
    (1e6, _Unit(1e6, "M")),
    (1e3, _Unit(1e3, "k")),
    (1e-3, _Unit(1.0)),
    (1e-6, _Unit(1e-6, "µ")),
    (1e-9, _Unit(1e-9, "n")),
)


def _unit(size: float) -> _Unit:
    """The unit in which a number of that size is short: plain from 0.001 to 1000, and beyond 1T and 1n a power of ten.

    >>> _unit(20_000).label(20_000), _unit(3e-5).label(3e-5), _unit(0.25).label(0.25)
    ('20k', '30µ', '0.25')
    """
    return next((unit for least, unit in _UNITS if size >= least), _Unit(1.0))


def _binary_label(power: int, short: bool) -> str:
    """
    >>> [_binary_label(power, short=True) for power in (-9, -2, 3, 10, 24, 60)]
    ['2⁻⁹', '0.25', '8', '1Ki', '16Mi', '2⁶⁰']
    """
    if not -4 <= power < 50:
        return f"2{str(power).translate(_SUPERSCRIPTS)}"
    thousands = max(power, 0) // 10 if short else 0
    return f"{2.0 ** (power - 10 * thousands):g}" + ("", "Ki", "Mi", "Gi", "Ti")[thousands]


# ---------------------------------------------------------------------------------------------------------------------
# Layout
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Panel:
    """One chart with all that decides how much room it needs around its plot."""

    chart: Chart
    x: _Axis
    y: _Axis
    title: tuple[str, ...]
    legend: tuple[tuple[Series, ...], ...]  # in rows
    note: tuple[str, ...]

    @property
    def above(self) -> float:
        return _EDGE + len(self.title) * _TITLE * _LEADING + len(self.legend) * _LEGEND_ROW + _LEGEND_PAD

    @property
    def left(self) -> float:
        ticks = max((text_width(label, _TICK) for label in self.y.labels), default=0.0)
        label = _LABEL * _LEADING if flat(self.chart.y_label) else 0.0
        return math.ceil(_EDGE + label + ticks + _TICK_GAP)

    @property
    def right(self) -> float:
        """Half of the last label on the x axis may stand out."""
        return math.ceil(max([_EDGE, *(text_width(label, _TICK) / 2 for label in self.x.labels[-1:])]))

    @property
    def below(self) -> float:
        return _X_LABEL_DOWN + _NOTE_GAP + len(self.note) * _NOTE * _LEADING + _EDGE


def _panel(chart: Chart) -> _Panel:
    points = [point for one in chart.drawn for point in one.finite_points]
    return _Panel(
        chart,
        _x_axis([x for x, _ in points], chart.log_x),
        _axis([y for _, y in points], chart.log_y, _MOST_TICKS[1]),
        wrapped(chart.title, _TITLE, _PLOT_WIDTH, bold=True),
        _legend(chart.drawn),
        wrapped(chart.note, _NOTE, _PLOT_WIDTH),
    )


def _legend(series: Sequence[Series]) -> tuple[tuple[Series, ...], ...]:
    """In rows that are as wide as the plot, in the order of the series."""
    rows: list[list[Series]] = []
    room = 0.0
    for one in series:
        width = _entry_width(one)
        if not rows or width > room:
            rows.append([])
            room = _PLOT_WIDTH + _ENTRY_GAP  # no gap is needed after the last
        rows[-1].append(one)
        room -= width
    return tuple(map(tuple, rows))


def _entry_width(series: Series) -> float:
    return _SAMPLE + _SAMPLE_GAP + text_width(flat(series.name), _LABEL) + _ENTRY_GAP


# ---------------------------------------------------------------------------------------------------------------------
# SVG
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    colour: str
    marker: str


def svg(chart: Chart) -> str:
    """The chart as one standalone <svg> element on white.

    It has no script, style sheet, font or id, so that many of them can stand in one page. The numbers of a point are
    the tooltip of its marker.

    >>> speed = Series("compiled", ((1, 1.9e6), (2, 3.7e6), (4, 7.2e6)))
    >>> svg(Chart("Speed", "threads", "items/s", (speed,), log_x=True)).startswith("<svg ")
    True
    """
    return figure((chart,), columns=1)


def figure(charts: Sequence[Chart], columns: int = 2) -> str:
    """The charts side by side in one <svg> element, row by row, with so many in a row.

    A name has the same colour and the same marker in all of them.
    """
    if not charts:
        raise GraphError("figure: there must be a chart to draw; got none")
    if columns < 1:
        raise GraphError(f"figure: there must be at least one column; got columns={columns}")
    panels = [_panel(chart) for chart in charts]
    looks = _looks(charts)
    parts: list[str] = []
    width = top = 0.0
    for row in (panels[at : at + columns] for at in range(0, len(panels), columns)):
        above, below = max(panel.above for panel in row), max(panel.below for panel in row)
        left = 0.0
        for at, panel in enumerate(row):
            column = panels[at::columns]
            left += max(other.left for other in column)
            parts += _draw(panel, left, math.ceil(top + above), top, looks)
            left += _PLOT_WIDTH + max(other.right for other in column)
        width, top = max(width, left), math.ceil(top + above) + _PLOT_HEIGHT + math.ceil(below)
    label = "; ".join(chart.title for chart in charts if chart.title) or "chart"
    background = f'<rect width="{px(width)}" height="{px(top)}" fill="#ffffff"/>'
    return "\n".join([opening(label, width, top), background, *filter(None, parts), "</svg>"])


def _looks(charts: Sequence[Chart]) -> dict[str, _Look]:
    """A look for every name, also for those without a point: a failed run changes no other colour."""
    names = dict.fromkeys(one.name for chart in charts for one in chart.series)
    return {name: _Look(COLOURS[at % len(COLOURS)], _MARKERS[at % len(_MARKERS)]) for at, name in enumerate(names)}


def save(chart: Chart | Sequence[Chart], path: str | Path, columns: int = 2) -> Path:
    """Write the chart, or several as one figure, to an SVG file."""
    path = Path(path)
    if path.suffix != ".svg":
        raise GraphError(f"save: the name must end in .svg; got {path.name!r}")
    path.write_text(svg(chart) if isinstance(chart, Chart) else figure(chart, columns), encoding="utf-8")
    return path


def _draw(panel: _Panel, left: float, top: float, head: float, looks: dict[str, _Look]) -> Iterator[str]:
    """The chart with the upper left corner of its plot here, and the first line of its title below `head`."""
    yield f'<g class="penstock-chart" transform="translate({px(left)} {px(top)})">'
    yield from _draw_head(panel, head - top, looks)
    yield from _draw_grid(panel)
    yield from _draw_labels(panel)
    for one in reversed(panel.chart.drawn):  # the first lies on top
        yield from _draw_series(panel, one, looks[one.name])
    if not panel.chart.drawn:
        yield text_line(_PLOT_WIDTH / 2, _PLOT_HEIGHT / 2, "no data", _LABEL, _PLOT_WIDTH, FAINT, "middle")
    yield "</g>"


def _across(panel: _Panel, x: float) -> float:
    return _INSET + panel.x.share(x) * (_PLOT_WIDTH - 2 * _INSET)


def _down(panel: _Panel, y: float) -> float:
    return _PLOT_HEIGHT * (1 - panel.y.share(y))


def _draw_head(panel: _Panel, top: float, looks: dict[str, _Look]) -> Iterator[str]:
    y = top + _EDGE
    for line in panel.title:
        yield text_line(0, y + _TITLE, line, _TITLE, _PLOT_WIDTH, INK, bold=True)
        y += _TITLE * _LEADING
    yield '<g class="penstock-legend">'
    for row in panel.legend:
        y, x = y + _LEGEND_ROW, 0.0
        for one in row:
            look = looks[one.name]
            yield _line(f"M{px(x)} {px(y - 4)}H{px(x + _SAMPLE)}", one, look)
            yield _marker(x + _SAMPLE / 2, y - 4, look)
            name = x + _SAMPLE + _SAMPLE_GAP
            yield text_line(name, y, one.name, _LABEL, _PLOT_WIDTH - name, INK)
            x += _entry_width(one)
    yield "</g>"


def _draw_grid(panel: _Panel) -> Iterator[str]:
    yield rect(0, 0, _PLOT_WIDTH, _PLOT_HEIGHT, 0, "none", "none", 'class="penstock-plot"')
    across, down = ([f(panel, tick) for tick in axis.ticks] for f, axis in ((_across, panel.x), (_down, panel.y)))
    grid = "".join(f"M{px(x)} 0V{px(_PLOT_HEIGHT)}" for x in across)
    grid += "".join(f"M0 {px(y)}H{px(_PLOT_WIDTH)}" for y in down)
    marks = "".join(f"M{px(x)} {px(_PLOT_HEIGHT)}v{px(_TICK_MARK)}" for x in across)
    marks += "".join(f"M0 {px(y)}h{px(-_TICK_MARK)}" for y in down)
    marks += "".join(f"M{px(_across(panel, x))} {px(_PLOT_HEIGHT)}v{px(_TICK_MARK / 2)}" for x in panel.x.minor)
    marks += "".join(f"M0 {px(_down(panel, y))}h{px(-_TICK_MARK / 2)}" for y in panel.y.minor)
    yield f'<path d="{grid}" fill="none" stroke="{_GRID}"/>' if grid else ""
    yield f'<path d="M0 0V{px(_PLOT_HEIGHT)}H{px(_PLOT_WIDTH)}{marks}" fill="none" stroke="{_AXIS}"/>'


def _draw_labels(panel: _Panel) -> Iterator[str]:
    yield '<g class="penstock-x-ticks">'
    for tick, label in zip(panel.x.ticks, panel.x.labels, strict=True):
        y = _PLOT_HEIGHT + _TICK_GAP + _TICK
        yield text_line(_across(panel, tick), y, label, _TICK, _PLOT_WIDTH, FAINT, "middle")
    yield '</g><g class="penstock-y-ticks">'
    for tick, label in zip(panel.y.ticks, panel.y.labels, strict=True):
        yield text_line(-_TICK_GAP, _down(panel, tick) + _TICK * 0.35, label, _TICK, _PLOT_WIDTH, FAINT, "end")
    yield "</g>"
    y = _PLOT_HEIGHT + _X_LABEL_DOWN
    yield text_line(_PLOT_WIDTH / 2, y, panel.chart.x_label, _LABEL, _PLOT_WIDTH, INK, "middle")
    yield f'<g transform="translate({px(_EDGE + _LABEL - panel.left)} {px(_PLOT_HEIGHT / 2)}) rotate(-90)">'
    yield text_line(0, 0, panel.chart.y_label, _LABEL, _PLOT_HEIGHT, INK, "middle") + "</g>"
    yield '<g class="penstock-note">'
    for at, line in enumerate(panel.note, 1):
        yield text_line(0, y + _NOTE_GAP + at * _NOTE * _LEADING, line, _NOTE, _PLOT_WIDTH, FAINT)
    yield "</g>"


def _draw_series(panel: _Panel, series: Series, look: _Look) -> Iterator[str]:
    places = [(_across(panel, x), _down(panel, y)) for x, y in series.finite_points]
    yield f'<g class="penstock-series" data-name="{xml(series.name)}">'
    yield _line("M" + "L".join(f"{px(x)} {px(y)}" for x, y in places), series, look)
    every = 1 if len(places) <= _MOST_MARKERS else math.ceil(2 * len(places) / _MOST_MARKERS)
    for (x, y), (right, down) in list(zip(series.finite_points, places, strict=True))[::every]:
        yield _marker(right, down, look, f"{series.name}: {x:.10g}, {y:.10g}")
    yield "</g>"


def _line(path: str, series: Series, look: _Look) -> str:
    dashes = ' stroke-dasharray="6 4"' if series.dashed else ""
    return f'<path d="{path}" fill="none" stroke="{look.colour}" stroke-width="1.8" stroke-linejoin="round"{dashes}/>'


def _marker(x: float, y: float, look: _Look, tooltip: str = "") -> str:
    """With a thin white edge, so that markers that lie on each other can be told apart."""
    where = f'transform="translate({px(x)} {px(y)})" d="{look.marker}"'
    title = f"<title>{xml(tooltip)}</title>" if tooltip else ""
    return (
        f'<path class="penstock-point" {where} fill="{look.colour}" stroke="#ffffff" stroke-width="0.8">{title}</path>'
    )
