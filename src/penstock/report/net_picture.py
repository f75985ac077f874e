"""A picture of a timed Petri net: a lane a core, bars that fire, circles that hold tokens, and dashed room.

Data flows from left to right. That a core does one thing at a time is said by its lane, with one circle for its token;
the arcs to and from it would hide all others. Room stands below, with arcs to who takes it and from who gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import ModelError
from penstock.report.svg import COLOURS, FAINT, INK, fit, mix, opening, px, rect, text_line, text_width, xml
from penstock.tune.model.net import Constant, Net, Place, Transition, mean_time

DRAWABLE = 300
"""More transitions than this make no picture that anybody could read."""
_COLUMN, _SLOT, _MARGIN, _TOP, _CIRCLE = 136.0, 58.0, 16.0, 34.0, 12.0
_BAR = 108.0, 34.0
_ROOM = "room"


@dataclass(frozen=True, slots=True)
class NetPicture:
    """A drawing of a net: SVG in a notebook, in a file or as text."""

    net: Net

    def svg(self) -> str:
        return "\n".join(_draw(NetLayout.of(self.net)))

    def save(self, path: str | Path) -> Path:
        """Write the picture to an SVG file."""
        path = Path(path)
        if path.suffix != ".svg":
            raise ModelError(f"save: the name must end in .svg; got {path.name!r}")
        path.write_text(self.svg(), encoding="utf-8")
        return path

    def _repr_svg_(self) -> str:
        return self.svg()


def picture(net: Net) -> NetPicture:
    """The picture of a net that is small enough to be read.

    >>> from penstock.tune.model.net import Place, Transition
    >>> loop = Net((Place("idle", 1),), (Transition("work", 3, {"idle": 1}, {"idle": 1}),))
    >>> picture(loop).svg()[:4]
    '<svg'
    """
    if len(net.transitions) > DRAWABLE:
        raise ModelError(
            f"picture: a net must have at most {DRAWABLE} transitions to be drawn; got {len(net.transitions):,}; "
            "draw a part of it"
        )
    return NetPicture(net)


# ---------------------------------------------------------------------------------------------------------------------
# Where everything stands
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class NetLayout:
    """The middle of each bar and circle by name, and the upper and lower edge of each lane."""

    net: Net
    at: dict[str, tuple[float, float]] = field(default_factory=dict)
    lanes: dict[str, tuple[float, float]] = field(default_factory=dict)
    left: float = 0.0
    width: float = 0.0
    height: float = 0.0

    @classmethod
    def of(cls, net: Net) -> NetLayout:
        made = cls(net)
        lane, column = _lanes(net), _columns(net)
        order = [name for name in dict.fromkeys([*net.cores, "", _ROOM]) if name in lane.values()]
        made.left = _MARGIN + max(text_width(name, 13, bold=True) for name in [*net.cores, _ROOM]) + 40
        top = _TOP
        for name in order:
            members = sorted((one for one in lane if lane[one] == name), key=lambda one: column[one])
            lowest = made._stack(members, column, top)
            made.lanes[name] = top, lowest
            top = lowest + 10
        made.width = made.left + (max(column.values()) + 1) * _COLUMN + _MARGIN
        made.height = top + 30
        return made

    def _stack(self, members: list[str], column: Mapping[str, int], top: float) -> float:
        """Put what shares a lane and a column below each other; the lower edge of the lane comes back."""
        used: dict[int, int] = {}
        for one in members:
            slot = used.get(column[one], 0)
            used[column[one]] = slot + 1
            self.at[one] = self.left + (column[one] + 0.5) * _COLUMN, top + (slot + 0.5) * _SLOT
        return top + max(used.values(), default=1) * _SLOT


def _lanes(net: Net) -> dict[str, str]:
    """The lane of each bar and circle: its core's, that of its neighbours, or the one for room."""
    lane = {t.name: t.core for t in net.transitions if t.core is not None}
    flow = [place for place in net.places if place.role == "data"]
    for _ in range(3):  # a circle stands with who fills it, a bar without a core with the circles that it fills
        for place in flow:
            near = [*net.producers[net.number[place.name]], *net.consumers[net.number[place.name]]]
            lanes = [lane[net.transitions[n].name] for n in near if net.transitions[n].name in lane]
            if place.name not in lane and lanes:
                lane[place.name] = lanes[0]
        for transition in net.transitions:
            lanes = [lane[name] for name, _ in (*transition.gives, *transition.takes) if name in lane]
            if transition.name not in lane and lanes:
                lane[transition.name] = lanes[0]
    for name in (*(place.name for place in flow), *(transition.name for transition in net.transitions)):
        lane.setdefault(name, "")
    return lane | {place.name: _ROOM for place in net.places if place.role == "room"}


def _columns(net: Net) -> dict[str, int]:
    """The column of each: behind all from which data comes; where data goes in a circle, no way back counts."""
    after: dict[str, list[str]] = {t.name: [] for t in net.transitions}
    flow = {place.name for place in net.places if place.role == "data"}
    after |= {name: [] for name in flow}
    for transition in net.transitions:
        after[transition.name] += [name for name, _ in transition.gives if name in flow]
        for name, _ in transition.takes:
            if name in flow:
                after[name].append(transition.name)
    column = dict.fromkeys(after, 0)
    for one in _forward(after):
        for other in after[one]:
            column[other] = max(column[other], column[one] + 1)
    for place in net.places:
        if place.role == "room":
            near = [*net.producers[net.number[place.name]], *net.consumers[net.number[place.name]]]
            columns = [column[net.transitions[n].name] for n in near]
            column[place.name] = round(sum(columns) / len(columns)) if columns else 0
        elif place.role == "core":
            column[place.name] = 0
    return column


def _forward(after: dict[str, list[str]]) -> list[str]:
    """Everything in an order in which data flows; ways back to what is still being followed are cut."""
    order: list[str] = []
    state: dict[str, int] = {}
    into = {other for others in after.values() for other in others}
    for start in [*(one for one in after if one not in into), *after]:
        stack = [(start, iter(tuple(after[start])))] if start not in state else []
        state.setdefault(start, 1)
        while stack:
            one, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[one] = 2
                order.append(one)
                stack.pop()
            elif following not in state:
                state[following] = 1
                stack.append((following, iter(tuple(after[following]))))
            elif state[following] == 1:
                after[one].remove(following)
    return order[::-1]


# ---------------------------------------------------------------------------------------------------------------------
# Drawing
# ---------------------------------------------------------------------------------------------------------------------


def _draw(layout: NetLayout) -> Iterator[str]:
    net = layout.net
    yield opening(
        f"Petri net of {len(net.transitions)} transitions and {len(net.places)} places", layout.width, layout.height
    )
    yield (
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 1 L8 4 L0 7 z" fill="{FAINT}"/></marker></defs>'
    )
    yield rect(0, 0, layout.width, layout.height, 0, "#ffffff", "none")
    yield text_line(_MARGIN, 20, _title(net), 12, layout.width - 2 * _MARGIN, FAINT)
    colours = {core: COLOURS[n % len(COLOURS)] for n, core in enumerate(net.cores)}
    yield from _lane_bands(layout, colours)
    for transition in net.transitions:
        yield from _arcs(layout, transition)
    for place in net.places:
        if place.name in layout.at and place.role != "core":
            yield from _circle(layout, place)
    for transition in net.transitions:
        yield from _bar(layout, transition, colours.get(transition.core or "", INK))
    yield "</svg>"


def _title(net: Net) -> str:
    return (
        f"{len(net.transitions)} transitions, {len(net.places)} places · bars fire and say how long; circles hold "
        "tokens; dashed: room"
    )


def _lane_bands(layout: NetLayout, colours: Mapping[str, str]) -> Iterator[str]:
    tokens = {place.name: place.tokens for place in layout.net.places}
    for lane, (top, bottom) in layout.lanes.items():
        colour = colours.get(lane, FAINT)
        yield rect(6, top, layout.width - 12, bottom - top, 8, mix(colour, 0.06), mix(colour, 0.25))
        room = layout.left - _MARGIN - 30
        yield text_line(_MARGIN, (top + bottom) / 2 + 4, lane, 13, room, colour, bold=True)
        if f"{lane} free" in tokens:
            yield from _tokens(layout.left - 22, (top + bottom) / 2, tokens[f"{lane} free"], colour, f"{lane} free")


def _circle(layout: NetLayout, place: Place) -> Iterator[str]:
    x, y = layout.at[place.name]
    yield from _tokens(x, y, place.tokens, FAINT if place.role == "room" else INK, place.name)
    yield text_line(x, y + _CIRCLE + 11, place.name, 9, _COLUMN - 6, FAINT, "middle")


def _tokens(x: float, y: float, tokens: int, colour: str, name: str) -> Iterator[str]:
    """A circle with its tokens: dots up to four, a number beyond."""
    shown = f"<title>{xml(f'{name}: {tokens} tokens')}</title>"
    yield f'<circle cx="{px(x)}" cy="{px(y)}" r="{px(_CIRCLE)}" fill="#ffffff" stroke="{colour}">{shown}</circle>'
    places = {1: [(0, 0)], 2: [(-4, 0), (4, 0)], 3: [(-4, 3), (4, 3), (0, -4)], 4: [(-4, -4), (4, -4), (-4, 4), (4, 4)]}
    for across, down in places.get(tokens, []):
        yield f'<circle cx="{px(x + across)}" cy="{px(y + down)}" r="2.6" fill="{colour}"/>'
    if tokens > 4:
        yield text_line(x, y + 3.5, f"{tokens}", 9, 2 * _CIRCLE, colour, "middle")


def _bar(layout: NetLayout, transition: Transition, colour: str) -> Iterator[str]:
    x, y = layout.at[transition.name]
    width, height = _BAR
    yield rect(x - width / 2, y - height / 2, width, height, 3, mix(colour, 0.18), colour)
    yield text_line(x, y - 2, transition.name, 10, width - 6, INK, "middle", bold=True)
    yield text_line(x, y + 11, _time(transition), 9, width - 6, FAINT, "middle")


def _time(transition: Transition) -> str:
    mean = mean_time(transition.time)
    shown = str(mean) if mean.denominator <= 1000 and mean < 10**6 else f"{float(mean):.4g}"
    return shown if isinstance(transition.time, Constant) else f"∅ {shown}"


def _arcs(layout: NetLayout, transition: Transition) -> Iterator[str]:
    role = {place.name: place.role for place in layout.net.places}
    for name, weight in transition.takes:
        if role[name] != "core":
            yield from _arc(layout, name, transition.name, weight, role[name] == "room")
    for name, weight in transition.gives:
        if role[name] != "core":
            yield from _arc(layout, transition.name, name, weight, role[name] == "room")


def _arc(layout: NetLayout, source: str, target: str, weight: int, is_room: bool) -> Iterator[str]:
    (x1, y1), (x2, y2) = layout.at[source], layout.at[target]
    half = {True: _BAR[0] / 2, False: _CIRCLE}
    bars = {t.name for t in layout.net.transitions}
    if is_room:  # from below a bar to a circle's top, and the other way
        y1 += _BAR[1] / 2 if source in bars else -_CIRCLE
        y2 += _BAR[1] / 2 + 1 if target in bars else -_CIRCLE - 1
        middle = (y1 + y2) / 2
        path = f"M{px(x1)} {px(y1)} C{px(x1)} {px(middle)} {px(x2)} {px(middle)} {px(x2)} {px(y2)}"
    else:
        x1 += half[source in bars]
        x2 -= half[target in bars] + 1
        reach = max(24.0, abs(x2 - x1) / 2) if x2 < x1 else (x2 - x1) / 2
        path = f"M{px(x1)} {px(y1)} C{px(x1 + reach)} {px(y1)} {px(x2 - reach)} {px(y2)} {px(x2)} {px(y2)}"
    dashes = ' stroke-dasharray="4 3"' if is_room else ""
    colour = mix(FAINT, 0.6) if is_room else FAINT
    yield f'<path d="{path}" fill="none" stroke="{colour}"{dashes} marker-end="url(#tip)"/>'
    if weight > 1:
        label = fit(str(weight), 9, 40)
        yield text_line((x1 + x2) / 2, (y1 + y2) / 2 - 3, label, 9, 40, INK, "middle")
