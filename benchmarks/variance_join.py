"""A join of two sides that both drop items: within one loop, between loops, and the pass alone that aligns indices.

Between loops the sides are channels. That is forced here by a function over whole columns on each side, so that the
loops around the join are fused all the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from benchmarks.records import Case, Peer
from penstock.kernels.align_sides import NEVER
from penstock.kernels.protocol import protocol

KEPT = (3, 5)
"""The first side drops every third item, the second every fifth."""


def case(items: int) -> Case:
    table = pa.table({"v": np.arange(items)})
    peers = (
        Peer("penstock", partial(within_a_loop, table), items),
        Peer("channels", partial(between_loops, table), items),
        Peer("merge", partial(aligned, *_indices(items)), items, settle=_differences),
    )
    return Case("join", peers)


def within_a_loop(table: pa.Table) -> pa.Table:
    source = ps.from_arrow(table)
    twice = source.filter(lambda v: v % KEPT[0] != 0).map(twice=lambda v: 2 * v)
    more = source.filter(lambda v: v % KEPT[1] != 0).map(more=lambda v: v + 1)
    return _joined(twice.select("twice"), more.select("more"))


def between_loops(table: pa.Table) -> pa.Table:
    source = ps.from_arrow(table)
    twice = source.filter(lambda v: v % KEPT[0] != 0).map_columns(lambda v: 2 * v.to_numpy(), to={"twice": int})
    more = source.filter(lambda v: v % KEPT[1] != 0).map_columns(lambda v: v.to_numpy() + 1, to={"more": int})
    return _joined(twice.select("twice"), more.select("more"))


def _joined(twice: ps.Stream, more: ps.Stream) -> pa.Table:
    return ps.align(twice, more).map(w=lambda twice, more: twice - more).select("w").collect()


def _indices(items: int) -> tuple[np.ndarray, ...]:
    every = np.arange(items)
    return tuple(every[every % dropped != 0] for dropped in KEPT)


def aligned(*sides: np.ndarray) -> np.ndarray:
    """The indices that all sides have, by the kernel of the engine's join alone, as it is called for sides that end."""
    most, count = min(map(len, sides)), len(sides)
    no_marks: tuple[Any, ...] = (np.empty(0, np.int64),) * count
    rows, found, marks = np.empty((most, count), np.int64), np.empty(most, np.int64), np.empty((0, 3), np.int64)
    rows_found, _ = protocol(True).align(
        sides,
        np.array([len(side) for side in sides]),
        *(no_marks, no_marks, no_marks, no_marks),
        np.zeros(count, np.int64),
        np.full(count, NEVER),
        np.zeros(1, np.int64),
        False,
        False,
        *(rows, found, marks),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )
    return found[:rows_found]


def _differences(indices: np.ndarray) -> pa.Table:
    return pa.table({"w": 2 * indices - (indices + 1)})
