"""The invariants of all channels are verified in every test, unless PENSTOCK_CHECK says otherwise.

The tests that `long.txt` lists are marked as long, beside those that are marked where they stand.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("PENSTOCK_CHECK", "1")

# Processes that tests start, Spark's workers among them, import `examples` and `benchmarks` by name.
ROOT = Path(__file__).parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))

# A machine that is busy must not fail a property: how long an example takes is no fault of it.
settings.register_profile("penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("penstock")

TOKEN = re.compile(r"\*|\{(\d+)-(\d+)\}|[^*{]+|\{")


def matcher(pattern: str) -> Callable[[str], bool]:
    """The test whether a name fits a line of `long.txt`.

    >>> fits = matcher("test_a[{10-59}]")
    >>> fits("test_a[10]"), fits("test_a[60]"), fits("test_a[9]"), matcher("test_*[b")("test_a[b")
    (True, False, False, True)
    """
    parts = list(TOKEN.finditer(pattern))
    bounds = [(int(part[1]), int(part[2])) for part in parts if part[1]]
    texts = ["(\\d+)" if part[1] else ".*" if part[0] == "*" else re.escape(part[0]) for part in parts]
    whole = re.compile("".join(texts), re.DOTALL)

    def fits(name: str) -> bool:
        found = whole.fullmatch(name)
        return found is not None and all(
            low <= int(number) <= high for (low, high), number in zip(bounds, found.groups(), strict=True)
        )

    return fits


def long_tests() -> list[Callable[[str], bool]]:
    lines = Path(__file__).with_name("long.txt").read_text(encoding="utf-8").splitlines()
    return [matcher(line) for line in lines if line and not line.startswith("#")]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    patterns = long_tests()
    for item in items:
        if any(fits(item.nodeid) for fits in patterns):
            item.add_marker(pytest.mark.long)
