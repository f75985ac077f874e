"""What stateful nodes remember by key, in arrays: records, the order of keys, the cells of aggregates."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from penstock.codegen.generated import Cells
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


class Arrivals:
    """The keys of a node that ends its keys, in the order of their first items.

    Invariant: `order[:count[0]]` are the numbers of the keys for which `seen` is true; where the run goes on from
    another, of those that this did not know. `index` is, where items have places, that of the first item of each key.
    The order over all runs is that of the `ranks`, of which the runs before have given the first `ranked`.
    """

    def __init__(self) -> None:
        self.seen, self.order, self.index = np.zeros(1, bool), np.zeros(1, np.int64), np.zeros(1, np.int64)
        self.count = np.zeros(1, np.int64)
        self.held_ranks, self.ranked = np.full(1, -1, np.int64), 0

    def copy(self) -> Arrivals:
        return deepcopy(self)

    def reserve(self, count: int) -> None:
        """Have room for at least `count` keys."""
        if count > len(self.seen):
            more = max(count, 2 * len(self.seen)) - len(self.seen)
            self.seen = np.concatenate((self.seen, np.zeros(more, bool)))
            self.order = np.concatenate((self.order, np.zeros(more, np.int64)))
            self.index = np.concatenate((self.index, np.zeros(more, np.int64)))
            self.held_ranks = np.concatenate((self.held_ranks, np.full(more, -1, np.int64)))

    def ranks(self) -> np.ndarray:
        """The rank of each key by its number, -1 where it has had no item."""
        order = self.order[: int(self.count[0])]
        new = self.held_ranks[order] < 0
        self.held_ranks[order[new]] = self.ranked + np.flatnonzero(new)
        return self.held_ranks

    def arrange(self) -> None:
        """Have all keys that have had an item in the order of their ranks, whichever run they came in."""
        slots = np.flatnonzero(self.seen)
        slots = slots[np.argsort(self.ranks()[slots], kind="stable")]
        self.order[: len(slots)], self.count[0] = slots, len(slots)
        # What a key before has given at its end may have had a later place than items of the next run.
        self.index[slots] = np.maximum.accumulate(self.index[slots])


class HeldCells:
    """The cells of an aggregate by key: those of key k begin at k times the width. A cell with n = 0 is not in use."""

    def __init__(self, cells: Cells) -> None:
        self.width, self.keys = cells.width, 1
        self.dtype = np.dtype(list(cells.fields.items()))
        self.records = np.zeros(cells.width, self.dtype)
        self.fresh = [record.layout.new() for record in cells.folds.values()]
        self.folds = [np.zeros(cells.width, fresh.dtype) for fresh in self.fresh]

    def copy(self) -> HeldCells:
        return deepcopy(self)

    def reserve(self, count: int) -> None:
        """Have cells for at least `count` keys."""
        if count > self.keys:
            more = max(count, 2 * self.keys) - self.keys
            self.records, *self.folds = (
                np.concatenate((held, np.zeros(more * self.width, held.dtype))) for held in (self.records, *self.folds)
            )
            self.keys += more
