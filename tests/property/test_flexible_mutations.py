"""Tests of the tests: each fault planted in flexible nodes must be found by the graphs that the tests try anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.property.check import Mismatch, check_channels
from tests.property.flexible import from_flexible_seed
from tests.property.test_flexible import GRAPHS

from penstock.engine.flexible.copy_merge import FlexMerge
from penstock.engine.flexible.copy_split import FlexSplit
from penstock.engine.flexible.select_stream import CopyRun, End, Entry, Reached
from penstock.engine.piece import Piece
from penstock.kernels.credit import SIGNAL

Patch = pytest.MonkeyPatch
ENOUGH = GRAPHS // 2
"""Half of what the tests try, so that luck is not what finds a fault."""


def select_off_by_one(patch: Patch) -> None:
    """The select stream names the copy that had the run before."""
    original = FlexMerge.select

    def select(self: Any, entry: Entry) -> None:
        if isinstance(entry, CopyRun):
            before, self.before = getattr(self, "before", entry.copy), entry.copy
            entry = replace(entry, copy=before)
        original(self, entry)

    patch.setattr(FlexMerge, "select", select)


def wrong_side(patch: Patch) -> None:
    """Where several copies are ready, the merge takes from one that does not have the run."""
    original = FlexMerge._go_on

    def go_on(self: FlexMerge, entry: CopyRun) -> tuple[int, int]:
        ready = [copy for copy, channel in enumerate(self.input.channels) if channel.ready() and copy != entry.copy]
        return original(self, replace(entry, copy=ready[0]) if ready else entry)

    patch.setattr(FlexMerge, "_go_on", go_on)


def avail_ignored(patch: Patch) -> None:
    """The split sends a copy more than it has room for."""
    original = FlexSplit.__init__

    def init(self: FlexSplit, *given: Any) -> None:
        original(self, *given)
        for copy in self.copies:
            copy.avail = lambda: 1 << 20  # type: ignore[method-assign]

    patch.setattr(FlexSplit, "__init__", init)


def regions_untold(patch: Patch) -> None:
    """A copy that takes over does not hear of the regions that are open."""

    def catch_up(self: FlexSplit, copy: int) -> int:
        self.views[copy] = list(self.opened)
        return 0

    patch.setattr(FlexSplit, "_catch_up", catch_up)


def run_end_dropped(patch: Patch) -> None:
    """The mark behind a run does not travel with it."""

    def end_run(self: FlexSplit) -> None:
        self.number += self.current is not None
        self.current = None

    patch.setattr(FlexSplit, "_end_run", end_run)


def known_marks_handed_on(patch: Patch) -> None:
    """What a copy was told again is told to everybody behind it."""
    original = FlexMerge._kept
    patch.setattr(FlexMerge, "_kept", lambda self, kinds, known: original(self, kinds, 0))
    own = FlexMerge._own
    patch.setattr(FlexMerge, "_own", lambda self, piece, known: (own(self, piece, 0)[0], 0))


def signals_lost(patch: Patch) -> None:
    """The merge hands on regions only."""
    original = FlexMerge._own

    def own(self: FlexMerge, piece: Piece, known: int) -> tuple[Piece, int]:
        found, left = original(self, piece, known)
        kept = found.kinds < SIGNAL
        signals = [each[:0] for each in found.signals]
        by_clock = [keys[kept] for keys in found.by_clock]
        lost = replace(found, kinds=found.kinds[kept], places=found.places[kept], by_clock=by_clock, signals=signals)
        return lost, left

    patch.setattr(FlexMerge, "_own", own)


def reached_too_early(patch: Patch) -> None:
    """How far the stream has come is told before the runs that are under way have come."""
    original = FlexMerge.select

    def select(self: FlexMerge, entry: Entry) -> None:
        if isinstance(entry, Reached):
            self._hear(entry)
        else:
            original(self, entry)

    patch.setattr(FlexMerge, "select", select)


def never_reached(patch: Patch) -> None:
    """How far the stream has come is not told where it passes copies."""
    original = FlexMerge.select
    patch.setattr(
        FlexMerge, "select", lambda self, entry: None if isinstance(entry, Reached) else original(self, entry)
    )


def end_too_early(patch: Patch) -> None:
    """The end overtakes the runs that are under way."""

    def select(self: FlexMerge, entry: Entry) -> None:
        if isinstance(entry, End):
            self.input.entries.clear()
        self.input.entries.append(entry)

    patch.setattr(FlexMerge, "select", select)


def all_taken_for_told(patch: Patch) -> None:
    """All copies are taken to have heard of the regions that one of them was sent."""
    original = FlexSplit._note_regions

    def note_regions(self: FlexSplit, piece: Piece, copy: int) -> None:
        original(self, piece, copy)
        for view in self.views:
            view[:] = self.opened

    patch.setattr(FlexSplit, "_note_regions", note_regions)


OUTPUT, STUCK, FAILED = "the output differs", "no node can fire", "the engine failed"


@dataclass(frozen=True)
class Fault:
    """A fault, and what may notice it: the output or the places of signals, or that nodes wait, or an error."""

    plant: Callable[[Patch], None]
    notices: tuple[str, ...]


FAULTS = (
    Fault(select_off_by_one, (OUTPUT, STUCK, FAILED)),
    Fault(wrong_side, (OUTPUT, STUCK, FAILED)),
    Fault(avail_ignored, (FAILED,)),
    Fault(regions_untold, (OUTPUT, FAILED)),
    Fault(run_end_dropped, (STUCK,)),
    Fault(known_marks_handed_on, (OUTPUT, FAILED)),
    Fault(signals_lost, (OUTPUT,)),
    Fault(reached_too_early, (OUTPUT,)),
    Fault(never_reached, (STUCK,)),
    Fault(end_too_early, (OUTPUT, FAILED, STUCK)),
    Fault(all_taken_for_told, (OUTPUT, FAILED)),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.plant.__name__)
def test_the_fault_is_found(fault: Fault, monkeypatch: Patch) -> None:
    fault.plant(monkeypatch)
    assert any(_notice(seed) in fault.notices for seed in range(ENOUGH))


def _notice(seed: int) -> str | None:
    """What a graph notices: without threads, whose order is not always the same, and without the invariants."""
    case = from_flexible_seed(seed)
    if case.setting.steps is None and case.setting.costs is None:
        return None
    try:
        check_channels(replace(case, setting=replace(case.setting, check=False)))
    except Mismatch as mismatch:
        found = str(mismatch).split("\n\nto repeat it")[0]
        if not found.startswith(FAILED):
            return OUTPUT
        return STUCK if STUCK in found.splitlines()[-1] else FAILED
    return None
