"""The rules of nodes that open and close regions: enumerate, regions, aggregate, close."""

from __future__ import annotations

from dataclasses import replace

from penstock.codegen.accumulate import Accumulator
from penstock.codegen.aggregate_store import CarriedStore, VariableStore
from penstock.codegen.emitter import Line
from penstock.codegen.generated import Stop
from penstock.codegen.item_rules import innermost, keep, unless
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.loop_fields import users
from penstock.codegen.site import Column, Level, Local, Ref, Site, Value
from penstock.codegen.travel import Boundary, Travel
from penstock.codegen.traverse import hand_on, name_boundary, send
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.faults import FaultKind
from penstock.graph.hidden import is_hidden
from penstock.graph.needs import needed_after

# Lists that are opened

Opened = tuple[str, Column, str]
"""A list that is opened: the variable of its elements, its column, and its index there."""


def enumerate_item(loop: LoopContext, node: n.Enumerate, site: Site) -> None:
    _preload(loop, node, site)
    lists = [(loop.out.fresh("j"), *_list(node, site.find(name)[1])) for name, _ in node.elements]
    _, column, index = lists[0]
    if len(lists) > 1:
        differ = [f"{length(column, index)} != {length(other, at)}" for _, other, at in lists[1:]]
        with unless(loop, " or ".join(differ), FaultKind.UNEQUAL_LENGTHS, node, site) as inner:
            _open_lists(loop, node, lists, inner)
    else:
        _open_lists(loop, node, lists, site)


def length(column: Column, index: str) -> str:
    return f"as_int({column.first(f'after({index})')} - {column.first(index)})"


def _open_lists(loop: LoopContext, node: n.Enumerate, lists: list[Opened], site: Site) -> None:
    if node is loop.by_piece:
        _open_by_piece(loop, node, lists, site)
        return
    out, region, (j, column, index) = loop.out, node.shape.regions[-1], lists[0]
    hand_on(loop, node, Boundary(Travel.OPEN, region), site)
    lo = out.fresh("lo")
    # Unsigned, because an index that cannot be negative is what lets the compiler use vector instructions.
    out.line(f"{lo} = unsigned({column.first(index)})")
    with out.block(f"for {j} in range({lo}, unsigned({column.first(f'after({index})')}))"):
        _find_others(loop, lists, lo)
        _send_element(loop, node, lists, lo, site.opened(lists))
    hand_on(loop, node, Boundary(Travel.CLOSE, region), site)


def _find_others(loop: LoopContext, lists: list[Opened], lo: str) -> None:
    """Where the element lies in the lists that are opened together with the first."""
    j = lists[0][0]
    for other_j, other, at in lists[1:]:
        loop.out.line(f"{other_j} = unsigned({other.first(at)}) + {j} - {lo}")


def _send_element(loop: LoopContext, node: n.Enumerate, lists: list[Opened], lo: str, site: Site) -> None:
    """Send one element, of which `lo` is the first of its list."""
    j = lists[0][0]
    names = [name for _, name in node.elements]
    own: Level = {name: Ref(c.elements, i) for name, (i, c, _) in zip(names, lists, strict=True)}
    if node.index is not None:
        own[node.index] = Local(f"as_int({j} - {lo})")
    send(loop, node, replace(site, levels=(*site.fork().levels, own)))


def _open_by_piece(loop: LoopContext, node: n.Enumerate, lists: list[Opened], site: Site) -> None:
    """Open a list so that the loop may stop between any two elements where room is short, and go on there later.

    A carried variable is 0 for a list that is yet to be opened, else one more than the elements that are done.
    """
    out, region, (_, column, index) = loop.out, node.shape.regions[-1], lists[0]
    done, lo, hi = loop.carried.integer(f"done{loop.number(node)}"), out.fresh("lo"), out.fresh("hi")
    opening, closing = (Boundary(travel, region) for travel in (Travel.OPEN, Travel.CLOSE))
    with out.block(f"if {done} == 0"):
        loop.room.checked("opening", lambda: hand_on(loop, node, opening, replace(site, phase="opening")))
        out.line(f"{done} = 1")
    out.line(f"{lo} = unsigned({column.first(index)})")
    out.line(f"{hi} = unsigned({column.first(f'after({index})')})")
    with out.aside() as body:
        _send_element(loop, node, lists, lo, replace(site, phase="elements", aligned=False))
    if loop.room.fixed_in("elements"):
        _elements_at_once(loop, lists, (done, lo, hi), body)
    else:
        _elements_one_by_one(loop, lists, (done, lo, hi), body)
    loop.room.checked("closing", lambda: hand_on(loop, node, closing, replace(site, phase="closing")))
    loop.exits.count_outputs(f"as_int({hi} - {lo})")
    out.line(f"{done} = 0")


def _elements_at_once(loop: LoopContext, lists: list[Opened], names: tuple[str, str, str], body: list[Line]) -> None:
    """Room is checked for as many elements as surely fit, and then again for those that are left."""
    out, (done, lo, hi) = loop.out, names
    room, stop = out.fresh("room"), out.fresh("hi")
    with out.block(f"while {done} <= as_int({hi} - {lo})"):
        out.line(f"{room} = as_int({hi} - {lo}) - ({done} - 1)")
        for buffer, number in loop.room.fixed_in("elements"):
            out.line(f"{room} = min({room}, {buffer.left(number)})")
        with out.block(f"if {room} <= 0"):
            loop.room.stop_short("elements", Stop.ROWS)
        out.line(f"{stop} = {lo} + unsigned({done} - 1 + {room})")
        with out.block(f"for {lists[0][0]} in range({lo} + unsigned({done} - 1), {stop})"):
            _find_others(loop, lists, lo)
            loop.room.grow_heaps("elements")
            out.put(body)
        out.line(f"{done} += {room}")


def _elements_one_by_one(loop: LoopContext, lists: list[Opened], names: tuple[str, str, str], body: list[Line]) -> None:
    """Room is checked for each element, because it is not known beforehand what one needs."""
    out, (done, lo, hi), j = loop.out, names, lists[0][0]
    with out.block(f"for {j} in range({lo} + unsigned({done} - 1), {hi})"):
        _find_others(loop, lists, lo)
        loop.room.grow_heaps("elements")
        if loop.room.written_in("elements"):
            with out.block(f"if {loop.room.is_short('elements')}"):
                out.line(f"{done} = as_int({j} - {lo}) + 1")
                loop.room.stop_short("elements", Stop.ROWS)
        out.put(body)
    out.line(f"{done} = as_int({hi} - {lo}) + 1")


def _preload(loop: LoopContext, node: n.GraphNode, site: Site) -> None:
    """Load, before a loop over elements, what is needed in it: scalars, and arrays that functions take whole."""
    here = {name for level in site.levels for name in level}
    for name in sorted(needed_after(loop.tree, node, loop.needed) & here):
        value = loop.calls.find(name, site)
        if isinstance(value, Ref) and value.whole is None and users(loop, name) and types.view(value.column.type):
            whole = loop.calls.assign(value.elements, "x")
            site.find(name)[0][name] = replace(value, whole=whole.name)


def _list(node: n.GraphNode, value: Value) -> tuple[Column, str]:
    if not isinstance(value, Ref) or value.column.is_heap:
        raise InternalError(f"{node.label}: a computed list was not cut off before it is opened")
    return value.column, value.index


# Regions that are found in the stream


def regions_item(loop: LoopContext, node: n.Regions, site: Site) -> None:
    out, region = loop.out, node.shape.regions[-1]
    is_open, parent = loop.carried.integer(f"open{loop.number(node)}"), loop.part(_parent, node)
    site = replace(site, aligned=False)
    indices = {name: value for name, value in site.own.items() if is_hidden(name, "at")}
    for name in (*node.by, *node.keep.values()):
        loop.calls.find(name, site)
    if node.start is not None:
        tests = [loop.calls.assign(loop.calls.call(node.start, site, {}), "b").name]
    else:
        tests = [f"not {_equal(parent[name], site.find(name)[1])}" for name in node.by]
    with out.block(f"if {is_open} == 0 or {' or '.join(tests)}"):
        inner = site.fork()
        with out.block(f"if {is_open} != 0"):
            around = (*inner.fork().levels[:-1], parent | indices)
            hand_on(loop, node, Boundary(Travel.CLOSE, region), replace(inner, levels=around))
        for name, old in [*((name, name) for name in node.by), *node.keep.items()]:
            loop.carried.capture(parent[name], inner.find(old)[1])
        out.line(f"{is_open} = 1")
        around = (*inner.fork().levels[:-1], parent | indices)
        hand_on(loop, node, Boundary(Travel.OPEN, region), replace(inner, levels=around))
    own = {name: value for name, value in site.own.items() if name not in node.by}
    send(loop, node, replace(site, levels=(*site.levels[:-1], dict(parent), own)))


def regions_close(loop: LoopContext, node: n.Regions, boundary: Boundary, site: Site) -> None:
    """The region around a found one ends, and with it the found one."""
    if innermost(node) is boundary.region:
        name_boundary(loop, node, boundary)
        is_open = loop.carried.integer(f"open{loop.number(node)}")
        with loop.out.block(f"if {is_open} != 0"):
            inner = site.fork(aligned=False)
            inner = replace(inner, levels=(*inner.levels, dict(loop.part(_parent, node))))
            hand_on(loop, node, Boundary(Travel.CLOSE, node.shape.regions[-1]), inner)
            loop.out.line(f"{is_open} = 0")
    hand_on(loop, node, boundary, site)


def _parent(loop: LoopContext, node: n.GraphNode) -> Level:
    """The carried variables that hold the fields of a found region's parent."""
    fields, number = node.shape.regions[-1].fields.items(), loop.number(node)
    return {name: loop.carried.keeper(f"parent{number}_{at}", t) for at, (name, t) in enumerate(fields)}


def _equal(a: Value, b: Value) -> str:
    if isinstance(a, Local) and isinstance(b, Local):
        return f"{a.name} == {b.name}"
    assert isinstance(a, Ref) and isinstance(b, Ref)
    return f"same({a.elements}, {b.elements})"


# Regions that close


def aggregate_item(loop: LoopContext, node: n.Aggregate, site: Site) -> None:
    loop.part(_accumulator, node).add(site)


def aggregate_open(loop: LoopContext, node: n.Aggregate, boundary: Boundary, site: Site) -> None:
    if boundary.region is node.region:
        name_boundary(loop, node, boundary)
        loop.part(_accumulator, node).begin(site)
    else:
        hand_on(loop, node, boundary, site)


def aggregate_close(loop: LoopContext, node: n.Aggregate, boundary: Boundary, site: Site) -> None:
    if boundary.region is node.region:
        name_boundary(loop, node, boundary)
        own = loop.part(_accumulator, node).finish(site)
        send(loop, node, replace(site, levels=(*site.levels[:-1], own)))
    else:
        hand_on(loop, node, boundary, site)


def _accumulator(loop: LoopContext, node: n.GraphNode) -> Accumulator:
    assert isinstance(node, n.Aggregate)
    opener = node.region.opener
    is_inside = isinstance(opener, n.Enumerate) and opener in loop.members and opener is not loop.by_piece
    return Accumulator(loop, node, VariableStore(loop, node) if is_inside else CarriedStore(loop, node))


def close_item(loop: LoopContext, node: n.Close, site: Site) -> None:
    own = keep(site.levels[-2], tuple(node.keep)) | site.own
    send(loop, node, replace(site, levels=(*site.levels[:-2], own), aligned=False))


def close_boundary(loop: LoopContext, node: n.Close, boundary: Boundary, site: Site) -> None:
    """The region that a node closes is not seen downstream of it."""
    if boundary.region is not node.given.regions[-1]:
        hand_on(loop, node, boundary, site)
