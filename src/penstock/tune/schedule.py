"""How long a list of tasks takes on slots: each free slot takes the next task, in order, as Spark hands them out.

Slots lie on machines. Tasks on one machine share its cores and its memory, so each gets slower as more of them run:
`slowdown` says by how much. The driver hands out one task at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SIMULATED = 50_000
"""Of more tasks than this only their sum and the longest of them count: the last wave is then a small part."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Where tasks run: how many slots each machine has, and how many cores.

    `dispatch_s` is the driver's time for a task, `gap_s` how long a slot is free between two tasks. `full` is how many
    times as long a task takes where each core of its machine has one, as against alone.
    """

    machines: tuple[int, ...]
    cores: int
    dispatch_s: float = 0.0
    gap_s: float = 0.0
    full: float = 1.0

    @property
    def count(self) -> int:
        return sum(self.machines)

    def slowdown(self, tasks: int) -> float:
        """How many times as long a task takes where so many run on its machine.

        >>> two_cores = Slots((3,), cores=2, full=1.2)
        >>> two_cores.slowdown(1), two_cores.slowdown(2), round(two_cores.slowdown(3), 6)
        (1.0, 1.2, 1.8)
        """
        if tasks <= 1:
            return 1.0
        within = min(tasks, self.cores)
        shared = 1.0 + (self.full - 1.0) * (within - 1) / (self.cores - 1) if self.cores > 1 else 1.0
        return shared * max(1.0, tasks / self.cores)

    def rate(self, tasks: int) -> float:
        """How many seconds of work are done in a second, where so many tasks or more are there to be run."""
        busy = spread_over(min(tasks, self.count), self.machines)
        return sum(count / self.slowdown(count) for count in busy)


def spread_over(tasks: int, machines: Sequence[int]) -> list[int]:
    """How many tasks each machine gets, if they are dealt out one by one to machines with a free slot."""
    dealt = [0] * len(machines)
    for machine in _dealt(machines):
        if not tasks:
            break
        dealt[machine] += 1
        tasks -= 1
    return dealt


def _dealt(machines: Sequence[int]) -> Iterator[int]:
    """The slots, each by its machine, in turn."""
    for turn in range(max(machines, default=0)):
        yield from (at for at, count in enumerate(machines) if count > turn)


def makespan(work: Sequence[float], slots: Slots) -> float:
    """When the last task ends. `work` is how long each would take alone, in the order in which they are handed out.

    >>> makespan([3.0, 1.0, 1.0], Slots((1, 1), cores=1))
    3.0
    >>> makespan([1.0, 1.0, 3.0], Slots((1, 1), cores=1))
    4.0
    """
    if not work:
        return 0.0
    if len(work) > SIMULATED:
        return _flowing(work, slots)
    return _Machines(work, slots).run()


def _flowing(work: Sequence[float], slots: Slots) -> float:
    """The same of very many: all slots are busy until the last wave, in which half of the longest is left."""
    total = sum(work) / slots.rate(len(work)) + len(work) * slots.gap_s / slots.count
    return max(total, len(work) * slots.dispatch_s) + max(work) / 2


class _Machines:
    """The tasks on their way. Each machine has a clock that counts the seconds of work that each of its tasks has had.

    Invariant: `clock[m]` is right at the time `seen[m]`, and `left[m]` holds at which reading each of its tasks ends.
    """

    def __init__(self, work: Sequence[float], slots: Slots) -> None:
        self.slots, self.waiting = slots, iter(work)
        many = len(slots.machines)
        self.clock, self.seen, self.version = [0.0] * many, [0.0] * many, [0] * many
        self.left: list[list[float]] = [[] for _ in range(many)]
        self.events: list[tuple[float, int, int, float]] = []
        """When, on which machine, and which version of its next end; or -1, and the work of a task that begins."""
        self.driver = 0.0

    def run(self) -> float:
        for machine in _dealt(self.slots.machines):
            self._hand_out(machine, 0.0)
        now = 0.0
        while self.events:
            when, machine, version, work = heapq.heappop(self.events)
            if version >= 0 and version != self.version[machine]:
                continue
            now = when
            self._catch_up(machine, now)
            if version < 0:
                heapq.heappush(self.left[machine], self.clock[machine] + work)
            else:
                heapq.heappop(self.left[machine])
                self._hand_out(machine, now + self.slots.gap_s)
            self._expect(machine)
        return now

    def _hand_out(self, machine: int, when: float) -> None:
        """Give a free slot the next task, where there is one."""
        work = next(self.waiting, None)
        if work is not None:
            self.driver = max(self.driver, when) + self.slots.dispatch_s
            heapq.heappush(self.events, (self.driver, machine, -1, work))

    def _catch_up(self, machine: int, now: float) -> None:
        running = len(self.left[machine])
        self.clock[machine] += (now - self.seen[machine]) / self.slots.slowdown(running)
        self.seen[machine] = now

    def _expect(self, machine: int) -> None:
        """When the next task of a machine ends, unless another begins or ends there before."""
        self.version[machine] += 1
        if self.left[machine]:
            ahead = max(0.0, self.left[machine][0] - self.clock[machine])
            when = self.seen[machine] + ahead * self.slots.slowdown(len(self.left[machine]))
            heapq.heappush(self.events, (when, machine, self.version[machine], 0.0))
