"""What the rules of nodes write: for each a small graph, and the part of its loop to look at.

`python -m tests.codegen.snapshots` writes `rows.txt` anew, to be read before it is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import penstock as ps
from penstock.codegen.generate import PASSES
from penstock.plan.make import plan
from penstock.plan.request import PlanRequest

SENSORS = ps.from_items([{"id": 1, "v": 1.5, "values": [1.0], "t": 0}], name="sensors")
KEYED = SENSORS.key_by("id")
OPEN = SENSORS.enumerate("values", as_="e")
AT_END = "if is_last"
FILE = Path(__file__).with_name("rows.txt")


class Total(ps.State):
    sum: float


class Reset(ps.Signal):
    to: float


class Sum(ps.Operator):
    total: float

    def run(self, v: float) -> None:
        self.total += v

    def end(self) -> Iterator[float]:
        yield self.total


def running(v: float, state: Total) -> float:
    state.sum += v
    return state.sum


def pairs(v: float) -> Iterator[float]:
    yield v
    yield -v


def add(v: float, state: Total) -> None:
    state.sum += v


def last(state: Total) -> Iterator[float]:
    yield state.sum


def _emitted() -> ps.Stream:
    emitted = SENSORS.select("v").emit(Reset, when=lambda v: v > 9, to=lambda v: v)
    return emitted.map(s=running, state=Total).on(Reset, sum=lambda signal: signal.to)


def _aligned() -> ps.Stream:
    positive, doubled = SENSORS.select("v").filter(lambda v: v > 0), SENSORS.map(w=lambda v: 2 * v).select("w")
    return ps.align(positive, doubled)


def _merged() -> ps.Stream:
    return ps.merge(SENSORS.select("v").filter(lambda v: v > 0), SENSORS.map(v=lambda v: -v).select("v"))


def _closed_windows() -> ps.Stream:
    return KEYED.window("t", length=10, late=0).aggregate(total=ps.sum("v"))


@dataclass(frozen=True)
class Part:
    """The lines of a loop after the first that begins so, up to one that is less deep."""

    stream: ps.Stream
    begin: str = "row = as_int(u)"
    segment: int = 0
    is_guarded: bool = False

    def text(self) -> str:
        planned = plan((self.stream.node,), PlanRequest(is_guarded=self.is_guarded), PASSES)
        lines = list(planned.codes.values())[self.segment].source.splitlines()
        at = next(at for at, line in enumerate(lines) if line.lstrip().startswith(self.begin))
        depth = _depth(lines[at]) + 4 * self.begin.startswith("if")
        end = next((end for end in range(at + 1, len(lines)) if _depth(lines[end]) < depth), len(lines))
        return dedent("\n".join(lines[at + 1 : end])) + "\n"


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def parts() -> dict[str, Part]:
    return {
        "map": Part(SENSORS.map(w=lambda v: v + 1).select("w")),
        "map that may fail, where failures are skipped": Part(SENSORS.map(w=lambda v: 1 / v), is_guarded=True),
        "filter": Part(SENSORS.filter(lambda v: v > 0).select("v")),
        "flat_map": Part(SENSORS.flat_map(pairs, to="w", at_most=2, keep="id")),
        "flat_map with an end": Part(KEYED.flat_map(add, to="s", at_most=1, state=Total, end=last), AT_END),
        "process": Part(SENSORS.process(Sum, to="s", at_most=1)),
        "process, at the end": Part(SENSORS.process(Sum, to="s", at_most=1), AT_END),
        "enumerate": Part(OPEN.select("e")),
        "aggregate": Part(OPEN.aggregate(total=ps.sum("e"), most=ps.max("e", default=0.0), keep=())),
        "close": Part(OPEN.close("id").select("id", "e")),
        "regions": Part(SENSORS.select("id", "v").regions(by="id").aggregate(n=ps.count())),
        "key_by, and a state": Part(KEYED.map(s=running, state=Total).select("s")),
        "aggregate by key": Part(KEYED.aggregate(total=ps.sum("v"))),
        "aggregate by key, at the end": Part(KEYED.aggregate(total=ps.sum("v")), AT_END),
        "windows of items": Part(KEYED.window(count=3).aggregate(total=ps.sum("v"))),
        "windows of time": Part(_closed_windows()),
        "emit": Part(_emitted()),
        "a signal at a state": Part(_emitted(), "if mark_kinds[mark] == 1000"),
        "align": Part(_aligned()),
        "merge": Part(_merged()),
    }


def written() -> str:
    return "\n".join(f"== {name}\n\n{part.text()}" for name, part in parts().items())


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
