"""What travels down a graph while a loop is written, and the rules that a kind of node has for it.

The generator is the reference interpreter with text in the place of actions: an item, the opening of a region, its
closing and a signal travel from node to node, and at each a rule writes what is done there, with all nodes downstream
inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.codegen.site import Site
from penstock.graph import nodes as n

if TYPE_CHECKING:
    from penstock.codegen.loop_context import LoopContext


class Travel(Enum):
    """What a mark is."""

    OPEN = "open"
    CLOSE = "close"
    SIGNAL = "signal"


@dataclass(frozen=True, slots=True)
class Boundary:
    """The opening or the closing of a region; of the whole stream, where `region` is None."""

    travel: Travel
    region: n.Region | None


@dataclass(frozen=True, slots=True)
class SignalAt:
    """A signal: its number, and the array and the index of its record."""

    number: int
    array: str
    at: str
    travel: Travel = Travel.SIGNAL

    @property
    def record(self) -> str:
        return f"{self.array}[{self.at}]"


Mark = Boundary | SignalAt

BoundaryRule = Callable[["LoopContext", Any, Boundary, Site], None]
ItemRule = Callable[["LoopContext", Any, Site], None]


@dataclass(frozen=True)
class MarkRules:
    """How a kind of node handles what travels between items; it passes, where there is no rule.

    Rules for boundaries also pass them on, because what they do may come before that or after. What a signal does comes
    before.
    """

    open: BoundaryRule | None = field(default=None, kw_only=True)
    close: BoundaryRule | None = field(default=None, kw_only=True)
    signal: Callable[[LoopContext, Any, SignalAt], None] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Rules(MarkRules):
    """The rules of a kind of node. `guarded` is that of an item where failures are skipped (`guarded_rules.py`)."""

    item: ItemRule
    guarded: ItemRule | None = None
    finds_faults: bool = False
    """Whether the rule of an item may find a fault in it, whatever functions raise."""

    @property
    def may_fail(self) -> bool:
        return self.finds_faults or self.guarded is not None


@dataclass(frozen=True)
class MeetRules(MarkRules):
    """The rules of a kind of node at which streams meet: its sides note their items, `settle` writes what follows."""

    settle: Callable[..., None]


@dataclass(frozen=True)
class Refusal:
    """Why a kind of node never lies inside a loop."""

    reason: str


RuleTable = Mapping[type[n.GraphNode], Rules | MeetRules | Refusal]
