"""Random graphs with flexible nodes: trees as in `graphs.py`, and graphs in which streams meet as in `joins.py`.

They are the same graphs; only that wherever a node may be flexible, it is, mostly.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from tests.property import check as checks
from tests.property.builder import Builder, Point
from tests.property.choose import Choose, Seeded
from tests.property.data import choose_items
from tests.property.graphs import BATCHES, ROOMS, Case, _grow, _starts
from tests.property.joins import build_joined
from tests.property.library import SCOPE
from tests.property.settings import choose_setting
from tests.property.stepped import stepped

import penstock as ps
from penstock.graph import nodes

CORES = {1: 1, 2: 6, 3: 6, 4: 4, 5: 2, 6: 2}
KINDS = (nodes.Map, nodes.Filter, nodes.FlatMap, nodes.MapColumns, nodes.Select)
FEW_ROWS = 40
FLEXIBLE = 65
"""In how many of a hundred cases a node is flexible that may be."""


class FlexibleBuilder(Builder):
    """Makes nodes flexible where that is possible."""

    cores = 1

    def _named(self, text: str, stream: ps.Stream, point: Point) -> Point:
        if may_be_flexible(stream.node) and self.choose.boolean(FLEXIBLE):
            copies = self.choose.integer(1, max(1, self.cores - 1))
            text, stream = f"{text}.flexible(copies={copies})", stream.flexible(copies)
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
    maker = type("Maker", (FlexibleBuilder,), {"cores": cores})
    is_joined = choose.boolean(50)
    case = build_joined(choose, seed, maker) if is_joined else build_tree(choose, seed, maker)
    fuse = choose.boolean(40)
    mapping = choose.integer(0, 2**16) if choose.boolean(60) else None
    setting = replace(case.setting, fuse=fuse, cores=cores, mapping=mapping)
    return replace(case, setting=setting, is_joined=False, is_flexible=True)


def build_tree(choose: Choose, seed: int | None, make: type[Builder]) -> Case:
    """A case in which no streams meet, and in which nothing is wrong."""
    items = choose_items(choose, nulls=choose.boolean(10))
    while items.rows > FEW_ROWS:
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


def check_stepped(case: Case, *, compile: bool = False) -> None:
    """Compare where the order of all steps follows from the setting's seed."""
    with stepped(case.setting.seed):
        checks.check_channels(case, compile=compile)
