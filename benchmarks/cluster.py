"""The model of clusters against what is measured: on one and two cores, and on a cluster of one to three workers.

Each platform has a driver in a process of its own, which runs every case at every size and tells how long that took.
Two of them, two cores and two workers, also measure the profiles that all predictions are made from: those of cores
from the first, and those of workers from the second. The sample of a profile is a part of the smallest size.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import penstock as ps
from benchmarks import files
from benchmarks.standalone import SETTINGS, running, until
from penstock.errors import JobError
from penstock.examples import spike_detection, taxi
from penstock.spark.driver.task_cores import machine_of
from penstock.text import table
from penstock.tune.job_profile import JobProfile
from penstock.tune.scale_stream import scale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPEATS = 3
PATIENCE_S = 600
MOST_WARM, SETTLED = 8, 0.95
"""A job is warm when a run is hardly faster than the best before, or after so many."""


@dataclass(frozen=True, slots=True)
class ClusterCase:
    """A job: the stream over some files, and what becomes of its result."""

    build: Callable[[Sequence[str]], ps.Stream]
    sink: str
    files: Callable[[str], list[str]]
    """The files of a size."""

    def run(self, paths: Sequence[str], spark: SparkSession, folder: Path) -> None:
        stream = self.build(paths)
        if self.sink == "collect":
            stream.collect(spark)
        else:
            stream.write_parquet(folder, spark, mode="overwrite")


SHARES = {"small": 4, "large": 1}
"""Of how many files one is taken, at each size."""
TAXI_LINES, PIECES_A_FILE = 96 << 13, 8
KEYED_ROWS, DEVICES, KEYED_FILES = 1 << 26, 1000, 16


def _first(folder: Path, size: str) -> list[str]:
    found = files.paths(folder)
    return found[: max(1, len(found) // SHARES[size])]


CASES = {
    "taxi": ClusterCase(
        lambda paths: taxi.build(ps.read_text(list(paths))),
        "parquet",
        lambda size: _first(files.lines(TAXI_LINES, PIECES_A_FILE), size),
    ),
    "keyed": ClusterCase(
        lambda paths: spike_detection.build(ps.read_parquet(list(paths)), window=1000),
        "collect",
        lambda size: _first(files.readings(KEYED_ROWS, DEVICES, False, KEYED_FILES), size),
    ),
}


@dataclass(frozen=True, slots=True)
class PlatformCase:
    """Where jobs run: Spark in one process on so many cores, or a cluster of so many workers with a core each."""

    workers: int
    is_local: bool

    @property
    def name(self) -> str:
        return f"local[{self.workers}]" if self.is_local else f"{self.workers} worker{'s' if self.workers > 1 else ''}"

    @property
    def cluster(self) -> dict[str, Any]:
        """The same for the model: all on this machine."""
        return {"machines": 1, "local": self.is_local}


CORES, WORKERS = (1, 2), (1, 2, 3)
PLATFORMS = (*(PlatformCase(count, True) for count in CORES), *(PlatformCase(count, False) for count in WORKERS))
PROFILED = 2
"""On so many cores, and so many workers, profiles are measured."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One job on one platform, predicted and measured, in seconds."""

    case: str
    size: str
    platform: str
    predicted_s: float
    measured_s: float
    repeats: tuple[float, ...]

    @property
    def name(self) -> str:
        return _name(self.case, self.size, self.platform)

    @property
    def off(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        return self.predicted_s / self.measured_s - 1

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "off": self.off}


def names(case: str) -> Iterator[str]:
    """A case at every size on every platform."""
    for size in SHARES:
        for platform in PLATFORMS:
            yield _name(case, size, platform.name)


def _name(case: str, size: str, platform: str) -> str:
    return f"{case}-{size}-{platform}"


def measured_against(
    cases: Sequence[str] = tuple(CASES),
    sizes: Sequence[str] = ("small", "large"),
    platforms: Sequence[PlatformCase] = PLATFORMS,
    *,
    repeats: int = REPEATS,
) -> list[Compared]:
    """Predict and measure cases at some sizes on all platforms, which must have those that are profiled."""
    for name in cases:
        for size in sizes:
            CASES[name].files(size)  # made before anything is timed
    with tempfile.TemporaryDirectory() as folder:
        told = dict(_told(cases, sizes, platforms, repeats, Path(folder)))
    return list(compared(cases, sizes, platforms, told))


def _told(
    cases: Sequence[str], sizes: Sequence[str], platforms: Sequence[PlatformCase], repeats: int, folder: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the driver of each platform says: by case, the times of each size, and a profile."""
    asked = {"cases": list(cases), "sizes": list(sizes), "repeats": repeats, "folder": str(folder)}
    for platform in (each for each in platforms if each.is_local):
        yield platform.name, _drive(f"local[{platform.workers}]", platform, asked)
    workers = [each for each in platforms if not each.is_local]
    if workers:
        (folder / "cluster").mkdir()
        with running(folder / "cluster", max(each.workers for each in workers)) as cluster:
            for platform in workers:
                yield platform.name, _drive(cluster.url, platform, asked)


def _drive(master: str, platform: PlatformCase, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Run the driver of a platform: a process has but one JVM."""
    command = [sys.executable, "-m", "benchmarks.cluster", master, str(platform.workers), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise JobError(f"{platform.name}: the driver has failed; it said:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(
    cases: Sequence[str], sizes: Sequence[str], platforms: Sequence[PlatformCase], told: Mapping[str, Any]
) -> Iterator[Compared]:
    """Predict what was measured."""
    for case in cases:
        for size in sizes:
            for platform in platforms:
                profile = told[PlatformCase(PROFILED, platform.is_local).name][case]["profile"]
                times = told[platform.name][case]["seconds"][size]
                found = predicted(case, size, platform, JobProfile.from_json(profile))
                yield Compared(case, size, platform.name, found, median(times), tuple(times))


def predicted(case: str, size: str, platform: PlatformCase, profile: JobProfile) -> float:
    """What the model says of a case on a platform."""
    job = CASES[case]
    node, options = job.build(job.files(size)).node, {"sink": job.sink, **platform.cluster}
    return scale(node, [platform.workers], None, None, profile, options).seconds(platform.workers)


def listed(found: Sequence[Compared]) -> str:
    """As a table."""
    head = ("case", "size", "platform", "predicted s", "measured s", "off")
    rows = [
        (each.case, each.size, each.platform, f"{each.predicted_s:.2f}", f"{each.measured_s:.2f}", f"{each.off:+.1%}")
        for each in found
    ]
    return "\n".join(table(head, rows))


# In the driver of a platform


def _session(master: str, workers: int) -> SparkSession:
    import penstock.spark

    if master.startswith("local"):
        return penstock.spark.session(master)
    spark = penstock.spark.session(master, cores=workers, memory="512m", settings=SETTINGS)
    until(lambda: machine_of(spark.sparkContext).total >= workers and _has_executors(spark, workers), "executors")
    return spark


def _has_executors(spark: Any, count: int) -> bool:
    return bool(spark.sparkContext._jsc.sc().statusStore().executorList(True).size() > count)


def drive(master: str, workers: int, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Run all cases on a platform; what that took."""
    spark, folder = _session(master, workers), Path(asked["folder"])
    found = {}
    for name in asked["cases"]:
        job = CASES[name]
        paths = {size: job.files(size) for size in asked["sizes"]}
        smallest = paths[asked["sizes"][0]]
        for each in paths.values():
            _warm(job, each, spark, folder / "out")
        seconds = {size: _times(job, paths[size], spark, folder / "out", asked["repeats"]) for size in asked["sizes"]}
        profile = None
        if workers == PROFILED:
            node = job.build(smallest).node
            options = {"sink": job.sink, "folder": asked["folder"]}
            profile = scale(node, [1], None, spark, None, options).profile.json()
        found[name] = {"seconds": seconds, "profile": profile}
        shutil.rmtree(folder / "out", ignore_errors=True)
    spark.stop()
    return found


def _warm(job: ClusterCase, paths: Sequence[str], spark: SparkSession, folder: Path) -> None:
    """Run a job until it gets no faster: a JVM takes a while to compile, and a profile is measured when it has."""
    best = float("inf")
    for _ in range(MOST_WARM):
        (took,) = _times(job, paths, spark, folder, 1)
        if took > SETTLED * best:
            return
        best = min(best, took)


def _times(job: ClusterCase, paths: Sequence[str], spark: SparkSession, folder: Path, repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        job.run(paths, spark, folder)
        times.append(time.perf_counter() - started)
    return times


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("master")
    parser.add_argument("workers", type=int)
    parser.add_argument("asked", type=json.loads)
    given = parser.parse_args()
    print(json.dumps(drive(given.master, given.workers, given.asked)))
