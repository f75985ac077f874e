"""The records of all benchmarks: a case and its peers, an answer, one run, and a target.

A peer is a function without arguments that does the whole work and gives its answer, and with it what it saw of its
own run, such as how full its ensembles were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

FIRST = "first-result"

Facts = Mapping[str, float]
Speeds = Mapping[tuple[str, str], float]
"""The best speed of each, in items a second, by who and on which case."""
Told = Callable[[str], object]


def ignored(text: str) -> None:
    """For those who want to be told nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run: who, on which case, over how many items, in what time, and what else it saw.

    `batches_ms` has the time of every micro-batch of a stream, also of the first ones, which do not count.
    """

    what: str
    case: str
    items: int
    seconds: float
    facts: Facts = field(default_factory=dict)
    batches_ms: tuple[float, ...] = ()

    @property
    def speed(self) -> float:
        return self.items / self.seconds

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: the micro-batches are among the facts, where there are any."""
        batches = {"batches_ms": list(self.batches_ms)} if self.batches_ms else {}
        return {
            "what": self.what,
            "case": self.case,
            "items": self.items,
            "seconds": self.seconds,
            "facts": {**self.facts, **batches},
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a peer that also tells what it saw of its run.

    One that knows better than a clock around it what counts gives the `seconds` itself, and the `items` of these.
    """

    table: pa.Table
    facts: Facts = field(default_factory=dict)
    seconds: float | None = None
    items: int | None = None
    batches_ms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to do the work of a case.

    `items` is how many items it takes. One too slow for all of them takes fewer, and then `right` gives their answer.
    `must` are facts that every run must come to, exactly. `repeats` bounds how often a slow one is measured. One that
    is not `rehearsed` is not run before it is measured, and so must have `right`.

    What is not measured: `before`, done before every run; `settle`, which makes an answer of what the work gave; and
    `same`, which compares that answer with the right one.
    """

    what: str
    work: Callable[[], Any]
    items: int
    right: Callable[[], pa.Table] | None = None
    must: Facts = field(default_factory=dict)
    repeats: int | None = None
    rehearsed: bool = True
    before: Callable[[], object] | None = None
    settle: Callable[[Any], pa.Table | Answer] | None = None
    same: Callable[[pa.Table, pa.Table], bool] = pa.Table.equals

    def settled(self, given: Any) -> Answer:
        answer = given if self.settle is None else self.settle(given)
        return answer if isinstance(answer, Answer) else Answer(answer)


@dataclass(frozen=True, slots=True)
class Case:
    """One data set and its peers. The first is Penstock, and its answer is the one that all the others must give.

    Peers that take long to make are given as a function, which is called when the case is measured.
    """

    name: str
    peers: tuple[Peer, ...] | Callable[[], Iterable[Peer]]

    def made(self) -> tuple[Peer, ...]:
        return self.peers if isinstance(self.peers, tuple) else tuple(self.peers())


@dataclass(frozen=True, slots=True)
class Target:
    """The least that a ratio must be, `peer/peer@case`, or a speed in items a second, `peer@case`.

    A name without a case stands for all cases.
    """

    name: str
    least: float

    def covers(self, name: str) -> bool:
        return self.name in (name, name.partition("@")[0])
