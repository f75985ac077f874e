"""The rules of nodes that make items from one: map, filter, flat_map, through, select, and the end of a stage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from penstock.codegen.end_rules import end_keys, note_arrival
from penstock.codegen.key_records import hook_record, key_level, slot_of, state_array, state_record
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.site import Level, Site
from penstock.codegen.travel import Boundary
from penstock.codegen.traverse import hand_on, name_boundary, send
from penstock.graph import nodes as n
from penstock.graph.faults import FaultKind
from penstock.graph.function import Function
from penstock.graph.hidden import is_hidden


def map_item(loop: LoopContext, node: n.Map, site: Site) -> None:
    computed = Level()
    for names, function in node.outputs:
        call = loop.calls.call(function, site, state_record(loop, node, site))
        computed |= zip(names, loop.calls.results(node, names, function, call), strict=True)
    send(loop, node, site.with_own(site.own | computed))


def filter_item(loop: LoopContext, node: n.Filter, site: Site) -> None:
    with loop.out.block(f"if {loop.calls.call(node.predicate, site, state_record(loop, node, site))}"):
        send(loop, node, site.fork(aligned=False))


def select_item(loop: LoopContext, node: n.Select, site: Site) -> None:
    own = {name: site.own[old] for name, old in node.names.items() if old in site.own}
    send(loop, node, site.with_own(own | hidden_fields(site.own)))


def hidden_fields(level: Level) -> Level:
    """The numbers of keys and the indices among the fields of a level."""
    return {name: value for name, value in level.items() if is_hidden(name)}


def keep(level: Level, names: tuple[str, ...]) -> Level:
    """The fields that a node keeps of a level, with the hidden ones."""
    return {name: value for name, value in level.items() if name in names or is_hidden(name)}


# Generators


def flat_map_item(loop: LoopContext, node: n.FlatMap, site: Site) -> None:
    level = site.own
    if node.has_end:
        slot = slot_of(loop, node, site)
        note_arrival(loop, node, slot, site)
        level = level | (key_level(loop, node, slot) if node.keep else {})
    own = keep(level, node.keep)
    run(loop, node, node.function, site, state_record(loop, node, site), own)


def flat_map_close(loop: LoopContext, node: n.FlatMap, boundary: Boundary, site: Site) -> None:
    if node.has_end and boundary.region is None:
        end_keys(loop, node, lambda slot, site: _end_key(loop, node, slot, site))
    hand_on(loop, node, boundary, site)


def _end_key(loop: LoopContext, node: n.FlatMap, slot: str, site: Site) -> None:
    assert node.end is not None
    key = key_level(loop, node, slot)
    own = site.own | {name: value for name, value in key.items() if name in node.keep}
    records = {"state": f"{state_array(loop, node)}[{slot}]"}
    push(loop, node, node.end, site.with_own(site.own | key), records, own)


def run(
    loop: LoopContext,
    node: n.FlatMap | n.Through,
    function: Function,
    site: Site,
    records: dict[str, str],
    own: Level,
) -> None:
    """Run a generator, or a function that pushes nothing."""
    if function.returns:
        push(loop, node, function, site, records, own)
    else:
        loop.out.line(loop.calls.call(function, site, records))


def push(
    loop: LoopContext,
    node: n.FlatMap | n.Through,
    function: Function,
    site: Site,
    records: dict[str, str],
    own: Level,
) -> None:
    """Run a generator, and send what it yields, up to the number that was declared; `own` is what each item keeps."""
    out = loop.out
    pushed, count = out.fresh("y"), out.fresh("n")
    call = loop.calls.call(function, site, records)
    out.line(f"{count} = 0")
    with out.block(f"for {pushed} in {call}"):
        with out.block(f"if {count} == {node.at_most}"):
            loop.calls.fault(FaultKind.TOO_MANY, node)
        out.line(f"{count} += 1")
        inner = site.fork(factor=site.factor * node.at_most, aligned=False)
        names = node.to if isinstance(node.to, tuple) else (node.to,)
        results = loop.calls.results(node, names, function, pushed)
        send(loop, node, inner.with_own(own | dict(zip(names, results, strict=True))))
        loop.calls.note(function)  # the generator goes on from here, after others have run


# Hooks


def through_item(loop: LoopContext, node: n.Through, site: Site) -> None:
    _hook(loop, node, node.run, site)


def through_open(loop: LoopContext, node: n.Through, boundary: Boundary, site: Site) -> None:
    hand_on(loop, node, boundary, site)
    if innermost(node) is boundary.region:
        name_boundary(loop, node, boundary)
        name = hook_record(loop, node, node.hooks)
        loop.out.line(f"{name}[0] = {name}_0[0]")
        _hook(loop, node, node.begin, replace(site, levels=(*site.levels, {})))


def through_close(loop: LoopContext, node: n.Through, boundary: Boundary, site: Site) -> None:
    if innermost(node) is boundary.region and node.end is not None:
        name_boundary(loop, node, boundary)
        _hook(loop, node, node.end, replace(site, levels=(*site.levels, {}), aligned=False))
    hand_on(loop, node, boundary, site)


def innermost(node: n.Step) -> n.Region | None:
    """The innermost region around the items that arrive at a node; None is the whole stream."""
    return node.given.regions[-1] if node.given.regions else None


def _hook(loop: LoopContext, node: n.Through, hook: Function | None, site: Site) -> None:
    if hook is not None:
        records = {"self": f"{hook_record(loop, node, node.hooks)}[0]"}
        run(loop, node, hook, site, records, hidden_fields(site.own))


# Faults of items


@contextmanager
def unless(
    loop: LoopContext, condition: str, kind: FaultKind, node: n.GraphNode, site: Site, what: str = ""
) -> Iterator[Site]:
    """What is done with an item that has no fault. One that has stops the run, or is skipped with a letter."""
    with loop.out.block(f"if {condition}"):
        if not loop.tree.is_guarded:
            loop.calls.fault(kind, node, what)
        else:
            number = loop.calls.fault_number(kind, node, what)
            loop.exits.letter(node, site.fork(aligned=False), f"-{number}")
    if not loop.tree.is_guarded:
        yield site
        return
    with loop.out.block("else"):
        yield site.fork(aligned=False)
