"""Checks for room, so that a loop writes nothing beyond what the caller provides.

Places that may be reached in one turn form a phase, with one check before it: that the most that the phase can write
fits into every buffer. Where it does not, the loop saves what it carries and returns, and goes on there later.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.codegen.carried import Carried
from penstock.codegen.emitter import Emitter
from penstock.codegen.generated import GeneratedLoop, Stop
from penstock.codegen.outlets import Buffer, Heap


class Room:
    """The checks for room of one loop."""

    def __init__(self, out: Emitter, code: GeneratedLoop, carried: Carried) -> None:
        self.out, self.code, self.carried = out, code, carried
        self.heaps: dict[str, Buffer] = {}

    def checked(self, phase: str, write: Callable[[], None], stop: Stop = Stop.ROWS) -> None:
        """A part of the loop with the check for room before it. `stop` is returned where room is short."""
        with self.out.aside() as lines:
            write()
        self.check(phase, stop)
        self.out.put(lines)

    def check(self, phase: str, stop: Stop) -> None:
        self.grow_heaps(phase)
        if self.written_in(phase):
            with self.out.block(f"if {self.is_short(phase)}"):
                self.stop_short(phase, stop)

    def grow_heaps(self, phase: str) -> None:
        """Heaps whose values are collected grow inside the loop, before what a phase may add to them."""
        for heap in self.code.heaps:
            if heap.is_collected and phase in self.of_heap(heap).terms:
                term = self.of_heap(heap).term(phase)
                with self.out.block(f"if {heap.name}_u + {term} > len({heap.name}_e)"):
                    self.out.line(f"{heap.name}_e = grown({heap.name}_e, {heap.name}_u, {heap.name}_u + {term})")

    def of_heap(self, heap: Heap) -> Buffer:
        """What may be added to a heap, counted like what is written to a buffer."""
        return self.heaps.setdefault(heap.name, Buffer(heap.name))

    def written_in(self, phase: str) -> list[Buffer]:
        return [buffer for buffer in self.code.buffers if phase in buffer.terms]

    def fixed_in(self, phase: str) -> list[tuple[Buffer, int]]:
        """The buffers that a phase writes to and how much at most, where that is known beforehand for all of them."""
        written = [(buffer, buffer.numbers[phase]) for buffer in self.written_in(phase)]
        fixed = [(buffer, number) for buffer, number in written if number is not None]
        return fixed if len(fixed) == len(written) else []

    def is_short(self, phase: str) -> str:
        """The test whether room is short for what a phase may write."""
        return " or ".join(f"{b.count} + {b.term(phase)} > {b.name}_c" for b in self.written_in(phase))

    def stop_short(self, phase: str, stop: Stop) -> None:
        """Return, and report how much room is needed."""
        for buffer in self.written_in(phase):
            self.out.line(f"needed[{self.code.buffers.index(buffer)}] = {buffer.count} + {buffer.term(phase)}")
        self.carried.save(stop)
