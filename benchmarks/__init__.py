"""The benchmarks, one file each: Penstock and its peers, or its own ways to run, on the same data in one run."""

from __future__ import annotations

from importlib import import_module

from benchmarks.benchmark import SCALES, Benchmark, Report

__all__ = ["NAMES", "SCALES", "load", "run"]

_MODULES = {
    "regions-local": "benchmarks.regions_local",
    "taxi-local": "benchmarks.taxi_local",
    "keyed-local": "benchmarks.keyed_local",
    "occupancy": "benchmarks.occupancy",
    "context": "benchmarks.context",
    "heartbeat": "benchmarks.heartbeat",
    "variance": "benchmarks.variance",
    "flexible": "benchmarks.flexible",
    "model": "benchmarks.model",
    "regions": "benchmarks.regions",
    "taxi": "benchmarks.taxi",
    "keyed": "benchmarks.keyed",
    "start": "benchmarks.start",
    "stream": "benchmarks.stream",
}
NAMES = tuple(_MODULES)


def load(name: str) -> Benchmark:
    """The benchmark of this name, one of `NAMES`."""
    found: Benchmark = import_module(_MODULES[name]).BENCHMARK
    return found


def run(name: str, scale: str | None = None, repeats: int | None = None) -> Report:
    """Measure the benchmark of this name, one of `NAMES`, at one of its scales, of `SCALES`."""
    return load(name).run(scale, repeats)
