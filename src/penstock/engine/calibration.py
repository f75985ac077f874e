"""The constants of the cost model, measured on this machine once and kept beside the compiled code.

A small graph runs on channels in ways that differ in one thing at a time: many small regions or few large ones, with
and without tags, in ensembles that cross boundaries or do not.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from dataclasses import asdict
from functools import cache

import numpy as np
import pyarrow as pa

from penstock.engine.run import Run
from penstock.graph.aggregate import sum as sum_of
from penstock.graph.stream import Stream, from_arrow
from penstock.kernels.compile import cache_folder, versions
from penstock.plan.context import Costs

ITEMS, SMALL, WIDTH, REPEATS = 1 << 17, 4, 1 << 12, 5


@cache
def costs() -> Costs:
    """The constants, from the disk or, where they are not there, measured now."""
    path = cache_folder() / f"costs_{hashlib.sha256(versions().encode()).hexdigest()[:16]}.json"
    try:
        return Costs(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        measured = measure()
    with contextlib.suppress(OSError):  # a folder that cannot be written to: measure again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(measured)), encoding="utf-8")
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
