"""The choice of a context while a channel runs: from the regions that came through it, and again when they change."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.channel import Channel
from penstock.plan.passes.contexts import ContextChoice, Costs, choose

FIRST, AGAIN = 4, 64
"""After how many ensembles it is chosen, and then again."""


class Chooser:
    """Chooses for one channel. A choice takes effect when the channel is empty, because tags and marks do not mix."""

    def __init__(self, channel: Channel, width: int, costs: Callable[[], Costs]) -> None:
        self.channel, self.width, self.costs = channel, width, costs
        self.next_at = FIRST * width
        self.items = self.regions = self.switches = 0
        self.choice: ContextChoice | None = None

    def look(self) -> None:
        """Choose, if it is time, and switch, if the channel is empty."""
        channel = self.channel
        if channel.sent >= self.next_at:
            self.choose()
        choice = self.choice
        if choice is not None and choice.context != channel.context and not channel.queued and not channel.has_marks:
            channel.context = choice.context
            self.switches += 1

    def choose(self) -> None:
        """From the items and regions since the last time, so that old ones do not outvote those of now."""
        channel = self.channel
        items, regions = channel.sent - self.items, channel.regions[-1] - self.regions
        self.items, self.regions = channel.sent, channel.regions[-1]
        self.next_at = channel.sent + AGAIN * self.width
        self.choice = choose(items / max(regions, 1), self.width, self.costs())
