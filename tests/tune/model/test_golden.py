"""The worked example of the paper on flexible filters, sections 2 and 3.1: every number of it as an exact fraction.

Three tasks with times 2, 2 and 3, a core each, with a memory of two blocks a core.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest

from penstock.tune.model.constructs import Sketch, first_task, next_task, site
from penstock.tune.model.exact import cycle_rate
from penstock.tune.model.net import Net
from penstock.tune.model.platform import Arc, Platform, Task
from penstock.tune.model.platform_net import net_of
from penstock.tune.model.prediction import predict
from penstock.tune.model.simulate import simulate

TIMES = {"a": 2, "b": 2, "c": 3}
CORES = {"a": "core 1", "b": "core 2", "c": "core 3"}

TABLE_1 = """
core 1   a0 a0 a1 a1 a2 a2 a3 a3 a4 a4 a5 a5 a6 a6 a7 a7 a8 a8 a9 a9 a10 a10 a11 a11 - a12
         0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 8,9 9 9,10 9,10 10,11 10,11 10,11 11,12
core 2   - - b0 b0 b1 b1 b2 b2 b3 b3 b4 b4 b5 b5 b6 b6 b7 b7 - b8 b8 - b9 b9 - b10
         - - 0 0 1 1 2 2 3 3 4 4 4,5 5 5,6 5,6 6,7 6,7 6,7 7,8 7,8 7,8 8,9 8,9 8,9 9,10
core 3   - - - - c0 c0 c0 c1 c1 c1 c2 c2 c2 c3 c3 c3 c4 c4 c4 c5 c5 c5 c6 c6 c6 c7
         - - - - 0 0 0,1 1 1,2 1,2 2,3 2,3 2,3 3,4 3,4 3,4 4,5 4,5 4,5 5,6 5,6 5,6 6,7 6,7 6,7 7,8
"""
FIGURE_8B = """
core 1   a8 a8 a9 a9 a10 a10 a11 a11 a12 a12 a13 a13 - a14 a14 - a15 a15 a16 a16 a17 a17 -
core 2   b7 b7 c6 b8 b8 c7 b9 b9 b10 b10 b11 b11 c10 b12 b12 c11 b13 b13 b14 b14 b15 b15 c14
core 3   c4 c4 c4 c5 c5 c5 c6 c6 c7 c7 c8 c8 c8 c9 c9 c9 c10 c10 c11 c11 c12 c12 c12
"""


def block_by_block(blocks: int = 2, b: int = 0, c: int = 0) -> Net:
    """The example as section 3.1 walks through it: blocks move as wholes; b and c may be flexible, in pieces."""
    sketch = Sketch()
    one, two, three = (
        site(sketch, "core 1", blocks),
        site(sketch, "core 2", blocks),
        site(sketch, "core 3", blocks, True),
    )
    first_task(sketch, "a", 2, one)
    next_task(sketch, "b", 2, one, two, b)
    next_task(sketch, "c", 3, two, three, c)
    return sketch.net()


def example(memory: int = 2, tokens: int = 1, b: tuple[str, ...] = (), c: tuple[str, ...] = ()) -> Platform:
    """The same as a platform, in which single tokens move."""
    tasks = Task("a", 2, "core 1"), Task("b", 2, "core 2", b), Task("c", 3, "core 3", c)
    return Platform(tasks, (Arc("a", "b"), Arc("b", "c")), tokens=tokens, memory=memory)


def rate(blocks: int, time: Fraction | int | str) -> tuple[int, Fraction]:
    return blocks, Fraction(time)


@pytest.mark.parametrize(
    ("net", "expected"),
    {
        "no flexible task": (block_by_block(), rate(1, 3)),
        "c flexible, in thirds": (block_by_block(c=3), rate(4, 10)),
        "b and c flexible": (block_by_block(b=2, c=3), rate(6, 14)),
        "c flexible, in halves": (block_by_block(c=2), rate(6, 15)),
        "c flexible, in halves, one block": (block_by_block(blocks=1, c=2), rate(2, "5.5")),
    }.values(),
)
def test_the_periods_of_the_example(net: Net, expected: tuple[int, Fraction]) -> None:
    run = simulate(net)
    assert run.is_periodic
    assert (run.count("a"), run.time) == expected


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        (example(), Fraction(1, 3)),
        (example(tokens=3, c=("core 2",)), Fraction(4, 10)),
        (example(tokens=3, b=("core 1",), c=("core 2",)), Fraction(3, 7)),
        (example(tokens=2, c=("core 2",)), Fraction(6, 15)),
        (example(tokens=2, c=("core 2",), memory=1), Fraction(2) / Fraction("5.5")),
    ],
)
def test_the_throughput_of_the_example_with_tokens(platform: Platform, expected: Fraction) -> None:
    told = predict(platform)
    assert told.is_exact
    assert told.throughput == expected


def test_the_pipeline_has_no_choice_so_that_its_slowest_cycle_tells_the_same() -> None:
    for net in (block_by_block(), net_of(example())):
        assert net.is_choice_free
        assert cycle_rate(net, "a") == Fraction(1, 3)


def test_what_is_busy_and_who_does_what() -> None:
    told = predict(example(tokens=3, c=("core 2",)))
    assert told.utilisation == {"core 1": Fraction(4, 5), "core 2": 1, "core 3": 1}
    assert told.shares == {"c": {"core 2": Fraction(1, 6), "core 3": Fraction(5, 6)}}


def steps(net: Net, until: int) -> dict[str, list[str]]:
    """What each core does in each step of time: the task, and the number of the block."""
    core = {t.name: t.core for t in net.transitions}
    shown = {name: ["-"] * until for name in CORES.values()}
    begun = dict.fromkeys(TIMES, 0)
    for firing in simulate(net, until=until, log=10_000).log:
        where = core[firing.transition]
        if where is None:
            continue
        task = firing.transition[0]
        # Blocks come in order. A piece ahead is of the oldest on core 2: behind those that core 3 works on and holds.
        number = begun[task] + ("ahead" in firing.transition)
        begun[task] += "ahead" not in firing.transition
        for step in range(int(firing.start), min(int(firing.end), until)):
            assert shown[where][step] == "-"
            shown[where][step] = f"{task}{number}"
    return shown


def read(table: str) -> list[list[str]]:
    return [line.replace("core ", "core-").split() for line in table.strip().splitlines()]


def test_the_timeline_of_table_1() -> None:
    rows = read(TABLE_1)
    shown = steps(block_by_block(), 26)
    for work in rows[::2]:
        assert shown[work[0].replace("-", " ")] == work[1:]


def test_the_memory_of_table_1() -> None:
    rows = read(TABLE_1)
    for core, blocks in zip(CORES.values(), rows[1::2], strict=True):
        for step, held in list(enumerate(blocks))[1:]:
            run = simulate(block_by_block(), until=step)
            assert 2 - run.tokens_left(f"memory of {core}") == (0 if held == "-" else len(held.split(","))), (
                core,
                step,
            )


def test_the_timeline_of_figure_8b() -> None:
    rows = read(FIGURE_8B)
    shown = steps(block_by_block(c=3), 46)
    for work in rows:
        assert shown[work[0].replace("-", " ")][16 : 15 + len(work)] == work[1:]
    for work in shown.values():
        assert [step[0] for step in work[26:36]] == [step[0] for step in work[36:46]]


def test_the_sizes_of_table_4() -> None:
    """Value at risk: 5 tasks and 4 arcs. The paper's nets have 9 transitions and 11 places; flexible, 15 and 21.

    Transitions agree: 5 tasks, and one for the message on each arc. Of places ours has 17: two an arc (made, and
    arrived: 8), a back edge an arc (4), and one a core (5). With two places and a back edge for each of the four arcs
    there would be 12 already, so the paper's 11 leave some of them out, or put tasks on a common core; the text does
    not say which. Flexible, ours has 12 and 20: in addition the copy, the receiving of what is split, and one merge
    (what the copy made goes to the other core); what is split and not yet received, what the copy made, and the room
    for what is not yet split. The paper has two transitions for the split, a message for each copy and two for the
    merge; our copy on the core of the task before takes its tokens straight from what that task made, by a lower
    priority.
    """
    names = ("random", "box_muller", "cholesky", "walk", "value")
    arcs = tuple(Arc(a, b, capacity=2) for a, b in pairwise(names))
    plain = net_of(Platform(tuple(Task(name, 10, f"core {n}") for n, name in enumerate(names)), arcs))
    assert (len(plain.transitions), len(plain.places)) == (9, 17)
    tasks = tuple(
        Task(name, 10, f"core {n}", ("core 1",) if name == "cholesky" else ()) for n, name in enumerate(names)
    )
    flexible = net_of(Platform(tasks, arcs, tokens=3))
    assert (len(flexible.transitions), len(flexible.places)) == (12, 20)
