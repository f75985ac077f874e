"""Streams that meet as blocks give what one dict a place gives, however their items are cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.intake import Arrival
from penstock.plan.stages import StageMeeting
from penstock.spark.worker.align_blocks import align_sides

Side = dict[int, dict[str, Any]]
"""The items of a side by their places."""
FIELDS = {"a": pa.int64(), "s": pa.string(), "l": pa.list_(pa.int64()), "b": pa.float64(), "t": pa.bool_()}
SIDES = (("a", "s", "l"), ("a", "b"), ("s", "l", "t"))
FILL = {"a": -1, "b": 0.5, "t": True}


def side_of(chance: random.Random, names: tuple[str, ...]) -> Side:
    """A field of a place is the same on all sides."""
    places = [place << 30 for place in range(40) if chance.random() < chance.choice([0.2, 0.9])]
    values = {"a": lambda p: p, "s": str, "l": lambda p: [p] * (p % 3), "b": lambda p: p / 4, "t": lambda p: p % 2 == 0}
    return {place: {name: values[name](place >> 30) for name in names} for place in places}


def arrivals(chance: random.Random, side: Side, names: tuple[str, ...]) -> Iterator[Arrival]:
    left = sorted(side)
    while left:
        some, left = left[: (count := chance.randint(1, 9))], left[count:]
        schema = pa.schema([(name, FIELDS[name]) for name in names])
        yield Arrival(pa.RecordBatch.from_pylist([side[p] for p in some], schema), (), np.array(some))


def together(meeting: StageMeeting, sides: list[Side]) -> list[tuple[int, dict[str, Any]]]:
    found = []
    for place in sorted({place for side in sides for place in side}):
        here = [place in side for side in sides]
        if meeting.is_merge:
            found += [(place, side[place]) for side in sides if place in side]
        elif any(here) if meeting.is_outer else all(here):
            fields = dict(meeting.fill) | dict(zip(meeting.present, here, strict=False))
            for side in sides:
                fields |= side.get(place, {})
            found.append((place, {name: fields[name] for name in meeting.fields}))
    return found


JOINED = {name: t for name, t in FIELDS.items() if name not in "sl"}
MEETINGS = {
    "inner": StageMeeting("join", False, False, FIELDS),
    "outer": StageMeeting("join", False, True, {**JOINED, "p": pa.bool_()}, FILL, ("o", "p", "q")),
    "merge": StageMeeting("merge", True, True, {"s": pa.string(), "l": FIELDS["l"]}),
}


@pytest.mark.parametrize("kind", MEETINGS)
@pytest.mark.parametrize("seed", range(8))
def test_as_a_dict_for_each_place(kind: str, seed: int) -> None:
    chance, meeting = random.Random(seed), MEETINGS[kind]
    names = SIDES if not meeting.is_merge else [("s", "l")] * 3
    sides = [side_of(chance, each) for each in names]
    found = list(align_sides(meeting, [arrivals(chance, *pair) for pair in zip(sides, names, strict=True)]))
    rows = [row for made in found for row in made.rows.to_pylist()]
    places = [int(place) for made in found for place in made.places]
    assert list(zip(places, rows, strict=True)) == together(meeting, sides)


def test_nothing_comes_of_nothing() -> None:
    assert list(align_sides(MEETINGS["outer"], [iter(()), iter(()), iter(())])) == []
