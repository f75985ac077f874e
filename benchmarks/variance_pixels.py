"""Variance as the paper on precise control draws it: four nodes, and every pixel an item with an index of its own.

The application opens images as regions, so that its indices count images. Here they count pixels, as in the paper: u
reads the source and drops the zeros, but for the last pixel of an image, which stands for its end; v and w hold a sum
each, and give their mean at that pixel; x joins what has the same index. So an interval of 16 is one of 16 pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.records import Answer
from examples.variance import PIXELS
from penstock.engine.statistics import Firing


class Total(ps.State):
    total: int


def mean(z: int, is_last: bool, state: Total) -> Iterator[float]:
    state.total += z
    if is_last:
        yield state.total / PIXELS
        state.total = 0


def mean_square(z: int, is_last: bool, state: Total) -> Iterator[float]:
    state.total += z * z
    if is_last:
        yield state.total / PIXELS
        state.total = 0


def pixels(images: pa.Table) -> pa.Table:
    """A row a pixel of a table of images, in their order."""
    values = images["pixels"].combine_chunks().flatten()
    places = np.arange(len(values))
    return pa.table(
        {
            "image": np.repeat(images["image"].to_numpy(), PIXELS),
            "z": values,
            "is_last": places % PIXELS == PIXELS - 1,
        }
    )


def graph(source: ps.Stream, *, filtered: bool) -> ps.Stream:
    """One row an image, from a stream of pixels; u passes the zeros on unless `filtered`."""
    u = source.filter((lambda z, is_last: z != 0 or is_last) if filtered else (lambda z: z == z))
    v = u.flat_map(mean, to="mean", at_most=1, state=Total, keep="image")
    w = u.flat_map(mean_square, to="square", at_most=1, state=Total, keep="image")
    return ps.align(v, w).map(deviation=lambda mean, square: max(square - mean * mean, 0.0) ** 0.5)


def by_pixels(given: pa.Table, filtered: bool, options: dict[str, Any]) -> Answer:
    """The answer of a run unfused, and of one that is traced, how long its images stayed."""
    run: Any = graph(ps.from_arrow(given), filtered=filtered).prepare(fuse=False, **options)
    found = run.collect().select(["image", "deviation"])
    beats = sum(channel.counts.beats for channel in run.parts.channels.values())
    delays = delay_facts(run.statistics().firings) if run.options.trace else {}
    return Answer(found, {"beats": beats, **delays})


def delay_facts(firings: tuple[Firing, ...]) -> dict[str, float]:
    """How long an image stays, on average and at most: from when u takes its last pixel until its row is there."""
    taken, given = (_nodes(firings, name) for name in ("filter", "map"))
    images = np.arange(1, int(given[0][-1]) + 1) if len(given[0]) else np.empty(0, np.int64)
    if not len(images):
        return {}
    entered = taken[1][np.searchsorted(taken[0], images * PIXELS)]
    left = given[2][np.searchsorted(given[0], images)]
    return {"delay_ms": float(1e3 * np.mean(left - entered)), "longest_ms": float(1e3 * np.max(left - entered))}


def _nodes(firings: tuple[Firing, ...], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the firings of a node with items: how many it has then had in all, when each began, and when it ended."""
    mine = [firing for firing in firings if firing.node.startswith(name) and firing.items]
    items, starts, seconds = (
        np.array([getattr(each, what) for each in mine]) for what in ("items", "start_s", "seconds")
    )
    return np.cumsum(items), starts, starts + seconds
