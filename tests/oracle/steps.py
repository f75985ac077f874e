"""The steps of the random graphs of the oracle: plain values, which both the model and Penstock understand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Filter:
    """Keep an item unless `field % modulus == rest`. All steps raise where what they see is a multiple of `raises`."""

    field: str
    modulus: int
    rest: int
    raises: int | None = None


@dataclass(frozen=True)
class Map:
    """Set a field: `field * factor + plus`."""

    to: str
    field: str
    factor: int
    plus: int
    raises: int | None = None


@dataclass(frozen=True)
class Running:
    """Set a field from the state of the key: how many items it had, and their total. It raises by the new total."""

    to: str
    field: str
    raises: int | None = None


@dataclass(frozen=True)
class Spread:
    """Give `field % (at_most + 1)` items for one: field, field + 1, and so on. It raises after the last."""

    to: str
    field: str
    at_most: int
    keep: tuple[str, ...]
    raises: int | None = None


@dataclass(frozen=True)
class KeyBy:
    names: tuple[str, ...]


@dataclass(frozen=True)
class Window:
    """Windows of a time field, by the key in force (`keys`): the number of items, and the total of a field.

    `late` is None where nothing is late and no window closes before the end.
    """

    time: str
    length: int
    every: int
    late: int | None
    field: str
    keys: tuple[str, ...]

    def windows_of(self, time: int) -> list[int]:
        """The starts of the windows that hold a time, first to last."""
        latest = time // self.every * self.every
        earliest = latest - self.length // self.every * self.every - self.every
        return [at for at in range(earliest, latest + 1, self.every) if at <= time < at + self.length]


@dataclass(frozen=True)
class Align:
    """Two sides of one stream, of numbered steps that give at most one item each, joined by index.

    With `key`, each side begins with a `key_by` of its own; it is one key, and the joined stream has it.
    """

    left: tuple[tuple[int, Step], ...]
    right: tuple[tuple[int, Step], ...]
    key: tuple[str, ...] = ()


Step = Filter | Map | Running | Spread | KeyBy | Window | Align


@dataclass(frozen=True)
class Graph:
    """A chain of steps from a source with the fields `fields`, all integers."""

    fields: tuple[str, ...]
    steps: tuple[Step, ...]


def numbered(graph: Graph) -> Iterator[tuple[int, Step]]:
    """The steps of the chain with their numbers; those on the sides of an `Align` have numbers of their own."""
    yield from enumerate(graph.steps)


def sets(step: Step) -> tuple[str, ...]:
    """The fields that a step sets."""
    return (step.to,) if isinstance(step, Map | Running | Spread) else ()


def clocks(graph: Graph) -> dict[int, tuple[int, str]]:
    """The watermark that each window goes by: the step that has set its time field last, and the field."""
    setter = dict.fromkeys(graph.fields, -1)
    found = {}
    for number, step in numbered(graph):
        if isinstance(step, Window):
            found[number] = (setter[step.time], step.time)
            setter = dict.fromkeys((*step.keys, "start", "end", "n", "total"), number)
        elif isinstance(step, Align):
            setter |= {name: -2 for side in (step.left, step.right) for _, each in side for name in sets(each)}
        setter |= dict.fromkeys(sets(step), number)
    return found
