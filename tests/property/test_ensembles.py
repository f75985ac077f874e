"""What no result can show: in `sparse`, no ensemble holds items from both sides of a signal or a boundary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from tests.property.check import check_channels
from tests.property.graphs import Case, from_seed

from penstock.engine.ensemble import Ensemble
from penstock.engine.loop import RunningLoop
from penstock.kernels.protocol import protocol

Patch = pytest.MonkeyPatch
SEEDS = range(30)


def crossed(ensemble: Ensemble) -> bool:
    """Whether a signal or a boundary stands before the last item of an ensemble."""
    marks = slice(ensemble.first_mark, ensemble.last_mark)
    places = ensemble.places[marks][ensemble.kinds[marks] >= 0]
    return bool((places < ensemble.stop).any())


def crossings(case: Case, context: str) -> int:
    """How many ensembles cross something in a run with a channel on every edge."""
    original, found = RunningLoop.run, 0

    def run(self: RunningLoop, ensemble: Ensemble, *given: Any) -> Any:
        nonlocal found
        found += crossed(ensemble)
        return original(self, ensemble, *given)

    with mock.patch.object(RunningLoop, "run", run):
        check_channels(replace(case, setting=replace(case.setting, fuse=False, context=context, width=7)))
    return found


def test_in_sparse_no_ensemble_crosses_a_signal_or_a_boundary() -> None:
    assert {seed: found for seed in SEEDS if (found := crossings(from_seed(seed), "sparse"))} == {}


@pytest.mark.parametrize("context", ["lane", "dense"])
def test_in_lane_and_dense_many_do(context: str) -> None:
    assert sum(crossings(from_seed(seed), context) for seed in SEEDS[:15]) > 15


def test_a_channel_that_crosses_them_in_sparse_is_found(monkeypatch: Patch) -> None:
    """With the right results, because a loop minds the marks wherever they stand."""
    functions = protocol(False)
    original = functions.arrange

    def arrange(*given: Any) -> Any:
        is_spanning = 8
        return original(*given[:is_spanning], True, *given[is_spanning + 1 :])

    monkeypatch.setattr(functions, "arrange", arrange)
    assert any(crossings(from_seed(seed), "sparse") for seed in SEEDS)
