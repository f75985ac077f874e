"""Where the variables of an aggregate are: in a row, or carried from batch to batch.

Those by key are in cells (`keyed_rules.py`).
"""

from __future__ import annotations

import pyarrow as pa

from penstock.codegen.key_records import hook_record
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.site import Local, Value
from penstock.graph import nodes as n


class VariableStore:
    """Where the variables of an aggregate are. These live within a row, in which its regions begin and end."""

    is_carried = False
    """Whether a region may span batches."""

    def __init__(self, loop: LoopContext, node: n.Aggregate | n.KeyedAggregate) -> None:
        self.loop, self.node, self.name = loop, node, f"a{loop.number(node)}"

    def variable(self, at: int, part: str, is_float: bool = False) -> str:
        """A variable of the result at an index."""
        return f"{self.name}_{at}{part}"

    def keeper(self, at: int, t: pa.DataType) -> Value:
        """What holds a field of the first or the last item."""
        return Local(self.variable(at, "x"))

    def fold(self, at: int, fold: n.Folding) -> tuple[str, str]:
        """The array of the records of a fold, and the record there."""
        name = hook_record(self.loop, self.node, fold.record, f"_{at}")
        return name, f"{name}[0]"

    def begin_halves(self, low: str, high: str) -> None:
        """A sum in two halves begins."""

    def carry_over(self, at: int) -> None:
        """An item has been added to a sum of integers."""

    def plain(self, value: Value, t: pa.DataType) -> Value:
        """A finished value, as a plain number."""
        return value


class CarriedStore(VariableStore):
    """Variables that are carried from batch to batch."""

    is_carried = True

    def __init__(self, loop: LoopContext, node: n.Aggregate | n.KeyedAggregate) -> None:
        super().__init__(loop, node)
        self.keepers: dict[int, Value] = {}

    def variable(self, at: int, part: str, is_float: bool = False) -> str:
        name = super().variable(at, part)
        return self.loop.carried.floating(name) if is_float else self.loop.carried.integer(name)

    def keeper(self, at: int, t: pa.DataType) -> Value:
        if at not in self.keepers:
            self.keepers[at] = self.loop.carried.keeper(f"{self.name}_{at}x", t)
        return self.keepers[at]

    def begin_halves(self, low: str, high: str) -> None:
        if (low, high) not in self.loop.carried.halves:
            self.loop.carried.halves.append((low, high))
