"""The rows that an application must give: those of its reference, the means of spike detection up to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.examples import spike_detection

REL = 1e-12
"""The reference rounds the sum of a window once, the application after every addition."""


def expected_rows(app: Any, path: Path, **settings: Any) -> list[Any]:
    return close_rows(app, app.reference(path, **settings))


def close_rows(app: Any, rows: list[Any]) -> list[Any]:
    """These rows, to be compared as the application's are."""
    return [_close(row) for row in rows] if app is spike_detection else rows


def _close(row: Any) -> Any:
    if isinstance(row, dict):
        return {name: _close(value) for name, value in row.items()}
    if isinstance(row, tuple):
        return tuple(map(_close, row))
    return pytest.approx(row, rel=REL) if isinstance(row, float) else row
