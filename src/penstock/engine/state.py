"""The records of stateful nodes: one a key, in one array."""

from __future__ import annotations

import numpy as np

from penstock.graph.record import Record


class States:
    """A growing array of records by the number of their key, and the record that a new key starts from.

    Invariant: a record whose key has had no item yet equals `fresh[0]`, because both see every signal.
    """

    def __init__(self, record: type[Record]) -> None:
        self.fresh = record.layout.new()
        self.records = self.fresh.copy()

    def copy(self) -> States:
        made = States.__new__(States)
        made.fresh, made.records = self.fresh.copy(), self.records.copy()
        return made

    def reserve(self, count: int) -> None:
        """Have records for at least `count` keys."""
        if count > len(self.records):
            grown = np.empty(max(count, 2 * len(self.records)), self.records.dtype)
            grown[: len(self.records)] = self.records
            grown[len(self.records) :] = self.fresh[0]
            self.records = grown
