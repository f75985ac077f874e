"""The worked example of the paper on flexible filters (sections 2 and 3.1), run by the engine on the virtual clock.

Three filters take 2, 2 and 3 for a block, each on a core of its own that holds two blocks. Times are in twelfths of a
step where they need not be whole.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.graph.placed import flexible

import penstock as ps

TIMES = {"a": 2, "b": 2, "c": 3}

TABLE_I = """
core 1 a0,0 a0,1 a1,0 a1,1 a2,0 a2,1 a3,0 a3,1 a4,0 a4,1
blocks 0    0    1    1    2    2    3    3    4    4
core 2 .    .    b0,0 b0,1 b1,0 b1,1 b2,0 b2,1 b3,0 b3,1
blocks .    .    0    0    1    1    2    2    3    3
core 3 .    .    .    .    c0,0 c0,1 c0,2 c1,0 c1,1 c1,2
blocks .    .    .    .    0    0    0,1  1    1,2  1,2

core 1 a5,0 a5,1 a6,0 a6,1 a7,0 a7,1 a8,0 a8,1 a9,0 a9,1
blocks 5    5    6    6    7    7    8    8    8,9  9
core 2 b4,0 b4,1 b5,0 b5,1 b6,0 b6,1 b7,0 b7,1 .    b8,0
blocks 4    4    4,5  5    5,6  5,6  6,7  6,7  6,7  7,8
core 3 c2,0 c2,1 c2,2 c3,0 c3,1 c3,2 c4,0 c4,1 c4,2 c5,0
blocks 2,3  2,3  2,3  3,4  3,4  3,4  4,5  4,5  4,5  5,6

core 1 a10,0 a10,1 a11,0 a11,1 .     a12,0
blocks 9,10  9,10  10,11 10,11 10,11 11,12
core 2 b8,1  .     b9,0  b9,1  .     b10,0
blocks 7,8   7,8   8,9   8,9   8,9   9,10
core 3 c5,1  c5,2  c6,0  c6,1  c6,2  c7,0
blocks 5,6   5,6   6,7   6,7   6,7   7,8
"""


def table() -> list[list[str]]:
    """The rows of the table, whole: for each core its steps, and its blocks."""
    parts = [[line.split() for line in part.splitlines()] for part in TABLE_I.strip().split("\n\n")]
    return [[cell for part in parts for cell in part[row][2 - row % 2 :]] for row in range(6)]


@cache
def example(helped: str, *, tokens: int, memory: int, blocks: int = 40, policy: str = "upstream") -> Any:
    """Run the example with blocks of so many tokens; the nodes that are named are flexible.

    With `upstream` a core works ahead only where it would stall.
    """
    source = ps.from_numpy({"v": np.arange(tokens * blocks)}, name="blocks")
    a = source.map(a=lambda v: v + 1)
    b = a.map(b=lambda a: 2 * a)
    b = flexible(b) if "b" in helped else b
    c = b.map(c=lambda b: b - 3)
    c = flexible(c) if "c" in helped else c
    out = c.select("c")
    cost = {stream: Fraction(TIMES[name], tokens) for name, stream in zip("abc", (a, b, c), strict=True)}
    run = out.prepare(
        spark=False,
        fuse=False,
        cores=3,
        mapping={a: 0, b: 1, c: 2, out: 2},
        block_items=tokens,
        policy=policy,
        compile=False,
        trace=True,
        check=True,
        clock=ps.VirtualClock(cost, memory_blocks=memory),
    )
    assert run.collect()["c"].to_pylist() == [2 * (v + 1) - 3 for v in range(tokens * blocks)]
    return run


def twelfths(seconds: float) -> int:
    return round(12 * seconds)


def timeline(run: Any, start: float = 0, stop: float = 1e9) -> list[tuple[int, str, float, float, int]]:
    """What cores did: the core, the filter (in capitals where it is a copy), from when to when, and the items."""
    found = []
    for firing in run.statistics().firings:
        if firing.seconds and twelfths(start) <= twelfths(firing.start_s) < twelfths(stop):
            name = firing.node[len("map '")]
            name = name.upper() if "copy" in firing.node else name
            found.append((firing.core + 1, name, firing.start_s, firing.start_s + firing.seconds, firing.items))
    return sorted(found, key=lambda each: (each[0], each[2]))


def cycle(run: Any, start: float, length: float) -> list[tuple[int, str, int, int, int]]:
    return [
        (core, name, twelfths(first - start), twelfths(last - start), items)
        for core, name, first, last, items in timeline(run, start, start + length)
    ]


def done_in_a_cycle(run: Any, start: float, length: float, tokens: int) -> Fraction:
    """How many blocks are done in a cycle that begins at a time, after which everything comes again."""
    found = cycle(run, start, length)
    for again in range(1, 3):
        assert cycle(run, start + again * length, length) == found
    return Fraction(sum(items for _, name, _, _, items in found if name in "cC"), tokens)


# Table I: no filter is flexible


@pytest.mark.parametrize("tokens", [1, 3, 4])
def test_table_i_step_by_step(tokens: int) -> None:
    run, wanted = example("", tokens=tokens, memory=2), table()
    for core in range(3):
        steps = ["."] * len(wanted[0])
        for number, (_, name, start, stop, _) in enumerate(
            each for each in timeline(run, 0, 26) if each[0] == core + 1
        ):
            for at in range(int(start), min(int(stop), len(steps))):
                steps[at] = f"{name}{number},{at - int(start)}"
        assert steps == wanted[2 * core]


@pytest.mark.parametrize("tokens", [1, 3, 4])
def test_table_i_blocks(tokens: int) -> None:
    run, wanted = example("", tokens=tokens, memory=2), table()
    for core in range(3):
        held = {each.start_s: each.blocks for each in run.statistics().held if each.core == core}
        blocks: tuple[int, ...] = ()
        for time, cell in enumerate(wanted[2 * core + 1]):
            blocks = held.get(time, blocks)
            assert (",".join(map(str, blocks)) or ".") == cell, f"core {core + 1} at t{time}"


def test_without_flexibility_a_block_is_done_in_three_steps() -> None:
    assert done_in_a_cycle(example("", tokens=3, memory=2), 22, 3, tokens=3) == 1


# Figure 8: c is flexible, and then b too


def test_figure_8_from_t16() -> None:
    run = example("c", tokens=3, memory=2)
    assert timeline(run, 0, 16) == timeline(example("", tokens=3, memory=2), 0, 16)
    spans = {
        core: " ".join(f"{name}{first:g}-{last:g}" for at, name, first, last, _ in timeline(run, 16, 36) if at == core)
        for core in (1, 2, 3)
    }
    assert spans == {
        1: "a16-18 a18-20 a20-22 a22-24 a24-26 a26-28 a29-31 a32-34 a34-36",
        2: "b16-18 C18-19 b19-21 C21-22 b22-24 b24-26 b26-28 C28-29 b29-31 C31-32 b32-34 b34-36",
        3: "c16-19 c19-22 c22-24 c24-26 c26-29 c29-32 c32-34 c34-36",
    }


@pytest.mark.parametrize("tokens", [3, 6, 9])
def test_with_c_flexible_four_blocks_are_done_in_ten_steps(tokens: int) -> None:
    """The paper's cycle begins at t26, and continues until t35."""
    assert done_in_a_cycle(example("c", tokens=tokens, memory=2), 26, 10, tokens) == 4


def test_the_cores_of_a_flexible_filter_do_not_stall() -> None:
    found = cycle(example("c", tokens=3, memory=2), 26, 10)
    for core, wanted in ((1, 8), (2, 10), (3, 10)):
        assert sum(last - first for at, _, first, last, _ in found if at == core) == 12 * wanted


def test_with_b_and_c_flexible_three_blocks_are_done_in_seven_steps() -> None:
    run = example("bc", tokens=6, memory=2)
    assert done_in_a_cycle(run, 42, 14, tokens=6) == 6
    busy = [last - first for _, _, first, last, _ in cycle(run, 42, 14)]
    assert sum(busy) == 3 * 12 * 14


# Figure 9: a block of two tokens


def test_figure_9_a_with_buffers_of_two_blocks() -> None:
    assert done_in_a_cycle(example("c", tokens=2, memory=2), 26, 15, tokens=2) == 6


def test_figure_9_b_with_buffers_of_one_block() -> None:
    run = example("c", tokens=2, memory=1)
    assert done_in_a_cycle(run, 7.5, 5.5, tokens=2) == 2
    assert timeline(run, 4, 9.5) == [
        (1, "a", 4, 6, 2),
        (1, "a", 7.5, 9.5, 2),  # at t6 block 2 is done, and waits until core 2 has passed on block 1
        (2, "b", 4, 6, 2),
        (2, "C", 6, 7.5, 1),
        (2, "b", 7.5, 9.5, 2),
        (3, "c", 4, 7, 2),
        (3, "c", 7.5, 9, 1),  # at t7 core 3 must wait for block 1
    ]


def test_what_a_core_holds_is_within_its_memory() -> None:
    for helped, tokens, memory in (("c", 3, 2), ("bc", 6, 2), ("bc", 6, 1), ("c", 2, 1)):
        held = example(helped, tokens=tokens, memory=memory).statistics().held
        assert max(len(each.blocks) for each in held) == memory
        assert {each.core for each in held} == {0, 1, 2}
