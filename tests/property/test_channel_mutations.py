"""Tests of the tests: each fault planted in the channels must be found by the settings that the tests try anyway.

Most are planted twice: without the invariants, so that the results themselves must tell, and with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.property.check import Mismatch, check_channels
from tests.property.graphs import Case, from_seed
from tests.property.test_graphs import INTERPRETED

from penstock.engine.channel import Channel
from penstock.engine.node import RunningNode
from penstock.engine.scheduler import Scheduler
from penstock.kernels.credit import SIGNAL
from penstock.kernels.protocol import protocol

Patch = pytest.MonkeyPatch
ENOUGH = INTERPRETED // 2
"""Half of what the tests try, so that luck is not what finds a fault."""


def too_much_credit(patch: Patch) -> None:
    """A mark waits for one item too many; the next one for one less."""

    def spoil(credits: Any, first: int, last: int) -> None:
        at = next((at for at in range(first, last - 1) if credits[at + 1] > 0), None)
        if at is not None:
            credits[at] += 1
            credits[at + 1] -= 1

    _after_grant(patch, spoil)


def too_little_credit(patch: Patch) -> None:
    """A mark waits for one item less."""

    def spoil(credits: Any, first: int, last: int) -> None:
        at = next((at for at in range(first, last) if credits[at] > 0), None)
        if at is not None:
            credits[at] -= 1

    _after_grant(patch, spoil)


def _after_grant(patch: Patch, spoil: Callable[[Any, int, int], None]) -> None:
    functions = protocol(False)
    original = functions.grant

    def grant(credits: Any, first: int, last: int, before: int) -> int:
        place = original(credits, first, last, before)
        spoil(credits, first, last)
        return int(place)

    patch.setattr(functions, "grant", grant)


def the_parent_before(patch: Patch) -> None:
    """A region that opens has the parent of the one before it."""
    functions = protocol(False)
    original = functions.arrange

    def arrange(kinds: Any, credits: Any, first: int, last: int, *given: Any) -> Any:
        items, marks = original(kinds, credits, first, last, *given)
        references = given[-1]
        for at in range(first, first + marks):
            if 0 <= kinds[at] < SIGNAL and kinds[at] % 2 == 0 and references[at] > 0:
                references[at] -= 1
        return items, marks

    patch.setattr(functions, "arrange", arrange)


def the_tag_before(patch: Patch) -> None:
    """The last item that is sent has the tag of the region before."""
    functions = protocol(False)
    original = functions.tag

    def tag(kinds: Any, places: Any, first: int, last: int, start: int, stop: int, depth: int, opened: Any, tags: Any, *given: Any) -> Any:  # fmt: skip  # noqa: E501
        kept = original(kinds, places, first, last, start, stop, depth, opened, tags, *given)
        if stop > start and tags[stop - 1] > 0:
            tags[stop - 1] -= 1
        return kept

    patch.setattr(functions, "tag", tag)


def a_node_that_does_not_end(patch: Patch) -> None:
    """A node has finished, and says so to nobody."""
    patch.setattr(Channel, "end", lambda self: None)


def a_lost_signal(patch: Patch) -> None:
    """What a signal holds is written over by that of the next."""
    original = Channel.send

    def send(self: Channel, items: int, marks: int, parents: Sequence[int], signals: Sequence[int]) -> None:
        kept = [max(stop - 1, held.stop) for held, stop in zip(self.records, signals, strict=True)]
        original(self, items, marks, parents, kept)

    patch.setattr(Channel, "send", send)


def an_item_without_credit(patch: Patch) -> None:
    """A receiver under balance credit trusts its sender, as if no mark were on its way where none is queued."""
    original = Channel.take

    def take(self: Channel, most: int) -> Any:
        trusts, self.trusts = self.trusts, True
        try:
            return original(self, most)
        finally:
            self.trusts = trusts

    patch.setattr(Channel, "take", take)


OUTPUT, INVARIANT, ENDLESS, STUCK = "the output differs", "an invariant", "the run does not end", "no node can fire"


@dataclass(frozen=True)
class Fault:
    """A fault, where it can show, and what must notice it without and with checks of the invariants."""

    plant: Callable[[Patch], None]
    unchecked: str
    checked: str | None = INVARIANT
    where: Callable[[Case], bool] = lambda case: True


FAULTS = (
    Fault(too_much_credit, OUTPUT),
    Fault(too_little_credit, OUTPUT),
    Fault(the_parent_before, OUTPUT, None),
    Fault(the_tag_before, OUTPUT, None, lambda case: case.setting.context == "dense"),
    Fault(a_node_that_does_not_end, STUCK, STUCK),
    Fault(a_lost_signal, OUTPUT),
    Fault(an_item_without_credit, ENDLESS, INVARIANT, lambda case: case.setting.credit == "balance"),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.plant.__name__)
def test_the_fault_is_found_without_checks(fault: Fault, monkeypatch: Patch) -> None:
    fault.plant(monkeypatch)
    _stop_idle_runs(monkeypatch)
    assert any(notice == fault.unchecked for notice in _notices(fault, check=False))


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.checked], ids=lambda fault: fault.plant.__name__)
def test_the_fault_is_found_by_the_invariants(fault: Fault, monkeypatch: Patch) -> None:
    fault.plant(monkeypatch)
    assert any(notice == fault.checked for notice in _notices(fault, check=True))


def _notices(fault: Fault, *, check: bool) -> Any:
    """What notices the fault in each graph, one after the other."""
    for seed in range(ENOUGH):
        case = from_seed(seed)
        if not case.setting.fuse and fault.where(case):
            yield _notice(replace(case, setting=replace(case.setting, check=check)))


def _notice(case: Case) -> str | None:
    try:
        check_channels(case)
    except Mismatch as mismatch:
        found = str(mismatch).split("\n\nto repeat it")[0]
        if not found.startswith("the engine failed"):
            return OUTPUT
        texts = {"InternalError: channel: ": INVARIANT, "Idle": ENDLESS, "InternalError: no node can fire": STUCK}
        return next((notice for text, notice in texts.items() if text in found.splitlines()[-1]), found)
    return None


class Idle(Exception):
    """A firing did nothing, so that without checks the run would never end."""


def _stop_idle_runs(patch: Patch) -> None:
    original = Scheduler.fire

    def fire(self: Scheduler, node: RunningNode) -> Any:
        before = self.progress(node)
        output = original(self, node)
        if self.progress(node) == before:
            raise Idle(node.name)
        return output

    patch.setattr(Scheduler, "fire", fire)
