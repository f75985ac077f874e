"""Stages: the parts of a graph that run side by side on pieces of the stream, and how items pass between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.graph.source import to_plain
from penstock.graph.tree import Tree
from penstock.plan.cuts import Kind
from penstock.plan.idle import Idle


@dataclass(frozen=True, eq=False)
class Exchange:
    """How items pass from one stage to the next.

    By "key", each goes to the bucket of its key. With "whole", all go to one task. With "order", each goes to where its
    part of the stream is put in order again. `has_places` says whether they carry their places.
    """

    kind: Kind
    send: n.Send
    reason: str
    keys: tuple[str, ...] = ()
    has_places: bool = False
    """Whether items carry their places. The first stage numbers them as they leave; a bucket of keys hands on those
    that it received."""
    is_merged: bool = False
    """Whether the senders are buckets of keys, so that what they send must be merged by place."""
    is_numbered: bool = False
    """Whether the index of an item behind it is its place. Where several have one place, they are counted."""
    idle: Idle | None = None
    """How the keys behind it go idle, in a running stream."""
    tells_split: bool = True
    """Whether it can be told from a place, or from the sender, which split of the source an item came from."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that are handed over."""
        return self.send.names

    @property
    def signals(self) -> tuple[type[Signal], ...]:
        return self.send.signals


@dataclass(frozen=True, eq=False)
class StageOutput:
    """What leaves a stage: for another stage, or as the result of a leaf. With `has_places` it must be put in order."""

    send: n.Send
    stage: int | None = None
    leaf: int | None = None
    side: int = 0
    """Where streams meet in the other stage: which of them this is."""

    @property
    def has_places(self) -> bool:
        return self.send.has_places


@dataclass(frozen=True)
class StageMeeting:
    """Streams that meet by place as they arrive at a stage, without the nodes that they come from.

    `fields` are those that what was brought together has, of the sides or, where `present`, about them. `fill` is what
    stands for a field that no side has.
    """

    label: str
    is_merge: bool
    is_outer: bool
    fields: Mapping[str, pa.DataType]
    fill: Mapping[str, Any] = field(default_factory=dict)
    present: tuple[str, ...] = ()

    @classmethod
    def of(cls, meet: n.Meet, names: set[str]) -> StageMeeting:
        """What a node does with the fields of these names."""
        if not isinstance(meet, n.Join):
            return cls(meet.label, True, True, {name: t for name, t in meet.shape.fields.items() if name in names})
        fields = {name: t for name, t in meet.shape.fields.items() if name in {*names, *meet.present}}
        fill = {name: to_plain(value)[0] for name, value in meet.fill.items()}
        return cls(meet.label, False, meet.is_outer, fields, fill, meet.present)


@dataclass(eq=False)
class Stage:
    """A part of the graph, with a source of its own. `level` is how many exchanges lie before it."""

    number: int
    level: int
    reads: Exchange | None
    outputs: list[StageOutput] = field(default_factory=list)
    meeting: StageMeeting | None = None
    """How streams meet that arrive here from several stages."""
    sides: tuple[Exchange, ...] = ()
    """Those streams. Invariant: `reads` is the first of them."""

    @property
    def name(self) -> str:
        """What stands for the stage in reports."""
        return f"stage {self.number + 1} ({'source' if self.reads is None else self.reads.kind})"

    @property
    def is_keyed(self) -> bool:
        return self.reads is not None and self.reads.kind == "key"

    @property
    def leaves(self) -> tuple[n.GraphNode, ...]:
        return tuple(output.send for output in self.outputs)


@dataclass(frozen=True)
class Cut:
    """All stages, senders first. With `is_whole`, the first stage reads all splits in one task, for the `reason`."""

    stages: tuple[Stage, ...]
    is_whole: bool
    reason: str = ""

    @property
    def exchanges(self) -> list[Exchange]:
        return [stage.reads for stage in self.stages if stage.reads is not None]

    @property
    def levels(self) -> int:
        return 1 + max(stage.level for stage in self.stages)

    def explain(self, notes: Mapping[int, Sequence[str]] | None = None) -> str:
        """The stages and exchanges as text, with the reason of each, and what else there is to say of a stage."""
        lines = []
        for stage in self.stages:
            nodes = [stage.meeting.label] if stage.meeting is not None else []
            nodes += [node.heading for node in Tree(stage.leaves).nodes if not isinstance(node, n.STAGE_KINDS)]
            listed = ", ".join(nodes) or "nothing but handing on"
            if stage.reads is None:
                over = f"all splits in one task, because {self.reason}" if self.is_whole else "every split by itself"
            else:
                over = _OVER[stage.reads.kind] + f", because {stage.reads.reason}"
            lines.append(f"stage {stage.number + 1}, over {over}: {listed}")
            lines += [f"  {note}" for note in (notes or {}).get(stage.number, ())]
        return "\n".join(lines)


_OVER = {
    "key": "every bucket of keys by itself",
    "whole": "the whole stream in one task",
    "order": "parts of the stream in order",
}
