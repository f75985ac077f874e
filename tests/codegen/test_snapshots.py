"""The text that each rule writes, as a reader of a loop sees it."""

from __future__ import annotations

import pytest
from tests.codegen.snapshots import FILE, Part, parts

import penstock as ps
from penstock.codegen.emitter import without_comments
from penstock.codegen.generate import PASSES
from penstock.plan.make import plan

EXPECTED = dict(
    section.split("\n\n", 1) for section in FILE.read_text(encoding="utf-8").removeprefix("== ").split("\n== ")
)


@pytest.mark.parametrize(("name", "part"), parts().items(), ids=parts())
def test_a_rule_writes(name: str, part: Part) -> None:
    """Where a change is meant: `python -m tests.codegen.snapshots`, and read what became of `rows.txt`."""
    assert part.text() == EXPECTED[name].rstrip("\n") + "\n"


def test_nothing_else_is_kept() -> None:
    assert set(EXPECTED) == set(parts())


def test_only_needed_columns_enter() -> None:
    blobs = ps.from_items([{"id": 1, "values": [1.0], "name": "a"}], name="blobs")
    stream = blobs.enumerate("values", as_="v").aggregate(total=ps.sum("v"), keep="id")
    (loop,) = plan((stream.node,), passes=PASSES).codes.values()
    assert [each.field for each in loop.inputs] == ["id", "values"]


def test_names_of_fields_are_in_comments_only() -> None:
    """So loops that differ in nothing else are compiled once."""
    loops = [
        next(iter(plan((SOURCE.map(**{name: lambda v: v + 1}).node,), passes=PASSES).codes.values()))
        for name in ("w", "other")
    ]
    assert loops[0].source != loops[1].source
    assert without_comments(loops[0].source) == without_comments(loops[1].source)


SOURCE = ps.from_items([{"v": 1.5}])
