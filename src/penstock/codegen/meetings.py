"""What has come to where streams meet within one loop: variables that note it, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.codegen.site import Level, Local, Ref, Site, Value
from penstock.codegen.travel import SignalAt
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.hidden import is_hidden
from penstock.graph.needs import needed_after

if TYPE_CHECKING:
    from penstock.codegen.loop_context import LoopContext


@dataclass
class Meeting:
    """What has come, while a loop is written, to where streams meet: from which sides, and with which signals."""

    meet: n.Meet
    name: str
    reached: dict[n.GraphNode, Level] = field(default_factory=dict)
    signals: dict[n.GraphNode, list[SignalAt]] = field(default_factory=dict)
    inits: dict[str, str] = field(default_factory=dict)
    """The variables, with what they are where nothing has come."""
    site: Site | None = None
    signal_sites: dict[str, Site] = field(default_factory=dict)
    """Where each signal was emitted, or came from: that is its place."""

    def flag(self, what: object) -> str:
        """A variable that tells whether something has come."""
        name = f"{self.name}_{what}"
        self.inits[name] = "False"
        return name

    def signals_in_order(self) -> Iterator[SignalAt]:
        """All signals, each once: what several sides have when all of these have come to it, else side by side."""
        left = [list(self.signals[side]) for side in self.meet.sides if side in self.signals]
        while any(left):
            for side in left:
                holders = [other for other in left if side and side[0] in other]
                if side and all(other[0] == side[0] for other in holders):
                    yield side[0]
                    for other in holders:
                        other.remove(side[0]) if other is not side else None
                    del side[0]
                    break

    def note_item(self, loop: LoopContext, side: n.GraphNode, site: Site) -> None:
        """Note an item that comes from one side."""
        number, fields = self.meet.sides.index(side), self.meet.shape.fields
        self.site = site
        self.reached[side] = {}
        needed = needed_after(loop.tree, self.meet, loop.needed)
        for name, value in site.own.items():
            if name in needed and (name in fields or is_hidden(name)):
                self.reached[side][name] = self._note(loop, self.variable(name, number), value, fields.get(name))
        loop.out.line(f"{self.flag(number)} = True")

    def variable(self, name: str, side: int) -> str:
        """A field of a joined item has one variable, whichever side it comes from; of merged items one a side."""
        fields = self.meet.shape.fields
        field = list(fields).index(name) if name in fields else f"h{name.removeprefix('#')}"
        return f"{self.name}_v{field}" + (f"_{side}" if isinstance(self.meet, n.Merge) else "")

    def _note(self, loop: LoopContext, variable: str, value: Value, t: pa.DataType | None) -> Value:
        """Put a value into a variable: a scalar, or where a longer one lies."""
        loaded = loop.calls.load(value)
        if isinstance(loaded, Local):
            loop.out.line(f"{variable} = {loaded.name}")
            self.inits.setdefault(variable, _zero(t))
            return Local(variable)
        if loaded.index == "u":
            return loaded
        loop.out.line(f"{variable} = {loaded.index}")
        self.inits.setdefault(variable, "0")
        return Ref(loaded.column, variable)

    def note_signal(self, loop: LoopContext, side: n.GraphNode, signal: SignalAt, site: Site) -> None:
        """A signal waits for all sides."""
        self.signal_sites.setdefault(signal.array, site)
        self.signals.setdefault(side, []).append(signal)
        loop.out.line(f"{self.flag(signal.array)} = True")


def _zero(t: pa.DataType | None) -> str:
    if t is None:
        return "0"
    return "0.0" if types.is_float(t) else "False" if pa.types.is_boolean(t) else "0"
