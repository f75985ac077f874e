"""Small graphs with profiles made by hand, and a machine whose costs are round numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

import penstock as ps
from penstock.plan.balance import loops_of
from penstock.plan.node_profile import NodeProfile, Profile
from penstock.text import distinct
from penstock.tune.machine_costs import MachineCosts
from penstock.tune.run_model import Model, model

IDEAL = MachineCosts(*[0] * len(fields(MachineCosts)))
"""A machine on which the engine costs nothing."""
USUAL = MachineCosts(firing_s=1e-5, crossing_s=2e-5, byte_s=1e-10, wake_s=5e-5, sharing_s=1e-4, sharing_byte_s=4e-10)


class Total(ps.State):
    now: int


def chain(count: int = 1000) -> tuple[ps.Stream, ...]:
    """Three nodes: one that can have copies, one with a state, one that can have copies."""
    first = ps.from_numpy({"v": np.arange(count)}, name="numbers").map(a=lambda v: v * v)
    second = first.map(b=lambda a, state: a + state.now, state=Total)
    return first, second, second.map(c=lambda b: b + 1)


def model_of(stream: ps.Stream, profile: Profile, *, machine: MachineCosts, **options: Any) -> Model:
    """The model of a run of a stream."""
    return model((stream.node,), profile, machine, **options)


def profiled(stream: ps.Stream, *per_item_s: float, items: int = 100_000, passing_s: float = 0.0) -> Profile:
    """A profile in which the nodes take these times."""
    return varying(stream, *((each,) for each in per_item_s), items=items, passing_s=passing_s)


def varying(stream: ps.Stream, *samples: tuple[float, ...], items: int = 100_000, passing_s: float = 0.0) -> Profile:
    """A profile in which the nodes take these times one after the other."""
    nodes = []
    names = distinct(loop.name for loop in loops_of((stream.node,)))
    for name, each in zip(names, samples, strict=True):
        mean = sum(each) / len(each)
        nodes.append(NodeProfile(name, items, items, items * mean, mean, each, 8, passing_s))
    return Profile(items, tuple(nodes))
