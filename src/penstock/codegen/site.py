"""Values and places of a loop while it is written: what can be named where, and how often a place is reached."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from penstock.graph import types


@dataclass(frozen=True, slots=True)
class Column:
    """Values held in arrays: a column that entered, the elements of a list in one, or a heap of computed values.

    The arrays' names follow from the prefix: `p` for scalars, `p_o` for the offsets of texts and lists, `p_e` for
    their elements.
    """

    prefix: str
    type: pa.DataType
    is_heap: bool = False

    @property
    def elements(self) -> Column:
        element = types.element_of(self.type)
        assert element is not None
        return Column(f"{self.prefix}_e", element, self.is_heap)

    def first(self, at: str) -> str:
        """Where the elements of the value at `at` begin; where they end is where those of the next begin."""
        if types.is_array(self.type):
            return f"times({at}, {self.type.list_size})"
        return f"{self.prefix}_o[{at}]"

    def slice(self, at: str) -> str:
        """The elements of one value, as a one-dimensional array.

        It has no owner: a heap outlives what is made of its values, and generators would keep it for ever.
        """
        elements = f"borrowed({self.prefix}_e)" if self.is_heap else f"{self.prefix}_e"
        return f"{elements}[{self.first(at)}:{self.first(f'after({at})')}]"

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays, in the order in which the engine gives them."""
        if types.is_scalar(self.type):
            return (self.prefix,)
        offsets = () if types.is_array(self.type) else (f"{self.prefix}_o",)
        return offsets + self.elements.arrays


@dataclass(frozen=True, slots=True)
class Ref:
    """A value in a column, at an index that a local variable or an expression gives.

    `whole` is the variable that holds its elements as an array, where they were sliced before.
    """

    column: Column
    index: str
    whole: str | None = None

    @property
    def elements(self) -> str:
        return self.whole or self.column.slice(self.index)


@dataclass(frozen=True, slots=True)
class Local:
    """A scalar as an expression, mostly a variable; where it was loaded from, and where it is stored if not there."""

    name: str
    origin: Ref | None = None
    store: str | None = None


Value = Local | Ref
Level = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Span:
    """A range of elements that a loop runs over: the variable that does, and the bounds before the first row's code."""

    variable: str
    lo: str
    hi: str


@dataclass(frozen=True)
class Site:
    """A place in the loop: what can be named there, and how often at most it is reached.

    `levels` are the parents' fields from the outermost in and, last, the item's own. The lengths of `spans` (and
    `factor`) multiply to the largest number of times that this place is reached in one turn of the loop around it. A
    span has an alternative for each of the lists that are opened together; a list in a list replaces the span around
    it, because what counts is the number of its elements and not a product. `ranges` are the spans of all loops around.
    """

    levels: tuple[Level, ...]
    factor: int = 1
    spans: tuple[tuple[Span, ...], ...] = ()
    ranges: tuple[Span, ...] = ()
    aligned: bool = False
    phase: str = "rows"
    is_behind: bool = False
    """Whether what leaves here stands behind the item, as a signal does that it emits."""

    @property
    def own(self) -> Level:
        return self.levels[-1]

    @property
    def bound(self) -> str:
        parts = [f"as_int({span[0].hi} - {span[0].lo})" for span in self.spans]
        return " * ".join(([str(self.factor)] if self.factor != 1 or not parts else []) + parts)

    def with_own(self, own: Level, **changes: object) -> Site:
        return replace(self, levels=(*self.levels[:-1], own), **changes)  # type: ignore[arg-type]

    def fork(self, **changes: object) -> Site:
        """The same place inside a nested block: what is loaded there is not known outside."""
        return replace(self, levels=tuple(dict(level) for level in self.levels), **changes)  # type: ignore[arg-type]

    def find(self, name: str) -> tuple[Level, Value]:
        for level in reversed(self.levels):
            if name in level:
                return level, level[name]
        raise KeyError(name)

    def opened(self, lists: list[tuple[str, Column, str]]) -> Site:
        """The place inside lists that are opened together: for each the variable, the column and the index in it."""
        known = {span.variable: span for span in self.ranges}
        around = [known.get(index, Span("", index, f"after({index})")) for _, _, index in lists]
        opened = tuple(
            Span(variable, column.first(span.lo), column.first(span.hi))
            for (variable, column, _), span in zip(lists, around, strict=True)
        )
        inner = [span.variable for span in (self.spans[-1] if self.spans else ())]
        rest = self.spans[:-1] if lists[0][2] in inner else self.spans
        return replace(self, spans=(*rest, opened), ranges=(*self.ranges, *opened), aligned=False)


def cast(t: pa.DataType) -> str:
    """The function that makes a stored or returned scalar a 64-bit integer, a float or a boolean."""
    if types.is_float(t):
        return "as_float"
    return "as_bool" if pt.is_boolean(t) else "as_int"
