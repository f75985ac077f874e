"""The end of the stream in steps, of which one that has been done is not done again when the loop goes on later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.codegen.emitter import Line
from penstock.codegen.generated import Stop

if TYPE_CHECKING:
    from penstock.codegen.loop_context import LoopContext


class EndSteps:
    """The steps so far: the phase of each, and its lines."""

    def __init__(self, loop: LoopContext) -> None:
        self.loop = loop
        self.steps: list[tuple[str, list[Line]]] = []

    @property
    def phase(self) -> str:
        """The phase of the step that is being written."""
        return self.steps[-1][0]

    def begin(self) -> None:
        """Begin a step, in a phase of its own. What is written from here on lies in it."""
        self.steps.append(("last" if not self.steps else f"last{len(self.steps)}", []))
        self.loop.out.lines = self.steps[-1][1]

    def write(self, write: Callable[[], None]) -> list[Line]:
        """The code of the end; `write` writes its steps."""
        loop, out = self.loop, self.loop.out
        has_steps = any(node.has_end for node in loop.segment.nodes)
        with out.aside():
            self.begin()
            write()
        with out.aside() as lines, out.block("if is_last"):
            for at, (phase, step) in enumerate(self.steps):
                if not has_steps:
                    loop.room.check(phase, Stop.END)
                    out.put(step)
                elif any(line.is_code for line in step):
                    with out.block(f"if {loop.carried.integer('step')} <= {at}"):
                        loop.room.check(phase, Stop.END)
                        out.put(step)
                        out.line(f"step = {at + 1}")
        return lines
