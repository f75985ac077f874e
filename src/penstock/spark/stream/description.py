"""What a graph is, as plain JSON: what must stay the same while a checkpoint is used, and what may change.

Functions are not described, so they may be mended; the sink may change too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.upgrade import EMPTY, text
from penstock.engine.upgrade import differences as differing_fields
from penstock.errors import GraphError, quoted
from penstock.graph import nodes as n
from penstock.graph.files.items import FileItems
from penstock.graph.record import Record, Signal, State
from penstock.graph.source import to_plain
from penstock.graph.tree import Tree, handled

FORMAT = 2
"""The version of what this module writes."""

Description = dict[str, Any]


def describe(leaves: Sequence[n.GraphNode], *, buckets: int, sink: str) -> Description:
    """A graph and how its state is laid out: see the module. `sink` is a short text for people.

    The nodes are those of the `Tree`, in its order. An array is `"float64[3]"` in a state, `"array of 3 float"` in a
    signal.
    """
    tree = Tree(tuple(leaves))
    return {
        "format": FORMAT,
        "buckets": buckets,
        "sink": sink,
        "source": _source(tree.source),
        "nodes": [_node(tree, node) for node in tree.nodes],
        "results": [tree.number[leaf] for leaf in tree.leaves],
        "signals": {signal.__name__: _signal(signal) for signal in _signals(tree)},
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
    found = sorted(handled(tree.nodes), key=lambda signal: signal.__name__)
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


def _node(tree: Tree, node: n.GraphNode) -> dict[str, Any]:
    shape = node.shape
    return {
        "label": node.label,
        "kind": type(node).__name__,
        "behind": [tree.number[before] for before in node.inputs],
        "fields": {name: str(t) for name, t in shape.fields.items()},
        "parents": {name: str(t) for name, t in shape.parents.items()},
        "key": list(shape.key_fields),
        "state": _state(node),
        "folds": {name: _record(record) for name, record in _folds(node)},
        "settings": _settings(node),
    }


def _state(node: n.GraphNode) -> dict[str, Any] | None:
    """The record of the user's that a node keeps from item to item: a state, or the fields of a node with hooks."""
    if isinstance(node, n.Through):
        return _record(node.hooks)
    if isinstance(node, n.KeyedAggregate) or not isinstance(node, n.Stateful) or node.state is None:
        return None
    return _record(node.state)


def _record(record: type[Record]) -> dict[str, Any]:
    dtype = record.layout.dtype
    return {
        "class": record.__name__,
        "fields": {name: text(dtype[name]) for name in dtype.names or () if name != EMPTY},
        "upgrades": issubclass(record, State) and record.upgrade is not None,
    }


def _folds(node: n.GraphNode) -> Iterator[tuple[str, type[Record]]]:
    if isinstance(node, (n.Aggregate, n.KeyedAggregate)):
        for name, result in node.results.items():
            if isinstance(result, n.Folding):
                yield name, result.record


def _settings(node: n.GraphNode) -> dict[str, str]:
    """What decides, beside the fields, what comes of items: aggregates, windows, ends, and how streams meet."""
    if isinstance(node, n.FlatMap):
        return {"end": "given" if node.has_end else "not given"}
    if isinstance(node, n.Join):
        filled = {name: to_plain(value)[0] for name, value in node.fill.items()}
        return {"how": "outer" if node.is_outer else "inner", "fill": str(filled), "present": str(list(node.present))}
    if not isinstance(node, (n.Aggregate, n.KeyedAggregate)):
        return {}
    found = {f"result {name!r}": str(result) for name, result in node.results.items()}
    if isinstance(node, n.KeyedAggregate):
        found["window"] = type(node.window).__name__
        for each in fields(node.window):
            value = getattr(node.window, each.name)
            if isinstance(value, (bool, int, float, str, tuple, Mapping, pa.DataType)):  # and no function
                found[f"window's {each.name}"] = str(value)
    return found


# What differs


def differences(held: Description, now: Description) -> list[str]:
    """What is not the same in a graph as in the one that a checkpoint was made for, one sentence each.

    Other paths of the source and other sinks are none; nor is another number of buckets, because that of the checkpoint
    holds; nor are other fields of a state that defines `upgrade`.
    """
    if held.get("format") != now["format"]:
        return [f"it was written in the format {held.get('format')} of another Penstock, and this one has {FORMAT}"]
    return [*_of_source(held, now), *_of_nodes(held, now), *_of_signals(held["signals"], now["signals"])]


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
        yield from _about(where, found)
    what = "node" if new["kind"] == "Through" else "state"
    yield from _of_record(what, where, old["state"], new["state"])
    for name in old["folds"]:
        if name in new["folds"]:
            yield from _of_record("fold", where, old["folds"][name], new["folds"][name])


def _of_record(what: str, where: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[str]:
    was, is_now = ("none" if each is None else each["class"] for each in (old, new))
    if old is None or new is None or (was != is_now and not new["upgrades"]):
        if was != is_now:
            yield f"the {what} of {where} was {was}, is {is_now}"
    elif not new["upgrades"]:
        yield from _about(f"the {what} {is_now} of {where}", differing_fields(old["fields"], new["fields"]))


def _about(where: str, sentences: Iterable[str]) -> Iterator[str]:
    return (f"{where}: {sentence}" for sentence in sentences)


def _of_edges(held: Description, now: Description) -> Iterator[str]:
    for old, new in zip(held["nodes"], now["nodes"], strict=True):
        if old["behind"] != new["behind"]:
            was, is_now = (_listed(of, each["behind"]) for of, each in ((held, old), (now, new)))
            yield f"{new['label']} was behind {was}, is behind {is_now}"
    if held["results"] != now["results"]:
        was, is_now = (quoted(of["nodes"][at]["label"] for at in of["results"]) for of in (held, now))
        yield f"the results were {was}, are {is_now}"


def _listed(of: Description, numbers: Sequence[int]) -> str:
    return " and ".join(of["nodes"][at]["label"] for at in numbers)


def _of_signals(old: Mapping[str, dict[str, str]], new: Mapping[str, dict[str, str]]) -> Iterator[str]:
    for name in old:
        if name not in new:
            yield f"the signal {name} was handled, and is no more"
        else:
            yield from _about(f"the signal {name}", differing_fields(old[name], new[name]))
    yield from (f"the signal {name} is handled, and was not" for name in new if name not in old)
