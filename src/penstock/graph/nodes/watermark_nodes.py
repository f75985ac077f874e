"""Nodes of the watermark: where the time of a stream is read, and the items that came too late for their windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.graph.function import Function
from penstock.graph.nodes.base import GraphNode, Shape
from penstock.graph.nodes.items import Filter
from penstock.graph.nodes.keyed import Emit
from penstock.graph.nodes.keyed_aggregate import KeyedAggregate, resolve_windows
from penstock.graph.record import Signal
from penstock.graph.window import FloatWatermark, TimeWindow, Watermark


@dataclass(frozen=True, eq=False)
class EmitWatermark(Emit):
    """Place a watermark after each item with which the newest time passes the end of a window of `windows`.

    No user writes it: it is put behind the step that makes a time when the graph is run (`graph/watermarks.py`). To
    place it after the item that moves the time means the same as before it: no window of that item ends by then.

    Where the source is read in splits each begins anew, so that a watermark may be behind one before it. Those that
    take them keep the greatest.
    """

    signal: type[Signal] = Watermark
    given_when: Any = None
    field: str = ""
    clock: int = 0
    windows: tuple[TimeWindow, ...] = ()

    @property
    def label(self) -> str:
        return f"watermark of {self.field!r}"

    @cached_property
    def first(self) -> Signal:
        return self.signal(of=self.clock)

    @property
    def is_float(self) -> bool:
        return self.signal is FloatWatermark

    @property
    def greatest_time(self) -> Any:
        """The greatest time that moves the watermark: one beyond is an error at the windows, if it comes to them."""
        return min(window.greatest_time for window in self.windows)

    def _shape(self) -> Shape:
        return self.given

    @property
    def functions(self) -> tuple[Function, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class LateItems(Filter):
    """Keep the items of which every window is closed."""

    window: TimeWindow = None  # type: ignore[assignment]

    @property
    def label(self) -> str:
        return f"late items by {self.window.field!r}"

    def _shape(self) -> Shape:
        if self.given.key is None or self.given.depth:
            raise self.fail("late items are those of windows, which belong to a key; write key_by before window")
        return self.given

    @property
    def functions(self) -> tuple[Function, ...]:
        return ()


def late_items(before: GraphNode, window: TimeWindow) -> LateItems:
    """The items that came too late for windows of time."""
    if window.late is None:
        raise before.fail(
            f"window {window.field!r}: late items are those that come after their windows have closed; without late= "
            f"none does; give late=, which may be 0"
        )
    return LateItems(before, window=resolve_windows(before, window))


def timed_of(node: object) -> TimeWindow | None:
    """The windows of time of a node that closes them, or that knows what came too late for them."""
    window = node.window if isinstance(node, (KeyedAggregate, LateItems)) else None
    return window if isinstance(window, TimeWindow) else None
