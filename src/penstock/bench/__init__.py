"""The benchmarks, one file each: Penstock and its peers, or its own ways to run, on the same data in one run."""

from __future__ import annotations

from importlib import import_module

from penstock.bench.measure import SCALES, Benchmark, Report

__all__ = ["NAMES", "SCALES", "load", "run"]

_MODULES = {
    "regions-local": "penstock.bench.regions_local",
    "taxi-local": "penstock.bench.taxi_local",
    "keyed-local": "penstock.bench.keyed_local",
    "occupancy": "penstock.bench.occupancy",
    "context": "penstock.bench.context",
    "heartbeat": "penstock.bench.heartbeat",
    "variance": "penstock.bench.variance",
    "flexible": "penstock.bench.flexible",
    "model": "penstock.bench.model",
    "regions": "penstock.bench.regions",
    "taxi": "penstock.bench.taxi",
    "keyed": "penstock.bench.keyed",
    "start": "penstock.bench.start",
    "stream": "penstock.bench.stream",
}
NAMES = tuple(_MODULES)


def load(name: str) -> Benchmark:
    """The benchmark of this name, one of `NAMES`."""
    found: Benchmark = import_module(_MODULES[name]).BENCHMARK
    return found


def run(name: str, scale: str | None = None, repeats: int | None = None) -> Report:
    """Measure the benchmark of this name, one of `NAMES`, at one of its scales, of `SCALES`."""
    return load(name).run(scale, repeats)
