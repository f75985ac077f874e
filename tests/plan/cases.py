"""Graphs whose plans are compared as text: together they have every kind of node and every way to be cut."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc
from tests.graph.placed import flexible, on_core

import penstock as ps
from penstock.codegen.generate import PASSES
from penstock.graph.watermarks import with_watermarks
from penstock.plan.make import plan
from penstock.plan.plan import Plan
from penstock.plan.request import Measured, PlanRequest, StagePlan

ITEMS = ps.from_items([{"k": 1, "t": 1, "v": 1.0, "values": [1.0]}], name="items")


class Total(ps.State):
    sum: float


class Reset(ps.Signal):
    to: float


def running(v: float, state: Total) -> float:
    state.sum += v
    return state.sum


def shout(k: int) -> str:
    return str(k).upper()


class Twice(ps.Operator):
    def run(self, v):  # type: ignore[no-untyped-def]
        yield v
        yield v


@dataclass(frozen=True)
class Case:
    """A graph with what is asked of its plan."""

    streams: Callable[[], tuple[ps.Stream, ...]]
    asked: dict[str, Any] = field(default_factory=dict)

    def plan(self) -> Plan:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.InterpretedWarning)
            leaves, _ = with_watermarks(tuple(stream.node for stream in self.streams()))
            return plan(leaves, PlanRequest(**self.asked), PASSES)


def _cleaned() -> ps.Stream:
    return ITEMS.drop_nulls("v").fill_null(k=0).map(w=lambda v: v + 1.0).filter(lambda w: w > 0).select("k", "w")


def _keyed() -> ps.Stream:
    return ITEMS.map(j=lambda k: k % 2).key_by("j").map(s=running, state=Total).on(Reset, sum=lambda signal: signal.to)


def _opened() -> ps.Stream:
    return ITEMS.enumerate("values", as_="x").filter(lambda x: x > 0)


def _pieces() -> ps.Stream:
    opened = ITEMS.filter(lambda v: v > 0).enumerate("values", as_="x")
    return opened.map_columns(lambda x: pc.negate(x), to={"y": float})


def _windows() -> tuple[ps.Stream, ...]:
    windows = ITEMS.key_by("k").window("t", length=10, late=2)
    return windows.aggregate(total=ps.sum("v")), windows.late


def _emitting() -> ps.Stream:
    rows = ITEMS.key_by("k").window("t", length=10, late=2).aggregate(total=ps.sum("v"))
    resetting = rows.emit(Reset, when=lambda total: total > 9.0, to=lambda total: total)
    return resetting.map(s=lambda total, state: total, state=Total).on(Reset, sum=lambda signal: signal.to)


def _two() -> tuple[ps.Stream, ps.Stream]:
    return ITEMS.filter(lambda v: v > 0).map(a=lambda v: v + 1.0), ITEMS.map(b=lambda v: v - 1.0)


def _cases(copies: int = 0, split: str = "central") -> ps.Stream:
    some, all_ = _two()
    by_case: dict[tuple[int, ...], Any] = {(0, 1): lambda a, b: a + b, (1,): lambda b: b}
    made = ps.align(some.select("a"), all_.select("b"), how=by_case, to="w")
    return flexible(made, copies, split) if copies else made


def _long() -> ps.Stream:
    stream = ITEMS
    for _ in range(62):
        stream = stream.map(v=lambda v: v + 1.0)
    return stream


def halves(v):  # type: ignore[no-untyped-def]
    yield v / 2.0
    yield v / 2.0


def _pushed() -> tuple[ps.Stream, ...]:
    return ITEMS.flat_map(ps.returns(float, halves), to="h", at_most=2), ITEMS.process(Twice, to="u", at_most=2)


CASES: dict[str, Case] = {
    "chain": Case(lambda: (_cleaned(),)),
    "chain unfused": Case(lambda: (_cleaned(),), {"fuse": False, "width": 64, "capacity": 200}),
    "chain within a memory": Case(lambda: (_cleaned(),), {"fuse": False, "memory": 1 << 20, "delay": 500}),
    "state by key": Case(lambda: (_keyed(),), {"stage": StagePlan(1, 8, "its buckets are read")}),
    "regions of a list": Case(lambda: (_opened().aggregate(total=ps.sum("x")), _opened().map(y=lambda x: x))),
    "lists piece by piece": Case(lambda: (_pieces(),)),
    "a list made in the loop": Case(
        lambda: (ITEMS.map(x=lambda values: values * 2.0).enumerate("x", as_="y").aggregate(n=ps.count()),)
    ),
    "found regions": Case(
        lambda: (
            ITEMS.regions(by="k").map(w=lambda v: v).close("k"),
            ITEMS.regions(by="k").aggregate(total=ps.sum("v")),
        ),
        {"fuse": False, "context": "dense"},
    ),
    "regions on two cores": Case(
        lambda: (_opened().aggregate(total=ps.sum("x")),), {"fuse": False, "cores": 2, "context": "dense"}
    ),
    "regions, credit by balance": Case(
        lambda: (_opened().aggregate(total=ps.sum("x")),),
        {"fuse": False, "credit": "balance", "threshold": 5, "context": "sparse"},
    ),
    "outputs of one": Case(_pushed, {"fuse": False}),
    "windows of time": Case(_windows),
    "signals after windows": Case(lambda: (_emitting(),)),
    "uncompiled": Case(lambda: (ITEMS.map(w=lambda v: v).map(loud=shout).map(u=lambda v: v),)),
    "long": Case(lambda: (_long(),)),
    "join in the loop": Case(lambda: (ps.align(*_two()),)),
    "join of loops": Case(lambda: (ps.align(*_two()),), {"fuse": False, "capacity": 16}),
    "join as asked for": Case(lambda: (ps.align(*_two()),), {"fuse": False, "heartbeat": 7}),
    "join without heartbeats": Case(lambda: (ps.align(*_two()),), {"fuse": False, "heartbeat": "never"}),
    "merge": Case(lambda: (ps.merge(*(each.select("v") for each in _two())),), {"fuse": False, "cores": 2}),
    "join that lists follow": Case(
        lambda: (
            (met := ps.align(*_two())),
            met.enumerate("values", as_="x").map_columns(lambda x: pc.negate(x), to={"y": float}),
        ),
        {"fuse": False},
    ),
    "functions by case": Case(lambda: (_cases(),), {"fuse": False}),
    "flexible join": Case(lambda: (_cases(1),), {"cores": 2}),
    "flexible join by itself": Case(lambda: (_cases(1, "beta"),), {"cores": 2, "capacity": 64}),
    "flexible": Case(lambda: (flexible(ITEMS.map(w=lambda v: v + 1.0), 2).filter(lambda w: w > 0),), {"cores": 3}),
    "flexible result": Case(lambda: (flexible(ITEMS.map(w=lambda v: v + 1.0), 1),), {"cores": 2}),
    "on cores": Case(
        lambda: (on_core(ITEMS.filter(lambda v: v > 0).map(w=lambda v: v), 1).filter(lambda w: w < 9),),
        {"cores": 2, "block_items": 100},
    ),
    "measured": Case(
        lambda: (ITEMS.map(w=lambda v: v + 1.0).filter(lambda w: w > 0),),
        {"cores": 2, "fuse": False, "measured": Measured(("map 'w'", "filter"), (9.0, 1.0))},
    ),
}
