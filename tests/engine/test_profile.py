"""What nodes cost: counted on a sample, whatever the source has beyond it."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

import penstock as ps
from penstock.engine.profile import _first, measured
from penstock.errors import GraphError


def numbers(count: int) -> ps.Stream:
    return ps.from_numpy({"v": np.arange(count)}, name="numbers")


def test_a_sample_is_counted() -> None:
    stream = numbers(10_000).filter(lambda v: v % 4 == 0).map(w=lambda v: v + 1)
    found = stream.profile(1000, width=64)
    assert [(node.name, node.items, node.outputs) for node in found.nodes] == [
        ("filter", 1000, 250),
        ("map 'w'", 250, 250),
    ]
    assert found.nodes[0].outputs_per_item == 0.25
    assert found.nodes[1].bytes_out == 16
    assert all(len(node.quantiles) == 4 and node.per_item_s > 0 for node in found.nodes)
    assert found.bottleneck() in found.nodes
    assert json.loads(found.json())["sample"] == 1000
    assert str(found).splitlines()[0].startswith("node")


def test_a_source_smaller_than_the_sample_is_taken_whole() -> None:
    assert numbers(10).map(w=lambda v: v).profile(1000).nodes[0].items == 10
    assert numbers(0).map(w=lambda v: v).profile(1000).nodes[0].items == 0


def test_nodes_can_be_measured_together() -> None:
    """A task asks for that, to see whether it gains anything by several cores."""
    node = numbers(1000).map(w=lambda v: v + 1).map(x=lambda w: w + 1).node
    first = partial(_first, node.source, 1000, 64, None)
    assert [len(measured((node,), first, 1000, fuse=fuse).nodes) for fuse in (True, False)] == [1, 2]


def test_a_wrong_sample_is_refused() -> None:
    with pytest.raises(GraphError, match="profile: the sample must be a whole number of items, at least 1; got 0"):
        numbers(10).map(w=lambda v: v).profile(0)
