"""How every benchmark measures: peers in turn on the same cores, the best of the repeats, and every answer compared.

A peer is a function without arguments that does the whole work and gives its answer, and with it what it saw of its
own run, such as how full its ensembles were. Compilation is done by a first, unmeasured call of each; what it costs is
told apart, as the time to a first result in a fresh process.

The file is longer than the house likes because half of it are the records that all benchmarks share.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import DataError, InternalError
from penstock.report import chart

SCALES = ("tiny", "small", "full", "double")
"""`tiny` is for tests: its times mean nothing. `double` is twice `full`, for the benchmarks that have it."""
REPEATS = 5
FIRST = "first-result"
FIRST_REPEATS = 2

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


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured. Every ratio is a speed over a speed: more is better.

    `speeds` are those that have a target of their own, in items a second. `stopped` names the case at which somebody
    had enough; the ones before it were measured.
    """

    name: str
    scale: str
    runs: tuple[Run, ...]
    ratios: dict[str, float]
    speeds: dict[str, float]
    stopped: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "scale": self.scale,
            "runs": [run.as_dict() for run in self.runs],
            "ratios": self.ratios,
            "speeds": self.speeds,
            "stopped": self.stopped,
        }

    def line(
        self, what: str, cases: Iterable[str], point: Callable[[Run], tuple[float, float]], dashed: bool = False
    ) -> chart.Series:
        """The line of one peer over some cases: a point for the fastest run at each."""
        best = best_runs(self.runs)
        return chart.Series(what, tuple(point(best[what, case]) for case in cases if (what, case) in best), dashed)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its cases at a scale, what is compared, and what is aimed at.

    `ratios` makes ratios of the best speeds, and `more` further ones of the runs. `first` names the function without
    arguments that gives a first result, as `module:function`, where that is measured. `figures` draws a report: charts
    by the name of their file. `repeats` are those of a scale where nothing is said; `scale` is the one where none is.
    """

    name: str
    about: str
    unit: str
    cases: Callable[[str], Iterable[Case]]
    targets: tuple[Target, ...]
    ratios: Callable[[Speeds], dict[str, float]]
    first: str | None = None
    figures: Callable[[Report], Mapping[str, Sequence[chart.Chart]]] | None = None
    more: Callable[[Sequence[Run]], dict[str, float]] | None = None
    cores: int = 1
    scales: tuple[str, ...] = ("tiny", "small", "full")
    scale: str = "small"
    repeats: Mapping[str, int] = field(default_factory=dict)

    def run(
        self, scale: str | None = None, repeats: int | None = None, told: Told = ignored, only: Sequence[str] = ()
    ) -> Report:
        """Measure all cases, one after the other, on the benchmark's cores. What begins is `told`, in a few words.

        `only` are patterns of names, as `touch-*`: then just the cases that match one. An interrupt ends it, with a
        report of the cases that were measured, if any.
        """
        scale = scale or self.scale
        if scale not in self.scales:
            raise DataError(f"bench: the scale of {self.name} must be one of {', '.join(self.scales)}; got {scale!r}")
        repeats = repeats or self.repeats.get(scale, REPEATS)
        runs: list[Run] = []
        begun, stopped = "the first", None
        try:
            with on_cores(self.cores):
                for case in self._wanted(scale, only):
                    begun = case.name
                    runs += measure(case, repeats, told)
                if self.first is not None and _matches(FIRST, only):
                    begun = FIRST
                    runs += first_results(self.first, min(repeats, FIRST_REPEATS))
        except KeyboardInterrupt:
            if not runs:
                raise
            stopped = begun
        best = best_speeds(runs)
        speeds = {f"{what}@{case}": speed for (what, case), speed in best.items()}
        aimed = {name: speed for name, speed in speeds.items() if self.target(name) is not None}
        more = {} if self.more is None else self.more(runs)
        return Report(self.name, scale, tuple(runs), self.ratios(best) | warm_over_cold(best) | more, aimed, stopped)

    def _wanted(self, scale: str, only: Sequence[str]) -> Iterator[Case]:
        known = [FIRST] if self.first is not None else []
        for case in self.cases(scale):
            known.append(case.name)
            if _matches(case.name, only):
                yield case
        if not any(_matches(name, only) for name in known):
            raise DataError(
                f"bench: a pattern must match a case of {self.name}; got {', '.join(map(repr, only))}, and there are "
                f"{', '.join(known)}"
            )

    def target(self, name: str) -> float | None:
        """The least that this ratio or speed must be, if anything is aimed at."""
        return next((target.least for target in self.targets if target.covers(name)), None)

    def draw(self, report: Report, folder: Path) -> list[Path]:
        """Write the figures of a report into a folder."""
        drawn = {} if self.figures is None else self.figures(report)
        return [chart.save(charts, folder / name) for name, charts in drawn.items()]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is meant; all are where there are no patterns.

    >>> _matches("touch-100", ["touch-*"]), _matches("growth", ["touch-*"]), _matches("growth", [])
    (True, False, True)
    """
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


# Measuring


@contextlib.contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Keep this process, the processes that it starts and Arrow's threads on so many cores."""
    threads = pa.cpu_count()
    cores = os.sched_getaffinity(0)
    pa.set_cpu_count(count)
    os.sched_setaffinity(0, set(sorted(cores)[-count:]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        pa.set_cpu_count(threads)


def measure(case: Case, repeats: int, told: Told = ignored) -> list[Run]:
    """Warm every peer up, then run them in turn, so that a disturbance strikes all alike.

    Each repeat begins with another peer, and no answer but the right ones outlives its run: what one leaves behind in
    the caches and the heap is not always found by the same other.
    """
    right: dict[str, pa.Table] = {}
    told(f"{case.name}: being made")
    case = Case(case.name, case.made())
    for peer in case.made():
        told(f"{case.name}: {peer.what}, not measured yet")
        right[peer.what] = _rehearsed(case, peer, right)
    gc.freeze()  # what stays alive for all runs is not searched for garbage before each
    runs = []
    try:
        for turn in range(repeats):
            for peer in _turned(case.made(), turn):
                most = min(repeats, peer.repeats or repeats)
                if turn < most:
                    told(f"{case.name}: {peer.what}, {turn + 1} of {most}")
                    runs.append(_run(case, peer, right[peer.what]))
        return runs
    finally:
        gc.unfreeze()


def _rehearsed(case: Case, peer: Peer, right: Mapping[str, pa.Table]) -> pa.Table:
    """Run a peer, unmeasured. Gives the right answer for it."""
    if not peer.rehearsed:
        assert peer.right is not None
        return peer.right()
    answer, own = peer.settled(_work(peer)[1]), peer.right
    found = own() if own is not None else right[case.made()[0].what] if right else answer.table
    check(case, peer, answer, found)
    return found


def _turned(peers: tuple[Peer, ...], by: int) -> tuple[Peer, ...]:
    return peers[by % len(peers) :] + peers[: by % len(peers)]


def _run(case: Case, peer: Peer, right: pa.Table) -> Run:
    seconds, given = _work(peer)
    answer = peer.settled(given)
    facts = check(case, peer, answer, right)
    seconds = seconds if answer.seconds is None else answer.seconds
    items = peer.items if answer.items is None else answer.items
    return Run(peer.what, case.name, items, seconds, facts, answer.batches_ms)


def _work(peer: Peer) -> tuple[float, Any]:
    if peer.before is not None:
        peer.before()
    return timed(peer.work)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        answer = work()
        return time.perf_counter() - start, answer
    finally:
        gc.enable()


def check(case: Case, peer: Peer, answer: Answer, right: pa.Table) -> Facts:
    """Compare the answer, and the facts that must be so. Gives all the facts."""
    if not peer.same(answer.table, right):
        raise DataError(
            f"bench: at {case.name}, {peer.what} must give the same {right.num_rows} rows as {case.made()[0].what}; "
            f"it gave {'others' if answer.table.num_rows == right.num_rows else answer.table.num_rows}"
        )
    for name, value in peer.must.items():
        if answer.facts[name] != value:
            raise InternalError(
                f"bench: at {case.name}, {peer.what} must come to {name} {value!r}; it came to {answer.facts[name]!r}"
            )
    return answer.facts


def first_results(function: str, repeats: int) -> list[Run]:
    """The time from the start of a fresh interpreter's first import to a result: nothing kept on disk, then all."""
    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            runs += [Run(what, FIRST, 1, _first_result(function, cache)) for what in ("penstock-cold", "penstock-warm")]
    return runs


def _first_result(function: str, cache: str) -> float:
    module, _, name = function.partition(":")
    lines = (
        "import time",
        "start = time.perf_counter()",
        f"from {module} import {name}",
        f"{name}()",
        "print(time.perf_counter() - start)",
    )
    environment = os.environ | {"PENSTOCK_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout.split()[-1])


# Speeds and ratios, from the best of the repeats


def best_runs(runs: Iterable[Run]) -> dict[tuple[str, str], Run]:
    """The fastest run of each, in the order of the runs."""
    best: dict[tuple[str, str], Run] = {}
    for run in runs:
        key = (run.what, run.case)
        best[key] = max(best.get(key, run), run, key=lambda one: one.speed)
    return best


def best_speeds(runs: Iterable[Run]) -> dict[tuple[str, str], float]:
    return {key: run.speed for key, run in best_runs(runs).items()}


def penstock_over_peers(best: Speeds) -> dict[str, float]:
    """Penstock's speed over each peer's at each case."""
    own = {case: speed for (what, case), speed in best.items() if what == "penstock"}
    return {
        f"penstock/{what}@{case}": own[case] / speed
        for (what, case), speed in best.items()
        if case in own and what != "penstock"
    }


def slowest_over_fastest(best: Speeds) -> dict[str, float]:
    """Penstock's speed at its slowest case over that at its fastest."""
    own = [speed for (what, _), speed in best.items() if what == "penstock"]
    return {"fastest/slowest": min(own) / max(own)}


def over_best(best: Speeds, what: str, others: Sequence[str]) -> dict[str, float]:
    """The speed of one peer over that of the fastest of some others, at each case."""
    cases = [case for known, case in best if known == what]
    return {f"{what}/best@{case}": best[what, case] / max(best[other, case] for other in others) for case in cases}


def warm_over_cold(best: Speeds) -> dict[str, float]:
    warm, cold = (best.get((f"penstock-{state}", FIRST)) for state in ("warm", "cold"))
    return {} if warm is None or cold is None else {f"warm/cold@{FIRST}": warm / cold}
