"""Nodes are timed each by itself, or in as few loops as can be."""

from __future__ import annotations

from functools import partial

import numpy as np

import penstock as ps
from penstock.engine.node_timing import first_batches, measure_nodes


def test_nodes_can_be_measured_together() -> None:
    """A task asks for that, to see whether it gains anything by several cores."""
    node = ps.from_numpy({"v": np.arange(1000)}).map(w=lambda v: v + 1).map(x=lambda w: w + 1).node
    first = partial(first_batches, node.source, 1000, 64, None)
    assert [len(measure_nodes((node,), first, 1000, fuse=fuse).nodes) for fuse in (True, False)] == [1, 2]
