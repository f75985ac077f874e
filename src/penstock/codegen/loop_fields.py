"""Which fields enter a loop, and which leave it: those that something downstream needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.codegen.generated import Input
from penstock.codegen.outlets import INDEX, WHICH, Outlet, Sink, index_level, is_contiguous
from penstock.codegen.site import Column, Level, Ref
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.function import Function
from penstock.graph.hidden import is_hidden
from penstock.graph.needs import Names, at_field, key_field, needed_of
from penstock.graph.tree import Tree

if TYPE_CHECKING:
    from penstock.codegen.loop_context import LoopContext


def entry_level(loop: LoopContext, depth: int | None) -> Level:
    """The fields of the items that enter, or of their parents at a depth, as columns."""
    shape = loop.segment.entry.shape
    fields = dict(shape.fields if depth is None else shape.regions[depth].fields)
    index, needed = "u" if depth is None else f"q{depth}", _needed_here(loop)
    level: Level = {}

    def enter(name: str, t: pa.DataType, *, is_wide: bool = False, is_plain: bool = False) -> None:
        column = Column(f"c{'' if depth is None else depth}_{len(loop.code.inputs)}", t)
        loop.code.inputs.append(Input(column, depth, name, is_wide, is_plain))
        level[name] = Ref(column, index)

    for name, t in fields.items():
        if name in needed:
            enter(name, t, is_wide=_is_wide(loop, name, t), is_plain=_is_plain(loop, name, t))
    has_index = depth == index_level(shape) and any(sink.is_cut or sink.has_places for sink in loop.code.sinks)
    if has_index and depth is None:
        level[INDEX] = loop.exits.own_index("u")
    at = at_field(loop.tree, loop.tree.source)
    if depth is None and loop.segment.feeder is None and at in needed:
        level[at] = loop.exits.own_index("u")
    for name in [*_hidden_here(loop, depth, needed), *([INDEX] if has_index and depth is not None else [])]:
        enter(name, pa.int64())
    return level


def _needed_here(loop: LoopContext) -> Names:
    """What must enter: for the nodes of this segment, and for what leaves right after its entry."""
    entry = loop.segment.entry
    inside = [needed_of(entry, child, loop.needed) for child in loop.tree.children[entry] if child in loop.members]
    for sink in loop.exits.sinks.get(entry, ()):
        inside.append(_needed_beyond(loop, sink) if sink.is_cut else frozenset(entry.shape.fields))
    return frozenset().union(*inside)


def _hidden_here(loop: LoopContext, depth: int | None, needed: Names) -> list[str]:
    """The numbers of keys, and the indices, that were given upstream of this segment and are needed in it."""
    entry = loop.segment.entry
    if depth is None:
        names = _hidden_at(loop.tree, entry, entry.shape, needed)
        return names if loop.segment.feeder is not None else [name for name in names if is_hidden(name, "k")]
    region = entry.shape.regions[depth]
    return _hidden_at(loop.tree, region.opener.inputs[0], region.parent, needed) if not region.is_found else []


def _hidden_at(tree: Tree, node: n.GraphNode, shape: n.Shape, needed: Names) -> list[str]:
    """The hidden fields downstream of a node: the number of the key given at this very level, and the index."""
    names = [at_field(tree, n.stem(node))]
    around = shape.regions[-1].parent.key if shape.regions else None
    if shape.key is not None and shape.key is not around:
        names.append(key_field(tree, shape.key))
    return [name for name in names if name in needed]


def users(loop: LoopContext, name: str) -> list[Function]:
    """The functions of a loop that take a field."""
    return [f for node in loop.segment.nodes for f in node.functions if name in f.fields]


def _is_wide(loop: LoopContext, name: str, t: pa.DataType) -> bool:
    """Whether a list of 32-bit floats must be held as 64-bit ones, because a function takes it whole."""
    element = types.element_of(t)
    return element is not None and types.is_float(element) and element.bit_width == 32 and bool(users(loop, name))


def _is_plain(loop: LoopContext, name: str, t: pa.DataType) -> bool:
    """Whether only plain Python can hold it: a nested list that a function takes whole."""
    return types.view(t) is None and any(f.reason is not None for f in users(loop, name))


# What leaves


def fields_out(loop: LoopContext, sink: Sink, outlet: Outlet) -> dict[str, pa.DataType]:
    """The fields of the rows of an outlet."""
    node = sink.node
    if sink.is_letters:
        return letter_fields(loop, node) | dict.fromkeys((WHICH, n.PLACE), pa.int64())
    if not sink.is_cut:
        return dict(node.shape.fields)
    needed = _needed_beyond(loop, sink)
    depth = None if outlet is sink.items else next(d for d, p in enumerate(sink.parents) if p is outlet)
    is_counted = depth is None and is_contiguous(node) and not (sink.feeds and sink.feeds.copies)
    has_index = index_level(node.shape) == depth and (loop.tree.is_guarded or not is_counted)
    index = {INDEX: pa.int64()} if has_index else {}
    if depth is None:
        fields, hidden = node.shape.fields, _hidden_at(loop.tree, node, node.shape, needed)
    else:
        region = node.shape.regions[depth]
        fields, hidden = region.fields, []
        if not region.is_found:
            hidden = _hidden_at(loop.tree, region.opener.inputs[0], region.parent, needed)
    own = {name: t for name, t in fields.items() if name in needed}
    return own | dict.fromkeys(hidden, pa.int64()) | index


def letter_fields(loop: LoopContext, node: n.GraphNode) -> dict[str, pa.DataType]:
    """The fields of an item at a node that it, or one downstream of it, uses."""
    needed = loop.needed[node]
    return {name: t for name, t in node.inputs[0].shape.scope.items() if name in needed}


def _needed_beyond(loop: LoopContext, sink: Sink) -> Names:
    """What the nodes downstream of a cut need; where streams have met, the loop there gives them as a result."""
    assert sink.feeds is not None
    is_joint = isinstance(sink.node, n.Meet) or bool(loop.tree.copies(sink.node))
    is_result = is_joint and sink.node in loop.tree.leaves
    own = frozenset(sink.node.shape.fields) if is_result else frozenset()
    return own.union(*(needed_of(sink.node, node, loop.needed) for node in sink.feeds.takers))
