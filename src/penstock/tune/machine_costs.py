"""What the engine itself costs on a machine, beside the work of nodes: measured once, on one core and on two."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace
from functools import cache
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.context_costs import kept_constants
from penstock.engine.run import Run
from penstock.errors import GraphError
from penstock.graph.read import from_arrow, from_numpy
from penstock.graph.stream import Stream

ITEMS, REPEATS, TIMES = 1 << 17, 5, 3
NARROW, WIDE, FIELDS, MANY, REGION = 1 << 10, 1 << 14, 8, 1 << 20, 16
"""Blocks of which the work hardly counts, blocks whose bytes do, how many fields of eight bytes these have, and in such
how many items pass: enough for the memory of channels to be used again, since memory that is new costs more. Regions
have as many items as the last says."""
LONGEST_WAKE_S, LEAST_BYTE_S = 1e-4, 3e-11
"""A machine that is busy with something else wakes threads late, and hides what bytes cost; it does not always."""


@dataclass(frozen=True, slots=True)
class MachineCosts:
    """The costs of a machine, in seconds. `stream.model` has them measured once, unless some are given.

    A block that crosses from one core to another is copied by the sender and again by the receiver: each is busy with
    it for `crossing_s + byte_s · bytes`. A receiver that waits begins `wake_s` later.

    >>> MachineCosts(firing_s=2e-5).firing_s
    2e-05
    """

    firing_s: float = 1.2e-5
    """What a firing of a loop costs, however few items it has."""
    crossing_s: float = 1.6e-5
    byte_s: float = 1e-10
    wake_s: float = 5e-5
    sharing_s: float = 1.5e-4
    """What a split costs for a block, and a merge as much again."""
    sharing_byte_s: float = 4e-10
    sharing_marked_s: float = 3e-4
    """What a block costs a split more that has boundaries of regions in it, and a merge as much again."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
                raise GraphError(f"machine: {each.name} must be a number of seconds from 0 to below 1; got {value!r}")


@cache
def machine_costs() -> MachineCosts:
    """What the engine costs on several cores, from the disk or, where that is not there, measured now."""
    costs: MachineCosts = kept_constants("machine", MachineCosts, measure_cores)
    return costs


def measure_cores() -> MachineCosts:
    """Run two nodes on one core and on two, and solve for the costs of a block: the medians of a few times.

    Times are those of the processor, so that what else the machine does makes little difference; but for how long a
    thread takes to wake. The first time does not count: it finds memory that nobody has touched.
    """
    small, large, regions = _pair(1, ITEMS), _pair(FIELDS, MANY), _regions(ITEMS)
    _, *measures = (_with_regions(_solve(small, large), regions) for _ in range(1 + TIMES))
    return MachineCosts(
        **{each.name: median(getattr(one, each.name) for one in measures) for each in fields(MachineCosts)}
    )


def _solve(small: tuple[Stream, Stream], large: tuple[Stream, Stream]) -> MachineCosts:
    apart: dict[str, Any] = {"cores": 2, "mapping": {small[0]: 0, small[1]: 1}}
    one, two = _block(small, NARROW)[0], _block(small, NARROW, **apart)[0]
    firing = max((one - _block(small, WIDE)[0] * NARROW / WIDE) / 2, 1e-6)
    crossing = max((two - one) / 2, 1e-6)
    busy, whole = _block(small, NARROW, **apart, capacity=NARROW)
    wake = min(max((whole - busy) / 2, 0.0), LONGEST_WAKE_S)
    sharing = max((_block(small, NARROW, **apart, flexible={small[1]: 1})[0] - two - firing) / 2, 1e-6)
    apart["mapping"] = {large[0]: 0, large[1]: 1}
    size, wide = 8 * FIELDS * WIDE, _block(large, WIDE, **apart)[0]
    byte = max(((wide - _block(large, WIDE)[0]) / 2 - crossing) / size, LEAST_BYTE_S)
    shared = _block(large, WIDE, **apart, flexible={large[1]: 1})[0]
    sharing_byte = max(((shared - wide - firing) / 2 - sharing) / size, LEAST_BYTE_S)
    return MachineCosts(firing, crossing, byte, wake, sharing, sharing_byte)


def _with_regions(costs: MachineCosts, pair: tuple[Stream, Stream]) -> MachineCosts:
    """The costs with those of blocks that have boundaries of regions in them."""
    apart: dict[str, Any] = {"cores": 2, "mapping": {pair[0]: 0, pair[1]: 1}}
    two, shared = _block(pair, NARROW, **apart)[0], _block(pair, NARROW, **apart, flexible={pair[1]: 1})[0]
    more = (shared - two - costs.firing_s) / 2 - costs.sharing_s - 8 * NARROW * costs.sharing_byte_s
    return replace(costs, sharing_marked_s=max(more, 0.0))


def _regions(items: int) -> tuple[Stream, Stream]:
    """Two nodes that do hardly anything to so many items in regions, whose parents have a field that is used."""
    offsets = np.arange(0, items + 1, REGION)
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.arange(items) * 1.0))
    table = pa.table({"id": np.arange(len(lists)), "values": lists})
    first = from_arrow(table, name="calibration").enumerate("values", as_="v0").map(v0=lambda v0: v0 + 1.0)
    return first, first.map(v0=lambda v0, id: v0 + id)


def _pair(fields: int, items: int) -> tuple[Stream, Stream]:
    """Two nodes that do hardly anything to so many items of so many fields."""
    columns = {f"v{at}": np.arange(items) * 1.0 for at in range(fields)}
    first = from_numpy(columns, name="calibration").map(v0=lambda v0: v0 + 1.0)
    return first, first.map(v0=lambda v0: 2.0 * v0)


def _block(pair: tuple[Stream, Stream], width: int, **options: Any) -> tuple[float, float]:
    """The seconds of the processor, and those that pass, for a block of so many items."""
    busy, passed, items = float("inf"), float("inf"), 0
    for _ in range(REPEATS):
        run = Run((pair[1].node,), (), fuse=False, width=width, check=False, **options)
        began, started = time.process_time(), time.perf_counter()
        for _ in run.batches():
            pass
        busy = min(busy, time.process_time() - began)
        passed = min(passed, time.perf_counter() - started)
        items = run.statistics().nodes[-1].items
    return busy * width / items, passed * width / items
