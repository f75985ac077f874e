"""Checks for room: the part of a loop's writer that sees to it that nothing is written beyond what the caller provides.

Places that may be reached in one turn form a phase, with one check before it: that the most that the phase can write
fits into every buffer. Where it does not, the loop saves what it carries and returns, and goes on there later.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.codegen.exits import OutletWriter
from penstock.codegen.outlets import Buffer, Heap
from penstock.graph import nodes as n
from penstock.graph.needs import Names
from penstock.graph.tree import Tree
from penstock.plan.heartbeat.clocks import Clocks
from penstock.plan.segment import Segment


class RoomWriter(OutletWriter):
    """The part of a loop's writer that checks for room."""

    def __init__(self, tree: Tree, segment: Segment, needed: dict[n.GraphNode, Names], clocks: Clocks) -> None:
        super().__init__(tree, segment, needed, clocks)
        self.rooms: dict[str, Buffer] = {}

    def fixed_in(self, phase: str) -> list[tuple[Buffer, int]]:
        """The buffers that a phase writes to and how much at most, where that is known beforehand for all of them."""
        found = [(buffer, buffer.numbers[phase]) for buffer in self.written_in(phase)]
        known = [(buffer, number) for buffer, number in found if number is not None]
        return known if len(known) == len(found) else []

    def check_room(self, phase: str, progress: int) -> None:
        self.grow_heaps(phase)
        if self.written_in(phase):
            with self.out.block(f"if {self.is_short(phase)}"):
                self.stop_short(phase, progress)

    def grow_heaps(self, phase: str) -> None:
        for heap in self.code.heaps:
            if heap.is_collected and phase in self.heap_room(heap).terms:
                term = self.heap_room(heap).term(phase)
                self.out.line(f"if {heap.name}_u + {term} > len({heap.name}_e):")
                self.out.line(f"    {heap.name}_e = grown({heap.name}_e, {heap.name}_u, {heap.name}_u + {term})")

    def written_in(self, phase: str) -> list[Buffer]:
        return [buffer for buffer in self.code.buffers if phase in buffer.terms]

    def is_short(self, phase: str) -> str:
        """The test whether room is short for what a phase may write."""
        return " or ".join(f"{b.count} + {b.term(phase)} > {b.name}_c" for b in self.written_in(phase))

    def stop_short(self, phase: str, progress: int) -> None:
        """Return, and say how much room is needed."""
        for buffer in self.written_in(phase):
            self.out.line(f"need[{self.code.buffers.index(buffer)}] = {buffer.count} + {buffer.term(phase)}")
        self.out.line(f"@save {progress}")

    def checked(self, phase: str, write: Callable[[], None], progress: int = 1) -> None:
        """A part of the loop with the check for room before it. `progress` is returned where room is short."""
        with self.out.aside() as lines:
            write()
        self.check_room(phase, progress)
        self.out.lines += lines

    def heap_room(self, heap: Heap) -> Buffer:
        return self.rooms.setdefault(heap.name, Buffer(heap.name))
