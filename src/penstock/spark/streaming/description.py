"""What a graph is, as plain JSON: what must stay the same while a checkpoint is used, and what may change.

The steps that remember something must stay (`steps`); all others may come and go. Only where something is kept that all
steps lay out (`fixed`), all must stay. Functions are not described, so they may be mended; the sink may change too, and
must where the results have other fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.engine.upgrade import differences as differing_fields
from penstock.errors import GraphError, quoted
from penstock.graph import nodes as n
from penstock.graph.files.file_items import FileItems
from penstock.graph.record import Signal
from penstock.graph.tree import Tree, handled_signals
from penstock.graph.window import WATERMARKS
from penstock.plan.cut import cut
from penstock.plan.stages import Cut
from penstock.spark.streaming.steps import (
    about,
    fixed_reason,
    folds_of,
    of_record,
    of_stages,
    settings_of,
    stages_of,
    state_of,
)

FORMAT = 3
"""The version of what this module writes."""

Description = dict[str, Any]


def describe(
    leaves: Sequence[n.GraphNode], *, buckets: int, sink: str, made: Cut | None = None, folder: str | None = None
) -> Description:
    """A graph and how its state is laid out: see the module. `sink` is a short text for people.

    The nodes are those of the `Tree`, in its order. An array is `"float64[3]"` in a state, `"array of 3 float"` in a
    signal. `made` is the graph in stages, and `folder` where results go to, if they go to one.
    """
    tree = Tree(tuple(leaves))
    signals = _signals(tree)
    made = cut(leaves, signals) if made is None else made
    return {
        "format": FORMAT,
        "buckets": buckets,
        "sink": sink,
        "source": _source(tree.source),
        "nodes": [_node(tree, node) for node in tree.nodes],
        "results": [tree.number[leaf] for leaf in tree.leaves],
        "stages": stages_of(made),
        "fixed": fixed_reason(made),
        "output": {"folder": folder, "fields": [_fields(leaf.shape) for leaf in tree.leaves]},
        "signals": {signal.__name__: _signal(signal) for signal in signals},
    }


def _source(source: n.Source) -> dict[str, Any]:
    """Sources of files know their format, and what Spark watches for them; others have neither."""
    items = source.items
    if not isinstance(items, FileItems):
        return {"format": None, "path": None}
    folder, names = items.root
    return {"format": items.format, "path": f"{folder}/{names}"}


def _signals(tree: Tree) -> list[type[Signal]]:
    """All that some node handles, by name."""
    found = sorted(handled_signals(tree.nodes) - set(WATERMARKS), key=lambda signal: signal.__name__)
    for one, other in pairwise(found):
        if one.__name__ == other.__name__:
            raise GraphError(
                f"start: the signals of a stream must have different names; two classes are called {one.__name__!r}; "
                f"rename one"
            )
    return found


def _signal(signal: type[Signal]) -> dict[str, str]:
    return {name: _kind(value) for name, value in signal.layout.initial.items()}


def _kind(initial: Any) -> str:
    if isinstance(initial, np.ndarray):
        return f"array of {len(initial)} {'int' if initial.dtype.kind == 'i' else 'float'}"
    return type(initial).__name__


def _fields(shape: n.Shape) -> dict[str, str]:
    return {name: str(t) for name, t in shape.fields.items()}


def _node(tree: Tree, node: n.GraphNode) -> dict[str, Any]:
    shape = node.shape
    return {
        "label": node.label,
        "kind": type(node).__name__,
        "behind": [tree.number[before] for before in node.inputs],
        "fields": _fields(shape),
        "parents": {name: str(t) for name, t in shape.parents.items()},
        "key": list(shape.key_fields),
        "state": state_of(node),
        "folds": folds_of(node),
        "settings": settings_of(node),
    }


# What differs


def differences(held: Description, now: Description) -> list[str]:
    """What is not the same in a graph as in the one that a checkpoint was made for, one sentence each.

    Only what makes a difference for what the checkpoint holds. Steps that remember nothing do not, unless the graph is
    `fixed`; nor do other sinks; nor another number of buckets, because that of the checkpoint holds; nor other fields
    of a state that defines `upgrade`.
    """
    if held.get("format") != now["format"]:
        return [f"it was written in the format {held.get('format')} of another Penstock, and this one has {FORMAT}"]
    return [
        *_of_source(held, now),
        *_of_steps(held, now),
        *_of_output(held["output"], now["output"]),
        *_of_signals(held["signals"], now["signals"]),
    ]


def _of_steps(held: Description, now: Description) -> Iterator[str]:
    reason = held["fixed"] or now["fixed"]
    if reason is None:
        yield from of_stages(held["stages"], now["stages"])
        return
    found = list(_of_nodes(held, now))
    yield from found
    if found:
        yield f"no step may change, because {reason}"


def _of_output(held: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What differs in results that are written to where others are."""
    if held["folder"] is None or held["folder"] != now["folder"]:
        return
    for was, fields in zip(held["fields"], now["fields"], strict=False):
        if was != fields:
            different = ", ".join(differing_fields(was, fields)) or "the fields have another order"
            yield f"the results in {now['folder']!r} must keep their fields; {different}; write to a new folder"


def _of_source(held: Description, now: Description) -> Iterator[str]:
    was, is_now = held["source"]["format"], now["source"]["format"]
    if was != is_now:
        yield f"the format of the source was {was}, is {is_now}"
    path, new_path = held["source"]["path"], now["source"]["path"]
    if path != new_path:
        yield f"the source was {path!r}, is {new_path!r}, where every file would be new"


def _of_nodes(held: Description, now: Description) -> Iterator[str]:
    told: set[str] = set()
    names, new_names = ([_name(node) for node in each["nodes"]] for each in (held, now))
    for what, start, stop, new_start, new_stop in SequenceMatcher(None, names, new_names, False).get_opcodes():
        old, new = held["nodes"][start:stop], now["nodes"][new_start:new_stop]
        if what == "equal":
            for one, other in zip(old, new, strict=True):
                yield from _of_node(one, other, told)
        else:
            yield from _of_others(old, new, _before(held["nodes"], start))
    if names == new_names:
        yield from _of_edges(held, now)


def _name(node: Mapping[str, Any]) -> str:
    """Who a node is. A source may have another name: it is the same one."""
    return "source" if node["kind"] == "Source" else f"{node['kind']} {node['label']}"


def _before(nodes: Sequence[Mapping[str, Any]], at: int) -> str:
    return f" behind {nodes[at - 1]['label']}" if at else ""


def _of_others(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], where: str) -> Iterator[str]:
    """Nodes in the place of others; what has no counterpart was lost, or is new."""
    for one, other in zip(old, new, strict=False):
        yield f"the node{where} was {one['label']}, is {other['label']}"
    for one in old[len(new) :]:
        yield f"the graph has lost {one['label']}{where}"
    for other in new[len(old) :]:
        yield f"the graph has the new node {other['label']}{where}"


def _of_node(old: Mapping[str, Any], new: Mapping[str, Any], told: set[str]) -> Iterator[str]:
    """What differs in a node. Of fields only what was not `told` of a node before it, from which it comes."""
    where = new["label"]
    for name, was in old["settings"].items():
        if new["settings"].get(name, was) != was:
            yield f"{where}: its {name} was {was}, is {new['settings'][name]}"
    for fields_of in ("fields", "parents"):
        found = [each for each in differing_fields(old[fields_of], new[fields_of]) if each not in told]
        told.update(found)
        yield from about(where, found)
    what = "node" if new["kind"] == "Through" else "state"
    yield from of_record(what, where, old["state"], new["state"])
    for name in old["folds"]:
        if name in new["folds"]:
            yield from of_record("fold", where, old["folds"][name], new["folds"][name])


def _of_edges(held: Description, now: Description) -> Iterator[str]:
    for old, new in zip(held["nodes"], now["nodes"], strict=True):
        if old["behind"] != new["behind"]:
            was, is_now = (_list(of, each["behind"]) for of, each in ((held, old), (now, new)))
            yield f"{new['label']} was behind {was}, is behind {is_now}"
    if held["results"] != now["results"]:
        was, is_now = (quoted(of["nodes"][at]["label"] for at in of["results"]) for of in (held, now))
        yield f"the results were {was}, are {is_now}"


def _list(of: Description, numbers: Sequence[int]) -> str:
    return " and ".join(of["nodes"][at]["label"] for at in numbers)


def _of_signals(old: Mapping[str, dict[str, str]], new: Mapping[str, dict[str, str]]) -> Iterator[str]:
    for name in old:
        if name not in new:
            yield f"the signal {name} was handled, and is no more"
        else:
            yield from about(f"the signal {name}", differing_fields(old[name], new[name]))
    yield from (f"the signal {name} is handled, and was not" for name in new if name not in old)
