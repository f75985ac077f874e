"""The control queue of a channel."""

from __future__ import annotations

import numpy as np


class Control:
    """The control queue: marks with their credit.

    Invariant: the marks between `start` and `stop` are queued, at most `capacity` of them. `sent_at` is, for checks
    only, how many items the sender had sent before each.
    """

    def __init__(self, capacity: int, clocks: int = 0) -> None:
        """With clocks, marks have a place by each, and signals the number of the node that emitted them."""
        self.capacity = capacity
        size = 2 * capacity
        self.keys = [np.zeros(size, np.int64) for _ in range(clocks)]
        self.emitted = np.zeros(size if clocks else 0, np.int64)
        self.kinds, self.credits, self.places, self.references = (np.empty(size, np.int64) for _ in range(4))
        self.sent_at = np.empty(size, np.int64)
        self.start = self.stop = 0

    def __len__(self) -> int:
        return self.stop - self.start

    def avail(self) -> int:
        """How many marks may be added."""
        return self.start + self.capacity - self.stop

    def make_room(self) -> None:
        if self.start == self.stop:
            self.start = self.stop = 0
        elif self.start + self.capacity > len(self.kinds):
            more = [*self.keys, self.emitted] if self.keys else []
            for array in (self.kinds, self.credits, self.sent_at, *more):
                array[: self.stop - self.start] = array[self.start : self.stop]
            self.start, self.stop = 0, self.stop - self.start
