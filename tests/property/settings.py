"""How a random graph is run with channels: options of a run, none of which may change its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any

from tests.property.choose import Choose

from penstock.engine.clock import VirtualClock
from penstock.engine.options import CONTEXTS, POLICIES
from penstock.engine.run import Run
from penstock.graph import nodes
from penstock.graph.stream import Stream
from penstock.graph.tree import At, Tree
from penstock.plan.passes.size import least
from penstock.plan.segment import CLEANING

WIDTHS: tuple[int | None, ...] = (1, 2, 3, 7, 64, None)
CREDITS = ("queued", "balance")
THRESHOLDS = ("chosen", "none", "most")
"""How many items may be sent without credit: what the engine chooses, none, or the most that is legal."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The options of a run.

    `spare` and `spare_signals` are how much a channel holds beyond the smallest legal capacity, None for what the
    engine chooses: counted so, one setting fits every graph. Without `check` no invariant is verified.
    """

    fuse: bool = False
    context: str = "sparse"
    width: int | None = None
    spare: int | None = None
    spare_signals: int | None = None
    credit: str = "queued"
    threshold: str = "chosen"
    policy: str = "downstream"
    seed: int = 0
    check: bool = True
    heartbeat: int | None = None
    cores: int = 1
    mapping: int | None = None
    """The seed of which core each node is on; None for what the engine chooses."""
    steps: int | None = None
    """The seed of the order in which the steps of several cores are taken, one after the other; None for threads."""
    costs: int | None = None
    """The seed of how long each firing takes, on virtual cores; None for threads."""

    def __str__(self) -> str:
        """The arguments that make it: the context, and those that are not as usual."""
        given = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        return ", ".join(f"{name}={value!r}" for name, value, usual in given if value != usual or name == "context")

    def options(self, leaves: tuple[nodes.GraphNode, ...], control: Sequence[At]) -> dict[str, Any]:
        """The options as `Run` takes them, for the results of a graph."""
        placed = self.placed(leaves)
        needs = needed(leaves, control, fuse=self.fuse, width=self.width, **placed)
        items, marks = (max((need[at] for need in needs), default=1) for at in (0, 1))
        marks = max(marks + (self.credit == "balance"), 1)
        made = {
            "width": self.width,
            "capacity": None if self.spare is None else items + self.spare,
            "capacity_signals": None if self.spare_signals is None else marks + self.spare_signals,
            "threshold": self._threshold([chosen - least for least, _, chosen in needs]),
        }
        given: dict[str, Any] = {name: getattr(self, name) for name in ("fuse", "context", "credit", "policy", "check")}
        given |= {"seed": self.seed} if self.policy == "random" else {}
        given |= {} if self.heartbeat is None else {"heartbeat": self.heartbeat}
        given |= placed
        given |= {} if self.costs is None else {"clock": VirtualClock(random_costs(self.costs))}
        return given | {name: value for name, value in made.items() if value is not None}

    def placed(self, leaves: tuple[nodes.GraphNode, ...]) -> dict[str, Any]:
        """How many cores there are, and most nodes on any of them."""
        if self.cores == 1:
            return {}
        random, found = Random(self.mapping), [node for node in Tree(leaves).nodes if not isinstance(node, CLEANING)]
        mapping = {Stream(node): random.randrange(self.cores) for node in found if random.random() < 0.7}
        return {"cores": self.cores} | ({} if self.mapping is None else {"mapping": mapping})

    def _threshold(self, spare: Sequence[int]) -> int | None:
        if self.credit != "balance" or self.threshold == "chosen":
            return None
        if self.threshold == "none":
            return 0
        return min(spare, default=0) if self.spare is None else self.spare

    def simpler(self) -> Iterator[Setting]:
        """Settings that differ in one thing, which is as usual."""
        for field in fields(self):
            if getattr(self, field.name) != field.default:
                yield replace(self, **{field.name: field.default})

    def about(self) -> Iterator[str]:
        """What a test counts."""
        yield from (f"context {self.context}", f"width {self.width}", f"policy {self.policy}")
        yield f"credit {self.credit}"
        yield "fused" if self.fuse else "unfused"
        if not self.fuse and self.spare == self.spare_signals == 0:
            yield from ("smallest capacities", f"smallest capacities, {self.context}, {self.credit}")
        if self.credit == "balance":
            yield f"threshold {self.threshold}"


WANTED = (
    *(f"context {context}" for context in CONTEXTS),
    *(f"width {width}" for width in WIDTHS),
    *(f"credit {credit}" for credit in CREDITS),
    *(f"threshold {threshold}" for threshold in THRESHOLDS),
    *(f"policy {policy}" for policy in POLICIES),
    *(f"smallest capacities, {context}, {credit}" for context in CONTEXTS for credit in CREDITS),
    *("fused", "unfused", "smallest capacities"),
)
"""Every thing about a setting that must be drawn."""


_SPARES = {(0, 0): 10, (1, 0): 2, (0, 1): 2, (3, 5): 3, (None, None): 4, (0, None): 1}
_SPARES_OF_MANY = {(50, 50): 6, (None, None): 4, (0, 0): 1}


def choose_setting(choose: Choose, rows: int) -> Setting:
    """A setting for so many items: mostly unfused, the smallest capacities and a random order.

    Hundreds of items seldom go through the smallest queues, because that takes seconds.
    """
    is_many = rows > 100
    fuse, context = choose.boolean(12), choose.choice(("sparse", "lane", "dense", "auto"))
    width = choose.choice(WIDTHS[3:] if is_many else WIDTHS)
    spare, signals = choose.weighted(_SPARES_OF_MANY if is_many else _SPARES)
    credit = choose.choice(CREDITS)
    threshold = choose.choice(THRESHOLDS) if credit == "balance" else "chosen"
    policy = choose.weighted({"random": 5, "downstream": 2, "upstream": 1})
    seed = choose.integer(0, 2**16) if policy == "random" else 0
    return Setting(fuse, context, width, spare, signals, credit, threshold, policy, seed)


def parse(text: str) -> Setting:
    """The setting that prints so."""
    made = eval(f"Setting({text})", {"Setting": Setting})
    assert isinstance(made, Setting)
    return made


def needed(
    leaves: tuple[nodes.GraphNode, ...], control: Sequence[At], *, fuse: bool, width: int | None = None, **placed: Any
) -> list[tuple[int, int, int]]:
    """For every channel the smallest legal capacity of items, that of marks, and how many items it holds unasked."""
    run = Run(leaves, control, compile=False, fuse=fuse, width=width, **placed)
    cuts = [sink for code in run.plan.codes.values() for sink in code.sinks if sink.feeds is not None]
    return [(*least(sink), run.plan.channels[sink.feeds].bounds.value.items) for sink in cuts]


SECONDS = (0, 0, 1, 1, 3, 20)


def random_costs(seed: int) -> Callable[[str, int], float]:
    """How long a firing takes: now little and now much, and for some nodes more than for others."""
    random, slow = Random(seed), Random(seed)
    names: dict[str, int] = {}

    def seconds(name: str, items: int) -> float:
        return names.setdefault(name, slow.choice((1, 1, 10))) * random.choice(SECONDS) * max(items, 1)

    return seconds
