"""What each core did when: the firings of a traced run, as a standalone SVG and as a page that can be zoomed.

Each core has a lane. A block is a firing, in the colour of its node. Where a lane is empty the core had nothing that it
could do: it waited for items, or for room. A green line at the end of a block is a send to another core, a red one at
the start a receive, as in the paper on flexible filters.

The lanes are drawn a million units wide, within an element that stretches what it shows of them over the width of the
drawing. So the page zooms by changing what that element shows, and nothing is drawn again but the axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.errors import GraphError
from penstock.report.svg import COLOURS, FAINT, INK, fit, opening, px, rect, text_line, text_width, xml


class TracedFiring(Protocol):
    """What is known of a firing."""

    @property
    def node(self) -> str: ...
    @property
    def core(self) -> int: ...
    @property
    def start_s(self) -> float: ...
    @property
    def seconds(self) -> float: ...
    @property
    def items(self) -> int: ...
    @property
    def outputs(self) -> int: ...


class TracedEdge(Protocol):
    @property
    def sender(self) -> str: ...
    @property
    def receiver(self) -> str: ...


class TracedRun(Protocol):
    """What a timeline is drawn from: the statistics of a run with `trace=True`."""

    @property
    def firings(self) -> Sequence[TracedFiring]: ...
    @property
    def edges(self) -> Sequence[TracedEdge]: ...


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """A piece of a lane, in nanoseconds from the beginning: a firing, or several of one node close together."""

    node: str
    start: int
    stop: int
    firings: int
    items: int
    outputs: int


@dataclass(frozen=True, slots=True)
class Lane:
    """What a core did. Invariant: blocks follow each other and do not overlap."""

    core: int
    blocks: tuple[TimelineBar, ...]
    span: int

    @property
    def busy(self) -> float:
        """The share of the time in which it fired."""
        return sum(block.stop - block.start for block in self.blocks) / self.span

    def waits(self, least: int) -> Iterator[tuple[int, int]]:
        """The gaps of at least so many nanoseconds."""
        at = 0
        for start, stop in [*((block.start, block.stop) for block in self.blocks), (self.span, self.span)]:
            if start - at >= least:
                yield at, start
            at = stop


MOST_BLOCKS = 5_000
"""In a lane of the page; a picture has fewer, because nobody can look closer."""


def lanes(traced: TracedRun, most: int = MOST_BLOCKS) -> tuple[Lane, ...]:
    """The lanes of all cores. Firings of a node too close to each other to be told apart become one block."""
    if not traced.firings:
        raise GraphError("timeline: the run must note its firings; there are none; prepare it with trace=True")
    first = min(firing.start_s for firing in traced.firings)
    span = max(1, max(_ns(firing.start_s + firing.seconds - first) for firing in traced.firings))
    drawn = []
    for core in sorted({firing.core for firing in traced.firings}):
        own = sorted((f for f in traced.firings if f.core == core), key=lambda f: f.start_s)
        drawn.append(Lane(core, tuple(_join_firings(own, first, span // most)), span))
    return tuple(drawn)


def _ns(seconds: float) -> int:
    return round(1e9 * seconds)


def _join_firings(firings: Sequence[TracedFiring], first: float, near: int) -> Iterator[TimelineBar]:
    """Blocks of firings, of which those of one node that begin within `near` of the last one's end become one."""
    held: TimelineBar | None = None
    for firing in firings:
        start = max(_ns(firing.start_s - first), held.stop if held else 0)
        stop = max(start, _ns(firing.start_s + firing.seconds - first))
        if held and held.node == firing.node and start - held.stop <= near and stop - held.start <= 50 * near:
            counts = (held.firings + 1, held.items + firing.items, held.outputs + firing.outputs)
            held = TimelineBar(held.node, held.start, stop, *counts)
            continue
        if held:
            yield held
        held = TimelineBar(firing.node, start, stop, 1, firing.items, firing.outputs)
    if held:
        yield held


# ---------------------------------------------------------------------------------------------------------------------
# The drawing
# ---------------------------------------------------------------------------------------------------------------------

_WIDTH, _EDGE = 900.0, 14.0
_LANE, _GAP = 34.0, 8.0
_TITLE, _LABEL, _TICK = 14.0, 12.0, 11.0
_PLAIN, _SEND, _RECEIVE = "#eceef2", "#00a000", "#e00000"
_TICKS = 8
_UNITS = 1_000_000  # browsers draw nothing beyond some tens of millions
_PICTURE_BLOCKS = 1_000


def svg(traced: TracedRun, title: str = "What each core did") -> str:
    """The timeline as a standalone drawing.

    >>> import penstock as ps
    >>> numbers = ps.from_items([{"v": v} for v in range(5)]).filter(lambda v: v > 1).map(w=lambda v: -v)
    >>> run = numbers.prepare(fuse=False, compile=False, trace=True)
    >>> run.collect().num_rows
    3
    >>> text = svg(run.statistics())
    >>> text.startswith("<svg") and "core 0" in text
    True
    """
    return _drawing(traced, title, lanes(traced, _PICTURE_BLOCKS))


def _drawing(traced: TracedRun, title: str, lanes: Sequence[Lane]) -> str:
    names = list(dict.fromkeys(firing.node for firing in traced.firings))
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    labels = [f"core {lane.core}, {lane.busy:.0%} busy" for lane in lanes]
    left = _EDGE + max(text_width(label, _LABEL) for label in labels) + 8
    legend, top = _legend(colours, _EDGE + 2 * _TITLE)
    height = len(lanes) * (_LANE + _GAP)
    parts = [opening(title, left + _WIDTH + _EDGE, top + height + 34)]
    parts += [rect(0, 0, left + _WIDTH + _EDGE, top + height + 34, 0, "#ffffff", "none")]
    parts += [text_line(_EDGE, _EDGE + _TITLE, title, _TITLE, left + _WIDTH, INK, bold=True), *legend]
    for at, label in enumerate(labels):
        parts.append(text_line(_EDGE, top + at * (_LANE + _GAP) + _LANE / 2 + 4, label, _LABEL, left, INK))
    span = lanes[0].span
    parts.append(
        f'<svg class="lanes" x="{px(left)}" y="{px(top)}" width="{px(_WIDTH)}" height="{px(height)}" '
        f'viewBox="0 0 {_UNITS} {px(height)}" preserveAspectRatio="none" data-span="{span}">'
    )
    crossing = _crossing(traced)
    for at, lane in enumerate(lanes):
        parts += _lane(lane, at * (_LANE + _GAP), colours, crossing)
    parts += ["</svg>", *_axis(left, top + height, span), "</svg>"]
    return "\n".join(parts) + "\n"


def _legend(colours: dict[str, str], top: float) -> tuple[list[str], float]:
    """The nodes with their colours, and what the lines mean, in rows; and where these end."""
    entries = [*colours.items(), ("sends to another core", _SEND), ("receives from another core", _RECEIVE)]
    parts, x, y = [], _EDGE, top
    for name, colour in [*entries, ("waits", _PLAIN)]:
        shown = fit(name, _TICK, 260)
        room = text_width(shown, _TICK) + 34
        if x + room > _WIDTH and x > _EDGE:
            x, y = _EDGE, y + 18
        is_line = colour in (_SEND, _RECEIVE)
        parts.append(rect(x + (4 if is_line else 0), y, 2 if is_line else 12, 12, 0, colour, "none"))
        parts.append(text_line(x + 18, y + 10, shown, _TICK, room, FAINT, full=name))
        x += room
    return parts, y + 30


def _lane(lane: Lane, top: float, colours: dict[str, str], crossing: tuple[set[str], set[str]]) -> Iterator[str]:
    senders, receivers = crossing
    yield f'<rect x="0" y="{px(top)}" width="{_UNITS}" height="{px(_LANE)}" fill="{_PLAIN}"/>'
    for start, stop in lane.waits(max(1, lane.span // _PICTURE_BLOCKS)):
        told = f"core {lane.core} waits {_time(stop - start)}"
        yield _piece(lane, start, stop, top, _LANE, _PLAIN, told)
    for block in lane.blocks:
        told = f"{block.node}: {_time(block.stop - block.start)} from {_time(block.start)}, "
        told += f"{block.items:,} items in, {block.outputs:,} out"
        told += f", {block.firings:,} firings" if block.firings > 1 else ""
        yield _piece(lane, block.start, block.stop, top + 4, _LANE - 8, colours[block.node], told)
        if block.outputs and block.node in senders:
            yield _line(_UNITS * block.stop / lane.span, top, _SEND)
        if block.items and block.node in receivers:
            yield _line(_UNITS * block.start / lane.span, top, _RECEIVE)


def _piece(lane: Lane, start: int, stop: int, top: float, height: float, colour: str, told: str) -> str:
    x, width = _UNITS * start / lane.span, max(0.1, _UNITS * (stop - start) / lane.span)
    place = f'x="{px(x)}" y="{px(top)}" width="{px(width)}" height="{px(height)}"'
    return f'<rect {place} fill="{colour}"><title>{xml(told)}</title></rect>'


def _line(x: float, top: float, colour: str) -> str:
    return f'<path d="M{px(x)} {px(top)}v{px(_LANE)}" stroke="{colour}" vector-effect="non-scaling-stroke"/>'


def _crossing(traced: TracedRun) -> tuple[set[str], set[str]]:
    """The nodes that send to another core, and those that receive from one."""
    cores: dict[str, set[int]] = {}
    for firing in traced.firings:
        cores.setdefault(firing.node, set()).add(firing.core)
    ways = [way for way in _ways(traced, set(cores)) if len(cores.get(way[0], set()) | cores.get(way[1], set())) > 1]
    return {sender for sender, _ in ways}, {receiver for _, receiver in ways}


def _ways(traced: TracedRun, names: set[str]) -> Iterator[tuple[str, str]]:
    """Which node sends to which. Those of a flexible node go through its split, its copies and its merge."""
    for edge in traced.edges:
        sender, receiver = f"merge of {edge.sender}", f"split of {edge.receiver}"
        yield sender if sender in names else edge.sender, receiver if receiver in names else edge.receiver
    for name in (name for name in names if f"split of {name}" in names):
        for copy in (each for each in names if each == name or each.startswith(f"{name} (copy ")):
            yield f"split of {name}", copy
            yield copy, f"merge of {name}"


def _axis(left: float, top: float, span: int) -> Iterator[str]:
    for at in range(_TICKS + 1):
        x = left + _WIDTH * at / _TICKS
        yield f'<path d="M{px(x)} {px(top)}v4" stroke="{FAINT}"/>'
        anchor = "start" if at == 0 else "end" if at == _TICKS else "middle"
        where = f'x="{px(x)}" y="{px(top + 17)}" font-size="{px(_TICK)}" text-anchor="{anchor}" fill="{FAINT}"'
        yield f'<text class="tick" {where}>{_time(span * at // _TICKS)}</text>'


def _time(ns: int) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns} ns"


# ---------------------------------------------------------------------------------------------------------------------
# The page
# ---------------------------------------------------------------------------------------------------------------------

_SCRIPT = """
const lanes = document.querySelector("svg.lanes"), ticks = [...document.querySelectorAll("text.tick")];
const [, , span, height] = lanes.getAttribute("viewBox").split(" ").map(Number), all = Number(lanes.dataset.span);
let from = 0, width = span, held = null;
function time(place) {
  const ns = place * all / span;
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]])
    if (ns >= size) {
      const digits = Math.ceil(Math.log10(place / width)) + 3;
      return (ns / size).toPrecision(Math.min(9, Math.max(4, digits))) + " " + unit;
    }
  return Math.round(ns) + " ns";
}
function show() {
  width = Math.min(span, Math.max(width, 1));
  from = Math.min(span - width, Math.max(0, from));
  lanes.setAttribute("viewBox", `${from} 0 ${width} ${height}`);
  ticks.forEach((tick, at) => tick.textContent = time(from + width * at / (ticks.length - 1)));
}
function place(event) {
  const box = lanes.getBoundingClientRect();
  return (event.clientX - box.left) / box.width;
}
lanes.addEventListener("wheel", event => {
  event.preventDefault();
  const at = place(event), fixed = from + at * width;
  width *= event.deltaY > 0 ? 1.25 : 0.8;
  width = Math.min(span, Math.max(width, 1));
  from = fixed - at * width;
  show();
}, {passive: false});
lanes.addEventListener("pointerdown", event => { held = from + place(event) * width; });
addEventListener("pointerup", () => { held = null; });
addEventListener("pointermove", event => { if (held !== null) { from = held - place(event) * width; show(); } });
lanes.addEventListener("dblclick", () => { from = 0; width = span; show(); });
"""


def page(traced: TracedRun, title: str = "What each core did") -> str:
    """The timeline as a page that needs nothing but itself: the wheel zooms, a drag moves, a double click shows all."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    style = f"body{{margin:1em;font-family:sans-serif;color:{INK}}}svg.lanes{{cursor:grab}}"
    told = "The wheel zooms, a drag moves, a double click shows all. Point at a block to see what it is."
    drawn = _drawing(traced, title, lanes(traced))
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>{xml(title)}</title><style>{style}</style></head>\n'
        f"<body>\n{drawn}<p>{told}</p>\n<script>{_SCRIPT}</script>\n</body></html>\n"
    )


def write(traced: TracedRun, path: str | Path, title: str = "What each core did") -> None:
    """Write the timeline to a file: a page where its name ends in `.html`, a drawing where it ends in `.svg`."""
    makers = {".html": page, ".svg": svg}
    suffix = Path(path).suffix
    if suffix not in makers:
        raise GraphError(f"timeline: the name of the file must end in .html or .svg; got {str(path)!r}")
    Path(path).write_text(makers[suffix](traced, title), encoding="utf-8")
