"""Lines of generated source, and names that are used only once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count


@dataclass(frozen=True, slots=True)
class Line:
    """A line, so many blocks deep. Text that depends on lines still to come is a function of no arguments."""

    depth: int
    text: str | Callable[[], Iterable[str]]

    def render(self) -> Iterator[str]:
        texts = (self.text,) if isinstance(self.text, str) else self.text()
        return ("    " * self.depth + text for text in texts)

    @property
    def is_code(self) -> bool:
        return not (isinstance(self.text, str) and self.text.startswith("#"))


class Emitter:
    """Writes lines of Python source at a depth."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.depth = 0
        self._names = count()

    def line(self, text: str) -> None:
        self.lines.append(Line(self.depth, text))

    def comment(self, text: str) -> None:
        """A comment of one line, whatever is in the text."""
        self.line(f"# {' '.join(text.split())}")

    def later(self, text: Callable[[], Iterable[str]]) -> None:
        """Leave room for lines that are known only when the whole loop is written."""
        self.lines.append(Line(self.depth, text))

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """An indented block; an empty one is `pass`."""
        self.line(f"{header}:")
        self.depth += 1
        before = len(self.lines)
        yield
        if not any(line.is_code for line in self.lines[before:]):
            self.line("pass")
        self.depth -= 1

    def fresh(self, prefix: str = "v") -> str:
        return f"{prefix}{next(self._names)}"

    @contextmanager
    def aside(self) -> Iterator[list[Line]]:
        """Write lines apart, to be put in their place later, at whatever depth that is."""
        lines, depth = self.lines, self.depth
        self.lines, self.depth = [], 0
        try:
            yield self.lines
        finally:
            self.lines, self.depth = lines, depth

    def put(self, lines: Iterable[Line]) -> None:
        """Put lines here that were written apart."""
        self.lines += [replace(line, depth=self.depth + line.depth) for line in lines]

    def render(self) -> str:
        return "".join(f"{text}\n" for line in self.lines for text in line.render())


def without_comments(source: str) -> str:
    """Source without its comments, so that loops that differ in nothing else are compiled once."""
    return "".join(line for line in source.splitlines(keepends=True) if not line.lstrip().startswith("#"))
