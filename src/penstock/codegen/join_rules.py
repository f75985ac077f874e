"""The rules of nodes where streams meet again within one loop: what follows once all sides have noted their items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.codegen.loop_context import LoopContext
from penstock.codegen.meetings import Meeting
from penstock.codegen.site import Level, Local, Ref, Site
from penstock.codegen.traverse import send
from penstock.graph import nodes as n
from penstock.graph.source import to_plain


def _site(meeting: Meeting, fork: Site, own: Level, factor: int = 1) -> Site:
    """The place after a meeting of what parted at `fork`."""
    assert meeting.site is not None
    levels = (*(dict(level) for level in fork.levels[: meeting.meet.shape.depth]), own)
    return replace(meeting.site, levels=levels, aligned=False, factor=meeting.site.factor * factor)


def settle_join(loop: LoopContext, meeting: Meeting, fork: Site) -> None:
    """One item, if all sides were reached; or any of them, where the join is an outer one."""
    meet = meeting.meet
    assert isinstance(meet, n.Join)
    if not meeting.reached or not (meet.is_outer or len(meeting.reached) == len(set(meet.sides))):
        return
    own: Level = {}
    for level in meeting.reached.values():
        own |= {name: value for name, value in level.items() if name not in own}
    for name, value in meet.fill.items():
        variable = own.get(name)
        if isinstance(variable, Local):
            meeting.inits[variable.name] = _literal(to_plain(value)[0])
    flags = [meeting.flag(meet.sides.index(side)) for side in meet.sides]
    own |= {name: Local(flag) for name, flag in zip(meet.present, flags, strict=False)}
    with loop.out.block(f"if {(' or ' if meet.is_outer else ' and ').join(dict.fromkeys(flags))}"):
        send(loop, meet, _site(meeting, fork, own))


def settle_merge(loop: LoopContext, meeting: Meeting, fork: Site) -> None:
    """Go over the sides that were reached, in their order, so that what follows stands there once."""
    meet, out = meeting.meet, loop.out
    if not meeting.reached:
        return
    each = out.fresh("s")
    with out.block(f"for {each} in range({len(meet.sides)})"):
        own: Level = {}
        for at, side in enumerate(meet.sides):
            with out.block(f"if {each} == {at}"):
                if side not in meeting.reached:
                    out.line("continue")
                    continue
                with out.block(f"if not {meeting.flag(meet.sides.index(side))}"):
                    out.line("continue")
                own |= _chosen(loop, meeting, side)
        send(loop, meet, _site(meeting, fork, own, len(meet.sides)))


def _chosen(loop: LoopContext, meeting: Meeting, side: n.GraphNode) -> Level:
    """The values of one side, put where those of any side are."""
    chosen: Level = {}
    for name, value in meeting.reached[side].items():
        variable = meeting.variable(name, 0).removesuffix("_0") + "_m"
        if isinstance(value, Local):
            loop.out.line(f"{variable} = {value.name}")
            chosen[name] = Local(variable)
            continue
        columns = {level[name].column for level in meeting.reached.values()}  # type: ignore[union-attr]
        if len(columns) > 1:
            heap = loop.carried.heap_of(meeting.meet, name, meeting.meet.shape.fields[name])
            value = loop.carried.put(heap, value.elements)
        loop.out.line(f"{variable} = {value.index}")
        chosen[name] = Ref(value.column, variable)
    return chosen


def _literal(value: Any) -> str:
    """A number as source; also where it is no finite one."""
    return repr(value) if value == value and value not in (float("inf"), -float("inf")) else f"as_float({value})"
