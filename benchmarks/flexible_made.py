"""Pipelines that are made for measuring flexible filters: whose nodes take a known time for each item.

`shared` is that of figure 22: a node, a bottleneck behind it that takes three times as long, and one that takes little.
`moving` has two nodes of which the first is the bottleneck in the first half of the stream, and the second in the
other: no mapping that stays the same is right for both.
"""

from __future__ import annotations

import time
from functools import cache, partial
from typing import Any

import numpy as np

import penstock as ps
from benchmarks.records import Answer, Peer

WORK_NS = (30, 100, 300, 1000, 3000, 10_000)
"""What the bottleneck takes for an item."""
SHARE = 3
"""How much longer than the node before."""
MOVING_NS = 6000
MOST = 1 << 23
BLOCK = 2048


def turned(v: float, turns: int) -> float:
    """Some arithmetic that cannot be done ahead: each turn takes as long as the other."""
    x = 0.5 + v % 0.25
    for _ in range(turns):
        x = 3.7 * x * (1.0 - x)
    return x


@cache
def turn_ns() -> float:
    """How long a turn takes here."""
    items = ps.from_numpy({"v": np.arange(1 << 12) / 7.0})
    stream = items.map(w=lambda v: turned(v, 4000)).select("w")
    seconds = []
    for _ in range(5):
        run: Any = stream.prepare(spark=False, clock=time.thread_time)
        run.collect()
        seconds.append(run.statistics().nodes[0].seconds)
    return float(1e9 * min(seconds) / (4000 << 12))


def turns(work_ns: float) -> int:
    return max(1, round(work_ns / turn_ns()))


def items_for(seconds: float, work_ns: float) -> int:
    """How many items take so many seconds; but not more than fit into memory well."""
    return max(1000, min(MOST, round(1e9 * seconds / work_ns)))


def numbers(items: int) -> np.ndarray:
    found: np.ndarray = np.arange(items) / 7.0
    return found


def shared(items: int, work_ns: int) -> ps.Stream:
    """A pipeline of three nodes, of which the second is to take so long for an item."""
    most, some = turns(work_ns), turns(work_ns / SHARE)
    source = ps.from_numpy({"v": numbers(items), "most": np.full(items, most), "some": np.full(items, some)})
    first = source.map(a=lambda v, some: turned(v, some))
    return first.map(b=lambda a, most: turned(a, most)).map(c=lambda b: b + 1.0).select("c")


def moving(items: int) -> tuple[ps.Stream, ps.Stream, ps.Stream]:
    """Two nodes and the result: of the work, the first does three quarters up to half time, and then one."""
    most, some = turns(0.75 * MOVING_NS), turns(0.25 * MOVING_NS)
    is_first = np.arange(items) < items // 2
    columns = {"v": numbers(items), "one": np.where(is_first, most, some), "two": np.where(is_first, some, most)}
    first = ps.from_numpy(columns).map(a=lambda v, one: turned(v, one))
    second = first.map(b=lambda a, two: turned(a, two))
    return first, second, second.select("b")


def moving_peers(seconds: float, cores: int) -> tuple[Peer, ...]:
    """The best mapping that stays the same has one node on each core: it is idle a third of the time."""
    items = items_for(2 * seconds, MOVING_NS)
    first, second, last = moving(items)
    on_two = {"cores": cores, "mapping": {first: 0, second: 1}, "block_items": BLOCK}
    ideal = 0.75 / 0.5

    def work(options: dict[str, Any]) -> Answer:
        planned: Any = last.prepare(spark=False, **options)
        table = planned.collect()
        nodes = planned.statistics().nodes
        passing = sum(node.seconds for node in nodes if node.name.startswith(("split of ", "merge of ")))
        return Answer(table, {"ideal": ideal, "passing": passing / sum(node.seconds for node in nodes)})

    return (
        Peer("one", partial(work, {}), items),
        Peer("pipeline", partial(work, on_two), items),
        Peer("flexible", partial(work, {**on_two, "flexible": {first: 1, second: 1}}), items),
    )
