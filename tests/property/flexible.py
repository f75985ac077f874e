"""Random graphs with flexible nodes: trees as in `graphs.py`, and graphs in which streams meet as in `joins.py`.

They are the same graphs; only that wherever a node may be flexible, it is, mostly.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tests.graph.placed import flexible
from tests.property.builder import Builder, Point
from tests.property.choose import Choose, Seeded
from tests.property.data import choose_items
from tests.property.graphs import BATCHES, ROOMS, Case, _grow, _starts
from tests.property.joins import build_joined
from tests.property.library import SCOPE
from tests.property.settings import choose_setting

import penstock as ps
from penstock.graph import nodes
from penstock.graph.tree import Tree

CORES = {1: 1, 2: 6, 3: 6, 4: 4, 5: 2, 6: 2}
KINDS = (nodes.Map, nodes.Filter, nodes.FlatMap, nodes.MapColumns, nodes.Select)
WAYS = {"steps": 6, "costs": 3, None: 3}
"""How the cores are at work: step by step, in a time of their own, or as threads."""
SPARES = {0: 12, 1: 4, 3: 2, None: 1}
"""Mostly little room, so that copies are needed."""
FEW, MANY = 5, 17
FLEXIBLE = 65
"""In how many of a hundred cases a node is flexible that may be."""


class FlexibleBuilder(Builder):
    """Makes nodes flexible where that is possible."""

    def __init__(self, choose: Choose, *, cores: int, rows: int) -> None:
        super().__init__(choose, rows=rows)
        self.cores = cores

    def _named(self, text: str, stream: ps.Stream, point: Point) -> Point:
        if may_be_flexible(stream.node) and self.choose.boolean(FLEXIBLE):
            copies = self.choose.integer(1, max(1, self.cores - 1))
            text, stream = f"flexible({text}, {copies})", flexible(stream, copies)
        return super()._named(text, stream, point)


def may_be_flexible(node: nodes.GraphNode) -> bool:
    if not isinstance(node, KINDS):
        return False
    try:
        nodes.with_copies(node, 1)
    except ps.GraphError:
        return False
    return True


def from_flexible_seed(seed: int) -> Case:
    return build_flexible(Seeded(seed), seed)


def build_flexible(choose: Choose, seed: int | None = None) -> Case:
    """A case from choices, on one to six cores."""
    cores = choose.weighted(CORES)
    make = partial(FlexibleBuilder, cores=cores)
    case = _built(choose, seed, make)
    while case.items.rows < FEW or not any(node.copies for node in Tree(case.leaves).nodes):
        case = _built(choose, seed, make)
    setting = replace(case.setting, fuse=choose.boolean(40), cores=cores, spare=choose.weighted(SPARES))
    if choose.boolean(60):
        setting = replace(setting, mapping=choose.integer(0, 2**16))
    way = choose.weighted(WAYS) if cores > 1 else None
    if way is not None:
        setting = replace(setting, **{way: choose.integer(0, 2**16)})
    return replace(case, setting=setting, is_joined=False, is_flexible=True)


def _built(choose: Choose, seed: int | None, make: Callable[..., Builder]) -> Case:
    return build_joined(choose, seed, make) if choose.boolean(50) else build_tree(choose, seed, make)


def build_tree(choose: Choose, seed: int | None, make: Callable[..., Builder]) -> Case:
    """A case in which no streams meet, and in which nothing is wrong."""
    items = choose_items(choose, nulls=choose.boolean(10))
    while not FEW <= items.rows <= MANY:
        items = choose_items(choose)
    b = make(choose, rows=items.rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        for start in _starts(b, items):
            _grow(b, start, choose.integer(2, 8))
        control = tuple(b.control(items.rows))
    return Case(
        seed,
        items,
        tuple(b.lines),
        tuple(leaf.stream.node for leaf in b.leaves),
        tuple(leaf.name for leaf in b.leaves),
        tuple(eval(text, SCOPE) for text in control),
        control,
        tuple(choose.some(BATCHES, 2, 2)),
        choose.choice(ROOMS),
        choose.boolean(50),
        None,
        choose_setting(choose, items.rows),
    )
