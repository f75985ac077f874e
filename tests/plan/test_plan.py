"""Plans as text: which nodes run in one loop, why a loop ends, and what the loop looks like."""

from __future__ import annotations

import warnings
from textwrap import dedent

import pyarrow.compute as pc

import penstock as ps
from penstock.graph import needs, nodes, reference
from penstock.plan.make import plan
from penstock.report import graph as report

BLOBS = ps.from_items([{"id": 1, "values": [1.0], "name": "a"}], name="blobs")


class Total(ps.State):
    sum: float


class Reset(ps.Signal):
    to: float


def running(v: float, state: Total) -> float:
    state.sum += v
    return state.sum


def shout(name: str) -> str:
    return name.upper()


def explained(stream: ps.Stream) -> str:
    return "\n".join(line.rstrip() for line in stream.explain().splitlines())


def test_a_chain_is_one_loop() -> None:
    stream = BLOBS.enumerate("values", as_="v").filter(lambda v: v > 0).aggregate(total=ps.sum("v"))
    assert explained(stream) == dedent("""\
        source 'blobs': id: int64, values: list<item: double>, name: string

        loop 1, compiled: it reads the source
          enumerate 'values'  → v: double  in enumerate 'values'
          filter              → v: double  in enumerate 'values'
          aggregate 'total'   → id: int64, name: string, total: double  = result 1
          ends: with the graph""")


def test_why_loops_end() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        stream = (
            BLOBS.map(loud=shout)
            .map_columns(lambda name: pc.utf8_length(name), to={"n": int})
            .map(k=lambda n: n % 2)
            .key_by("k")
            .map(x=lambda values: values * 2.0)
            .enumerate("x", as_="v")
            .map(total=running, state=Total)
            .on(Reset, sum=lambda signal: signal.to)
        )
    loops = [line for line in explained(stream).splitlines() if line.startswith("loop")]
    assert [line.split(": ", 1)[1] for line in loops] == [
        "it reads the source",
        "map_columns 'n' takes whole columns",
        "key_by 'k' numbers its keys a column at a time, and its fields are made in the loop before",
        "enumerate 'x' opens a list that is made in the loop before, so that its length is not known there",
    ]
    assert loops[0].startswith("loop 1, interpreted (Unknown attribute 'upper'")
    assert "map 'total' (running, state Total, on Reset)" in explained(stream)


def test_a_key_that_enters_the_loop_costs_no_cut() -> None:
    stream = (
        BLOBS.filter(lambda id: id > 0).key_by("name", "id").enumerate("values", as_="v").map(s=running, state=Total)
    )
    assert len(plan((stream.node,)).segments) == 1


def test_siblings_that_cannot_join_are_fed_by_the_same_cut() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        streams = [
            BLOBS.map(loud=shout),
            BLOBS.map(n=lambda id: id + 1),
            BLOBS.map_columns(lambda id: id, to={"m": int}),
        ]
    planned = plan(tuple(stream.node for stream in streams))
    assert [segment.feeder for segment in planned.segments] == [None, None, None]


def test_every_backend_has_a_rule_for_every_kind_of_node() -> None:
    kinds = {*nodes.KINDS, *nodes.STAGE_KINDS}
    assert set(reference._ITEM) == kinds
    assert set(needs._GIVEN) == kinds
    assert set(report._KINDS) == kinds


def test_the_picture_shows_every_node_and_loop() -> None:
    stream = BLOBS.enumerate("values", as_="v").emit(Reset, when=lambda v: v > 9).map(s=running, state=Total)
    picture = stream.on(Reset, sum=lambda signal: signal.to).draw()
    assert picture.svg().startswith("<svg")
    assert "loop 1" in picture.svg() and "Reset" in picture.svg()
    assert picture.mermaid().startswith("flowchart TD")
    assert "<svg" in stream._repr_html_()
