"""The select stream: which copy of a flexible node has the next run of items.

A run is what goes to one copy in a row, however much: so the stream is written in runs, and not item by item. Where a
run ends is told by a mark that travels with its items, through the copy and out of it again. So the merge need not know
how many items a copy makes of a run.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopyRun:
    """The next run: the copy that has it, its number, and how many marks stand before it that were told before.

    A copy that takes a run in the middle of a region is told first of the regions that are open, and of those that it
    knows and that are not any more. Everybody else has heard of these.
    """

    copy: int
    number: int
    known: int = 0


@dataclass(frozen=True, slots=True)
class Until:
    """The run under way has what stands before a place, by the clock of a join, on all its sides; or it ends there.

    Only the sides of a join that follow the first have to know: there the end of a run is a mark.
    """

    place: int
    is_end: bool


@dataclass(frozen=True, slots=True)
class Reached:
    """All before is dealt with up to a place by a clock (`plan/heartbeat/clocks.py`)."""

    clock: str
    place: int


@dataclass(frozen=True, slots=True)
class End:
    """There are no more runs."""


Entry = CopyRun | Until | Reached | End
