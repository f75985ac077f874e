"""The tasks of a run on cores, with what each has to do for a block: loops, and splits and merges around copies.

Passing a block to another core is work of both cores. All that the engine does around the compiled loops holds Python's
lock, which one core at a time has; so do functions that do not compile, and those over columns. A core that wants the
lock finds it held by others for the share of the time that these need it, and then they take turns: so much longer is
what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from penstock.plan.passes.size import AHEAD
from penstock.plan.segment import Segment
from penstock.tune.machine_costs import MachineCosts
from penstock.tune.run_parts import RunPart, RunParts

ROUNDS = 3
DEEPEST = 64
"""A channel that holds more blocks than this is taken to hold so many."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of a core, and how many of them hold Python's lock."""

    seconds: float = 0.0
    python_s: float = 0.0

    @classmethod
    def python(cls, seconds: float) -> Spent:
        return cls(seconds, seconds)

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.seconds + other.seconds, self.python_s + other.python_s)

    def __rmul__(self, share: float) -> Spent:
        return Spent(share * self.seconds, share * self.python_s)


@dataclass(frozen=True)
class Job:
    """What a task does for a block, in seconds: the work of nodes, and what is to be done around it."""

    name: str
    homes: tuple[int, ...]
    work_s: float
    around_s: float
    python_s: float
    """How much of both holds Python's lock."""
    varying: Sequence[float] | None = None

    @property
    def total_s(self) -> float:
        return self.work_s + self.around_s


@dataclass(frozen=True)
class TaskChannel:
    """A channel between two tasks: the bytes of a block, and how many blocks it holds."""

    source: str
    target: str
    bytes: float
    capacity: int


@dataclass(eq=False)
class Jobs:
    """All tasks of a layout on a machine.

    Copies share the work so that their cores have as much to do as each other; that decides how much crosses.
    """

    layout: RunParts
    machine: MachineCosts
    shares: dict[RunPart, tuple[float, ...]] = field(init=False)
    held: list[float] = field(init=False)
    """For which share of the time each core has Python's lock."""
    jobs: list[Job] = field(init=False)

    def __post_init__(self) -> None:
        flexible = [part for part in self.layout.parts if part.is_flexible]
        self.shares = {part: (1.0 / len(part.homes),) * len(part.homes) for part in flexible}
        self.held = [0.0] * self.layout.choice.cores
        self.jobs = self._jobs()
        for _ in range(ROUNDS if len(self.cores()) > 1 else 0):
            for part in flexible:
                self.shares[part] = self._level(part)
            self.held = self._lock_shares()
            self.jobs = self._jobs()

    def _level(self, part: RunPart) -> tuple[float, ...]:
        loads, own = self.loads(), next(job for job in self.jobs if job.name == part.name).total_s
        others = [loads[c] - share * own for c, share in zip(part.homes, self.shares[part], strict=True)]
        return fill_cores(others, own)

    def _lock_shares(self) -> list[float]:
        whole = max(*self.loads(), self.python_s, 1e-12)
        return [python_s / whole for python_s in self._by_core(lambda job: job.python_s)]

    def _waiting_s(self, homes: Sequence[int], shares: Sequence[float], python_s: float) -> float:
        """How long a job waits for Python's lock that needs it for so long, on cores that have such shares of it."""
        others = sum(share * (sum(self.held) - self.held[core]) for core, share in zip(homes, shares, strict=True))
        return python_s * others

    def loads(self) -> list[float]:
        """What each core has to do for a block."""
        return self._by_core(lambda job: job.total_s)

    def _by_core(self, seconds: Callable[[Job], float]) -> list[float]:
        totals = [0.0] * self.layout.choice.cores
        for job in self.jobs:
            for core, share in zip(job.homes, self._shares(job), strict=True):
                totals[core] += share * seconds(job)
        return totals

    def _shares(self, job: Job) -> tuple[float, ...]:
        return next((each for part, each in self.shares.items() if part.name == job.name), (1.0,))

    @property
    def python_s(self) -> float:
        """For how long Python's lock is held for a block; nobody waits for it on one core."""
        return sum(job.python_s for job in self.jobs) if len(set(self.cores())) > 1 else 0.0

    def cores(self) -> list[int]:
        """The cores that are used."""
        return sorted({core for job in self.jobs for core in job.homes})

    @property
    def most_blocks_a_second(self) -> float:
        """The most that the busiest core lets through, were there always something to do."""
        return 1.0 / max(*self.loads(), self.python_s, 1e-12)

    # The tasks

    def _jobs(self) -> list[Job]:
        jobs = []
        for part in self.layout.parts:
            if part.is_flexible:
                jobs += [self._split(part), self._copies(part), self._merge(part)]
            else:
                jobs.append(self._plain(part))
        return [self._with_waiting(job) for job in jobs]

    def _with_waiting(self, job: Job) -> Job:
        return replace(job, around_s=job.around_s + self._waiting_s(job.homes, self._shares(job), job.python_s))

    def _plain(self, part: RunPart) -> Job:
        layout = self.layout
        around = self._leaving(part, part.core)
        for fed, before in layout.feeders(part):
            around += self._crossing(part.core, layout.exit_core(before), before, fed)
        return self._loop(part, around)

    def _copies(self, part: RunPart) -> Job:
        """The loop of a node and those of its copies, which are taken to be alike."""
        layout, around = self.layout, Spent()
        before, behind = layout.entry_core(part), layout.exit_core(part)
        for core, share in zip(part.homes, self.shares[part], strict=True):
            for fed, _ in layout.feeders(part):
                around += share * self._crossing(core, before, part, fed)
            for fed, _ in layout.takers[part]:
                around += share * self._crossing(core, behind, part, fed)
        return self._loop(part, around)

    def _loop(self, part: RunPart, around: Spent) -> Job:
        costs, block = self.layout.costs, self.layout.block
        work = block * sum(costs.work_s(each) for each in part.segments)
        passing = block * sum(costs.passing_s(each) for each in part.segments)
        fired = sum(max(costs.firing_s(each), self.machine.firing_s) for each in part.segments)
        around += Spent.python(self.layout.firings[part] * fired) + Spent(passing)
        locked = block * sum(costs.work_s(each) * costs.python_share(each) for each in part.segments)
        python = around.python_s + locked
        return Job(part.name, part.homes, work, around.seconds, python, costs.varying(part.segments[-1], block))

    def _split(self, part: RunPart) -> Job:
        core, layout = self.layout.entry_core(part), self.layout
        around = self._shared_out(part, core, [fed for fed, _ in layout.feeders(part)])
        for fed, before in layout.feeders(part):
            around += self._crossing(core, layout.exit_core(before), before, fed)
        return Job(f"split of {part.name}", (core,), 0.0, around.seconds, around.python_s)

    def _merge(self, part: RunPart) -> Job:
        core = self.layout.exit_core(part)
        around = self._shared_out(part, core, [fed for fed, _ in self.layout.takers[part]])
        around += self._leaving(part, core)
        return Job(f"merge of {part.name}", (core,), 0.0, around.seconds, around.python_s)

    def _shared_out(self, part: RunPart, core: int, channels: Sequence[Segment]) -> Spent:
        """What it costs on a core to share out what a part takes, or to put in order what it gives."""
        is_marked = any(self.layout.costs.marks(fed) for fed in channels)
        fixed = self.machine.sharing_s + is_marked * self.machine.sharing_marked_s
        around = Spent.python(self.layout.firings[part] * fixed)
        around += Spent(sum(map(self.layout.bytes, channels)) * self.machine.sharing_byte_s)
        for home, share in zip(part.homes, self.shares[part], strict=True):
            for fed in channels:
                around += share * self._crossing(core, home, part, fed)
        return around

    def _leaving(self, part: RunPart, core: int) -> Spent:
        """What it costs to send to the parts behind, where these are elsewhere."""
        layout, around = self.layout, Spent()
        for fed, taker in layout.takers[part]:
            around += self._crossing(core, layout.entry_core(taker), part, fed)
        return around

    def _crossing(self, here: int, there: int, sender: RunPart, fed: Segment) -> Spent:
        """What one side of a channel has to do for a block that crosses; nothing, within a core."""
        if here == there:
            return Spent()
        firings, size = self.layout.firings[sender], self.layout.bytes(fed)
        bytes_s = size * self.machine.byte_s
        return Spent.python(firings * self._crossing_s(fed, size / firings) - bytes_s) + Spent(bytes_s)

    def _crossing_s(self, fed: Segment, size: float) -> float:
        """What a block of so many bytes costs to cross: by what was measured of another, but no less than anywhere.

        A smaller one costs less in proportion, down to what one costs that has next to nothing; a larger one its bytes.
        """
        profile, machine = self.layout.costs.of_node.get(fed.edge), self.machine
        least = machine.crossing_s + machine.byte_s * size
        if profile is None or not profile.crossing_bytes:
            return least
        part = min(1.0, size / profile.crossing_bytes)
        within = machine.crossing_s + part * profile.crossing_s
        return max(least, within + machine.byte_s * max(0.0, size - profile.crossing_bytes))

    # The channels

    def links(self) -> list[TaskChannel]:
        """The channels between tasks; two of them between the same tasks are one."""
        layout = self.layout
        links: dict[tuple[str, str], TaskChannel] = {}
        for part in layout.parts:
            source = f"merge of {part.name}" if part.is_flexible else part.name
            for fed, taker in layout.takers[part]:
                target = f"split of {taker.name}" if taker.is_flexible else taker.name
                blocks, size = self._blocks(fed, part), layout.bytes(fed)
                _add(links, TaskChannel(source, target, size, blocks))
                if taker.is_flexible:  # what waits for copies waits before the split, which gives it away late
                    _add(links, TaskChannel(target, taker.name, size, min(blocks, AHEAD)))
                if part.is_flexible:
                    _add(links, TaskChannel(part.name, source, size, blocks))
        return list(links.values())

    def _blocks(self, fed: Segment, sender: RunPart) -> int:
        items = self.layout.items(fed)
        held = self.layout.capacity(fed, sender)
        return max(1, min(DEEPEST, int(held / items + 1e-9))) if items else DEEPEST


def _add(links: dict[tuple[str, str], TaskChannel], link: TaskChannel) -> None:
    ends = link.source, link.target
    if ends in links:
        before = links[ends]
        link = TaskChannel(*ends, before.bytes + link.bytes, min(before.capacity, link.capacity))
    links[ends] = link


def fill_cores(loads: Sequence[float], work: float) -> tuple[float, ...]:
    """The shares of some work for cores that have something to do already, so that they end together if they can.

    >>> fill_cores([0.0, 2.0], 4.0)
    (0.75, 0.25)
    >>> fill_cores([0.0, 9.0], 4.0)
    (1.0, 0.0)
    """
    if work <= 0:
        return (1.0, *(0.0 for _ in loads[1:]))
    for count in range(len(loads), 0, -1):
        least = sorted(loads)[:count]
        level = (sum(least) + work) / count
        if level >= least[-1]:
            break
    shares = [max(level - load, 0.0) / work for load in loads]
    return tuple(share / sum(shares) for share in shares)
