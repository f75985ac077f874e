"""How far both ends of a channel have come, by each clock."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.control import Control
from penstock.engine.store import Rows
from penstock.plan.heartbeat.clocks import STEPS


class ClockProgress:
    """By each clock: how far the sender has said that it came (`told`), and what the receiver has consumed (`passed`).

    `done` is where one stands who has had an item, as the last part of its place.
    """

    def __init__(self, done: Mapping[str, int]) -> None:
        self.done, self.clocks = dict(done), list(done)
        self.told, self.passed = dict.fromkeys(self.done, 0), dict.fromkeys(self.done, 0)

    def consume(self, data: Rows, control: Control, items: int, marks: int) -> None:
        """Note that so many items and marks at the front of both queues were consumed. Their places go up."""
        for clock, keys in zip(self.clocks, control.keys, strict=True):
            found = [self.passed[clock]]
            if items and clock in data.stores:
                last = int(data.array_of(clock)[data.start + items - 1])
                found.append(STEPS * (last + 1) + self.done[clock])
            found += keys[control.start : control.start + marks].tolist()
            self.passed[clock] = max(found)
