"""Streams that part and meet again within one loop.

What one item becomes on all sides is made in one turn of the loop, so nothing waits in a channel: each side notes that
it was reached, and its values, in variables; behind the last side stands the code of what follows. The variables are
set back where the streams part. Signals that were emitted on the way are noted too, and handed on behind the item.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.codegen.loop_frame import FrameWriter
from penstock.codegen.site import Level, Local, Ref, Site, Value
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.needs import needed_after
from penstock.graph.source import to_plain


@dataclass
class _Meeting:
    """What has come, while a loop is written, to where streams meet: from which sides, and with which signals."""

    name: str
    reached: dict[n.GraphNode, Level] = field(default_factory=dict)
    signals: dict[n.GraphNode, list[tuple[int, str, str]]] = field(default_factory=dict)
    inits: dict[str, str] = field(default_factory=dict)
    """The variables, with what they are where nothing has come."""
    site: Site | None = None
    signal_sites: dict[str, Site] = field(default_factory=dict)
    """Where each signal was emitted, or came from: that is its place."""

    def flag(self, what: object) -> str:
        """A variable that says whether something has come."""
        name = f"{self.name}_{what}"
        self.inits[name] = "False"
        return name

    def in_order(self) -> Iterator[tuple[int, str, str]]:
        """All signals, each once: what several sides have when all of these have come to it, else side by side."""
        left = [list(signals) for signals in self.signals.values()]
        while any(left):
            for side in left:
                holders = [other for other in left if side and side[0] in other]
                if side and all(other[0] == side[0] for other in holders):
                    yield side[0]
                    for other in holders:
                        other.remove(side[0]) if other is not side else None
                    del side[0]
                    break


class MeetWriter(FrameWriter):
    """The part of a loop's writer that brings streams together."""

    meetings: dict[n.Meet, _Meeting]

    @contextmanager
    def parting(self, node: n.GraphNode, site: Site) -> Iterator[None]:
        """What a node hands on to several streams; then what follows where they meet again."""
        meets = [meet for meet in self.tree.meets_at(node) if meet in self.members]
        if not meets:
            yield
            return
        before = self.meetings if hasattr(self, "meetings") else {}
        self.meetings = before | {meet: _Meeting(self.out.fresh("j")) for meet in meets}
        with self.out.aside() as lines:
            yield
            for meet in meets:
                self._settle(meet, site)
        for meet in meets:
            for name, value in self.meetings[meet].inits.items():
                self.out.line(f"{name} = {value}")
        self.out.lines += lines
        self.meetings = before

    # What comes to where streams meet

    def meet_item(self, meet: n.Meet, side: n.GraphNode, site: Site) -> None:
        """Note an item that comes from one side."""
        meeting = self.meetings[meet]
        number = meet.sides.index(side)
        meeting.site = site
        meeting.reached[side] = {}
        needed = needed_after(self.tree, meet, self.needed)
        for name, value in site.own.items():
            if name in needed and (name in meet.shape.fields or name.startswith("#")):
                variable = self._variable(meeting, meet, name, number)
                meeting.reached[side][name] = self._noted(meeting, variable, value, meet.shape.fields.get(name))
        self.out.line(f"{meeting.flag(number)} = True")

    def _variable(self, meeting: _Meeting, meet: n.Meet, name: str, side: int) -> str:
        """A field of a joined item has one variable, whichever side it comes from; of merged items one a side."""
        fields = [*meet.shape.fields, *(each for each in [name] if each not in meet.shape.fields)]
        place = fields.index(name) if name in meet.shape.fields else f"h{name.removeprefix('#')}"
        return f"{meeting.name}_v{place}" + (f"_{side}" if isinstance(meet, n.Merge) else "")

    def _noted(self, meeting: _Meeting, variable: str, value: Value, t: pa.DataType | None) -> Value:
        """Put a value into a variable: a scalar, or where a longer one lies."""
        loaded = self.value_of(value)
        if isinstance(loaded, Local):
            self.out.line(f"{variable} = {loaded.name}")
            meeting.inits.setdefault(variable, _zero(t))
            return Local(variable)
        if loaded.index == "u":
            return loaded
        self.out.line(f"{variable} = {loaded.index}")
        meeting.inits.setdefault(variable, "0")
        return Ref(loaded.column, variable)

    def meet_mark(self, travel: Any, meet: n.Meet, side: n.GraphNode, *given: Any) -> None:
        """An opening or closing, which all sides have, is handed on with the first; a signal waits for all."""
        if travel.__name__ != "signal":
            if side is meet.sides[0]:
                travel(meet, *given)
            return
        number, array, at, site = given
        meeting = self.meetings[meet]
        meeting.signal_sites.setdefault(array, site)
        meeting.signals.setdefault(side, []).append((number, array, at))
        self.out.line(f"{meeting.flag(array)} = True")

    # What follows

    def _settle(self, meet: n.Meet, fork: Site) -> None:
        meeting = self.meetings[meet]
        meeting.signals = {side: meeting.signals[side] for side in meet.sides if side in meeting.signals}
        if isinstance(meet, n.Join) and (meet.is_outer or len(meeting.reached) == len(set(meet.sides))):
            self._join(meet, meeting, fork)
        elif isinstance(meet, n.Merge):
            self._merge(meet, meeting, fork)
        for number, array, at in meeting.in_order():
            with self.out.block(f"if {meeting.flag(array)}"):
                self.signal(meet, number, array, at, meeting.signal_sites[array].fork(aligned=False))

    def _site(self, meet: n.Meet, meeting: _Meeting, fork: Site, own: Level, factor: int = 1) -> Site:
        assert meeting.site is not None
        levels = (*(dict(level) for level in fork.levels[: meet.shape.depth]), own)
        return replace(meeting.site, levels=levels, aligned=False, factor=meeting.site.factor * factor)

    def _join(self, meet: n.Join, meeting: _Meeting, fork: Site) -> None:
        if not meeting.reached:
            return
        own: Level = {}
        for level in meeting.reached.values():
            own |= {name: value for name, value in level.items() if name not in own}
        for name, value in meet.fill.items():
            held = own.get(name)
            if isinstance(held, Local):
                meeting.inits[held.name] = _literal(to_plain(value)[0])
        flags = [meeting.flag(meet.sides.index(side)) for side in meet.sides]
        own |= {name: Local(flag) for name, flag in zip(meet.present, flags, strict=False)}
        with self.out.block(f"if {(' or ' if meet.is_outer else ' and ').join(dict.fromkeys(flags))}"):
            self.send(meet, self._site(meet, meeting, fork, own))

    def _merge(self, meet: n.Merge, meeting: _Meeting, fork: Site) -> None:
        """Go over the sides that were reached, in their order, so that what follows stands there once."""
        sides = [side for side in meet.sides if side in meeting.reached]
        if not sides:
            return
        each = self.out.fresh("s")
        with self.out.block(f"for {each} in range({len(meet.sides)})"):
            own: Level = {}
            for at, side in enumerate(meet.sides):
                with self.out.block(f"if {each} == {at}"):
                    if side not in meeting.reached:
                        self.out.line("continue")
                        continue
                    self.out.line(f"if not {meeting.flag(meet.sides.index(side))}:")
                    self.out.line("    continue")
                    own |= self._chosen(meet, meeting, side)
            self.send(meet, self._site(meet, meeting, fork, own, len(meet.sides)))

    def _chosen(self, meet: n.Merge, meeting: _Meeting, side: n.GraphNode) -> Level:
        """The values of one side, put where those of any side are."""
        found: Level = {}
        for name, value in meeting.reached[side].items():
            variable = self._variable(meeting, meet, name, 0).removesuffix("_0") + "_m"
            if isinstance(value, Local):
                self.out.line(f"{variable} = {value.name}")
                found[name] = Local(variable)
                continue
            columns = {level[name].column for level in meeting.reached.values()}  # type: ignore[union-attr]
            if len(columns) == 1:
                self.out.line(f"{variable} = {value.index}")
                found[name] = Ref(value.column, variable)
            else:
                heap = self.heap_of(meet, name, meet.shape.fields[name])
                put = self.put(heap, value.elements)
                self.out.line(f"{variable} = {put.index}")
                found[name] = Ref(heap.column, variable)
        return found


def _zero(t: pa.DataType | None) -> str:
    if t is None:
        return "0"
    return "0.0" if types.is_float(t) else "False" if pa.types.is_boolean(t) else "0"


def _literal(value: Any) -> str:
    """A number as source; also where it is no finite one."""
    return repr(value) if value == value and value not in (float("inf"), -float("inf")) else f"as_float({value})"
