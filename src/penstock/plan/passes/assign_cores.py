"""Which core nodes are asked to be on, and which nodes have copies that help them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.placement import step_of
from penstock.graph.rebase import rebase
from penstock.graph.tree import Places, Tree
from penstock.plan.balance import balanced, choose_places, loops_of
from penstock.plan.plan import Plan


def assign_cores(plan: Plan) -> Plan:
    """Place nodes on cores, and give copies to some.

    Requires a profile in the request where `flexible` is "auto".
    Ensures that the tree has the cores and copies that were asked for and, where there is a profile, that every other
    node has a core by its costs. On one core only places that stand for those of the graph count.
    """
    asked, leaves = plan.request, plan.tree.leaves
    if asked.cores == 1:
        return replace(plan, tree=replace(plan.tree, places=asked.places or Places()))
    by_hand = None if isinstance(asked.flexible, str) else asked.flexible
    found = places(leaves, asked.cores, asked.mapping, by_hand) if asked.places is None else asked.places
    if asked.flexible == "auto":
        assert asked.profile is not None
        found = choose_places(leaves, found, asked.profile, asked.cores)
    elif asked.profile is not None:
        loops = loops_of(leaves)
        found = replace(found, cores={**balanced(loops, asked.profile.costs(loops), asked.cores), **found.cores})
    return replace(plan, tree=replace(plan.tree, places=found))


def places(
    leaves: tuple[n.GraphNode, ...],
    cores: int,
    mapping: Mapping[Any, int] | None = None,
    flexible: Mapping[Any, int] | None = None,
) -> Places:
    """Where nodes are asked to be: as the graph has it, and by dicts from streams or names of steps."""
    nodes = Tree(leaves).nodes
    asked = {node: node.core for node in nodes if node.core is not None}
    for node, core in asked.items():
        _check_core("run: mapping=", node, core, cores)
    for stream, core in (mapping or {}).items():
        named = step_of("mapping", stream, nodes)
        _check_core("run: mapping=", named, core, cores)
        asked[named] = core
    copies = {node: node.copies for node in nodes if node.copies}
    for stream, count in (flexible or {}).items():
        node = step_of("flexible", stream, nodes)
        copies[node] = n.with_copies(node, count).copies
    return Places(asked, copies)


def within(leaves: tuple[n.GraphNode, ...], cores: int) -> Places:
    """Where nodes of the graph are to be, on cores of which there may be fewer.

    A core that is not there is one that is: numbers begin again behind the last. Copies are at most one on each other
    core.
    """
    nodes = Tree(leaves).nodes
    asked = {node: node.core % cores for node in nodes if node.core is not None}
    return Places(asked, {node: min(node.copies, cores - 1) for node in nodes if node.copies and cores > 1})


def with_places(leaves: tuple[n.GraphNode, ...], places: Places) -> tuple[n.GraphNode, ...]:
    """The same graph, in which nodes ask themselves for where they are to be."""
    made: dict[n.GraphNode, Any] = {}
    for node in Tree(leaves).nodes:
        made[node] = rebase(node, *(made[before] for before in node.inputs)) if node.inputs else node
        if node.inputs:
            object.__setattr__(made[node], "core", places.cores.get(node))
            object.__setattr__(made[node], "copies", places.copies.get(node, 0))
    return tuple(made[leaf] for leaf in leaves)


def _check_core(where: str, node: n.GraphNode, core: Any, cores: int) -> None:
    if not isinstance(core, int) or isinstance(core, bool) or not 0 <= core < cores:
        raise GraphError(f"{where} must name cores from 0 to {cores - 1}; got {core!r} for {node.label}")
