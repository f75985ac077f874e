"""Tests of the tests: each fault planted in the engine must be found by the graphs that the tests try anyway.

A fault is planted by replacing a method of the engine, or of the writer of its loops, by one that forgets something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from tests.property.check import Mismatch, check
from tests.property.graphs import from_seed
from tests.property.test_graphs import INTERPRETED

from penstock.codegen import region_rules, signal_rules, traverse
from penstock.codegen.keyed_rules import KeyedFold
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.rules import RULES
from penstock.codegen.site import Ref, Site
from penstock.codegen.travel import Boundary, Mark, Rules, Travel
from penstock.engine import intake
from penstock.engine.loop import RunningLoop
from penstock.engine.state import States
from penstock.graph import nodes as n
from penstock.graph.window import RegionWindow
from penstock.kernels import support

Patch = pytest.MonkeyPatch
ENOUGH = INTERPRETED // 2
"""Half of what the tests try, so that luck is not what finds a fault."""


def drop_the_last_region(patch: Patch) -> None:
    """The end of the stream closes nothing."""
    original = traverse.arrive

    def arrive(loop: LoopContext, node: n.GraphNode, mark: Mark, site: Site) -> None:
        if mark != Boundary(Travel.CLOSE, None):
            original(loop, node, mark, site)

    patch.setattr(traverse, "arrive", arrive)


def forget_empty_regions(patch: Patch) -> None:
    """An empty list opens nothing and closes nothing."""

    def enumerate_(loop: LoopContext, node: n.Enumerate, site: Site) -> None:
        value = site.find(node.elements[0][0])[1]
        assert isinstance(value, Ref)
        with loop.out.block(f"if {region_rules.length(value.column, value.index)} > 0"):
            region_rules.enumerate_item(loop, node, site.fork())

    _replace_item(patch, n.Enumerate, enumerate_)


def lose_the_state(patch: Patch) -> None:
    """Every batch begins with new records."""
    _before_each_batch(patch, lambda loop: loop.memory.states.clear())


def lose_the_open_region(patch: Patch) -> None:
    """Every batch begins with all that is carried over set to zero."""
    _before_each_batch(patch, lambda loop: loop.integers.fill(0))


def place_signals_late(patch: Patch) -> None:
    """A signal from outside comes after the item that it should come before."""
    original = intake.portion_of

    def portion_of(*given: Any) -> intake.Portion:
        portion = original(*given)
        return replace(portion, places=np.minimum(portion.places + 1, portion.count))

    patch.setattr(intake, "portion_of", portion_of)


def emit_signals_early(patch: Patch) -> None:
    """A signal found in the stream comes before its own item."""

    def emit(loop: LoopContext, node: n.Emit, site: Site) -> None:
        with mock.patch.object(signal_rules, "send", lambda loop, node, site: None):
            signal_rules.emit_item(loop, node, site)
        traverse.send(loop, node, site)

    _replace_item(patch, n.Emit, emit)


def new_keys_see_no_signals(patch: Patch) -> None:
    """A key whose first item comes after a signal has not seen it."""
    original = States.reserve

    def reserve(self: States, count: int) -> None:
        kept = self.fresh.copy()
        self.fresh[0] = self.initial[0]
        original(self, count)
        self.fresh[0] = kept[0]

    make = States.__init__

    def init(self: States, record: Any) -> None:
        make(self, record)
        self.initial = self.fresh.copy()  # type: ignore[attr-defined]

    patch.setattr(States, "__init__", init)
    patch.setattr(States, "reserve", reserve)


def lose_open_windows(patch: Patch) -> None:
    """Every batch begins with no window open."""
    _before_each_batch(patch, lambda loop: loop.memory.cells.clear())


def end_keys_by_their_numbers(patch: Patch) -> None:
    """Keys end in the order in which they were numbered, which items that were left out take part in."""

    def sort(loop: RunningLoop) -> None:
        for arrivals in loop.memory.arrivals.values():
            arrivals.order[: arrivals.count[0]].sort()

    _before_each_batch(patch, sort)


def close_windows_late(patch: Patch) -> None:
    """A window of time closes one unit too late."""
    original = support.PLAIN["first_window"]
    patch.setitem(support.PLAIN, "first_window", lambda time, *given: original(time - 1, *given))


def keep_of_the_last_item(patch: Patch) -> None:
    """A region of a key keeps the fields of its last item, and not of its first."""
    original = KeyedFold._item_of_region

    def item(self: KeyedFold, window: RegionWindow, slot: str, site: Site) -> None:
        original(self, window, slot, site)
        for name, old in window.kept.items():
            self.loop.carried.capture(self._kept(name), self.loop.calls.find(old, site))

    patch.setattr(KeyedFold, "_item_of_region", item)


def _replace_item(patch: Patch, kind: type[n.GraphNode], rule: Callable[..., None]) -> None:
    rules = RULES[kind]
    assert isinstance(rules, Rules)
    patch.setitem(RULES, kind, replace(rules, item=rule))  # type: ignore[arg-type]


def _before_each_batch(patch: Patch, forget: Callable[[RunningLoop], None]) -> None:
    original = RunningLoop.run

    def run(self: RunningLoop, *given: Any) -> Any:
        forget(self)
        return original(self, *given)

    patch.setattr(RunningLoop, "run", run)


FAULTS = (
    drop_the_last_region,
    forget_empty_regions,
    lose_the_state,
    lose_the_open_region,
    place_signals_late,
    emit_signals_early,
    new_keys_see_no_signals,
    lose_open_windows,
    end_keys_by_their_numbers,
    close_windows_late,
    keep_of_the_last_item,
)


@pytest.mark.parametrize("plant", FAULTS)
def test_the_fault_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    assert any(_differs(seed) for seed in range(ENOUGH))


def _differs(seed: int) -> bool:
    """Whether the engine gives something else, and not merely fails, because its loop makes no sense any more."""
    try:
        check(from_seed(seed))
    except Mismatch as mismatch:
        return not str(mismatch).startswith("the engine failed")
    return False
