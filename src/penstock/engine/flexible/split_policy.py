"""Who gets what comes next: the copies with room on other cores, or the one beside the split, if its core is idle.

Nobody plans it. A copy elsewhere that falls behind has no room; and a core that has nothing else to do works on what
the others have no room for. So blocks are given away as late as can be: what waits before the split may still go to
whoever is free first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engine.channel import Channel
from penstock.plan.passes.size import AHEAD

LAST = 3
"""By so many halvings the last blocks are smaller than the others."""


class Policy:
    """What a split knows of its core: which copy is at work beside it, if one is, and what else there is to do."""

    def __init__(self, width: int) -> None:
        self.width = self.block = width
        """How many items are given away at a time, of which a copy elsewhere has `AHEAD` times as many waiting."""
        self.beside: int | None = None
        self.nodes: Sequence[Any] = ()
        """The loops of the copy beside the split."""
        self.neighbours: Sequence[Any] = ()
        """All others on that core."""

    def lessen(self, left: int, copies: int) -> None:
        """Give away fewer items at a time, as no more come than those left: so that all copies end together."""
        self.block = min(self.width, max(left // (2 * copies), self.width >> LAST, 1))

    def room(self, channel: Channel) -> int:
        """How many items may be sent into the channel to a copy."""
        return min(channel.avail(), max(0, AHEAD * self.block - channel.queued))

    def may_get(self, copy: int) -> bool:
        """Whether a copy may get something, if it has room: that beside only when its core has nothing else to do."""
        if copy != self.beside:
            return True
        return not any(node.has_work for node in self.nodes) and not any(node.is_ready for node in self.neighbours)

    def in_order(self, room: Sequence[int]) -> list[int]:
        """The copies in the order in which they are asked, by the room before each.

        That beside, which may only get something where its core is idle; the node's own; those with the most room.
        """
        order = [0, *sorted(range(1, len(room)), key=lambda copy: -room[copy])]
        return sorted(order, key=lambda copy: copy != self.beside)
