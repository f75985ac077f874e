"""What a run asks of its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.graph.tree import Places
from penstock.plan.node_profile import Profile

BATCH_ITEMS, WIDTH = 1 << 20, 1 << 16
"""How many items of the source, and of a channel, a loop takes at a time, unless something else is asked for."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the loops of an earlier run of the same graph took, by their names and in their order."""

    names: tuple[str, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StagePlan:
    """Which stage of a job is planned, and on how many buckets of keys it runs; by default a whole graph."""

    number: int = 0
    buckets: int | None = None
    reason: str = "the whole graph runs in one process"


@dataclass(frozen=True)
class PlanRequest:
    """What a run asks of its plan, valid as the options of a run are. None leaves a choice to the plan.

    `places`, where given, stands for what the graph asks for with `on_core` and `flexible`, and on one core begins
    loops where it changes the core. `mapping` and `flexible` are dicts from streams. A `profile` has what each node
    costs, and `measured` what each loop took; cores are balanced by them.
    """

    stage: StagePlan = field(default_factory=StagePlan)
    cores: int = 1
    places: Places | None = None
    mapping: Mapping[Any, int] | None = None
    flexible: Mapping[Any, int] | str | None = None
    profile: Profile | None = None
    measured: Measured | None = None
    fuse: bool = True
    compile: bool = True
    trace: bool = False
    is_guarded: bool = False
    width: int | None = None
    block_items: int | None = None
    batch_items: int | None = None
    capacity: int | None = None
    capacity_signals: int | None = None
    memory: int | None = None
    delay: int | None = None
    context: str | Mapping[Any, str] = "auto"
    credit: str = "queued"
    threshold: int | None = None
    heartbeat: int | str | None = None

    @property
    def is_balanced(self) -> bool:
        """Whether a receiver takes nothing without credit."""
        return self.credit == "balance"
