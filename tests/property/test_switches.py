"""With `auto`, a channel may change its context whenever it is empty. Here it does so as often as it can, at random."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.property.check import check_channels
from tests.property.graphs import from_seed

from penstock.engine import auto
from penstock.engine.auto import Chooser
from penstock.plan.passes.contexts import CONTEXTS, ContextChoice

SEEDS, PARTS = 96, 4


@pytest.mark.parametrize("part", range(PARTS))
def test_a_channel_that_changes_its_context_all_the_time(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, choosers = random.Random(part), []

    def choose(region_items: float, width: int, costs: Any) -> ContextChoice:
        return ContextChoice(rng.choice(CONTEXTS), region_items, width, dict.fromkeys(CONTEXTS, 0.0))

    make = Chooser.__init__

    def init(self: Chooser, *given: Any) -> None:
        make(self, *given)
        choosers.append(self)

    monkeypatch.setattr(auto, "choose", choose)
    monkeypatch.setattr(auto, "FIRST", 0)
    monkeypatch.setattr(auto, "AGAIN", 0)
    monkeypatch.setattr(Chooser, "__init__", init)
    for seed in range(part, SEEDS, PARTS):
        case = from_seed(seed)
        check_channels(replace(case, setting=replace(case.setting, fuse=False, context="auto")))
    assert sum(chooser.switches for chooser in choosers) > 10 * len(choosers)
