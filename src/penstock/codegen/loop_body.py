"""The row code of a loop: what is done with each thing that may come, with nothing around it.

What is around it is the frame (`loop_frame.py`): it goes over the items, sees to room, and saves what is carried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.codegen.emitter import Line
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.loop_fields import entry_level
from penstock.codegen.outlets import INDEX, closing_kind, index_level, opening_kind, signal_kind
from penstock.codegen.site import Level, Ref, Site
from penstock.codegen.travel import Boundary, SignalAt, Travel
from penstock.codegen.traverse import hand_on, send


@dataclass(frozen=True)
class MarkCode:
    """What is done at one kind of mark, in a phase of its own."""

    kind: int
    phase: str
    lines: list[Line]


@dataclass(frozen=True)
class LoopBody:
    """All that a loop does: where the stream begins, for a row, at the marks between rows, where the stream ends."""

    first: list[Line]
    row: list[Line]
    marks: tuple[MarkCode, ...]
    last: list[Line]
    row_may_raise: bool
    row_has_records: bool
    """Whether a row changes records, so that one that raises cannot simply be run again."""


def write_body(loop: LoopContext) -> LoopBody:
    """The row code of a segment, written by the rules of its nodes."""
    _add_exits(loop)
    entry, out = loop.segment.entry, loop.out
    parents = tuple(entry_level(loop, depth) for depth in range(len(entry.shape.regions)))
    # Whole columns are handed on only where they stay as they are, which those in a channel do not.
    site = Site((*parents, entry_level(loop, None)), aligned=loop.segment.feeder is None)
    with out.aside() as first:
        hand_on(loop, entry, Boundary(Travel.OPEN, None), Site((), phase="first"))
    with out.aside() as row:
        send(loop, entry, site.fork())
    row_may_raise, row_has_records = bool(loop.calls.noted), bool(loop.code.states or loop.code.records)
    marks = tuple(_marks(loop, replace(site, aligned=False)))
    last = loop.end.write(lambda: hand_on(loop, entry, Boundary(Travel.CLOSE, None), Site((), phase="last")))
    return LoopBody(first, row, marks, last, row_may_raise, row_has_records)


def _add_exits(loop: LoopContext) -> None:
    """Add the sinks: results and cuts, the letters of nodes at which items may fail, the log of signals."""
    segment, exits = loop.segment, loop.exits
    for node in [segment.entry, *segment.nodes]:
        if node in loop.leaves:
            exits.add_sink(node, None)
        for fed in loop.cuts:
            if fed.edge is node:
                exits.add_sink(node, fed)
    if loop.tree.is_guarded:
        for node in segment.nodes:
            if loop.may_fail(node):
                exits.add_letters(node)
    if loop.is_logged:
        loop.code.log = loop.carried.buffer("log")


def _marks(loop: LoopContext, site: Site) -> Iterator[MarkCode]:
    """What is done at each kind of mark between two items."""
    entry, out = loop.segment.entry, loop.out
    for depth, region in enumerate(entry.shape.regions):
        levels, kind = site.levels[: depth + 1], opening_kind(depth)
        with out.aside() as lines:
            out.line(f"q{depth} = mark_refs[mark]")
            if INDEX in levels[-1] and depth == index_level(entry.shape):
                _note_index(loop, levels[-1])
            inner = replace(site, levels=levels, phase=f"mark{kind}").fork()
            hand_on(loop, entry, Boundary(Travel.OPEN, region), inner)
        yield MarkCode(kind, f"mark{kind}", lines)
        kind = closing_kind(depth)
        with out.aside() as lines:
            inner = replace(site, levels=levels, phase=f"mark{kind}").fork()
            hand_on(loop, entry, Boundary(Travel.CLOSE, region), inner)
            out.line(f"q{depth} = -1")
        yield MarkCode(kind, f"mark{kind}", lines)
    for at in range(len(loop.signals)):
        yield _signal(loop, at, site)


def _signal(loop: LoopContext, at: int, site: Site) -> MarkCode:
    name, kind = f"signals{at}", signal_kind(at)
    loop.code.signals_in[name] = at
    levels = (*site.levels[:-1], {})  # a signal stands between two items
    with loop.out.aside() as lines:
        inner = replace(site, levels=levels, phase=f"mark{kind}")
        hand_on(loop, loop.segment.entry, SignalAt(at, name, "mark_refs[mark]"), inner)
        for is_done in loop.done_once:
            loop.out.line(f"{is_done} = 0")
    return MarkCode(kind, f"mark{kind}", lines)


def _note_index(loop: LoopContext, level: Level) -> None:
    """Note the index of the parent that was opened last, for what is made when it is gone."""
    value = level[INDEX]
    assert isinstance(value, Ref)
    loop.out.line(f"{loop.carried.integer('last_index')} = as_int({value.column.prefix}[{value.index}])")
