"""Which steps of a graph the options of a run name: by a stream, or by the name that `named` gave a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from penstock.errors import GraphError, quoted
from penstock.graph import nodes as n
from penstock.graph.rebase import rebase
from penstock.graph.tree import Tree
from penstock.graph.watermarks import translate_option

Leaves = tuple[n.GraphNode, ...]
TAKES = {"mapping": "cores", "flexible": "copies", "context": "contexts"}


def with_steps(leaves: Leaves, options: Mapping[str, Any]) -> tuple[Leaves, dict[str, Any]]:
    """The graph in which streams that meet may have copies where `flexible=` says so, and the options for that graph.

    What `flexible=` says of other steps stays an option.
    """
    given, flexible = dict(options), options.get("flexible")
    if not isinstance(flexible, Mapping):
        return leaves, given
    nodes = Tree(leaves).nodes
    now, left = {node: node for node in nodes}, {}
    for key, value in flexible.items():
        node = step_of("flexible", key, nodes)
        if not n.brings_together(node) and not isinstance(value, tuple):
            left[key] = value
            continue
        copies, split = value if isinstance(value, tuple) and len(value) == 2 else (value, "central")
        leaves, made = _replaced(leaves, now[node], n.flexible(now[node], copies, split))
        now = {each: made.get(other, other) for each, other in now.items()}
    changed = {node: other for node, other in now.items() if node is not other}
    given["flexible"] = left or None
    return leaves, given | {name: translate_option(given[name], changed) for name in TAKES if name in given}


def _replaced(leaves: Leaves, old: n.GraphNode, new: n.GraphNode) -> tuple[Leaves, dict[n.GraphNode, n.GraphNode]]:
    """The graph with another node in place of one, and what stands for each node that is another now."""
    made = {old: new}
    for node in Tree(leaves).nodes:
        if node not in made and any(before in made for before in node.inputs):
            made[node] = rebase(node, *(made.get(before, before) for before in node.inputs))
    return tuple(made.get(leaf, leaf) for leaf in leaves), made


def step_of(option: str, key: Any, nodes: Sequence[n.GraphNode]) -> n.GraphNode:
    """The step of a graph that a key of an option names."""
    if isinstance(key, str):
        return _named(option, key, nodes)
    node = getattr(key, "node", None)
    if node is None:
        raise GraphError(
            f"run: {option}= takes a dict from streams, or names of steps, to {TAKES[option]}; got the key {key!r}"
        )
    if node not in nodes or isinstance(node, n.Source):
        raise GraphError(f"run: {option}= names {node.label}, which is in no loop of this run; is it a result?")
    return node  # type: ignore[no-any-return]


def _named(option: str, name: str, nodes: Sequence[n.GraphNode]) -> n.GraphNode:
    found, titles = [node for node in nodes if node.title == name], [node.title for node in nodes if node.title]
    if len(found) == 1:
        return found[0]
    if found:
        raise GraphError(f"run: {option}= must name one step; {len(found)} are called {name!r}; give each its own name")
    close = get_close_matches(name, titles, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {quoted(titles)}" if titles else "give it one"
    raise GraphError(f"run: {option}= must name a step by .named({name!r}), and none is called so; {hint}")
