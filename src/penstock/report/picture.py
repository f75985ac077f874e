"""A drawing of a pipeline, as one standalone SVG element or as Mermaid text.

The reader of a picture wants three facts at a glance: what flows into what, which steps became one compiled loop, and
where a region opens and closes. So boxes stand in rows with arrows going down, a fused chain is one tinted rectangle,
and open regions are rails: beside the text of every box inside them, and along every arrow that carries their items.

How the layout works. Boxes of one group that hang together are a *piece*; every other box is a piece by itself. Rows
come first (longest path, a piece never shares a row's column with a stranger), then columns, then heights. Columns are
found twice by the same procedure, `_place`: for the boxes within each piece, and for the pieces within the picture.
An arrow that passes a row, or carries a label, takes room there as a *lane*, so no arrow crosses a box.

The file is longer than the house likes because it is one thing with a seam of five names; nothing in it is of use to
anybody else.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.report.drawing import FAINT, INK, fit, flat, mix, opening, px, rect, text_line, text_width, xml

# ---------------------------------------------------------------------------------------------------------------------
# What is drawn
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Box:
    """One node of the graph. `depth` counts the regions that are open at its output."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    kind: str = "node"
    group: str | None = None
    depth: int = 0

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ValueError(
                f"box {self.id!r}: depth counts open regions, so it must be 0 or more; got {self.depth}; "
                f"does a step close a region that none has opened?"
            )


@dataclass(frozen=True, slots=True)
class Arrow:
    """Items, or for `control` signals, go from the box `start` to the box `end`."""

    start: str
    end: str
    label: str = ""
    control: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph without cycles, ready to be drawn. Boxes and arrows are drawn in the order in which they stand here."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    groups: Mapping[str, str]
    title: str = ""

    def __post_init__(self) -> None:
        where = f"picture {self.title!r}"
        known: set[str] = set()
        for box in self.boxes:
            if box.id in known:
                raise ValueError(f"{where}: every box must have its own id; got {box.id!r} twice; rename one of them")
            known.add(box.id)
            if box.group is not None and box.group not in self.groups:
                raise ValueError(
                    f"{where}: the group of box {box.id!r} must be one of {sorted(self.groups)}; got {box.group!r}; "
                    f"add it with a caption to groups, or set group=None"
                )
        for arrow in self.arrows:
            for end in (arrow.start, arrow.end):
                if end not in known:
                    raise ValueError(
                        f"{where}: arrow {arrow.start!r} -> {arrow.end!r} must join two boxes of the picture; "
                        f"got {end!r}, which is none; add the box, or drop the arrow"
                    )
        caught = set(range(len(self.boxes))) - set(_downwards(len(self.boxes), _edges(self)))
        if caught:
            raise ValueError(
                f"{where}: arrows must lead down, without a cycle; got one at or above {self.boxes[min(caught)].id!r}; "
                f"drop the arrow that goes back"
            )


# ---------------------------------------------------------------------------------------------------------------------
# Measures, in pixels
# ---------------------------------------------------------------------------------------------------------------------

_MARGIN = 28.0  # around the whole picture
_COLUMN_GAP = 28.0  # between neighbours in a row
_ROW_GAP = 24.0  # between rows; grows where an arrow has far to go sideways
_FAN_GAP = 30.0  # by at most this much
_TIP = 10.0  # the last straight bit of an arrow, above its box
_ASIDE = 14.0  # control arrows leave and enter so far right of the middle, where the items go
_BOX_WIDTH = (132.0, 288.0)  # least and most
_PAD = 14.0  # from the edge of a box to its text
_HEAD = 36.0  # a box with a title only
_LINE = 16.0  # each detail line
_FOOT = 5.0  # below the last detail line
_MOST_LINES = 8  # more are folded into one
_RAIL = 7.0  # from one rail to the next
_GROUP_PAD = 18.0  # from the edge of a group to its boxes
_GROUP_HEAD = 30.0  # the same above, where the caption stands
_GROUP_FOOT = 16.0  # the same below
_LANE = 8.0  # an arrow that passes a row
_LABEL_HEIGHT = 20.0
_LABEL_WIDTH = 236.0  # most
_PILL = 10.0  # from the end of a label or caption to its text
_CAPTION_WIDTH = 320.0  # most
_DOT = 15.0  # from the dot of a title to its text
_BAND = 7.0  # how much each open region widens the band along an arrow
_MOST_RAILS = 8  # deeper regions are not told apart
_TITLE_HEIGHT, _TITLE_WIDTH = 34.0, 640.0  # of the whole picture; most
_EMPTY_WIDTH = 180.0
_HEADLINE, _TITLE, _DETAIL, _SMALL = 15.0, 13.0, 11.5, 11.0  # sizes of type


# ---------------------------------------------------------------------------------------------------------------------
# Layout: placing items side by side
# ---------------------------------------------------------------------------------------------------------------------
#
# Row r of the picture is made of two slots: 2r, a strip for the labels of the arrows that come into the row, and
# 2r + 1, its boxes. Columns depend on slots only, so heights may be settled afterwards.


@dataclass(slots=True, eq=False)
class _Item:
    """Something that takes room in the slots `first` to `last`: a box, a lane, or the frame of a piece."""

    first: int
    last: int
    width: float
    inside: _Item | None = None  # the frame that it lies in
    x: float = 0.0  # of its centre, from the centre of that frame

    @property
    def slots(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def centre(self) -> float:
        return self.x + (self.inside.x if self.inside else 0.0)


@dataclass(frozen=True, slots=True)
class _Link:
    """A piece of an arrow, from one item to a lower one; it leaves and enters so far from their centres."""

    above: _Item
    below: _Item
    leave: float = 0.0
    enter: float = 0.0

    @property
    def slant(self) -> float:
        """How far right of its beginning it ends, if the upper item is at x = 0."""
        return self.below.x + self.enter - self.leave

    @property
    def ends(self) -> tuple[float, float]:
        return self.above.centre + self.leave, self.below.centre + self.enter


def _place(items: Sequence[_Item], links: Sequence[_Link]) -> None:
    """Set every x: children side by side in order, parents centred above them, nothing overlapping.

    A join hangs below its middle parent, and is then drawn towards the mean of all of them as far as there is room.
    """
    into: dict[_Item, list[_Link]] = defaultdict(list)
    for link in links:
        into[link.below].append(link)
    children: dict[_Item, list[_Link]] = defaultdict(list)
    for link in links:
        if link is into[link.below][(len(into[link.below]) - 1) // 2]:
            children[link.above].append(link)
    downwards = sorted(items, key=lambda item: item.first)
    trees: dict[_Item, list[_Item]] = {}
    for item in reversed(downwards):
        trees[item] = _pack(sorted(children[item], key=lambda link: link.leave), trees)
        trees[item].append(item)
    _pack([_Link(item, item) for item in items if item not in into], trees)
    for item in downwards:
        if len(into[item]) > 1:
            goal = sum(link.above.x + link.leave - link.enter for link in into[item]) / len(into[item])
            _draw_towards(goal, item, children, items)


def _pack(links: Sequence[_Link], trees: dict[_Item, list[_Item]]) -> list[_Item]:
    """Put the trees that the links lead to side by side, below a parent at x = 0; straight below it where possible."""
    packed: list[_Item] = []
    free: dict[int, float] = {}  # slot -> where the room right of the packed ones begins
    for link in links:
        tree = trees.pop(link.below)
        apart = [free[slot] - item.left for item in tree for slot in item.slots if slot in free] if free else []
        _move(tree, max(-link.slant, *apart) if apart else -link.slant)
        for item in tree if len(links) > 1 else ():
            for slot in item.slots:
                free[slot] = max(free.get(slot, item.right), item.right + _COLUMN_GAP)
        packed = packed + tree if packed else tree
    if links:
        _move(packed, -(links[0].slant + links[-1].slant) / 2)
    return packed


def _move(tree: Iterable[_Item], shift: float) -> None:
    if shift:
        for item in tree:
            item.x += shift


def _draw_towards(goal: float, root: _Item, children: Mapping[_Item, Sequence[_Link]], items: Sequence[_Item]) -> None:
    """Move the tree of the root so that the root comes to the goal, or as near as there is room."""
    tree = [root]
    for item in tree:
        tree.extend(link.below for link in children[item])
    mine = set(tree)
    others: dict[int, list[_Item]] = defaultdict(list)
    for other in items:
        for slot in other.slots if other not in mine else ():
            others[slot].append(other)
    side = 1.0 if goal > root.x else -1.0
    room = abs(goal - root.x)
    for item in tree:
        for other in (other for slot in item.slots for other in others[slot]):
            if (other.x - item.x) * side > 0:
                room = min(room, abs(other.x - item.x) - (item.width + other.width) / 2 - _COLUMN_GAP)
    _move(tree, max(room, 0.0) * side)


# ---------------------------------------------------------------------------------------------------------------------
# Layout: pieces and rows
# ---------------------------------------------------------------------------------------------------------------------

_Edges = Sequence[tuple[int, int]]  # arrows, by the places of their boxes in the picture


def _edges(picture: Picture) -> _Edges:
    number = {box.id: at for at, box in enumerate(picture.boxes)}
    return [(number[arrow.start], number[arrow.end]) for arrow in picture.arrows]


def _downwards(count: int, edges: _Edges) -> list[int]:
    """The numbers 0..count-1 with every start before its end; those on or below a cycle are left out."""
    below = _grouped(edges)
    waiting = [0] * count
    for _, end in edges:
        waiting[end] += 1
    order = [number for number in range(count) if not waiting[number]]
    for number in order:
        for end in below[number]:
            waiting[end] -= 1
            if not waiting[end]:
                order.append(end)
    return order


def _grouped(edges: _Edges) -> dict[int, list[int]]:
    grouped: dict[int, list[int]] = defaultdict(list)
    for start, end in edges:
        grouped[start].append(end)
    return grouped


def _components(count: int, edges: _Edges) -> list[int]:
    """For each number the least number that it hangs together with."""
    least = list(range(count))

    def root(number: int) -> int:
        while least[number] != number:
            least[number] = number = least[least[number]]
        return number

    for start, end in edges:
        low, high = sorted((root(start), root(end)))
        least[high] = low
    return [root(number) for number in range(count)]


def _homes(groups: Sequence[str | None], edges: _Edges) -> list[int]:
    """For each box its piece, named by the first box of that.

    Ensures that the pieces, like the boxes, form no cycle. A group that an arrow leaves and another comes back to
    would; then groups are divided by level, which goes up with every arrow that comes in from outside.
    """
    count = len(groups)
    within = [(start, end) for start, end in edges if groups[start] is not None and groups[start] == groups[end]]
    homes = _components(count, within)
    if len(_downwards(count, _between(homes, edges))) == count:
        return homes
    below, inside = _grouped(edges), set(within)
    level = [0] * count
    for start in _downwards(count, edges):
        for end in below[start]:
            level[end] = max(level[end], level[start] + ((start, end) not in inside))
    return _components(count, [(start, end) for start, end in within if level[start] == level[end]])


def _between(homes: Sequence[int], edges: _Edges) -> _Edges:
    return [(homes[start], homes[end]) for start, end in edges if homes[start] != homes[end]]


def _rows(homes: Sequence[int], edges: _Edges) -> tuple[list[int], dict[int, range]]:
    """The row of each box, and the rows of each piece: below whatever leads to it, and all of that one's piece."""
    count = len(homes)
    rows = [0] * count
    below = _grouped([(start, end) for start, end in edges if homes[start] == homes[end]])
    deep: dict[int, int] = {}
    for start in _downwards(count, edges):
        for end in below[start]:
            rows[end] = max(rows[end], rows[start] + 1)
        deep[homes[start]] = max(deep.get(homes[start], 0), rows[start] + 1)
    first = dict.fromkeys(deep, 0)
    below = _grouped(_between(homes, edges))
    for home in (home for home in _downwards(count, _between(homes, edges)) if home in deep):
        for end in below[home]:
            first[end] = max(first[end], first[home] + deep[home])
    spans = {home: range(first[home], first[home] + deep[home]) for home in sorted(deep)}
    return [spans[home].start + row for home, row in zip(homes, rows, strict=True)], spans


# ---------------------------------------------------------------------------------------------------------------------
# Layout: arrows, columns and heights
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where everything is. Invariant: boxes never overlap, and the frame of a group holds no box of another."""

    boxes: list[_Item]  # as the boxes of the picture
    captions: dict[_Item, str]  # by the frame of the group
    routes: list[list[_Link]]  # as the arrows of the picture
    tops: dict[int, float]  # by slot, as the next two
    lines: dict[int, float]  # where the boxes begin
    bottoms: dict[int, float]
    width: float
    height: float


def _layout(picture: Picture) -> _Layout:
    edges = _edges(picture)
    homes = _homes([box.group for box in picture.boxes], edges)
    rows, spans = _rows(homes, edges)
    frames = {home: _Item(2 * span.start + 1, 2 * span.stop - 1, 0.0) for home, span in spans.items()}
    boxes = [
        _Item(2 * row + 1, 2 * row + 1, width, frames[home])
        for row, width, home in zip(rows, _widths(picture, edges), homes, strict=True)
    ]
    captions = {
        frames[home]: picture.groups[group] for home in spans if (group := picture.boxes[home].group) is not None
    }
    ends = [(boxes[start], boxes[end]) for start, end in edges]
    strips = {_strip(start, end) for arrow, (start, end) in zip(picture.arrows, ends, strict=True) if arrow.label}
    routes = [
        _route(start, end, strips, _label_width(arrow.label), _ASIDE if arrow.control else 0.0)
        for arrow, (start, end) in zip(picture.arrows, ends, strict=True)
    ]
    width = _columns(list(frames.values()), captions, boxes, routes)
    tops, lines, bottoms = _heights(picture, boxes, captions, routes, strips)
    height = max(bottoms.values(), default=_MARGIN) + _MARGIN
    return _Layout(boxes, captions, routes, tops, lines, bottoms, width, height)


def _strip(start: _Item, end: _Item) -> int:
    """The slot for the label of an arrow: above its end, or above the frame that it enters there."""
    return (end if start.inside is end.inside else end.inside or end).first - 1


def _route(start: _Item, end: _Item, strips: set[int], label: float, aside: float) -> list[_Link]:
    """The way of an arrow: down to the end; or out of its frame, down to the next one, and there to the end.

    What it passes on the way are lanes; most arrows need none. A lane goes through the strip of the row that it leads
    to if that row has one.
    """

    def lane(first: int, row: int, width: float, inside: _Item | None) -> Iterator[_Item]:
        last = row - 1 if row - 1 in strips else row - 2
        if first <= last:
            yield _Item(first, last, width, inside)

    home, goal = start.inside or start, end.inside or end
    if home is goal:
        stops = [start, *lane(start.last + 1, end.first, label, home), end]
    else:
        leaving = [_Item(start.last + 1, home.last, _LANE, home)] if start.last < home.last else []
        between = lane(home.last + 1, goal.first, label, None)
        entering = lane(goal.first, end.first, _LANE, goal) if goal.first < end.first else ()
        stops = [start, *leaving, *between, *entering, end]
    shifts = [aside if stop in (start, end) else 0.0 for stop in stops]
    return [_Link(*pair, *shift) for pair, shift in zip(pairwise(stops), pairwise(shifts), strict=True)]


def _columns(
    frames: Sequence[_Item], captions: Mapping[_Item, str], boxes: Sequence[_Item], routes: Sequence[Sequence[_Link]]
) -> float:
    """Place what lies within each frame, then the frames and the lanes between them; give the width of it all."""
    items: dict[_Item | None, dict[_Item, None]] = defaultdict(dict)
    links: dict[_Item | None, list[_Link]] = defaultdict(list)
    across: list[_Link] = []
    for item in (*boxes, *frames, *(link.below for route in routes for link in route)):
        items[item.inside][item] = None
    for link in (link for route in routes for link in route):
        (links[link.above.inside] if link.above.inside is link.below.inside else across).append(link)
    for frame in frames:
        _place(list(items[frame]), links[frame])
        _enclose(frame, list(items[frame]), captions.get(frame))
    links[None] = [_outside(link) for link in across]
    _place(list(items[None]), links[None])
    _move(items[None], _MARGIN - min((item.left for item in items[None]), default=0.0))
    return max((item.right for item in items[None]), default=_MARGIN) + _MARGIN


def _outside(link: _Link) -> _Link:
    """A link as seen from outside the frames that it leaves and enters."""
    leave = link.leave + (link.above.x if link.above.inside else 0.0)
    enter = link.enter + (link.below.x if link.below.inside else 0.0)
    return _Link(link.above.inside or link.above, link.below.inside or link.below, leave, enter)


def _enclose(frame: _Item, items: Sequence[_Item], caption: str | None) -> None:
    left, right = min(item.left for item in items), max(item.right for item in items)
    _move(items, -(left + right) / 2)
    frame.width = right - left
    if caption is not None:
        frame.width = max(frame.width + 2 * _GROUP_PAD, _caption_width(caption) + 2 * _PAD)


def _heights(
    picture: Picture, boxes: Sequence[_Item], frames: Iterable[_Item], routes: Iterable[list[_Link]], strips: set[int]
) -> tuple[dict[int, float], dict[int, float], dict[int, float]]:
    """The top of every slot, where its boxes begin, and its bottom."""
    tall: dict[int, float] = defaultdict(float)
    for box, item in zip(picture.boxes, boxes, strict=True):
        tall[item.first] = max(tall[item.first], _box_height(box))
    far: dict[int, float] = defaultdict(float)  # slot -> how far sideways the arrows go that come into it
    for link in (link for route in routes for link in route):
        far[link.below.first] = max(far[link.below.first], abs(link.ends[1] - link.ends[0]))
    head, foot = {frame.first for frame in frames}, {frame.last for frame in frames}
    tops: dict[int, float] = {}
    lines: dict[int, float] = {}
    bottoms: dict[int, float] = {}
    y = _MARGIN + (_TITLE_HEIGHT if picture.title else 0.0)
    for slot in sorted(tall):
        if slot - 1 in strips:
            y += _gap(far[slot - 1])
            tops[slot - 1], bottoms[slot - 1] = y, y + _LABEL_HEIGHT
            y += _LABEL_HEIGHT + (_gap(far[slot]) if far[slot] > 0.05 else _TIP)
        elif slot > 1:
            y += _gap(max(far[slot - 1], far[slot]))
        tops[slot] = y
        tops.setdefault(slot - 1, y)
        lines[slot] = y + (_GROUP_HEAD if slot in head else _TIP if slot > 1 else 0.0)
        y = lines[slot] + tall[slot] + (_GROUP_FOOT if slot in foot else 0.0)
        bottoms[slot] = y
    return tops, lines, bottoms


def _gap(far: float) -> float:
    return _ROW_GAP + min(_FAN_GAP, far / 16)


def _rails(picture: Picture) -> list[tuple[int, int]]:
    """For each box the regions open at its input and at its output."""
    before = [0] * len(picture.boxes)
    for arrow, (start, end) in zip(picture.arrows, _edges(picture), strict=True):
        if not arrow.control:
            before[end] = max(before[end], picture.boxes[start].depth)
    return [(depth, box.depth) for depth, box in zip(before, picture.boxes, strict=True)]


def _gutter(rails: tuple[int, int]) -> float:
    """The room for the rails, left of the text."""
    return _RAIL * min(max(rails), _MOST_RAILS)


def _widths(picture: Picture, edges: _Edges) -> list[float]:
    """The width of each box: what its text needs, and the same all along a straight run, so that it looks like one."""
    starts, ends = _grouped(edges), _grouped([(end, start) for start, end in edges])
    straight = [(start, end) for start, end in edges if len(starts[start]) == len(ends[end]) == 1]
    runs = _components(len(picture.boxes), straight)
    widths: dict[int, float] = defaultdict(float)
    for run, box, rails in zip(runs, picture.boxes, _rails(picture), strict=True):
        title = text_width(flat(box.title), _TITLE, bold=True)
        text = max((text_width(line, _DETAIL) for line in _details(box)), default=0.0)
        widths[run] = max(widths[run], max(title, text) + _DOT + _gutter(rails) + 2 * _PAD)
    return [min(max(widths[run], _BOX_WIDTH[0]), _BOX_WIDTH[1]) for run in runs]


def _details(box: Box) -> list[str]:
    """The detail lines as drawn, but for the ellipses."""
    lines = [flat(line) for line in box.lines]
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[: _MOST_LINES - 1], f"… {len(lines) - _MOST_LINES + 1} more"]


def _box_height(box: Box) -> float:
    lines = len(_details(box))
    return _HEAD + (lines * _LINE + _FOOT if lines else 0.0)


def _label_width(label: str) -> float:
    return min(text_width(flat(label), _SMALL) + 2 * _PILL, _LABEL_WIDTH) if label else _LANE


def _caption_width(caption: str) -> float:
    return min(text_width(flat(caption), _SMALL, bold=True) + 2 * _PILL, _CAPTION_WIDTH)


# ---------------------------------------------------------------------------------------------------------------------
# SVG
# ---------------------------------------------------------------------------------------------------------------------

_KINDS = {  # the colour of each kind; fills and edges are mixed from it
    "source": "#3b6ea5",
    "map": "#5b6bc0",
    "filter": "#b7791f",
    "flat_map": "#8a5cc2",
    "hooks": "#a8548f",
    "open": "#1f8a8a",
    "close": "#2f855a",
    "key": "#c05621",
    "signal": "#c53f5b",
    "join": "#3f7fc5",
    "columns": "#4a7a94",
    "sink": "#4a5568",
}
_NEUTRAL = "#6b7280"
_PANEL, _PANEL_EDGE = "#fdfdfc", "#e4e4e0"
_GROUP, _GROUP_EDGE, _GROUP_INK = "#f0f2f6", "#d3d9e3", "#56627a"
_STROKE, _REGION = "#8b93a3", "#1f8a8a"


def svg(picture: Picture) -> str:
    """The picture as one standalone <svg> element, with its own light panel behind it.

    It has no script, style sheet, font or id, so that many of them can stand in one page.

    >>> chain = Picture((Box("a", "read"), Box("b", "map")), (Arrow("a", "b"),), {})
    >>> svg(chain).startswith("<svg ")
    True
    """
    layout = _layout(picture)
    title = fit(picture.title, _HEADLINE, _TITLE_WIDTH, bold=True)
    width = max(layout.width, text_width(title, _HEADLINE, bold=True) + 2 * _MARGIN if title else 0.0, _EMPTY_WIDTH)
    height = layout.height if picture.boxes else layout.height + _HEAD
    move = (width - layout.width) / 2
    parts = [
        opening(picture.title or "pipeline", width, height),
        rect(0.5, 0.5, width - 1, height - 1, 12, _PANEL, _PANEL_EDGE),
        text_line(_MARGIN, _MARGIN + 12, picture.title, _HEADLINE, _TITLE_WIDTH, INK, bold=True) if title else "",
        f'<g transform="translate({px(move)} 0)">' if move else "<g>",
        *(_draw_frame(layout, frame) for frame in layout.captions),
        *_draw_arrows(picture, layout),
        *(_draw_caption(layout, frame) for frame in layout.captions),
        *_draw_boxes(picture, layout),
        "</g>",
        "" if picture.boxes else text_line(width / 2, height / 2 + 4, "empty picture", _DETAIL, width, FAINT, "middle"),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _draw_frame(layout: _Layout, frame: _Item) -> str:
    top, bottom = layout.tops[frame.first] + _GROUP_HEAD / 3, layout.bottoms[frame.last]
    return rect(frame.left, top, frame.width, bottom - top, 14, _GROUP, _GROUP_EDGE, 'class="penstock-group"')


def _draw_caption(layout: _Layout, frame: _Item) -> str:
    """A tag on the upper edge of the frame, over the arrow that comes in; the arrow goes on below it."""
    caption = layout.captions[frame]
    if not caption:
        return ""
    width = _caption_width(caption)
    first = next(item.centre for item in layout.boxes if item.inside is frame and item.first == frame.first)
    x = min(max(first, frame.left + width / 2 + _PAD), frame.right - width / 2 - _PAD)
    y = layout.tops[frame.first] + _GROUP_HEAD / 3
    return rect(x - width / 2, y - 9, width, 18, 9, _PANEL, _GROUP_EDGE) + text_line(
        x, y + 4, caption, _SMALL, width - 2 * _PILL, _GROUP_INK, "middle", bold=True
    )


def _draw_arrows(picture: Picture, layout: _Layout) -> Iterator[str]:
    """Bands first, then lines, then labels, so that none hides what is above it."""
    number = {box.id: at for at, box in enumerate(picture.boxes)}
    paths = []
    for arrow, route in zip(picture.arrows, layout.routes, strict=True):
        start = picture.boxes[number[arrow.start]]
        paths.append(_path(layout, route, _box_height(start)))
        for depth in range(min(start.depth, _MOST_RAILS), 0, -1) if not arrow.control else ():
            yield (
                f'<path d="{paths[-1]}" fill="none" stroke="{_REGION}" stroke-opacity="0.13" '
                f'stroke-width="{px(1 + _BAND * depth)}"/>'
            )
    for arrow, route, path in zip(picture.arrows, layout.routes, paths, strict=True):
        colour = _KINDS["signal"] if arrow.control else _STROKE
        dashes = ' stroke-dasharray="5 4"' if arrow.control else ""
        x, y = route[-1].ends[1], layout.lines[route[-1].below.first]
        yield f'<path class="penstock-arrow" d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>'
        yield f'<path d="M{px(x - 4.5)} {px(y - 8)}L{px(x)} {px(y - 0.5)}L{px(x + 4.5)} {px(y - 8)}Z" fill="{colour}"/>'
    for arrow, route in zip(picture.arrows, layout.routes, strict=True):
        if arrow.label:
            yield _draw_label(arrow, layout, route)


def _path(layout: _Layout, route: Sequence[_Link], start_height: float) -> str:
    """Straight through rows, curved between them; it ends where the arrowhead begins."""
    path = f"M{px(route[0].ends[0])} {px(layout.lines[route[0].above.first] + start_height)}"
    for link in route:
        (left, right), upper, lower = link.ends, layout.bottoms[link.above.last], layout.tops[link.below.first]
        path += f"V{px(upper)}"
        if abs(left - right) > 0.05:
            middle = px((upper + lower) / 2)
            path += f"C{px(left)} {middle} {px(right)} {middle} {px(right)} {px(lower)}"
    return path + f"V{px(layout.lines[route[-1].below.first] - 7)}"


def _draw_label(arrow: Arrow, layout: _Layout, route: Sequence[_Link]) -> str:
    strip = _strip(route[0].above, route[-1].below)
    lane = next(link.below for link in route if link.below.last == strip)
    width = _label_width(arrow.label)
    y = layout.tops[strip]
    ink = _KINDS["signal"] if arrow.control else FAINT
    fill = _PANEL if lane.inside is None else _GROUP
    left, edge = lane.centre - width / 2, mix(ink, 0.35)
    pill = rect(left, y, width, _LABEL_HEIGHT, 10, fill, edge, 'class="penstock-label"')
    return pill + text_line(lane.centre, y + 14, arrow.label, _SMALL, width - 2 * _PILL, ink, "middle")


def _draw_boxes(picture: Picture, layout: _Layout) -> Iterator[str]:
    for box, item, rails in zip(picture.boxes, layout.boxes, _rails(picture), strict=True):
        colour = _KINDS.get(box.kind, _NEUTRAL)
        x, y, height = item.centre - item.width / 2, layout.lines[item.first], _box_height(box)
        left = x + _PAD + _gutter(rails) + _DOT
        room = item.width - 2 * _PAD - _gutter(rails) - _DOT
        yield f'<g class="penstock-box" data-id="{xml(box.id)}" data-kind="{xml(box.kind)}">'
        yield rect(x, y, item.width, height, 8, mix(colour, 0.07), mix(colour, 0.55))
        yield from _draw_rails(x + _RAIL + 1, y, height, rails)
        yield f'<circle cx="{px(left - _DOT + 4)}" cy="{px(y + 18)}" r="4" fill="{colour}"/>'
        yield text_line(left, y + 22.5, box.title, _TITLE, room, INK, bold=True)
        for at, line in enumerate(_details(box)):
            folded = len(box.lines) > _MOST_LINES and at == _MOST_LINES - 1
            full = "\n".join(box.lines[at:]) if folded else box.lines[at]
            yield text_line(left, y + _HEAD + 8 + at * _LINE, line, _DETAIL, room, FAINT, full=full)
        yield "</g>"


def _draw_rails(x: float, y: float, height: float, rails: tuple[int, int]) -> Iterator[str]:
    """One rail an open region; the rail of a region that opens here begins halfway, of one that closes ends there."""
    before, after = rails
    for at in range(min(max(rails), _MOST_RAILS)):
        top = y + 1 if at < before else y + height / 2
        bottom = y + height - 1 if at < after else y + height / 2
        yield (
            f'<path d="M{px(x + at * _RAIL)} {px(top)}V{px(bottom)}" stroke="{_REGION}" stroke-opacity="0.55" '
            f'stroke-width="3"/>'
        )


# ---------------------------------------------------------------------------------------------------------------------
# Mermaid
# ---------------------------------------------------------------------------------------------------------------------


def mermaid(picture: Picture) -> str:
    """The picture as a Mermaid flowchart; boxes are n0, n1, … in their order, since any text may be an id.

    >>> print(mermaid(Picture((Box("a", "read"), Box("b", "map")), (Arrow("a", "b"),), {})))
    flowchart TD
      n0["read"]:::kind_other
      n1["map"]:::kind_other
      n0 --> n1
      classDef kind_other fill:#f3f4f5,stroke:#6b7280,color:#1f2430
    """
    names = {box.id: f"n{at}" for at, box in enumerate(picture.boxes)}
    members: dict[str | None, list[Box]] = defaultdict(list)
    for box in picture.boxes:
        members[box.group].append(box)
    lines = ["flowchart TD"]
    for at, (group, caption) in enumerate(picture.groups.items()):
        if members[group]:
            lines.append(f'  subgraph g{at}["{_mermaid(caption)}"]')
            lines.extend(f"    {_mermaid_box(box, names[box.id])}" for box in members[group])
            lines.append("  end")
    lines.extend(f"  {_mermaid_box(box, names[box.id])}" for box in members[None])
    for arrow in picture.arrows:
        line = "-.->" if arrow.control else "-->"
        label = f'|"{_mermaid(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {names[arrow.start]} {line}{label} {names[arrow.end]}")
    drawn = [f"g{at}" for at, group in enumerate(picture.groups) if members[group]]
    if drawn:
        lines.append(f"  class {','.join(drawn)} group")
        lines.append(f"  classDef group fill:{_GROUP},stroke:{_GROUP_EDGE},color:{_GROUP_INK}")
    for kind in sorted({_mermaid_kind(box) for box in picture.boxes}):
        colour = _KINDS.get(kind, _NEUTRAL)
        lines.append(f"  classDef kind_{kind} fill:{mix(colour, 0.08)},stroke:{colour},color:{INK}")
    return "\n".join(lines)


def _mermaid_kind(box: Box) -> str:
    return box.kind if box.kind in _KINDS else "other"


def _mermaid_box(box: Box, name: str) -> str:
    label = "<br/>".join(_mermaid(text) for text in (box.title, *box.lines))
    return f'{name}["{label}"]:::kind_{_mermaid_kind(box)}'


def _mermaid(text: str) -> str:
    """Every character but letters, digits and a few harmless ones as Mermaid's own #code;.

    Two dollars would begin a formula even so, and \\n a line; a space of no width keeps them apart.
    """
    line = re.sub(r"(?<=\$)(?=\$)|(?<=\\)(?=n)", "\u200b", flat(text))
    return "".join(glyph if glyph.isalnum() or glyph in " ,()=" else f"#{ord(glyph)};" for glyph in line) or " "
