"""What the engine itself costs on a machine, beside the work of nodes: what the model of a run is made with."""

from __future__ import annotations

from dataclasses import dataclass, fields

from penstock.errors import GraphError


@dataclass(frozen=True, slots=True)
class Machine:
    """The costs of a machine, in seconds. `stream.model` has them measured once, unless some are given.

    A block that crosses from one core to another is copied by the sender and again by the receiver: each is busy with
    it for `crossing_s + byte_s · bytes`. A receiver that waits begins `wake_s` later.

    >>> Machine(firing_s=2e-5).firing_s
    2e-05
    """

    firing_s: float = 1.2e-5
    """What a firing of a loop costs, however few items it has."""
    crossing_s: float = 1.6e-5
    byte_s: float = 1e-10
    wake_s: float = 5e-5
    sharing_s: float = 1.5e-4
    """What a split costs for a block, and a merge as much again."""
    sharing_byte_s: float = 4e-10
    sharing_marked_s: float = 3e-4
    """What a block costs a split more that has boundaries of regions in it, and a merge as much again."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
                raise GraphError(f"machine: {each.name} must be a number of seconds from 0 to below 1; got {value!r}")
