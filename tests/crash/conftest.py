"""Counts what the tests of crashes did: the closing line of a run tells kills and rows compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.crash.tally import TALLY

KILLS, ROWS = "crash kills", "crash rows compared"


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test adds to the tally travels with its report, from whatever process it ran in."""
    before = (TALLY.kills, TALLY.rows)
    yield
    request.node.user_properties += [(KILLS, TALLY.kills - before[0]), (ROWS, TALLY.rows - before[1])]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [each for some in terminalreporter.stats.values() for each in some]
    told = [pair for each in reports if getattr(each, "when", "") == "teardown" for pair in each.user_properties]
    kills, rows = (sum(count for name, count in told if name == wanted) for wanted in (KILLS, ROWS))
    if kills:
        terminalreporter.write_line(f"crashes: {kills:,} kills, {rows:,} rows compared")
