"""What a platform will give: throughput, latency, how busy cores are, how long queues are, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.errors import ModelError, quoted
from penstock.tune.model.net import Net, lacking
from penstock.tune.model.platform import Platform, Task
from penstock.tune.model.platform_net import blocks_a_firing, net_of, queue_places, workers
from penstock.tune.model.simulate import FIRINGS, NetRun, simulate

BUSY = Fraction(97, 100)
"""From this share on a core is taken for what limits the program."""


@dataclass(frozen=True)
class Prediction:
    """What the model says of a platform. Times and rates are in the platform's unit of time and in blocks.

    Where `is_exact`, all times are constant and the numbers are those of the period that repeats for ever: they are the
    model's answer to the last digit. Else they are measured over a stretch of the simulated run.
    """

    throughput: Fraction
    latency: Fraction
    """The mean time of a block from the start of the first task to the end of the last."""
    latency_99: Fraction
    """The time that 99 of 100 blocks take at most."""
    utilisation: Mapping[str, Fraction]
    """For each core the share of the time that it works."""
    queues: Mapping[tuple[str, str], Fraction]
    """For each arc the blocks that wait on it, in the mean, on either side."""
    longest: Mapping[tuple[str, str], Fraction]
    """For each arc the blocks that waited on it at most, for any time."""
    critical: str
    """The core, the memory or the buffer that limits the throughput: the busiest core, or the room most often full."""
    shares: Mapping[str, Mapping[str, Fraction]]
    """For each flexible task the share of the work that each core does."""
    is_exact: bool
    firings: int

    def __str__(self) -> str:
        busiest = ", ".join(f"{core} {float(share):.0%}" for core, share in self.utilisation.items())
        exact = "exactly" if self.is_exact else "about"
        return (
            f"throughput {exact} {float(self.throughput):.6g} blocks a unit of time, latency {float(self.latency):.6g}"
            f"; busy: {busiest}; limited by {self.critical}"
        )


def predict(platform: Platform, *, firings: int = FIRINGS, seed: int = 0) -> Prediction:
    """Simulate a platform and tell what it gives.

    >>> from penstock.tune.model.platform import Arc
    >>> pair = Platform((Task("a", 2, "core 1"), Task("b", 3, "core 2")), (Arc("a", "b", capacity=2),))
    >>> told = predict(pair)
    >>> told.throughput, told.utilisation["core 1"], told.critical
    (Fraction(1, 3), Fraction(2, 3), 'core 2')
    """
    net = net_of(platform)
    ends = [name for task in (*platform.sources, *platform.sinks) for name in workers(platform, task)]
    run = simulate(net, firings=firings, seed=seed, log=firings + len(net.transitions), logged=set(ends))
    _check_progress(platform, run)
    throughput = min(rate(platform, run, task) for task in platform.sinks)
    mean, slow = latencies(platform, run)
    utilisation = {core: _busy(net, run, core) for core in platform.cores}
    return Prediction(
        throughput,
        mean,
        slow,
        utilisation,
        {(a.source, a.target): _blocks(platform, run.mean, queue_places(platform, a)) for a in platform.arcs},
        {(a.source, a.target): _blocks(platform, run.most, queue_places(platform, a)) for a in platform.arcs},
        critical(net, run, utilisation),
        {task.name: shares(platform, run, task) for task in platform.tasks if task.copies},
        run.is_periodic,
        run.firings,
    )


def _check_progress(platform: Platform, run: NetRun) -> None:
    """Every task must get on, or a part of the net is stuck while another runs."""
    stuck = [task.name for task in platform.tasks if rate(platform, run, task) == 0]
    if not stuck:
        return
    missing = lacking(run.net, map(run.tokens_left, (place.name for place in run.net.places)))
    places = [place for place, names in missing.items() if not {name for name in names if run.count(name)}]
    raise ModelError(
        f"predict: each task must get on in the time simulated; not so {quoted(stuck)} in {run.firings:,} firings; "
        f"these places lack tokens: {quoted(places[:8])}; enlarge a buffer or a memory, or allow more firings"
    )


def rate(platform: Platform, run: NetRun, task: Task) -> Fraction:
    """The blocks that a task and its copies finish in one unit of time."""
    firings = sum(run.count(name) for name in workers(platform, task))
    return firings * blocks_a_firing(platform, task) / run.time


def shares(platform: Platform, run: NetRun, task: Task) -> dict[str, Fraction]:
    """Which share of a flexible task's work each core does."""
    counts = {core: run.count(name) for name, core in workers(platform, task).items()}
    return {core: Fraction(count, max(sum(counts.values()), 1)) for core, count in counts.items()}


def critical(net: Net, run: NetRun, utilisation: Mapping[str, Fraction]) -> str:
    """What limits the throughput: a core that is always busy, or where none is, the room that is most often used up.

    Room that is used up while every core idles at times means that cores wait for each other through it.
    """
    core = max(utilisation, key=lambda name: utilisation[name])
    rooms = [place.name for place in net.places if place.role == "room"]
    if utilisation[core] >= BUSY or not rooms:
        return core
    fullest = max(rooms, key=run.empty)
    return fullest if run.empty(fullest) > 0 else core


def latencies(platform: Platform, run: NetRun) -> tuple[Fraction, Fraction]:
    """The mean latency of the blocks that ended in the time told about, and that of the slowest hundredth.

    The n-th block to end is taken for the n-th to start, as in a stream that keeps its order.
    """
    starts = _extreme(
        [_times(platform, run, task, run.log_starts, first=True) for task in platform.sources], np.minimum
    )
    ends = _extreme([_times(platform, run, task, run.log_ends, first=False) for task in platform.sinks], np.maximum)
    begin, end = int(run.begin * run.net.ticks), int(run.end * run.net.ticks)
    many = min(len(starts), len(ends))
    inside = (ends[:many] > begin) & (ends[:many] <= end)
    taken = np.sort((ends[:many] - starts[:many])[inside])
    if not len(taken):
        return Fraction(0), Fraction(0)
    slow = taken[min(len(taken) - 1, len(taken) * 99 // 100)]
    return Fraction(int(taken.sum()), len(taken) * run.net.ticks), Fraction(int(slow), run.net.ticks)


def _times(platform: Platform, run: NetRun, task: Task, times: Any, first: bool) -> Any:
    """When each block of a task started, or ended: with its first token, or with its last."""
    numbers = [run.net.number[name] for name in workers(platform, task)]
    ends = np.sort(times[np.isin(run.log_who, numbers)])
    grain = platform.grain if task.copies else 1
    return ends[::grain] if first else ends[grain - 1 :: grain]


def _extreme(arrays: list[Any], choose: Any) -> Any:
    many = min(map(len, arrays))
    return choose.reduce([array[:many] for array in arrays])


def _busy(net: Net, run: NetRun, core: str) -> Fraction:
    return run.utilisation(core) if core in net.cores else Fraction(0)


def _blocks(platform: Platform, measure: Any, places: list[str]) -> Fraction:
    return sum((Fraction(measure(place)) for place in places), Fraction(0)) / platform.grain
