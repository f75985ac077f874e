"""A graph and its plan, for people: as text, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.function import Function
from penstock.graph.tree import Tree
from penstock.plan.make import LAYOUT, plan
from penstock.plan.plan import ChannelPlan, Decision, LoopPlan, Plan
from penstock.plan.segment import CLEANING, Segment, fed_segments
from penstock.report.mermaid import mermaid
from penstock.report.picture import Arrow, Box, Picture
from penstock.report.picture_svg import svg


@dataclass(frozen=True, slots=True)
class GraphPicture:
    """A drawing of a graph: SVG in a notebook, in a file or as text, and Mermaid text for a document."""

    picture: Picture

    def svg(self) -> str:
        return svg(self.picture)

    def mermaid(self) -> str:
        return mermaid(self.picture)

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file: Mermaid text where its name ends in .mmd, else SVG."""
        path = Path(path)
        if path.suffix not in (".svg", ".mmd"):
            raise GraphError(f"save: the name must end in .svg or .mmd; got {path.name!r}")
        path.write_text(self.mermaid() if path.suffix == ".mmd" else self.svg(), encoding="utf-8")
        return path

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return self.mermaid()


def explain(plan: Plan, contexts: Mapping[Segment, Decision[str]] | None = None) -> str:
    """The source, then every loop: why it begins, what is in it, and what each step gives; then the channels.

    On several cores also where each loop runs. `contexts` are those of channels that a run has chosen since.
    """
    tree, is_placed = plan.tree, plan.request.cores > 1
    lines = [f"{tree.source.label}: {_fields(tree.source)}"]
    for node in tree.nodes[1:]:
        if isinstance(node, CLEANING):
            lines.append(f"  {node.label}")
    for segment in plan.segments:
        mode = _mode(segment) if plan.request.compile else "interpreted as asked for"
        place = f", {_place(plan, plan.loops[segment])}" if is_placed else ""
        lines += ["", *_explain_segment(tree, plan.segments, segment, mode, place)]
    for fed, channel in plan.channels.items():
        lines += ["", *_channel(plan, channel, (contexts or {}).get(fed, channel.context))]
    return "\n".join(lines)


def _place(plan: Plan, loop: LoopPlan) -> str:
    """Where a loop runs, how many copies it has, and how the sides of a join come to them."""
    segment = loop.segment
    found = f"on core {loop.core.value}"
    if segment.copies:
        found += f", and {segment.copies} {'copy' if segment.copies == 1 else 'copies'} on others"
    sharing = plan.sharings.get(segment)
    if sharing is None:
        return found
    if not sharing.is_central:
        return f"{found}, each side shared out by itself"
    reason = "" if sharing.reason == "as asked for" else f", because {sharing.reason}"
    return f"{found}, its sides shared out together{reason}"


def _channel(plan: Plan, channel: ChannelPlan, context: Decision[str]) -> Iterator[str]:
    bounds = channel.bounds.value
    yield (
        f"channel loop {channel.feeder.number + 1} → loop {channel.fed.number + 1}: holds {bounds.items:,} items, "
        f"{bounds.signals:,} signals and boundaries; one item sends at most {channel.items:,} and {channel.marks:,}"
    )
    if bounds.threshold is not None:
        yield f"  credit: with every signal and every {bounds.threshold + 1:,} items, for all that was sent without"
    else:
        yield "  credit: with every signal, for the items before it"
    yield f"  context: {context.value}; {context.reason}"
    for beats in plan.heartbeats:
        if channel.fed in beats.intervals:
            yield f"  heartbeat: {beats.explain(channel.fed)}"


def _explain_segment(tree: Tree, segments: Sequence[Segment], segment: Segment, mode: str, place: str) -> Iterator[str]:
    if segment.sides:
        sides = ", ".join(f"loop {side.feeder.number + 1}" for side in segment.sides if side.feeder is not None)
        yield f"loop {segment.number + 1}, {segment.name} of {sides}{place}: {segment.reason}"
        yield f"  {segment.name}  {_gives(tree, segment.entry)}"
        return
    yield f"loop {segment.number + 1}, {mode}{place}: {segment.reason}"
    rows = list(_rows(tree, segment))
    width = max((len(label) for label, _ in rows), default=0)
    yield from (f"  {label:<{width}}  {gives}".rstrip() for label, gives in rows)
    if mode == "compiled":
        yield from _compiled_again(segment)
    yield f"  ends: {_end(segments, segment)}"


def _mode(segment: Segment) -> str:
    uncompiled = [f for node in segment.nodes for f in node.functions if f.reason is not None]
    return f"interpreted ({uncompiled[0].reason})" if uncompiled else "compiled"


def _compiled_again(segment: Segment) -> Iterator[str]:
    """Why every run compiles a loop anew: the functions whose captured values have no identity."""
    for function in (function for node in segment.nodes for function in node.functions):
        if function.snapshot is not None and (why := function.snapshot.why_not_kept) is not None:
            yield f"  compiled again by every run, because of {function.location}: {why}"


def _rows(tree: Tree, segment: Segment) -> Iterator[tuple[str, str]]:
    """The steps of a loop with what they give, a branch indented under the step that it leaves."""
    inside = set(segment.nodes)

    def walk(node: n.GraphNode, indent: int) -> Iterator[tuple[str, str]]:
        sides = f" of {', '.join(side.label for side in node.inputs)}" if isinstance(node, n.Meet) else ""
        yield f"{'  ' * indent}{_label(node)}{sides}", _gives(tree, node)
        following = [child for child in tree.children[node] if child in inside and _last_side(child) is node]
        for child in following:
            yield from walk(child, indent + (len(following) > 1))

    if isinstance(segment.entry, n.MapColumns):
        yield _label(segment.entry), _gives(tree, segment.entry)
    first = [child for child in tree.children[segment.entry] if child in inside and _last_side(child) is segment.entry]
    for child in first:
        yield from walk(child, int(len(first) > 1))


def _last_side(node: n.GraphNode) -> n.GraphNode:
    """The node behind which this one is told: where streams meet, the last side."""
    return node.inputs[-1]


def _label(node: n.GraphNode) -> str:
    names = [name for function in node.functions[:1] if (name := _name(function)) != "<lambda>"]
    if isinstance(node, n.KeyedAggregate):
        return f"{node.heading} ({node.window})"
    state = node.state.__name__ if isinstance(node, n.Stateful) and node.state is not None else None
    handled = sorted({h.signal.__name__ for h in node.handlers}) if isinstance(node, n.Stateful) else []
    extra = [*names, *([f"state {state}"] if state else []), *(f"on {signal}" for signal in handled)]
    return f"{node.heading} ({', '.join(extra)})" if extra else node.heading


def _name(function: Function) -> str:
    return getattr(function.call, "__name__", "function")


def _gives(tree: Tree, node: n.GraphNode) -> str:
    result = f"  = result {tree.leaves.index(node) + 1}" if node in tree.leaves else ""
    return f"→ {_fields(node)}{result}"


def _fields(node: n.GraphNode) -> str:
    own = ", ".join(f"{name}: {t}" for name, t in node.shape.fields.items())
    return own + "".join(f"  in {region.opener.label}" for region in reversed(node.shape.regions))


def _end(segments: Sequence[Segment], segment: Segment) -> str:
    """Why a loop does not go on."""
    fed = [s for s in fed_segments(segments) if s.feeder is segment]
    if not fed:
        return "with the graph"
    return "; ".join(f"{s.reason} (loop {s.number + 1})" for s in fed)


_KINDS = {
    n.Source: "source",
    n.DropNulls: "filter",
    n.FillNull: "map",
    n.Map: "map",
    n.Filter: "filter",
    n.FlatMap: "flat_map",
    n.Through: "hooks",
    n.Enumerate: "open",
    n.Regions: "open",
    n.Aggregate: "close",
    n.Close: "close",
    n.KeyedAggregate: "close",
    n.KeyBy: "key",
    n.Emit: "signal",
    n.EmitWatermark: "signal",
    n.LateItems: "filter",
    n.MapColumns: "columns",
    n.Select: "map",
    n.Join: "join",
    n.Merge: "join",
    n.Received: "source",
    n.Send: "sink",
}


def picture(leaves: Sequence[n.GraphNode]) -> GraphPicture:
    """The graph as boxes and arrows, with each loop as one tinted group."""
    planned = plan(tuple(leaves), passes=LAYOUT)
    tree, segments = planned.tree, planned.segments
    home = {node: segment for segment in segments for node in segment.nodes}
    boxes = [_box(tree, node, home.get(node)) for node in tree.nodes]
    arrows = []
    for node in tree.nodes[1:]:
        segment = home.get(node)
        for before in node.inputs:
            cut = segment is not None and segment.feeder is not None and before is segment.entry
            label = segment.reason if cut and segment is not None and not isinstance(before, n.MapColumns) else ""
            arrows.append(Arrow(str(tree.number[before]), str(tree.number[node]), label))
        if isinstance(node, n.Stateful):
            arrows += _signal_arrows(tree, node)
    groups = {
        f"loop{s.number}": f"loop {s.number + 1} · {'interpreted' if s.is_interpreted else 'compiled'}"
        for s in segments
    }
    used = {box.group for box in boxes}
    return GraphPicture(Picture(tuple(boxes), tuple(arrows), {g: text for g, text in groups.items() if g in used}))


def _box(tree: Tree, node: n.GraphNode, segment: Segment | None) -> Box:
    lines = [f"{name}: {t}" for name, t in node.shape.fields.items()]
    if node in tree.leaves:
        lines.append(f"= result {tree.leaves.index(node) + 1}")
    group = f"loop{segment.number}" if segment is not None else None
    return Box(str(tree.number[node]), _label(node), tuple(lines), _KINDS[type(node)], group, node.shape.depth)


def _signal_arrows(tree: Tree, node: n.Stateful) -> Iterator[Arrow]:
    """From every node that emits a signal to those that handle it."""
    handled = {handler.signal for handler in node.handlers}
    for emitter in tree.nodes:
        if isinstance(emitter, n.Emit) and emitter.signal in handled and node in tree.below(emitter):
            yield Arrow(str(tree.number[emitter]), str(tree.number[node]), emitter.signal.__name__, control=True)
