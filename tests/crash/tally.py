"""How many kills were made and how many rows compared, for the closing line of a run of the tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Tally:
    kills: int = 0
    rows: int = 0


TALLY = Tally()
"""Of this process."""
