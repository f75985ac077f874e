"""Where a stage of a graph begins and ends. The plan makes these nodes; no user does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.graph.hidden import HiddenField
from penstock.graph.nodes.base import Shape, Source, Step
from penstock.graph.record import Signal

PLACE = HiddenField.of("place")
"""The hidden field that holds an item's place in the order of the stream, where that order must be found again."""


@dataclass(frozen=True, eq=False)
class Received(Source):
    """The items that a stage receives from another, in the order of the stream.

    With `has_places`, each comes with its place in the stream, which then is its index.
    """

    has_places: bool = False
    signals: tuple[type[Signal], ...] = ()


@dataclass(frozen=True, eq=False)
class Send(Step):
    """Hands the items of a stage on to another stage or to a sink, with the signals between them.

    Only these fields are handed on and, with `has_places`, the place of each item in the stream.
    """

    names: tuple[str, ...]
    has_places: bool = False
    signals: tuple[type[Signal], ...] = ()

    @property
    def label(self) -> str:
        return f"send after {self.before.label}"

    def _shape(self) -> Shape:
        fields = {name: self._must_have(name, self.given.fields) for name in self.names}
        return replace(self.given, fields=fields | ({PLACE: pa.int64()} if self.has_places else {}))
