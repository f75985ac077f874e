"""Memory that was never written is never read: new arrays are full of garbage here, and the results are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.property.check import check, check_channels
from tests.property.graphs import from_seed

from penstock.engine import control, heap, sinks, store, tags

SEEDS, PARTS = 40, 2
GARBAGE = 0x5A
"""As a byte. As an integer, it is far outside of any array."""


class Garbage:
    """NumPy as the engine sees it, with memory that is not clean."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, *given: Any) -> np.ndarray:
        made = np.empty(*given)
        made.reshape(-1).view(np.uint8).fill(GARBAGE)
        return made


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_read_that_was_not_written(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (control, heap, sinks, store, tags):
        monkeypatch.setattr(module, "np", Garbage())
    for seed in range(part, SEEDS, PARTS):
        case = from_seed(seed)
        check(case)
        check_channels(replace(case, setting=replace(case.setting, fuse=False)))
