"""How every benchmark measures: peers in turn on one core, the best of the repeats, and every answer compared.

A peer is a function without arguments that does the whole work and gives its answer. Compilation is done by a first,
unmeasured call of each; what it costs is told apart, as the time to a first result in a fresh process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import DataError

SCALES = ("tiny", "small", "full")
"""`tiny` is for tests: its times mean nothing."""
FIRST = "first-result"
FIRST_REPEATS = 2


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run: who, on which case, over how many items, in what time."""

    what: str
    case: str
    items: int
    seconds: float

    @property
    def speed(self) -> float:
        return self.items / self.seconds


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to do the work of a case.

    `items` is how many items it takes. One too slow for all of them takes fewer, and then `right` gives their answer.
    """

    what: str
    work: Callable[[], pa.Table]
    items: int
    right: Callable[[], pa.Table] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One data set and its peers. The first is Penstock, and its answer is the one that all the others must give."""

    name: str
    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """The least that a ratio must be: the one of this name, or all of this name at any case."""

    ratio: str
    least: float

    def covers(self, ratio: str) -> bool:
        return ratio.partition("@")[0] == self.ratio


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured. Every ratio is a speed over a speed: more is better."""

    name: str
    scale: str
    runs: tuple[Run, ...]
    ratios: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "scale": self.scale,
            "runs": [asdict(run) for run in self.runs],
            "ratios": self.ratios,
        }


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its cases at a scale, the function that gives a first result, and what is aimed at.

    `first` names a function without arguments as `module:function`; `even` asks how the slowest case compares with the
    fastest.
    """

    name: str
    about: str
    unit: str
    cases: Callable[[str], Iterable[Case]]
    first: str
    targets: tuple[Target, ...]
    even: bool = False

    def run(self, scale: str, repeats: int) -> Report:
        """Measure all cases, one after the other, on one core."""
        runs: list[Run] = []
        with one_core():
            for case in self.cases(scale):
                runs += measure(case, repeats)
            runs += first_results(self.first, min(repeats, FIRST_REPEATS))
        return Report(self.name, scale, tuple(runs), ratios(runs, self.even))

    def target(self, ratio: str) -> float | None:
        """The least that this ratio must be, if anything is aimed at."""
        return next((target.least for target in self.targets if target.covers(ratio)), None)


# Measuring


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keep this process, the processes that it starts and Arrow's threads on one core."""
    threads = pa.cpu_count()
    cores = os.sched_getaffinity(0)
    pa.set_cpu_count(1)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        pa.set_cpu_count(threads)


def measure(case: Case, repeats: int) -> list[Run]:
    """Warm every peer up, then run them in turn, so that a disturbance strikes all alike.

    Each repeat begins with another peer, and no answer but the right ones outlives its run: what one leaves behind in
    the caches and the heap is not always found by the same other.
    """
    answer = case.peers[0].work()
    right = {peer.what: answer if peer.right is None else peer.right() for peer in case.peers}
    for peer in case.peers:
        check(case, peer, peer.work(), right[peer.what])
    gc.freeze()  # what stays alive for all runs is not searched for garbage before each
    try:
        return [_run(case, peer, right[peer.what]) for turn in range(repeats) for peer in _turned(case.peers, turn)]
    finally:
        gc.unfreeze()


def _turned(peers: tuple[Peer, ...], by: int) -> tuple[Peer, ...]:
    return peers[by % len(peers) :] + peers[: by % len(peers)]


def _run(case: Case, peer: Peer, right: pa.Table) -> Run:
    seconds, answer = timed(peer.work)
    check(case, peer, answer, right)
    return Run(peer.what, case.name, peer.items, seconds)


def timed(work: Callable[[], pa.Table]) -> tuple[float, pa.Table]:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        answer = work()
        return time.perf_counter() - start, answer
    finally:
        gc.enable()


def check(case: Case, peer: Peer, answer: pa.Table, right: pa.Table) -> None:
    if not answer.equals(right):
        raise DataError(
            f"bench: at {case.name}, {peer.what} must give the same {right.num_rows} rows as penstock; it gave others"
        )


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


# Ratios


def ratios(runs: Iterable[Run], even: bool) -> dict[str, float]:
    """Penstock's speed over each peer's at each case, and what else is aimed at, from the best of the repeats."""
    best = best_speeds(runs)
    own = {case: speed for (what, case), speed in best.items() if what == "penstock"}
    found = {
        f"penstock/{what}@{case}": own[case] / speed
        for (what, case), speed in best.items()
        if case in own and what != "penstock"
    }
    if even:
        found["fastest/slowest"] = min(own.values()) / max(own.values())
    if ("penstock-warm", FIRST) in best:
        found[f"warm/cold@{FIRST}"] = best["penstock-warm", FIRST] / best["penstock-cold", FIRST]
    return found


def best_speeds(runs: Iterable[Run]) -> dict[tuple[str, str], float]:
    """The best speed of each, in the order of the runs."""
    best: dict[tuple[str, str], float] = {}
    for run in runs:
        key = (run.what, run.case)
        best[key] = max(best.get(key, 0.0), run.speed)
    return best
