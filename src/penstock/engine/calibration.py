"""The constants of the cost models, measured on this machine once and kept beside the compiled code.

A small graph runs on channels in ways that differ in one thing at a time: many small regions or few large ones, with
and without tags, in ensembles that cross boundaries or do not; on one core or two, in small blocks or large ones, with
and without a copy.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, fields, replace
from functools import cache
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.run import Run
from penstock.graph.aggregate import sum as sum_of
from penstock.graph.stream import Stream, from_arrow, from_numpy
from penstock.kernels.cache import cache as kept_cache
from penstock.kernels.compile import versions
from penstock.plan.context import Costs
from penstock.plan.machine import Machine

ITEMS, SMALL, WIDTH, REPEATS = 1 << 17, 4, 1 << 12, 5
NARROW, WIDE, FIELDS, MANY, REGION = 1 << 10, 1 << 14, 8, 1 << 20, 16
"""Blocks of which the work hardly counts, blocks whose bytes do, how many fields of eight bytes these have, and in such
how many items pass: enough for the memory of channels to be used again, since memory that is new costs more. Regions
have as many items as the last says."""
TIMES = 3
LONGEST_WAKE_S, LEAST_BYTE_S = 1e-4, 3e-11
"""A machine that is busy with something else wakes threads late, and hides what bytes cost; it does not always."""


@cache
def costs() -> Costs:
    """The constants, from the disk or, where they are not there, measured now."""
    found: Costs = _kept("costs", Costs, measure)
    return found


@cache
def machine() -> Machine:
    """What the engine costs on several cores, from the disk or, where that is not there, measured now."""
    found: Machine = _kept("machine", Machine, measure_cores)
    return found


def _kept(name: str, kind: Any, measuring: Any) -> Any:
    file, kept = f"{name}_{hashlib.sha256(versions().encode()).hexdigest()[:16]}.json", kept_cache()
    try:
        return kind(**json.loads((kept.read(file) if kept is not None else None) or ""))
    except (ValueError, TypeError):
        measured = measuring()
    if kept is not None:  # where it cannot be written, it is measured again next time
        kept.write(file, json.dumps(asdict(measured)))
    return measured


def measure() -> Costs:
    """Run small graphs and solve for the constants. Each is the best of a few, so that a disturbance hardly matters."""
    few = 64  # regions in the sparse run, which fires for each
    large, small = _graph(ITEMS, ITEMS), _graph(ITEMS, SMALL)
    plain, wide = _seconds(large, WIDTH, "lane"), _seconds(large, ITEMS, "lane")
    firing = max(plain - wide, 0.0) / (ITEMS / WIDTH) or 1e-6
    item = wide / ITEMS
    region = max(_seconds(small, ITEMS, "lane") - wide, 0.0) / (ITEMS / SMALL)
    tag = max(_seconds(large, ITEMS, "dense") - wide, 0.0) / ITEMS
    sparse = _graph(few * SMALL, SMALL)
    firing = max(firing, (_seconds(sparse, WIDTH, "sparse") - _seconds(sparse, WIDTH, "lane")) / few)
    return Costs(firing, item, region, tag)


def _graph(items: int, region: int) -> Stream:
    offsets = np.arange(0, items + 1, region)
    table = pa.table({"values": pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.arange(items)))})
    return from_arrow(table, name="calibration").enumerate("values", as_="v").aggregate(total=sum_of("v"))


def _seconds(stream: Stream, width: int, context: str) -> float:
    """The time of the node inside the region, which takes from the channel, and of its sender."""
    best = float("inf")
    for _ in range(REPEATS + 1):
        run = Run((stream.node,), (), fuse=False, width=width, capacity=ITEMS, context=context, check=False)
        started = time.perf_counter()
        run.tables()
        best = min(best, time.perf_counter() - started)
    return best


# Several cores


def measure_cores() -> Machine:
    """Run two nodes on one core and on two, and solve for the costs of a block: the medians of a few times.

    Times are those of the processor, so that what else the machine does makes little difference; but for how long a
    thread takes to wake. The first time does not count: it finds memory that nobody has touched.
    """
    small, large, regions = _pair(1, ITEMS), _pair(FIELDS, MANY), _regions(ITEMS)
    _, *found = (_with_regions(_solved(small, large), regions) for _ in range(1 + TIMES))
    return Machine(**{each.name: median(getattr(one, each.name) for one in found) for each in fields(Machine)})


def _solved(small: tuple[Stream, Stream], large: tuple[Stream, Stream]) -> Machine:
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
    return Machine(firing, crossing, byte, wake, sharing, sharing_byte)


def _with_regions(found: Machine, pair: tuple[Stream, Stream]) -> Machine:
    """The costs with those of blocks that have boundaries of regions in them."""
    apart: dict[str, Any] = {"cores": 2, "mapping": {pair[0]: 0, pair[1]: 1}}
    two, shared = _block(pair, NARROW, **apart)[0], _block(pair, NARROW, **apart, flexible={pair[1]: 1})[0]
    more = (shared - two - found.firing_s) / 2 - found.sharing_s - 8 * NARROW * found.sharing_byte_s
    return replace(found, sharing_marked_s=max(more, 0.0))


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
