"""What nodes cost: counted on a sample, whatever the source has beyond it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import penstock as ps
from penstock import tune
from penstock.errors import GraphError


def numbers(count: int) -> ps.Stream:
    return ps.from_numpy({"v": np.arange(count)}, name="numbers")


def test_a_sample_is_counted() -> None:
    stream = numbers(10_000).filter(lambda v: v % 4 == 0).map(w=lambda v: v + 1)
    found = tune.profile(stream, 1000, width=64)
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
    assert tune.profile(numbers(10).map(w=lambda v: v), 1000).nodes[0].items == 10
    assert tune.profile(numbers(0).map(w=lambda v: v), 1000).nodes[0].items == 0


def test_what_a_firing_costs_is_told_apart_from_its_items() -> None:
    found = tune.profile(numbers(100_000).map(w=lambda v: v + 1).map(x=lambda w: w + 1), 50_000, width=1024)
    for node in found.nodes:
        assert 0 < node.firing_s < 1e-3
        assert 0 <= node.passing_s < node.firing_s / 10  # an item costs next to nothing


def test_firings_of_one_size_tell_nothing_of_a_firing() -> None:
    assert tune.profile(numbers(100).map(w=lambda v: v + 1), 100, width=1).nodes[0].firing_s == 0.0


def test_what_fusing_saves_is_measured_where_it_saves_something() -> None:
    lists = ps.from_numpy({"v": np.arange(400 * 256).reshape(400, 256)})
    light = lists.enumerate("v", as_="w").filter(lambda w: w % 16 == 0).aggregate(total=ps.sum("w"))
    found = tune.profile(light, 400, width=4096)
    assert found.fused_s is not None
    assert found.fused_s < sum(node.seconds for node in found.nodes)
    assert found.nodes[1].saved_s != 0.0
    assert found.nodes[0].saved_s == 0.0  # nothing is before it
    assert [node.marks for node in found.nodes] == [0, 800, 800]
    assert found.nodes[0].parent_bytes > 0


def test_what_crossing_costs_is_measured() -> None:
    two = numbers(10_000).map(w=lambda v: v + 1).map(x=lambda w: w + 1).map(y=lambda x: x + 1)
    *crossed, last = tune.profile(two, 8000, width=256).nodes
    assert all(0 < node.crossing_s < 1e-2 and node.crossing_bytes > 0 for node in crossed)
    assert last.crossing_s == 0.0  # what leaves it is the result


def test_a_wrong_sample_is_refused() -> None:
    with pytest.raises(GraphError, match="profile: the sample must be a whole number of items, at least 1; got 0"):
        tune.profile(numbers(10).map(w=lambda v: v), 0)
