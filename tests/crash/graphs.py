"""The graphs whose queries are killed, and the files that they read.

Each has two places in which a task may be killed: where it reads (`first`) and, where there are keys, behind the state
(`behind`). A task dies there when it finds the marker of the place, a file that says what to kill.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.examples import spike_detection, taxi

FIRST, BEHIND = "first", "behind"
ITEMS, DEVICES = 400, 25


@dataclass(frozen=True)
class Graph:
    """A graph over the files of a folder. `write` writes one of them, whose content its number decides."""

    build: Callable[[Path], ps.Stream]
    write: Callable[[Path, int], None]
    ending: str
    places: tuple[str, ...]
    files_per_batch: int = 1
    has_signals: bool = False
    failures: Callable[[Path, int], list[int]] | None = None
    """The indices, in the file of a number, of the items that fail: each has a dead letter."""


def marker(folder: Path, place: str) -> Path:
    """A file that kills a task at a place. It says `group`, `worker` or `executor`, and maybe the partition."""
    return folder / f"die-{place}"


class Deadly:
    """Hands on a column, and kills what the marker names, if there is one: the first that removes it does."""

    def __init__(self, folder: Path, place: str) -> None:
        self.marker = str(marker(folder, place))

    def __call__(self, column: Any) -> Any:
        try:
            with open(self.marker) as file:
                what, *partition = file.read().split()
            if partition and int(*partition) != _partition():
                return column
            os.unlink(self.marker)
        except FileNotFoundError:
            return column
        _kill[what]()
        return column


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _kill_group() -> None:
    """The driver and its JVM lead the session; the workers of Python and their parent have a group of their own."""
    os.killpg(os.getsid(0), signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


def _kill_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_executor() -> None:
    """The parent of the parent of all workers; these die with it, or hang in the air."""
    with open(f"/proc/{os.getppid()}/stat") as file:
        executor = int(file.read().rsplit(")", 1)[1].split()[1])
    os.kill(executor, signal.SIGKILL)


_kill = {"group": _kill_group, "worker": _kill_worker, "executor": _kill_executor}


# Readings of devices


def write_readings(path: Path, number: int) -> None:
    random = np.random.default_rng([7, number])
    device = random.integers(0, DEVICES, ITEMS)
    pq.write_table(pa.table({"device": device, "value": random.normal(10.0, 1.0, ITEMS)}), path)


def _readings(folder: Path) -> ps.Stream:
    deadly = Deadly(folder, FIRST)
    return ps.read_parquet(folder / "in").map_columns(lambda value, at=deadly: at(value), to={"value": float})


def _spikes(folder: Path) -> ps.Stream:
    deadly = Deadly(folder, BEHIND)
    found = spike_detection.build(_readings(folder), window=50, threshold=0.08)
    return found.map_columns(lambda mean, at=deadly: at(mean), to={"mean": float})


class Threshold(ps.Signal):
    """From here on, a reading this far from the mean of its device is left out."""

    level: float


class Average(ps.State):
    count: int
    total: float


class Limit(ps.State):
    level: float = 0.1


def _mean(value: float, state: Any) -> float:
    state.count += 1
    state.total += value
    return state.total / state.count  # type: ignore[no-any-return]


def _is_near(value: float, mean: float, state: Any) -> bool:
    return abs(value - mean) < state.level * mean  # type: ignore[no-any-return]


def _regions(folder: Path) -> ps.Stream:
    """Of each device, from one high value to the next: about six readings, so that files end in the middle of regions.

    Which readings are in them at all, signals decide.
    """
    deadly = Deadly(folder, BEHIND)
    means = _readings(folder).key_by("device").map(mean=_mean, state=Average)
    near = means.filter(_is_near, state=Limit).on(Threshold, level=lambda signal: signal.level)
    regions = near.regions(start=lambda value: value > 10.5, keep={"high": "value"})
    found = regions.aggregate(count=ps.count(), total=ps.sum("value"), least=ps.min("value"))
    return found.map_columns(lambda total, at=deadly: at(total), to={"total": float})


# Readings of which some fail


def _checked(value: float) -> float:
    if value > 11.0:
        raise ValueError("too high")
    return value


def _running_count(state: Any) -> int:
    state.count += 1
    return state.count  # type: ignore[no-any-return]


def _letters(folder: Path) -> ps.Stream:
    deadly = Deadly(folder, BEHIND)
    checked = _readings(folder).map(value=_checked).key_by("device").map(count=_running_count, state=Average)
    return checked.map_columns(lambda value, at=deadly: at(value), to={"value": float})


def _too_high(folder: Path, number: int) -> list[int]:
    values = pq.read_table(folder / "in" / f"{number:05}.parquet")["value"].to_pylist()
    return [index for index, value in enumerate(values) if value > 11.0]


# Lines of taxis


def write_lines(path: Path, number: int) -> None:
    (piece,) = taxi.pieces(20, seed=number)
    path.write_text("".join(f"{line}\n" for line in piece["line"].to_pylist()))


def _taxi(folder: Path) -> ps.Stream:
    deadly = Deadly(folder, FIRST)
    lines = taxi.read(folder / "in").map_columns(lambda line, at=deadly: at(line), to={"line": str})
    return taxi.build(lines)


GRAPHS = {
    "spikes": Graph(_spikes, write_readings, "parquet", (FIRST, BEHIND)),
    "taxi": Graph(_taxi, write_lines, "txt", (FIRST,), files_per_batch=2),
    "regions": Graph(_regions, write_readings, "parquet", (FIRST, BEHIND), has_signals=True),
    "letters": Graph(_letters, write_readings, "parquet", (FIRST, BEHIND), failures=_too_high),
}
