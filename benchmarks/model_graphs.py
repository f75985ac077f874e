"""Task graphs that are made for measuring the model: random ones, whose tasks take a known time for each item.

They are drawn in the manner of TGFF: a task follows another, begins a branch of its own, or joins branches, and the
last one joins all that are left. Each has a field of the source with the number of its turns, so that the same compiled
loops serve for any times. `uneven` is a pipeline whose times vary from block to block, so that buffers matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import penstock as ps
from benchmarks.flexible_made import turned, turns

MEAN_NS = 20_000.0
"""What a large task takes for an item, in the mean."""
SPREAD = 0.8
"""How far off the mean a task may be: from so much less to so much more."""
BLOCK = 256
MOST_ENDS = 3
"""A graph has at most so many branches at a time."""
FORKS, JOINS = 0.3, 0.35
"""How often a task begins a branch, and how often it ends one."""


@dataclass(frozen=True, slots=True)
class MadeTask:
    """A task: those whose results it takes, by number, and what it takes for an item. The first reads the source."""

    before: tuple[int, ...]
    work_ns: float


@dataclass(frozen=True)
class MadeGraph:
    """A graph of such tasks, each of which comes after those that it takes from; nobody takes from the last."""

    tasks: tuple[MadeTask, ...]

    @property
    def total_ns(self) -> float:
        """What all tasks take for an item."""
        return sum(task.work_ns for task in self.tasks)

    def busiest_ns(self, cores: tuple[int, ...]) -> float:
        """What the busiest core has to do for an item, with tasks on these cores."""
        return max(self.load_ns(cores, core) for core in set(cores))

    def load_ns(self, cores: tuple[int, ...], core: int) -> float:
        return sum(task.work_ns for task, home in zip(self.tasks, cores, strict=True) if home == core)

    def streams(self, items: int) -> list[ps.Stream]:
        """The stream behind each task, over so many items."""
        columns = {f"turns_{at}": np.full(items, turns(task.work_ns)) for at, task in enumerate(self.tasks)}
        source = ps.from_numpy({"v": np.arange(items) / 7.0, **columns})
        found: list[ps.Stream] = []
        for at, task in enumerate(self.tasks):
            sides = [found[before] for before in task.before]
            given = source if not sides else sides[0] if len(sides) == 1 else ps.align(*sides)
            named: dict[str, Any] = {f"task_{at}": function(at, task.before)}
            found.append(given.map(**named))
        return found

    def built(self, items: int) -> tuple[list[ps.Stream], ps.Stream]:
        """The stream behind each task, and the result: what the last of them gives."""
        found = self.streams(items)
        return found, found[-1].select(f"task_{len(found) - 1}")


def function(at: int, before: tuple[int, ...]) -> Callable[..., float]:
    """The function of a task: so many turns of the sum of what it takes."""
    taken = [f"task_{each}" for each in before] or ["v"]
    text = f"lambda {', '.join(taken)}, turns_{at}: turned({' + '.join(taken)}, turns_{at})"
    made: Any = eval(text, {"turned": turned})  # functions name their fields, and here the names are drawn too
    return made  # type: ignore[no-any-return]


def random_graph(seed: int, tasks: int, mean_ns: float = MEAN_NS) -> MadeGraph:
    """A graph of so many tasks, the same for the same seed.

    >>> [task.before for task in random_graph(1, 5).tasks]
    [(), (0,), (1,), (1,), (2, 3)]
    """
    draw = random.Random(seed)
    befores: list[tuple[int, ...]] = [()]
    ends = [0]
    while len(befores) < tasks:
        before = tuple(sorted(ends)) if len(befores) == tasks - 1 else _before(draw, len(befores), ends)
        ends = [end for end in ends if end not in before] + [len(befores)]
        befores.append(before)
    works = [mean_ns * draw.uniform(1 - SPREAD, 1 + SPREAD) for _ in befores]
    return MadeGraph(tuple(MadeTask(before, work) for before, work in zip(befores, works, strict=True)))


def _before(draw: random.Random, made: int, ends: list[int]) -> tuple[int, ...]:
    """What the next task takes from: two ends of branches, or any task before, or the end of one branch."""
    chance = draw.random()
    if chance < JOINS and len(ends) > 1:
        return tuple(sorted(draw.sample(ends, 2)))
    if chance >= 1 - FORKS and len(ends) < MOST_ENDS:
        return (draw.randrange(made),)
    return (draw.choice(ends),)


def random_mapping(seed: int, tasks: int, cores: int = 2) -> tuple[int, ...]:
    """The core of each task, at random, the first on core 0; but no core has nothing to do."""
    return random_mappings(seed, tasks, 1, cores)[0]


def random_mappings(seed: int, tasks: int, count: int, cores: int = 2) -> list[tuple[int, ...]]:
    """So many mappings, each another, or as many as there are."""
    draw = random.Random(seed)
    able = min(count, cores ** (tasks - 1) - 1) if cores == 2 else count
    found: dict[tuple[int, ...], None] = {}
    while len(found) < able:
        drawn = (0, *(draw.randrange(cores) for _ in range(tasks - 1)))
        if len(set(drawn)) == cores:
            found[drawn] = None
    return list(found)


def uneven(items: int, mean_ns: float = MEAN_NS, seed: int = 0) -> tuple[ps.Stream, ps.Stream, ps.Stream]:
    """Two nodes and the result. Each takes a time that is drawn for each block: exponential, with the same mean.

    Whatever buffer is between them, one has to wait for the other at times; the larger it is, the less.
    """
    draw = np.random.default_rng(seed)
    blocks = -(-items // BLOCK)
    one, two = (np.repeat([turns(work) for work in draw.exponential(mean_ns, blocks)], BLOCK)[:items] for _ in range(2))
    source = ps.from_numpy({"v": np.arange(items) / 7.0, "one": one, "two": two})
    first = source.map(a=lambda v, one: turned(v, one))
    second = first.map(b=lambda a, two: turned(a, two))
    return first, second, second.select("b")
