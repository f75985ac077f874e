"""Streams on Spark: files that lie there, a few a micro-batch, each taken to its end, and how long the batches took.

The first micro-batches of a stream start workers and warm everything up: they are shown, and do not count. What counts
are the rows of all others over the sum of their times, as Spark itself tells them. There are five kinds of cases:

- spike detection, by the number of devices: `1000`, with large micro-batches and (`1000-short`) small ones; `50000`;
- `touch-100`, `touch-10000`, `touch-all`: micro-batches that touch so many of all keys, behind one that has made them;
- `restart-1000`, `restart-1000000`: from `start` on a checkpoint with so many keys to the first new file of results;
- `growth`: the size of the state store as micro-batches go by;
- `small-files`: thousands of files of one row in a micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.benchmark import Benchmark
from benchmarks.records import Case, Run, Target
from benchmarks.speeds import best_runs, penstock_over_peers

MOST_TIMES, MOST_SECONDS = 2.0, 5.0
"""What a restart with many keys may take: so often the time of one with few, and so many seconds more."""
MOST_GROWTH = 1.2
RESTART, GROWTH, BYTES, SMALL_FILES = "restart-", "growth", "bytes_", "small-files"


@dataclass(frozen=True, slots=True)
class Span:
    """The micro-batches of a stream: the first ones, which do not count, and those that do."""

    warm: int
    counted: int

    @property
    def batches(self) -> int:
        return self.warm + self.counted


@dataclass(frozen=True, slots=True)
class Spikes:
    """A case of spike detection: how many devices, of how many last values, with how many rows and files a micro-batch.

    The peers that Spark hands rows are slow, and take fewer of the same files.
    """

    case: str
    devices: int
    window: int
    rows: int
    span: Span
    slow: Span
    files: int = 1


@dataclass(frozen=True, slots=True)
class Touch:
    """How many keys a micro-batch touches, and how many micro-batches there are; fewer with one blob a bucket."""

    keys: int
    span: Span
    blob: Span


@dataclass(frozen=True, slots=True)
class Restarts:
    """With how many keys streams are restarted: few and many. All were touched by one micro-batch, some by others."""

    keys: tuple[int, int]
    touched: int
    batches: int


@dataclass(frozen=True, slots=True)
class Growth:
    """So many keys, of which each of so many micro-batches touches some."""

    keys: int
    touched: int
    batches: int


@dataclass(frozen=True, slots=True)
class Size:
    """All cases of a scale. `keys` are those of which some are touched."""

    spikes: tuple[Spikes, ...]
    keys: int
    touches: tuple[Touch, ...]
    restarts: Restarts
    growth: Growth
    small_files: int
    """How many files of one row make a micro-batch. There are two: the first does not count."""


LONG, SHORT, FEW = Span(5, 20), Span(2, 5), Span(1, 2)
SIZES = {
    "tiny": Size(
        (Spikes("30", 30, 8, 500, Span(1, 2), Span(1, 1)),),
        2000,
        (Touch(2000, Span(1, 2), Span(1, 1)),),
        Restarts((50, 2000), 20, 1),
        Growth(500, 20, 4),
        70,
    ),
    "small": Size(
        (Spikes("1000", 1000, 1000, 250_000, SHORT, FEW), Spikes("5000", 5000, 16, 50_000, SHORT, FEW)),
        100_000,
        (Touch(100, SHORT, FEW), Touch(10_000, SHORT, FEW), Touch(100_000, FEW, FEW)),
        Restarts((1000, 100_000), 20, 10),
        Growth(10_000, 100, 40),
        600,
    ),
    "full": Size(
        (
            Spikes("1000", 1000, 1000, 16_000_000, Span(5, 10), Span(1, 1), files=4),
            Spikes("1000-short", 1000, 1000, 250_000, LONG, SHORT),
            Spikes("50000", 50_000, 16, 250_000, LONG, FEW),
        ),
        1_000_000,
        (Touch(100, LONG, SHORT), Touch(10_000, LONG, SHORT), Touch(1_000_000, SHORT, SHORT)),
        Restarts((1000, 1_000_000), 20, 10),
        Growth(100_000, 100, 400),
        3000,
    ),
}


def cases(scale: str) -> Iterator[Case]:
    from benchmarks.stream_cases import cases_of  # with classes of PySpark's, which may not be installed

    return cases_of(SIZES[scale])


def restart_and_growth(runs: Sequence[Run]) -> dict[str, float]:
    """The time that a restart may take over the time that it takes; and bytes at half of the batches over all."""
    best = best_runs(runs)
    found = {}
    restarts = sorted((int(case.removeprefix(RESTART)), case) for _, case in best if case.startswith(RESTART))
    if len(restarts) == 2:
        few, many = (best["penstock", case].seconds for _, case in restarts)
        found[f"allowed/penstock@{restarts[1][1]}"] = (MOST_TIMES * few + MOST_SECONDS) / many
    if ("penstock", GROWTH) in best:
        facts = best["penstock", GROWTH].facts
        sizes = [facts[name] for name in facts if name.startswith(BYTES)]
        found[f"half/end@{GROWTH}"] = sizes[len(sizes) // 2 - 1] / sizes[-1]
    return found


BENCHMARK = Benchmark(
    name="stream",
    about="streams in steady state on Spark: spike detection, few of many keys touched, restarts, growth",
    unit="M rows/s",
    cases=cases,
    targets=(
        Target("penstock/tws@1000", 20.0),
        Target("penstock/apply@1000", 20.0),
        Target("penstock/tws@50000", 40.0),
        Target("penstock/apply@50000", 40.0),
        Target("penstock/floor@touch-100", 1 / 1.5),
        Target(f"penstock/plain@{SMALL_FILES}", 1.0),
        Target("allowed/penstock", 1.0),
        Target("half/end", 1 / MOST_GROWTH),
    ),
    ratios=penstock_over_peers,
    more=restart_and_growth,
    cores=2,
    scale="full",
    repeats={"small": 1, "full": 3},
)
