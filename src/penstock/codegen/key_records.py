"""Records in a loop: the state of a key, the fields of a key by its number, the records of hooks and of guards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.codegen.site import Column, Level, Ref, Site
from penstock.graph import nodes as n
from penstock.graph.needs import key_field
from penstock.graph.record import Record

if TYPE_CHECKING:
    from penstock.codegen.loop_context import LoopContext


def state_record(loop: LoopContext, node: n.Stateful, site: Site) -> dict[str, str]:
    """The record of the item's key, by the name of the parameter that it is."""
    if node.state is None:
        return {}
    return {"state": f"{state_array(loop, node)}[{slot_of(loop, node, site)}]"}


def state_array(loop: LoopContext, node: n.Stateful) -> str:
    name = f"state{loop.number(node)}"
    loop.code.states[name] = node
    return name


def slot_of(loop: LoopContext, node: n.Stateful, site: Site) -> str:
    """The number of the item's key, which is the index of its record; 0 without a key."""
    key = node.given.key
    return "0" if key is None else loop.calls.local(key_field(loop.tree, key), site).name


def key_level(loop: LoopContext, node: n.Stateful, slot: str) -> Level:
    """The fields of a key by its number, from where the engine holds them."""
    key = node.given.key
    if key is None:
        return {}
    name = f"fields{loop.number(key)}"
    loop.code.key_values[name] = key
    level: Level = {}
    for at, (field, t) in enumerate(node.given.key_fields.items()):
        index = slot
        if len(key.names) > 1:
            index = loop.calls.assign(f"as_int({name}_p{at}[{slot}])").name
        level[field] = Ref(Column(f"{name}_{at}", t), index)
    return level


def hook_record(loop: LoopContext, node: n.GraphNode, record: type[Record], suffix: str = "") -> str:
    """The array with the one record of a node, or of a part of it."""
    name = f"hook{loop.number(node)}{suffix}"
    loop.code.records[name] = record
    return name


def scratch(loop: LoopContext, node: n.GraphNode, record: type[Record], suffix: str) -> str:
    """An array for one record while functions change it that may fail."""
    name = f"saved{loop.number(node)}{suffix}"
    loop.code.scratch[name] = record
    return name
