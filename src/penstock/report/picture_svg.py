"""A drawing of a pipeline as one standalone SVG element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.report import measures as m
from penstock.report.packing import Item, Link
from penstock.report.picture import Arrow, Picture
from penstock.report.picture_layout import (
    PictureLayout,
    box_height,
    caption_width,
    details,
    gutter,
    label_strip,
    label_width,
    layout_of,
    rails_of,
)
from penstock.report.svg import FAINT, INK, fit, mix, opening, px, rect, text_line, text_width, xml

KINDS = {  # the colour of each kind; fills and edges are mixed from it
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
NEUTRAL = "#6b7280"
PANEL, PANEL_EDGE = "#fdfdfc", "#e4e4e0"
GROUP, GROUP_EDGE, GROUP_INK = "#f0f2f6", "#d3d9e3", "#56627a"
STROKE, REGION = "#8b93a3", "#1f8a8a"


def svg(picture: Picture) -> str:
    """The picture as one standalone <svg> element, with its own light panel behind it.

    It has no script, style sheet, font or id, so that many of them can stand in one page.

    >>> from penstock.report.picture import Box
    >>> chain = Picture((Box("a", "read"), Box("b", "map")), (Arrow("a", "b"),), {})
    >>> svg(chain).startswith("<svg ")
    True
    """
    layout = layout_of(picture)
    title = fit(picture.title, m.HEADLINE, m.TITLE_WIDTH, bold=True)
    width = max(layout.width, text_width(title, m.HEADLINE, bold=True) + 2 * m.MARGIN if title else 0.0, m.EMPTY_WIDTH)
    height = layout.height if picture.boxes else layout.height + m.HEAD
    move = (width - layout.width) / 2
    parts = [
        opening(picture.title or "pipeline", width, height),
        rect(0.5, 0.5, width - 1, height - 1, 12, PANEL, PANEL_EDGE),
        text_line(m.MARGIN, m.MARGIN + 12, picture.title, m.HEADLINE, m.TITLE_WIDTH, INK, bold=True) if title else "",
        f'<g transform="translate({px(move)} 0)">' if move else "<g>",
        *(_draw_frame(layout, frame) for frame in layout.captions),
        *_draw_arrows(picture, layout),
        *(_draw_caption(layout, frame) for frame in layout.captions),
        *_draw_boxes(picture, layout),
        "</g>",
        ""
        if picture.boxes
        else text_line(width / 2, height / 2 + 4, "empty picture", m.DETAIL, width, FAINT, "middle"),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _draw_frame(layout: PictureLayout, frame: Item) -> str:
    top, bottom = layout.tops[frame.first] + m.GROUP_HEAD / 3, layout.bottoms[frame.last]
    return rect(frame.left, top, frame.width, bottom - top, 14, GROUP, GROUP_EDGE, 'class="penstock-group"')


def _draw_caption(layout: PictureLayout, frame: Item) -> str:
    """A tag on the upper edge of the frame, over the arrow that comes in; the arrow goes on below it."""
    caption = layout.captions[frame]
    if not caption:
        return ""
    width = caption_width(caption)
    first = next(item.centre for item in layout.boxes if item.inside is frame and item.first == frame.first)
    x = min(max(first, frame.left + width / 2 + m.PAD), frame.right - width / 2 - m.PAD)
    y = layout.tops[frame.first] + m.GROUP_HEAD / 3
    return rect(x - width / 2, y - 9, width, 18, 9, PANEL, GROUP_EDGE) + text_line(
        x, y + 4, caption, m.SMALL, width - 2 * m.PILL, GROUP_INK, "middle", bold=True
    )


def _draw_arrows(picture: Picture, layout: PictureLayout) -> Iterator[str]:
    """Bands first, then lines, then labels, so that none hides what is above it."""
    number = {box.id: at for at, box in enumerate(picture.boxes)}
    paths = []
    for arrow, route in zip(picture.arrows, layout.routes, strict=True):
        start = picture.boxes[number[arrow.start]]
        paths.append(_path(layout, route, box_height(start)))
        for depth in range(min(start.depth, m.MOST_RAILS), 0, -1) if not arrow.control else ():
            yield (
                f'<path d="{paths[-1]}" fill="none" stroke="{REGION}" stroke-opacity="0.13" '
                f'stroke-width="{px(1 + m.BAND * depth)}"/>'
            )
    for arrow, route, path in zip(picture.arrows, layout.routes, paths, strict=True):
        colour = KINDS["signal"] if arrow.control else STROKE
        dashes = ' stroke-dasharray="5 4"' if arrow.control else ""
        x, y = route[-1].ends[1], layout.lines[route[-1].below.first]
        yield f'<path class="penstock-arrow" d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>'
        yield f'<path d="M{px(x - 4.5)} {px(y - 8)}L{px(x)} {px(y - 0.5)}L{px(x + 4.5)} {px(y - 8)}Z" fill="{colour}"/>'
    for arrow, route in zip(picture.arrows, layout.routes, strict=True):
        if arrow.label:
            yield _draw_label(arrow, layout, route)


def _path(layout: PictureLayout, route: Sequence[Link], start_height: float) -> str:
    """Straight through rows, curved between them; it ends where the arrowhead begins."""
    path = f"M{px(route[0].ends[0])} {px(layout.lines[route[0].above.first] + start_height)}"
    for link in route:
        (left, right), upper, lower = link.ends, layout.bottoms[link.above.last], layout.tops[link.below.first]
        path += f"V{px(upper)}"
        if abs(left - right) > 0.05:
            middle = px((upper + lower) / 2)
            path += f"C{px(left)} {middle} {px(right)} {middle} {px(right)} {px(lower)}"
    return path + f"V{px(layout.lines[route[-1].below.first] - 7)}"


def _draw_label(arrow: Arrow, layout: PictureLayout, route: Sequence[Link]) -> str:
    strip = label_strip(route[0].above, route[-1].below)
    lane = next(link.below for link in route if link.below.last == strip)
    width = label_width(arrow.label)
    y = layout.tops[strip]
    ink = KINDS["signal"] if arrow.control else FAINT
    fill = PANEL if lane.inside is None else GROUP
    left, edge = lane.centre - width / 2, mix(ink, 0.35)
    pill = rect(left, y, width, m.LABEL_HEIGHT, 10, fill, edge, 'class="penstock-label"')
    return pill + text_line(lane.centre, y + 14, arrow.label, m.SMALL, width - 2 * m.PILL, ink, "middle")


def _draw_boxes(picture: Picture, layout: PictureLayout) -> Iterator[str]:
    for box, item, rails in zip(picture.boxes, layout.boxes, rails_of(picture), strict=True):
        colour = KINDS.get(box.kind, NEUTRAL)
        x, y, height = item.centre - item.width / 2, layout.lines[item.first], box_height(box)
        left = x + m.PAD + gutter(rails) + m.DOT
        room = item.width - 2 * m.PAD - gutter(rails) - m.DOT
        yield f'<g class="penstock-box" data-id="{xml(box.id)}" data-kind="{xml(box.kind)}">'
        yield rect(x, y, item.width, height, 8, mix(colour, 0.07), mix(colour, 0.55))
        yield from _draw_rails(x + m.RAIL + 1, y, height, rails)
        yield f'<circle cx="{px(left - m.DOT + 4)}" cy="{px(y + 18)}" r="4" fill="{colour}"/>'
        yield text_line(left, y + 22.5, box.title, m.TITLE, room, INK, bold=True)
        for at, line in enumerate(details(box)):
            folded = len(box.lines) > m.MOST_LINES and at == m.MOST_LINES - 1
            full = "\n".join(box.lines[at:]) if folded else box.lines[at]
            yield text_line(left, y + m.HEAD + 8 + at * m.LINE, line, m.DETAIL, room, FAINT, full=full)
        yield "</g>"


def _draw_rails(x: float, y: float, height: float, rails: tuple[int, int]) -> Iterator[str]:
    """One rail an open region; the rail of a region that opens here begins halfway, of one that closes ends there."""
    before, after = rails
    for at in range(min(max(rails), m.MOST_RAILS)):
        top = y + 1 if at < before else y + height / 2
        bottom = y + height - 1 if at < after else y + height / 2
        yield (
            f'<path d="M{px(x + at * m.RAIL)} {px(top)}V{px(bottom)}" stroke="{REGION}" stroke-opacity="0.55" '
            f'stroke-width="3"/>'
        )
