"""Tests of the tests: each fault planted where streams meet must be found by the graphs that the tests try anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.property.check import Mismatch, check_channels
from tests.property.joins import from_joined_seed
from tests.property.test_joins import GRAPHS

from penstock.engine.actor import Beat
from penstock.engine.channel import Channel
from penstock.kernels import align_sides
from penstock.kernels.protocol import protocol
from penstock.plan.heartbeat import intervals
from penstock.plan.heartbeat.clocks import STEPS
from penstock.plan.passes import heartbeats

Patch = pytest.MonkeyPatch
ENOUGH = GRAPHS // 2
"""Half of what the tests try, so that luck is not what finds a fault."""


def intervals_too_large(patch: Patch) -> None:
    """All intervals are one larger than is safe."""
    patch.setattr(heartbeats, "intervals", lambda *given: [each + 1 for each in intervals.intervals(*given)])


def nothing_told(patch: Patch) -> None:
    """Nobody says how far it has come; credit is given all the same."""

    def tell(self: Channel, clock: str, place: int) -> None:
        self.counts.beats += 1
        kept, self.progress.told[clock] = self.progress.told[clock], place
        original(self, clock, place)
        self.progress.told[clock] = kept

    original = Channel.tell
    patch.setattr(Channel, "tell", tell)
    _tell_once(patch)


def credit_kept(patch: Patch) -> None:
    """A heartbeat says how far a node has come, and gives no credit for what it has sent."""
    original = Channel.tell

    def tell(self: Channel, clock: str, place: int) -> None:
        trusts, self.trusts = self.trusts, True
        original(self, clock, place)
        self.trusts = trusts

    patch.setattr(Channel, "tell", tell)


def _tell_once(patch: Patch) -> None:
    """A node that is not heard does not say the same again and again."""
    said: dict[tuple[int, str], int] = {}

    def is_due(self: Beat, node: Any) -> bool:
        return self.place(node) // STEPS - said.get((id(self.channel), self.clock), 0) // STEPS > self.interval

    def tell(self: Beat, node: Any) -> None:
        if self.is_due(node):
            said[id(self.channel), self.clock] = self.place(node)
            self.channel.tell(self.clock, self.place(node))

    patch.setattr(Beat, "is_due", is_due)
    patch.setattr(Beat, "tell", tell)


def missing_side_dropped(patch: Patch) -> None:
    """An outer join gives no item where a side lacks the index."""
    _with_align(patch, 10, lambda is_outer: False)


def first_side_suffices(patch: Patch) -> None:
    """A signal is handed on when the first side has it, and again with every other."""
    patch.setattr(align_sides, "taken_together", lambda *given: True)
    _with_align(patch, 8, lambda sharing: sharing * 0)


def _with_align(patch: Patch, number: int, change: Callable[[Any], Any]) -> None:
    """Streams meet with one thing about them changed, by its place among the arguments."""
    functions = protocol(False)
    original = functions.align

    def align(*given: Any) -> Any:
        return original(*given[:number], change(given[number]), *given[number + 1 :])

    patch.setattr(functions, "align", align)


def marks_too_late(patch: Patch) -> None:
    """Where streams meet, a mark stands one index behind its place."""
    _with_align(patch, 3, lambda keys: tuple(array + STEPS for array in keys))


def marks_too_early(patch: Patch) -> None:
    """Where streams meet, a mark stands one index before its place."""
    _with_align(patch, 3, lambda keys: tuple(array - STEPS for array in keys))


OUTPUT, STUCK = "the output differs", "no node can fire"


@dataclass(frozen=True)
class Fault:
    """A fault, and what may notice it: the output or the places of signals, or that nodes wait for each other."""

    plant: Callable[[Patch], None]
    notices: tuple[str, ...]


FAULTS = (
    Fault(intervals_too_large, (STUCK,)),
    Fault(nothing_told, (STUCK,)),
    Fault(credit_kept, (OUTPUT, STUCK)),  # items without credit are overtaken by word of how far their sender has come
    Fault(missing_side_dropped, (OUTPUT,)),
    Fault(first_side_suffices, (OUTPUT,)),
    Fault(marks_too_late, (OUTPUT, STUCK)),
    Fault(marks_too_early, (OUTPUT, STUCK)),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.plant.__name__)
def test_the_fault_is_found(fault: Fault, monkeypatch: Patch) -> None:
    """Without the invariants, so that the results themselves must tell."""
    fault.plant(monkeypatch)
    assert any(_notice(seed) in fault.notices for seed in range(ENOUGH))


def _notice(seed: int) -> str | None:
    case = from_joined_seed(seed)
    try:
        check_channels(replace(case, setting=replace(case.setting, check=False)))
    except Mismatch as mismatch:
        found = str(mismatch).split("\n\nto repeat it")[0]
        if not found.startswith("the engine failed"):
            return OUTPUT
        return STUCK if STUCK in found.splitlines()[-1] else found
    return None
