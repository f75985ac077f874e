"""The constants of the cost models, measured on this machine once and kept beside the compiled code.

A small graph runs on channels in ways that differ in one thing at a time: many small regions or few large ones, with
and without tags, in ensembles that cross boundaries or do not; on one core or two, in small blocks or large ones, with
and without a copy.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.run import Run
from penstock.graph.aggregate import sum as sum_of
from penstock.graph.read import from_arrow
from penstock.graph.stream import Stream
from penstock.kernels.cache import cache as kept_cache
from penstock.kernels.compile import versions
from penstock.plan.passes.contexts import Costs

ITEMS, SMALL, WIDTH, REPEATS = 1 << 17, 4, 1 << 12, 5


@cache
def costs() -> Costs:
    """The constants, from the disk or, where they are not there, measured now."""
    found: Costs = kept_constants("costs", Costs, measure)
    return found


def kept_constants(name: str, kind: Any, measuring: Any) -> Any:
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
