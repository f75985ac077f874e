"""State by key from memory: spike detection's moving average over the last 1,000 values of a key, then a filter."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.benchmark import Benchmark
from benchmarks.records import Case, Peer, Target
from benchmarks.speeds import penstock_over_peers

ITEMS = {"tiny": 20_000, "small": 1 << 22, "full": 1 << 24}
KEYS = (54, 1000)
WINDOW = 1000
THRESHOLD = 0.03
PYTHON_SHARE = 16


class Average(ps.State):
    """A key's last values in a ring, and their sum."""

    ring: ps.array(float, WINDOW)  # type: ignore[valid-type]
    at: int
    n: int
    total: float


def moving_average(value: float, state: Any) -> float:
    at = state.at
    total = state.total + (value - state.ring[at])
    state.total = total
    state.ring[at] = value
    state.at = 0 if at + 1 == WINDOW else at + 1
    n = min(state.n + 1, WINDOW)
    state.n = n
    return total / n  # type: ignore[no-any-return]


def is_spike(value: float, average: float) -> bool:
    return abs(value - average) > THRESHOLD * average


def build(source: ps.Stream) -> ps.Stream:
    return source.key_by("key").map(average=moving_average, state=Average).filter(is_spike)


def cases(scale: str) -> Iterator[Case]:
    for keys in KEYS:
        yield case(keys, data(ITEMS[scale], keys))


def data(size: int, keys: int) -> pa.Table:
    random = np.random.default_rng(keys)
    return pa.table({"key": random.integers(0, keys, size), "value": random.normal(20.0, 0.3, size)})


def case(keys: int, table: pa.Table) -> Case:
    few = table.slice(0, table.num_rows // PYTHON_SHARE)
    pairs = list(zip(few.column("key").to_pylist(), few.column("value").to_pylist(), strict=True))
    peers = (
        Peer("penstock", lambda: by_penstock(table), table.num_rows),
        Peer("hand", lambda: by_hand(table, keys), table.num_rows),
        Peer("python", lambda: by_python(pairs), len(pairs), lambda: by_penstock(few)),
    )
    return Case(str(keys), peers)


def by_penstock(table: pa.Table) -> pa.Table:
    return build(ps.from_arrow(table)).collect()


def first_result() -> None:
    by_penstock(data(1000, 10))


# The peers

RESULT = pa.schema([("key", pa.int64()), ("value", pa.float64()), ("average", pa.float64())])
RECORD = np.dtype([("ring", "f8", (WINDOW,)), ("at", "i8"), ("n", "i8"), ("total", "f8")])


def by_hand(table: pa.Table, keys: int) -> pa.Table:
    """One loop that knows the keys to be 0 to `keys` - 1, so that a key is the place of its state."""
    columns = [table.column(name).chunk(0).to_numpy() for name in ("key", "value")]
    kept, values, averages = spikes_by_hand(*columns, np.zeros(keys, RECORD))
    return pa.table({"key": kept, "value": values, "average": averages})


@numba.njit
def spikes_by_hand(keys, values, states):  # type: ignore[no-untyped-def]
    kept, kept_values, averages = np.empty_like(keys), np.empty_like(values), np.empty_like(values)
    count = 0
    for item in range(len(keys)):
        key, value = keys[item], values[item]
        state = states[key]
        at = state.at
        total = state.total + (value - state.ring[at])
        state.total = total
        state.ring[at] = value
        state.at = 0 if at + 1 == WINDOW else at + 1
        n = min(state.n + 1, WINDOW)
        state.n = n
        average = total / n
        if abs(value - average) > THRESHOLD * average:
            kept[count], kept_values[count], averages[count] = key, value, average
            count += 1
    return kept[:count].copy(), kept_values[:count].copy(), averages[:count].copy()


def by_python(items: list[tuple[int, float]]) -> pa.Table:
    rings: dict[int, deque[float]] = {}
    totals: dict[int, float] = {}
    spikes: list[tuple[int, float, float]] = []
    for key, value in items:
        ring = rings.get(key)
        if ring is None:
            ring = rings[key] = deque()
            totals[key] = 0.0
        totals[key] += value - ring.popleft() if len(ring) == WINDOW else value
        ring.append(value)
        average = totals[key] / len(ring)
        if abs(value - average) > THRESHOLD * average:
            spikes.append((key, value, average))
    columns = {name: [spike[place] for spike in spikes] for place, name in enumerate(RESULT.names)}
    return pa.table(columns, schema=RESULT)


BENCHMARK = Benchmark(
    name="keyed-local",
    about=f"a moving average over the last {WINDOW:,} values of each key, then a filter, from memory",
    unit="M items/s",
    cases=cases,
    first="benchmarks.keyed_local:first_result",
    targets=(Target("penstock/hand", 0.7),),
    ratios=penstock_over_peers,
)
