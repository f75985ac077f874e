"""Where the watermarks of a graph begin: behind each step that makes a time which windows close by.

The greatest time so far, over all items that leave such a step, moves all windows by it. What a window takes off (its
`late`, and its length for what is downstream of it) is known beforehand, so one number serves all windows: each has an
`offset` from it. Hence a watermark is a signal that says how far the time has come, and passes filters, keys, windows,
joins and shuffles like any other. `docs/design/watermarks.md` tells why that is exact.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import GraphError, LateWarning, quoted
from penstock.graph import nodes as n
from penstock.graph.nodes.joins import made_before
from penstock.graph.rebase import rebase
from penstock.graph.record import Signal
from penstock.graph.tree import Tree, signals_at
from penstock.graph.window import WATERMARKS, FloatWatermark, TimeWindow, Watermark, check_open

CLEANING = (n.Source, n.DropNulls, n.FillNull)
MOST_OFFSET = 1 << 61
"""How far a watermark of whole numbers may be behind the newest time, so that bounds are 64 bits."""


@dataclass(frozen=True)
class TimeOrigin:
    """Where a time begins: the step, the name of the field there, and what windows in between take off."""

    step: n.GraphNode
    field: str
    offset: Any = 0


def with_watermarks(leaves: Sequence[n.GraphNode]) -> tuple[tuple[n.GraphNode, ...], Mapping[n.GraphNode, n.GraphNode]]:
    """The graph with its watermarks, and what has become of each of its nodes; as it is, where it has them already."""
    tree = Tree(tuple(leaves))
    windows = {node: _origin(node) for node in tree.nodes if _is_open(node)}
    if not windows:
        return tree.leaves, {}
    clocks = {(origin.step, origin.field): at for at, origin in enumerate(windows.values())}
    made: dict[n.GraphNode, Any] = {}
    tides: dict[n.GraphNode, n.GraphNode] = {}
    for node in tree.nodes:
        behind = {node, *tree.below(node)}
        is_moved = not behind.isdisjoint(windows) and not isinstance(node, CLEANING)
        inputs = [tides.get(before, made[before]) if is_moved else made[before] for before in node.inputs]
        made[node] = rebase(node, *inputs) if inputs else node
        if node in windows:
            _close_by(made[node], windows[node], clocks)
        for (step, field), clock in clocks.items():
            if step is node:
                closing = [_offset(each, o) for each, o in windows.items() if (o.step, o.field) == (step, field)]
                tides[node] = _watermark(tides.get(node, made[node]), field, clock, closing)
    return tuple(made[leaf] for leaf in tree.leaves), made


def _is_open(node: n.GraphNode) -> bool:
    """Whether a node has windows that close by a watermark which they do not know yet."""
    window = n.timed_of(node)
    return window is not None and window.late is not None and not window.closes


def _origin(node: Any) -> TimeOrigin:
    """Where the time of a node's windows begins. What cleans the source is part of it."""
    window: TimeWindow = node.window
    step, field, offset, cleaned = node.before, window.field, window.late, None
    while True:
        if isinstance(step, CLEANING) and cleaned is None:
            cleaned = step
        before = made_before(step, field)
        upstream = n.timed_of(step)
        if before is not None and not _is_found(step):
            step, field = before
        elif upstream is not None and upstream.late is not None and field == upstream.bounds[0]:
            offset += upstream.length + upstream.late
            step, field, cleaned = step.before, upstream.field, None
        else:
            return TimeOrigin(cleaned or step, field, offset)


def _is_found(step: n.GraphNode) -> bool:
    """Whether a step gives rows of regions found in the stream: these come later than items whose fields they have."""
    return isinstance(step, (n.Aggregate, n.Close)) and step.given.regions[-1].is_found


def _offset(node: Any, origin: TimeOrigin) -> TimeWindow:
    window: TimeWindow = replace(node.window, offset=origin.offset)
    return window


def _close_by(made: Any, origin: TimeOrigin, clocks: Mapping[tuple[n.GraphNode, str], int]) -> None:
    """Let a node that is new know its watermark."""
    window = replace(made.window, clock=clocks[origin.step, origin.field], offset=origin.offset)
    if not window.is_float and window.offset > MOST_OFFSET:
        raise GraphError(
            f"{made.label}: length= and late= of all windows one upon the other must be less than 2**61 together; got "
            f"{window.offset}"
        )
    check_open(window)
    object.__setattr__(made, "window", window)


def _watermark(before: n.GraphNode, field: str, clock: int, windows: list[TimeWindow]) -> n.EmitWatermark:
    signal = FloatWatermark if windows[0].is_float else Watermark
    return n.EmitWatermark(before, signal, field=field, clock=clock, windows=tuple(dict.fromkeys(windows)))


def user_signals_at(node: n.GraphNode) -> tuple[type[Signal], ...]:
    """The signals of the user's that a node handles."""
    return tuple(signal for signal in signals_at(node) if not issubclass(signal, WATERMARKS))


def warn_late(tree: Tree, count: int) -> None:
    """Warn that a run has left out items, unless somebody takes them."""
    if count and not any(isinstance(node, n.LateItems) for node in tree.nodes):
        fields = dict.fromkeys(window.field for node in tree.nodes if (window := n.timed_of(node)) is not None)
        warnings.warn(
            f"run: {count:,} item{'' if count == 1 else 's'} came after their windows by {quoted(fields)} had closed, "
            f"and were left out; raise late=, leave it out in a batch, or take them as a result: windows.late",
            LateWarning,
            stacklevel=2,
        )


@dataclass(frozen=True)
class Named:
    """Stands for a stream in an option that names streams."""

    node: n.GraphNode


def translate_option(option: Any, made: Mapping[n.GraphNode, n.GraphNode]) -> Any:
    """An option that may be a dict from streams, for the graph with its watermarks."""
    if not made or not isinstance(option, Mapping):
        return option
    nodes: dict[Any, Any] = {key: getattr(key, "node", None) for key in option}
    return {Named(made[nodes[key]]) if nodes[key] in made else key: value for key, value in option.items()}
