"""What skipping means, in plain loops: graphs whose functions raise on some items, each beside a model written by hand.

Nothing of Penstock is in the models. A letter is (index in the source, name of the step, failures of that index there).
Items have an integer `v`, a key `k`, a float `f` (sometimes NaN), a text `s`, and two lists `p.a` and `p.b`, of which
some differ in length.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

import penstock as ps

Row = dict[str, Any]
Letters = Counter[tuple[int, str]]
SCHEMA = pa.schema(
    {"k": pa.int64(), "v": pa.int64(), "f": pa.float64(), "s": pa.string()}
    | {name: pa.list_(pa.int64()) for name in ("p.a", "p.b")}
)


def items(seed: int, count: int) -> list[Row]:
    chance = Random(seed)
    return [_item(chance) for _ in range(count)]


def _item(chance: Random) -> Row:
    a = [chance.randint(0, 6) for _ in range(chance.randint(0, 4))]
    b = [0] * (len(a) if chance.random() < 0.7 else 3)
    f = math.nan if chance.random() < 0.2 else float(chance.randint(0, 2))
    return {
        "k": chance.randint(0, 3),
        "v": chance.randint(0, 9),
        "f": f,
        "s": chance.choice("abcx"),
        "p.a": a,
        "p.b": b,
    }


@dataclass(frozen=True)
class Case:
    """A graph over the items, and the rows and letters that one thread makes of them."""

    name: str
    build: Callable[[ps.Stream], ps.Stream]
    model: Callable[[list[Row], Letters], list[Row]]
    is_open: bool = True
    """Whether it gives the same where the stream goes on, so that a running stream can be compared."""


class Total(ps.State):
    n: int
    last: ps.array(int, 3)


def running(v: int, state: Total) -> int:
    state.n += v
    state.last[state.n % 3] = v
    if v == 3:
        raise ValueError("three")
    return state.n * 10 + state.last[0]


def _running_rows(found: list[Row], letters: Letters) -> list[Row]:
    rows, states = [], {}
    for index, item in enumerate(found):
        n, last = states.get(item["k"], (0, [0, 0, 0]))
        n += item["v"]
        last = [item["v"] if at == n % 3 else old for at, old in enumerate(last)]
        if item["v"] == 3:
            letters[index, "running"] += 1
            continue
        states[item["k"]] = n, last
        rows.append({"k": item["k"], "w": n * 10 + last[0]})
    return rows


def first(v: int, state: Total) -> int:
    state.n += 1
    return state.n


def second(v: int, state: Total) -> int:
    state.n += 100
    if v in (2, 4):
        raise KeyError("even")
    return state.n


def _two_outputs(found: list[Row], letters: Letters) -> list[Row]:
    rows, n = [], 0
    for index, item in enumerate(found):
        if item["v"] in (2, 4):
            letters[index, "second"] += 1
            continue
        rows.append({"x": n + 1, "y": n + 101})
        n += 101
    return rows


def spread(v: int, state: Total) -> Iterator[int]:
    for more in range(v):
        state.n += 1
        yield state.n * 10 + more
        if v == 5 and more == 2:
            raise ValueError("partway")


def total(state: Total) -> Iterator[int]:
    yield -state.n


def _spread_rows(found: list[Row], letters: Letters, *, at_most: int = 6, ends: bool = True) -> list[Row]:
    rows, states = [], {}
    for index, item in enumerate(found):
        n, v = states.get(item["k"], 0), item["v"]
        if v == 5:
            letters[index, "spread"] += 1
        elif v > at_most:
            letters[index, "flat_map 'w'"] += 1
        else:
            rows += [{"k": item["k"], "w": (n + more + 1) * 10 + more} for more in range(v)]
            states[item["k"]] = n + v
    return rows + [{"k": key, "w": -n} for key, n in states.items() if ends]


class Reset(ps.Signal):
    to: int


def counted(state: Total) -> int:
    state.n += 1
    return state.n


def emits(v: int) -> bool:
    return 12 // v > 3


def _emitted(found: list[Row], letters: Letters) -> list[Row]:
    rows, n = [], 0
    for index, item in enumerate(found):
        v = item["v"]
        if v == 0:
            letters[index, "emits"] += 1
            continue
        if v == 1:
            letters[index, "reset_to"] += 1
            continue
        n += 1
        rows.append({"v": v, "n": n})
        if 12 // v > 3:
            n = 100 // (v - 1)
    return rows


def reset_to(v: int) -> int:
    return 100 // (v - 1)


def inverse(e_a: int) -> int:
    return 6 // e_a


def _elements(found: list[Row], letters: Letters) -> list[Row]:
    rows = []
    for index, item in enumerate(found):
        if len(item["p.a"]) != len(item["p.b"]):
            letters[index, "enumerate 'p'"] += 1
            continue
        letters[index, "inverse"] += item["p.a"].count(0)
        kept = [6 // e for e in item["p.a"] if e]
        rows.append({"k": item["k"], "n": len(kept), "t": sum(kept)})
    return rows


class Hooks(ps.Operator):
    n: int

    def begin(self) -> Iterator[int]:
        yield -1

    def run(self, e: int) -> Iterator[int]:
        self.n += e
        yield self.n
        yield 6 // e

    def end(self) -> Iterator[int]:
        yield 1000 + self.n


def _hooked(found: list[Row], letters: Letters) -> list[Row]:
    rows = []
    for index, item in enumerate(found):
        letters[index, "run"] += item["p.a"].count(0)
        made, n = [-1], 0
        for e in item["p.a"]:
            if e:
                n += e
                made += [n, 6 // e]
        rows.append({"made": [*made, 1000 + n]})
    return rows


def begins(v: int) -> bool:
    return 20 // v > 8


def _regions(found: list[Row], letters: Letters) -> list[Row]:
    rows: list[Row] = []
    for index, item in enumerate(found):
        if item["v"] == 0:
            letters[index, "begins"] += 1
            continue
        if not rows or 20 // item["v"] > 8:
            rows.append({"head": item["v"], "n": 0})
        rows[-1]["n"] += 1
    return rows


def _nan_keys(found: list[Row], letters: Letters) -> list[Row]:
    rows, seen = [], Counter[float]()
    for index, item in enumerate(found):
        if math.isnan(item["f"]):
            letters[index, "key_by 'f'"] += 1
            continue
        seen[item["f"]] += 1
        rows.append({"f": item["f"], "n": seen[item["f"]]})
    return rows


def shout(s: str) -> str:
    if s == "x":
        raise ValueError("an x")
    return s.upper() * 2


def _texts(found: list[Row], letters: Letters) -> list[Row]:
    rows = []
    for index, item in enumerate(found):
        if item["s"] == "x":
            letters[index, "shout"] += 1
        else:
            rows.append({"t": item["s"].upper() * 2})
    return rows


def halves(v: int) -> int:
    return 12 // v


def doubles(v: int) -> int:
    return 12 // (v - 2)


def _joined(found: list[Row], letters: Letters) -> list[Row]:
    rows = []
    for index, item in enumerate(found):
        v = item["v"]
        letters[index, "halves"] += v == 0
        letters[index, "doubles"] += v == 2
        if v not in (0, 2):
            rows.append({"v": v, "l": 12 // v, "r": 12 // (v - 2)})
    return rows


def _join(stream: ps.Stream) -> ps.Stream:
    return ps.align(stream.map(l=halves).select("v", "l"), stream.map(r=doubles).select("v", "r"))


CASES = (
    Case("state", lambda s: s.key_by("k").map(w=running, state=Total).select("k", "w"), _running_rows),
    Case("two_outputs", lambda s: s.map(x=first, y=second, state=Total).select("x", "y"), _two_outputs),
    Case(
        "flat_map",
        lambda s: s.key_by("k").flat_map(spread, to="w", at_most=6, keep="k", state=Total),
        lambda found, letters: _spread_rows(found, letters, ends=False),
    ),
    Case(
        "end",
        lambda s: s.key_by("k").flat_map(spread, to="w", at_most=6, keep="k", state=Total, end=total),
        _spread_rows,
        is_open=False,
    ),
    Case(
        "emit",
        lambda s: (
            s.emit(Reset, when=emits, to=reset_to)
            .map(n=counted, state=Total)
            .on(Reset, n=lambda signal: signal.to)
            .select("v", "n")
        ),
        _emitted,
    ),
    Case(
        "elements",
        lambda s: s.enumerate("p", as_="e").map(i=inverse).aggregate(n=ps.count(), t=ps.sum("i"), keep=["k"]),
        _elements,
    ),
    Case(
        "hooks",
        lambda s: (
            s.enumerate("p.a", as_="e").process(Hooks, to="x", at_most=2).aggregate(made=ps.to_list("x"), keep=[])
        ),
        _hooked,
    ),
    Case("regions", lambda s: s.regions(start=begins, keep={"head": "v"}).aggregate(n=ps.count()), _regions, False),
    Case("nan_key", lambda s: s.key_by("f").map(n=counted, state=Total).select("f", "n"), _nan_keys),
    Case("text", lambda s: s.map(t=shout).select("t"), _texts),
    Case("join", _join, _joined),
)


def expected(case: Case, found: list[Row]) -> tuple[list[Row], Letters]:
    letters: Letters = Counter()
    rows = case.model(found, letters)
    return rows, +letters


def told(letters: pa.Table) -> Letters:
    """The letters of a run, as the models name them: by the function, or by the step where no function raised."""
    return Counter(
        {(row["index"], (row["function"] or row["node"]).split(" (")[0]): row["count"] for row in letters.to_pylist()}
    )
