"""Nodes that group items by key, and that place signals among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

from penstock.errors import quoted
from penstock.graph import types
from penstock.graph.function import Function, Returns
from penstock.graph.nodes.base import GraphNode, Shape, Step
from penstock.graph.nodes.items import predicate
from penstock.graph.record import Signal


@dataclass(frozen=True, eq=False)
class KeyBy(Step):
    """Group the items by fields: from here on, state belongs to a key."""

    names: tuple[str, ...]
    is_kept: bool = False
    """Whether it gives streams that have met the key that all of them had, so that it belongs to the meet before."""

    @property
    def label(self) -> str:
        return f"key_by {quoted(self.names)}"

    def _shape(self) -> Shape:
        if not self.names:
            raise self.fail("must name at least one field; got none")
        for name in self.names:
            t = self._must_have(name, self.given.scope, "of the item or of a parent")
            if not (types.is_scalar(t) or types.is_text(t)):
                raise self.fail(f"a key must be numbers, booleans, times, strings or bytes; {name!r} is {t}")
        return replace(self.given, key=self, key_depth=self.given.depth, unkeyed="")


_GIVEN: WeakValueDictionary[tuple[int, tuple[str, ...]], KeyBy] = WeakValueDictionary()
"""Every key in use, by the node before it and its fields. A key holds that node, so that the id stays its own."""


def key_by(before: GraphNode, names: tuple[str, ...]) -> KeyBy:
    """The node that groups a stream by fields: one and the same for all who ask for it.

    So streams that are grouped one by one, and meet again, have one key, one shuffle and one numbering.
    """
    if not all(isinstance(name, str) for name in names):
        return KeyBy(before, names)  # which refuses them
    made = _GIVEN.get((id(before), names))
    if made is None:
        made = _GIVEN[id(before), names] = KeyBy(before, names)
    return made


@dataclass(frozen=True, eq=False)
class Emit(Step):
    """Place a signal after each item for which `when` holds."""

    signal: type[Signal]
    given_when: Any
    given_values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"emit {getattr(self.signal, '__name__', self.signal)!r}"

    @cached_property
    def when(self) -> Function:
        return predicate(self, self._bind("", self.given_when, probe=self._probe({})))

    @cached_property
    def values(self) -> Mapping[str, Function]:
        """The fields that functions of the item compute."""
        computed = {name: given for name, given in self.given_values.items() if callable(given) or _is_returns(given)}
        return {name: self._bind(f" {name}", function) for name, function in computed.items()}

    @cached_property
    def first(self) -> Signal:
        """The signal with its constant fields; the others hold their first values."""
        return self.signal(**{name: v for name, v in self.given_values.items() if name not in self.values})

    def _shape(self) -> Shape:
        if not (isinstance(self.signal, type) and issubclass(self.signal, Signal) and self.signal is not Signal):
            raise self.fail(f"must be a class derived from ps.Signal; got {self.signal!r}")
        _, initial = self.when, self.signal.layout.initial
        for name, function in self.values.items():
            if name not in initial:
                raise self.fail(f"{name!r} must be a field of the signal; there are {quoted(initial)}")
            wanted = (
                types.from_view(types.View(self.signal.layout.dtype[name]))
                if self.signal.layout.dtype[name].shape == ()
                else None
            )
            if wanted is None or not types.widens(function.returns[0], wanted):
                raise self.fail(
                    f"the signal's field {name!r} takes {wanted or 'no computed value'}; {function.location} gives "
                    f"{function.returns[0]}"
                )
        _ = self.first
        return self.given

    @property
    def functions(self) -> tuple[Function, ...]:
        return (self.when, *self.values.values())


def _is_returns(given: Any) -> bool:
    return isinstance(given, Returns)
