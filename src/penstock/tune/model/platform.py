"""A stream program on cores, as one record, and the net that stands for it.

>>> tasks = Task("a", 2, "core 1"), Task("b", 2, "core 2"), Task("c", 3, "core 3", copies=("core 2",))
>>> example = Platform(tasks, (Arc("a", "b"), Arc("b", "c")), tokens=3, memory=2)
>>> from penstock.tune.model.prediction import predict
>>> predict(example).throughput
Fraction(2, 5)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from penstock.errors import ModelError, quoted
from penstock.tune.model.net import Number, Time, as_time


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a stream program: how long a block takes, and the core that it runs on.

    `copies` are further cores that may run it, a core each: then it is flexible, and works on single tokens of a block.
    """

    name: str
    time: Time
    core: str
    copies: tuple[str, ...] = ()

    def __init__(self, name: str, time: Time | Number, core: str, copies: Iterable[str] = ()) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "time", as_time(time))
        put(self, "core", core)
        put(self, "copies", tuple(copies))
        twice = [where for where, count in Counter((core, *self.copies)).items() if count > 1]
        if twice:
            raise ModelError(
                f"task {name!r}: it and its copies must be on cores of their own; {quoted(twice)} has several; "
                "a core does one thing at a time, so a second copy on it gains nothing"
            )


@dataclass(frozen=True, slots=True)
class Arc:
    """Blocks that go from one task to another: the bytes of a block, and how many blocks the buffer between them holds.

    Without a capacity nothing but the memory of the cores bounds it.
    """

    source: str
    target: str
    size: Number = 0
    capacity: int | None = None

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ModelError(f"{self}: the size of a block must be 0 bytes or more; got {self.size}")
        if self.capacity is not None and (not isinstance(self.capacity, int) or self.capacity < 1):
            raise ModelError(f"{self}: the capacity must be 1 block or more, or None; got {self.capacity!r}")

    def __str__(self) -> str:
        return f"arc {self.source!r} → {self.target!r}"


@dataclass(frozen=True)
class Platform:
    """A stream program with a mapping to cores, and the numbers of the machine; all times in one unit.

    `cores` names the cores there are; left out, those that tasks are on. `tokens` is the granularity: how many tokens a
    block has, the least that a flexible task works on. `memory` is the blocks that a core's memory holds, for all cores
    or by name: a block is in it from when it is received until it is passed on. A message between cores takes
    `alpha + beta · bytes`; with `double_buffering` the work of the receiver hides as much of it as that lasts.
    `overhead` is the time that splitting and merging adds to a block of a flexible task. With `spare_copies` a copy
    works only when its core has nothing else to do; without, it takes turns with the core's own tasks. With
    `downstream` tasks of a core take no turns: that which is nearest to the results goes first, by the order of
    `tasks`; but on the core of the task before, which hands out their blocks, flexible ones go last, the nearest to the
    source first. So the engine does.
    """

    tasks: tuple[Task, ...]
    arcs: tuple[Arc, ...] = ()
    cores: tuple[str, ...] = ()
    tokens: int = 1
    memory: int | Mapping[str, int] | None = None
    alpha: Number = 0
    beta: Number = 0
    double_buffering: bool = True
    overhead: Number = 0
    spare_copies: bool = True
    downstream: bool = False

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "tasks", tuple(self.tasks))
        put(self, "arcs", tuple(self.arcs))
        used = dict.fromkeys(core for task in self.tasks for core in (task.core, *task.copies))
        put(self, "cores", tuple(self.cores) or tuple(used))
        self._check_tasks(used)
        self._check_arcs()
        self._check_numbers()
        for task in self.tasks:
            self._check_flexible(task)

    def _check_tasks(self, used: Iterable[str]) -> None:
        if not self.tasks:
            raise ModelError("platform: there must be at least one task; got none")
        _check_unique("platform: each task must have a name of its own", [task.name for task in self.tasks])
        _check_unique("platform: each core must be named once", self.cores)
        known = set(self.cores)
        unknown = [core for core in used if core not in known]
        if unknown:
            raise ModelError(
                f"platform: tasks must be on cores that there are; got {quoted(unknown)}; the cores are "
                f"{quoted(self.cores)}; name more cores, or map those tasks to these"
            )

    def _check_arcs(self) -> None:
        names = {task.name for task in self.tasks}
        for arc in self.arcs:
            for end in (arc.source, arc.target):
                if end not in names:
                    raise ModelError(f"{arc}: it must join two tasks; {end!r} is none; the tasks are {quoted(names)}")
        _check_unique(
            "platform: two tasks must be joined by one arc; add the sizes",
            [f"{a.source} → {a.target}" for a in self.arcs],
        )
        left = {name: len(self.into(name)) for name in names}
        free = [name for name, count in left.items() if count == 0]
        while free:
            for arc in self.out_of(free.pop()):
                left[arc.target] -= 1
                if left[arc.target] == 0:
                    free.append(arc.target)
        stuck = sorted(name for name, count in left.items() if count)
        if stuck:
            raise ModelError(
                f"platform: arcs must not lead in a circle; they do around {quoted(stuck)}; cut one of them"
            )

    def _check_numbers(self) -> None:
        if not isinstance(self.tokens, int) or self.tokens < 1:
            raise ModelError(f"platform: a block must have 1 token or more; got tokens={self.tokens!r}")
        for name in ("alpha", "beta", "overhead"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | Fraction) or value < 0:
                raise ModelError(
                    f"platform: {name} must be an exact number, an int or a Fraction, of 0 or more; got {value!r}"
                )
        given = self.memory if isinstance(self.memory, Mapping) else {}
        missing = [core for core in given if core not in self.cores]
        if missing:
            raise ModelError(f"platform: memory must be of cores that there are; got {quoted(missing)}")
        for core in self.cores:
            blocks = self.memory_of(core)
            if blocks is not None and (not isinstance(blocks, int) or blocks < 1):
                raise ModelError(f"platform: the memory of {core!r} must hold 1 block or more; got {blocks!r}")

    def _check_flexible(self, task: Task) -> None:
        arcs = self.into(task.name)
        if not task.copies:
            return
        if not arcs:
            raise ModelError(
                f"task {task.name!r}: a flexible task must take its blocks from another task, which splits them; it "
                "begins the stream; make a task of its reading and another of its work"
            )
        for core in (task.core, *task.copies):
            if not self.is_in_place(task, core) and not any(self._is_bounded(arc, core) for arc in arcs):
                raise ModelError(
                    f"task {task.name!r}: each copy of a flexible task must have a bounded input, for a full one is "
                    f"what sends blocks to the next; that on {core!r} has none; give an arc to the task a capacity, or "
                    f"{core!r} a memory"
                )

    def _is_bounded(self, arc: Arc, core: str) -> bool:
        from_elsewhere = self.task[arc.source].core != core
        return arc.capacity is not None or (from_elsewhere and self.memory_of(core) is not None)

    def is_in_place(self, task: Task, core: str) -> bool:
        """Whether a copy on this core finds all its input there: it is the core of the tasks before."""
        return core in task.copies and all(self.task[arc.source].core == core for arc in self.into(task.name))

    @cached_property
    def _ends(self) -> tuple[dict[str, list[Arc]], dict[str, list[Arc]]]:
        into: dict[str, list[Arc]] = {task.name: [] for task in self.tasks}
        out_of: dict[str, list[Arc]] = {task.name: [] for task in self.tasks}
        for arc in self.arcs:
            into[arc.target].append(arc)
            out_of[arc.source].append(arc)
        return into, out_of

    def into(self, task: str) -> list[Arc]:
        """The arcs that lead to a task."""
        return self._ends[0][task]

    def out_of(self, task: str) -> list[Arc]:
        """The arcs that leave a task."""
        return self._ends[1][task]

    @cached_property
    def task(self) -> Mapping[str, Task]:
        """The tasks by name."""
        return {task.name: task for task in self.tasks}

    @property
    def sources(self) -> tuple[Task, ...]:
        """The tasks that begin the stream."""
        return tuple(task for task in self.tasks if not self.into(task.name))

    @property
    def sinks(self) -> tuple[Task, ...]:
        """The tasks that end the stream."""
        return tuple(task for task in self.tasks if not self.out_of(task.name))

    @cached_property
    def grain(self) -> int:
        """The tokens that a block counts for in the net: 1 where nothing is flexible, as blocks stay whole then."""
        return self.tokens if any(task.copies for task in self.tasks) else 1

    def memory_of(self, core: str) -> int | None:
        """The blocks that the memory of a core holds; None where nothing bounds it."""
        return self.memory.get(core) if isinstance(self.memory, Mapping) else self.memory


def _check_unique(rule: str, names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ModelError(f"{rule}; {quoted(twice)} is there several times")
