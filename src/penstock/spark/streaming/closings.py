"""Which watermarks close windows in a bucket: only then must all of its keys be known."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.graph.tree import Tree
from penstock.graph.window import WATERMARKS
from penstock.kernels.support import first_float_window, first_window

UNKNOWN = np.iinfo(np.int64).min


class Tides:
    """How far the windows of a stage have closed: for each node that closes some, the first window that is open."""

    def __init__(self, tree: Tree, first: np.ndarray | None) -> None:
        found = (n.timed_of(node) for node in tree.nodes)
        self.windows = [window for window in found if window is not None and window.closes]
        is_known = first is not None and len(first) == len(self.windows)
        self.first = first.copy() if is_known and first is not None else np.full(len(self.windows), UNKNOWN)

    def close(self, signals: Iterable[Signal]) -> bool:
        """Whether signals that come now close windows, or are none of the time."""
        found = False
        for signal in signals:
            if isinstance(signal, WATERMARKS):
                found |= self._advance(signal.of, signal.at)
            else:
                found = True
        return found

    def _advance(self, clock: int, newest: float) -> bool:
        found = False
        for at, window in enumerate(self.windows):
            if window.clock == clock:
                first = first_float_window if window.is_float else first_window
                number = first(newest, window.every, window.length, window.offset)
                found |= number > self.first[at]
                self.first[at] = max(self.first[at], number)
        return found
