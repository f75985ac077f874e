"""The layout of a drawing of a pipeline: rows first, then columns, then heights.

Row r of the picture is made of two slots: 2r, a strip for the labels of the arrows that come into the row, and 2r + 1,
its boxes. Columns depend on slots only, so heights may be settled afterwards. An arrow that passes a row, or carries a
label, takes room there as a *lane*, so no arrow crosses a box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.report import measures as m
from penstock.report.layers import Edges, by_start, components, homes_of, rows_of
from penstock.report.packing import Item, Link, move, place
from penstock.report.picture import Box, Picture
from penstock.report.svg import flat, text_width


@dataclass(frozen=True, slots=True)
class PictureLayout:
    """Where everything is. Invariant: boxes never overlap, and the frame of a group holds no box of another."""

    boxes: list[Item]  # as the boxes of the picture
    captions: dict[Item, str]  # by the frame of the group
    routes: list[list[Link]]  # as the arrows of the picture
    tops: dict[int, float]  # by slot, as the next two
    lines: dict[int, float]  # where the boxes begin
    bottoms: dict[int, float]
    width: float
    height: float


def layout_of(picture: Picture) -> PictureLayout:
    edges = picture.edges
    homes = homes_of([box.group for box in picture.boxes], edges)
    rows, spans = rows_of(homes, edges)
    frames = {home: Item(2 * span.start + 1, 2 * span.stop - 1, 0.0) for home, span in spans.items()}
    boxes = [
        Item(2 * row + 1, 2 * row + 1, width, frames[home])
        for row, width, home in zip(rows, _widths(picture, edges), homes, strict=True)
    ]
    captions = {
        frames[home]: picture.groups[group] for home in spans if (group := picture.boxes[home].group) is not None
    }
    ends = [(boxes[start], boxes[end]) for start, end in edges]
    strips = {label_strip(start, end) for arrow, (start, end) in zip(picture.arrows, ends, strict=True) if arrow.label}
    routes = [
        _route(start, end, strips, label_width(arrow.label), m.ASIDE if arrow.control else 0.0)
        for arrow, (start, end) in zip(picture.arrows, ends, strict=True)
    ]
    width = _columns(list(frames.values()), captions, boxes, routes)
    tops, lines, bottoms = _heights(picture, boxes, captions, routes, strips)
    height = max(bottoms.values(), default=m.MARGIN) + m.MARGIN
    return PictureLayout(boxes, captions, routes, tops, lines, bottoms, width, height)


def label_strip(start: Item, end: Item) -> int:
    """The slot for the label of an arrow: above its end, or above the frame that it enters there."""
    return (end if start.inside is end.inside else end.inside or end).first - 1


def _route(start: Item, end: Item, strips: set[int], label: float, aside: float) -> list[Link]:
    """The way of an arrow: down to the end; or out of its frame, down to the next one, and there to the end.

    What it passes on the way are lanes; most arrows need none. A lane goes through the strip of the row that it leads
    to if that row has one.
    """

    def lane(first: int, row: int, width: float, inside: Item | None) -> Iterator[Item]:
        last = row - 1 if row - 1 in strips else row - 2
        if first <= last:
            yield Item(first, last, width, inside)

    home, goal = start.inside or start, end.inside or end
    if home is goal:
        stops = [start, *lane(start.last + 1, end.first, label, home), end]
    else:
        leaving = [Item(start.last + 1, home.last, m.LANE, home)] if start.last < home.last else []
        between = lane(home.last + 1, goal.first, label, None)
        entering = lane(goal.first, end.first, m.LANE, goal) if goal.first < end.first else ()
        stops = [start, *leaving, *between, *entering, end]
    shifts = [aside if stop in (start, end) else 0.0 for stop in stops]
    return [Link(*pair, *shift) for pair, shift in zip(pairwise(stops), pairwise(shifts), strict=True)]


def _columns(
    frames: Sequence[Item], captions: Mapping[Item, str], boxes: Sequence[Item], routes: Sequence[Sequence[Link]]
) -> float:
    """Place what lies within each frame, then the frames and the lanes between them; give the width of it all."""
    items: dict[Item | None, dict[Item, None]] = defaultdict(dict)
    links: dict[Item | None, list[Link]] = defaultdict(list)
    across: list[Link] = []
    for item in (*boxes, *frames, *(link.below for route in routes for link in route)):
        items[item.inside][item] = None
    for link in (link for route in routes for link in route):
        (links[link.above.inside] if link.above.inside is link.below.inside else across).append(link)
    for frame in frames:
        place(list(items[frame]), links[frame])
        _enclose(frame, list(items[frame]), captions.get(frame))
    links[None] = [_outside(link) for link in across]
    place(list(items[None]), links[None])
    move(items[None], m.MARGIN - min((item.left for item in items[None]), default=0.0))
    return max((item.right for item in items[None]), default=m.MARGIN) + m.MARGIN


def _outside(link: Link) -> Link:
    """A link as seen from outside the frames that it leaves and enters."""
    leave = link.leave + (link.above.x if link.above.inside else 0.0)
    enter = link.enter + (link.below.x if link.below.inside else 0.0)
    return Link(link.above.inside or link.above, link.below.inside or link.below, leave, enter)


def _enclose(frame: Item, items: Sequence[Item], caption: str | None) -> None:
    left, right = min(item.left for item in items), max(item.right for item in items)
    move(items, -(left + right) / 2)
    frame.width = right - left
    if caption is not None:
        frame.width = max(frame.width + 2 * m.GROUP_PAD, caption_width(caption) + 2 * m.PAD)


def _heights(
    picture: Picture, boxes: Sequence[Item], frames: Iterable[Item], routes: Iterable[list[Link]], strips: set[int]
) -> tuple[dict[int, float], dict[int, float], dict[int, float]]:
    """The top of every slot, where its boxes begin, and its bottom."""
    tall: dict[int, float] = defaultdict(float)
    for box, item in zip(picture.boxes, boxes, strict=True):
        tall[item.first] = max(tall[item.first], box_height(box))
    far: dict[int, float] = defaultdict(float)  # slot -> how far sideways the arrows go that come into it
    for link in (link for route in routes for link in route):
        far[link.below.first] = max(far[link.below.first], abs(link.ends[1] - link.ends[0]))
    head, foot = {frame.first for frame in frames}, {frame.last for frame in frames}
    tops: dict[int, float] = {}
    lines: dict[int, float] = {}
    bottoms: dict[int, float] = {}
    y = m.MARGIN + (m.TITLE_HEIGHT if picture.title else 0.0)
    for slot in sorted(tall):
        if slot - 1 in strips:
            y += _gap(far[slot - 1])
            tops[slot - 1], bottoms[slot - 1] = y, y + m.LABEL_HEIGHT
            y += m.LABEL_HEIGHT + (_gap(far[slot]) if far[slot] > 0.05 else m.TIP)
        elif slot > 1:
            y += _gap(max(far[slot - 1], far[slot]))
        tops[slot] = y
        tops.setdefault(slot - 1, y)
        lines[slot] = y + (m.GROUP_HEAD if slot in head else m.TIP if slot > 1 else 0.0)
        y = lines[slot] + tall[slot] + (m.GROUP_FOOT if slot in foot else 0.0)
        bottoms[slot] = y
    return tops, lines, bottoms


def _gap(far: float) -> float:
    return m.ROW_GAP + min(m.FAN_GAP, far / 16)


def rails_of(picture: Picture) -> list[tuple[int, int]]:
    """For each box the regions open at its input and at its output."""
    before = [0] * len(picture.boxes)
    for arrow, (start, end) in zip(picture.arrows, picture.edges, strict=True):
        if not arrow.control:
            before[end] = max(before[end], picture.boxes[start].depth)
    return [(depth, box.depth) for depth, box in zip(before, picture.boxes, strict=True)]


def gutter(rails: tuple[int, int]) -> float:
    """The room for the rails, left of the text."""
    return m.RAIL * min(max(rails), m.MOST_RAILS)


def _widths(picture: Picture, edges: Edges) -> list[float]:
    """The width of each box: what its text needs, and the same all along a straight run, so that it looks like one."""
    starts, ends = by_start(edges), by_start([(end, start) for start, end in edges])
    straight = [(start, end) for start, end in edges if len(starts[start]) == len(ends[end]) == 1]
    runs = components(len(picture.boxes), straight)
    widths: dict[int, float] = defaultdict(float)
    for run, box, rails in zip(runs, picture.boxes, rails_of(picture), strict=True):
        title = text_width(flat(box.title), m.TITLE, bold=True)
        text = max((text_width(line, m.DETAIL) for line in details(box)), default=0.0)
        widths[run] = max(widths[run], max(title, text) + m.DOT + gutter(rails) + 2 * m.PAD)
    return [min(max(widths[run], m.BOX_WIDTH[0]), m.BOX_WIDTH[1]) for run in runs]


def details(box: Box) -> list[str]:
    """The detail lines as drawn, but for the ellipses."""
    lines = [flat(line) for line in box.lines]
    if len(lines) <= m.MOST_LINES:
        return lines
    return [*lines[: m.MOST_LINES - 1], f"… {len(lines) - m.MOST_LINES + 1} more"]


def box_height(box: Box) -> float:
    lines = len(details(box))
    return m.HEAD + (lines * m.LINE + m.FOOT if lines else 0.0)


def label_width(label: str) -> float:
    return min(text_width(flat(label), m.SMALL) + 2 * m.PILL, m.LABEL_WIDTH) if label else m.LANE


def caption_width(caption: str) -> float:
    return min(text_width(flat(caption), m.SMALL, bold=True) + 2 * m.PILL, m.CAPTION_WIDTH)
