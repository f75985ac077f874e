"""Lines of generated source, and names that are used only once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Emitter:
    """Lines of Python source with their indentation, and names that are used only once."""

    def __init__(self, names: Iterator[int]) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self._names = names

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """An indented block; an empty one says `pass`."""
        self.line(f"{header}:")
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def fresh(self, prefix: str = "v") -> str:
        return f"{prefix}{next(self._names)}"

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """Write lines apart, to be put in their place later; they are as deep as this writer is now."""
        kept, self.lines = self.lines, []
        try:
            yield self.lines
        finally:
            self.lines = kept
