"""The applications of the paper on flexible filters: with copies their output is byte for byte the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from examples import cfar, dedup, des, jpeg, value_at_risk

APPS: dict[str, tuple[Any, int, dict[str, Any], tuple[str, ...]]] = {
    "cfar": (cfar, 300, {"work_us": 0}, ("find targets",)),
    "dedup": (dedup, 1 << 20, {}, ("compress",)),
    "des": (des, 40_000, {}, ("round 7",)),
    "jpeg": (jpeg, 128 * 128, {}, ("quantise",)),
    "value at risk": (value_at_risk, 400, {"stocks": 16}, ("cholesky",)),
}
"""The module, how much data is made, settings, and the filters that are made flexible, each by itself."""


@pytest.mark.parametrize("name", APPS)
def test_the_output_is_the_same_with_copies(name: str, tmp_path: Path) -> None:
    module, size, settings, flexible = APPS[name]
    module.generate(tmp_path, size, 3)
    filters = module.filters(module.read(tmp_path), **settings)
    last: ps.Stream = list(filters.values())[-1]
    alone = last.collect(spark=False)
    assert alone.num_rows > 0
    for filter_name in flexible:
        run: Any = last.prepare(
            spark=False, cores=2, block_items=16, capacity_signals=64, flexible={filters[filter_name]: 1}
        )
        assert run.collect().equals(alone), filter_name
        helped = [node.items for node in run.statistics().nodes if "(copy 1)" in node.name]
        assert len(helped) == 1
