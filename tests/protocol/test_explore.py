"""The protocol of joins by index, in every interleaving of the diamond: it never stops, it is precise, and it is no
stronger than it must be.

The counts of states are printed with `-s`. `make test` takes part of the cases, `make test-long` all of them.
"""

from __future__ import annotations

from itertools import product

import pytest
from tests.protocol.blocking import blocking_cycle
from tests.protocol.explore import Explored, explore, is_safe, largest_safe
from tests.protocol.model import (
    ALWAYS,
    DROP_MISSING,
    EARLY_ACTION,
    EDGES,
    FIRST_SIDE,
    NO_DUMMY,
    NO_FLUSH,
    NO_ROOM,
    NO_WAIT,
    OVERFULL,
    SILENT,
    THRESHOLD,
    UV,
    UW,
    VERDICTS,
    VX,
    WX,
    Model,
)

Four = tuple[int, int, int, int]

INDICES, COMMONS = 4, 2
CAPACITIES: list[Four] = [(a, b, c, d) for a, b, c, d in product((1, 2), repeat=4) if (a, b) >= (c, d)]
"""Of all capacities of 1 and 2, those of which none is another with v and w exchanged."""


def all_edges(number: int) -> Four:
    return number, number, number, number


def four(numbers: tuple[int, ...]) -> Four:
    a, b, c, d = numbers
    return a, b, c, d


def spell(numbers: Four) -> str:
    return "".join(map(str, numbers))


def intervals(data: Four) -> list[Four]:
    """Those that matter most: the largest safe ones, and the smallest."""
    return sorted({all_edges(0), *map(four, largest_safe(data))})


def check(*models: Model, at_least: int) -> None:
    """Nothing is wrong in any state of any of the models, and there is a plausible number of states."""
    found = [explore(model) for model in models]
    for model, each in zip(models, found, strict=True):
        assert each.is_right, f"{model}: {each.story()}"
        assert each.ends > 0
    states, steps = sum(each.states for each in found), sum(each.steps for each in found)
    print(f"\n{len(models)} cases, {states} states, {steps} steps", end="")
    assert states > at_least


def stuck(model: Model) -> tuple[str, ...]:
    """Explore a model that must come to a deadlock; the nodes that wait for each other there."""
    found = explore(model)
    assert found.verdict == "deadlock", f"{model}: {found.verdict}, {found.states} states"
    return blocking_cycle(model, found.path[-1])


# --- nothing stops, all is precise -----------------------------------------------------------------------------------


def test_all_queues_of_one() -> None:
    """Four indices, up to two control messages."""
    check(Model(all_edges(1), all_edges(1), all_edges(0), INDICES, COMMONS), at_least=1_000_000)


def test_all_queues_of_two() -> None:
    """Four indices, up to one control message."""
    check(Model(all_edges(2), all_edges(1), all_edges(1), INDICES, 1), at_least=500_000)


@pytest.mark.parametrize("data", CAPACITIES, ids=spell)
def test_mixed_queues(data: Four) -> None:
    """Two indices, up to two control messages, the largest intervals and none, control queues of one."""
    check(*(Model(data, all_edges(1), h, 2, COMMONS) for h in intervals(data)), at_least=20_000)


@pytest.mark.parametrize("indices", [1, 2, 3])
def test_an_earlier_end(indices: int) -> None:
    check(Model(all_edges(2), all_edges(2), all_edges(1), indices, 1), at_least=20 * 10**indices)


@pytest.mark.long
@pytest.mark.parametrize("control", [1, 2])
@pytest.mark.parametrize(("data", "interval"), [(q, h) for q in CAPACITIES for h in intervals(q)], ids=spell)
def test_every_interleaving(data: Four, interval: Four, control: int) -> None:
    """Four indices, up to two control messages, every capacity of one and two, the largest intervals and none."""
    check(Model(data, all_edges(control), interval, INDICES, COMMONS), at_least=1_000_000)


VARIANTS = {
    "a receiver that looks only when it has no credit": {"eager": 0},
    "heartbeats always merged": {"merge": ALWAYS},
    "messages for one side": {"asides": 1},
    "emissions that block one by one": {"blocking": 1},
    "emissions that block one by one, the other edge first": {"blocking": 1, "order": UW},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_ways_to_run_it(variant: str) -> None:
    models = [Model(all_edges(q), all_edges(1), all_edges(q - 1), 2, 1, **VARIANTS[variant]) for q in (1, 2)]
    check(*models, at_least=10_000)


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("data", CAPACITIES, ids=spell)
def test_other_ways_with_mixed_queues(data: Four, variant: str) -> None:
    """The two sides exchanged as well, because only v gets messages for one side."""
    turned = (*data[2:], *data[:2])
    indices = 2 if "blocking" in VARIANTS[variant] else 3
    models = [
        Model(four(each), all_edges(c), h, indices, 1, **VARIANTS[variant])
        for each in sorted({data, turned})
        for h in intervals(four(each))
        for c in (1, 2)
    ]
    check(*models, at_least=100_000)


# --- and not by chance -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", CAPACITIES, ids=spell)
def test_an_interval_one_too_large_stops(data: Four) -> None:
    """The inequalities are tight: whichever of the largest safe intervals is raised by one, there is a deadlock.

    If the interval is not too large for its own queue, the whole cycle waits. For that a message for v alone is needed
    where two intervals are alike, since otherwise u's heartbeats and v's fall on the same indices, and the one delay
    does not add to the other.
    """
    for h, e in product(largest_safe(data), range(4)):
        raised = four(tuple(each + (k == e) for k, each in enumerate(h)))
        assert is_safe(data, h) and not is_safe(data, raised)
        is_local = raised[e] >= data[e]
        cycle = set(stuck(Model(data, all_edges(2), raised, INDICES, asides=int(not is_local))))
        assert cycle == set("uvwx") or (is_local and cycle == set(EDGES[e])), (h, EDGES[e])


def test_an_interval_one_too_large_for_the_cycle_stops_without_any_message() -> None:
    """1 + 2 on u, v, x against 1 + 2 places on u, w, x: heartbeats at 2, 4, … and at 4, … leave x without word of 3."""
    data, safe, raised = (2, 3, 1, 2), (1, 1, 0, 1), (1, 2, 0, 1)
    assert is_safe(data, safe) and not is_safe(data, raised)
    assert stuck(Model(data, all_edges(2), raised, INDICES)) == ("u", "w", "x", "v")
    check(Model(data, all_edges(2), safe, INDICES), at_least=100_000)


@pytest.mark.parametrize("edge", [UV, VX, UW, WX])
def test_an_interval_one_too_large_stops_two_ends(edge: int) -> None:
    raised = four(tuple(1 + (e == edge) for e in range(4)))
    assert set(stuck(Model(all_edges(2), all_edges(2), raised, INDICES))) == set(EDGES[edge])


def test_a_dummy_not_sent() -> None:
    cycle = stuck(Model(all_edges(1), all_edges(1), all_edges(0), INDICES, 1, fault=NO_DUMMY))
    assert set(cycle) == set("uvwx")


def test_a_credit_not_flushed() -> None:
    assert len(stuck(Model(all_edges(2), all_edges(2), all_edges(1), INDICES, 1, fault=NO_FLUSH))) == 2


WRONG_JOINS = {
    "a missing side is dropped": (DROP_MISSING, "something did not arrive"),
    "no wait for a side": (NO_WAIT, "a token is computed after its index, or after a control message behind it"),
    "handed on at the first side": (
        FIRST_SIDE,
        "a token is computed after its index, or after a control message behind it",
    ),
    "acted upon before its tokens": (
        EARLY_ACTION,
        "a token is computed after its index, or after a control message behind it",
    ),
}


@pytest.mark.parametrize("name", WRONG_JOINS)
def test_a_wrong_join(name: str) -> None:
    fault, verdict = WRONG_JOINS[name]
    found: Explored = explore(Model(all_edges(2), all_edges(2), all_edges(1), 3, 1, fault=fault))
    assert found.verdict == verdict
    assert verdict in VERDICTS and found.story().count("\n") == len(found.path)


def test_a_message_without_room() -> None:
    assert explore(Model(all_edges(2), all_edges(1), all_edges(1), 2, 2, fault=NO_ROOM)).verdict == VERDICTS[OVERFULL]


# --- the deadlocks of the paper --------------------------------------------------------------------------------------


@pytest.mark.parametrize("speech", [THRESHOLD, SILENT])
@pytest.mark.parametrize("q", [1, 2])
def test_figure_3(speech: int, q: int) -> None:
    """Without heartbeats, with credits only where a queue is full of tokens that have none, or with none at all: u is
    blocked by v and v by x, whose queues are full; x lacks the word of w, and w that of u."""
    model = Model(all_edges(q), all_edges(2), all_edges(0), 2 * q + 1, speech=speech)
    if speech == THRESHOLD:
        assert stuck(model) in {("u", "v", "x", "w"), ("u", "w", "x", "v")}
    else:
        assert len(stuck(model)) == 2  # the sender and the receiver of the first queue that is full


def test_figure_3_with_heartbeats() -> None:
    check(Model(all_edges(1), all_edges(2), all_edges(0), 3), at_least=10_000)


SIDE = (1, 1, 0, 0)
"""Every computation of u and of v is followed by a message for the receiver on this side: m = 1."""


def test_full_control_channels() -> None:
    """Section 4.3: v's messages fill its control queue to x, which waits for w; u's fill that to v, before u may tell
    w anything. (The paper's text has u fill the queue to w, but nothing keeps w from emptying that one.)"""
    model = Model(all_edges(3), all_edges(1), all_edges(2), INDICES, bursts=SIDE)
    assert stuck(model) == ("u", "v", "x", "w")
    check(model._replace(interval=all_edges(0)), at_least=50_000)
    check(model._replace(control=all_edges(4), indices=3), at_least=20_000)


def test_full_control_channels_where_emissions_block() -> None:
    """As in the paper: more messages behind one index than the control queues hold, so that it takes one index only."""
    model = Model(all_edges(2), all_edges(1), all_edges(1), 3, bursts=(2, 2, 0, 0), blocking=1)
    assert stuck(model) == ("u", "v", "x", "w")
    assert stuck(model._replace(order=UW)) == ("u", "v", "x", "w")
    check(model._replace(control=all_edges(5), indices=2), at_least=10_000)


@pytest.mark.long
def test_large_control_channels_are_not_full() -> None:
    """Capacities above m·q, with messages on one side and on both."""
    for bursts in (SIDE, (1, 1, 1, 1)):
        check(Model(all_edges(3), all_edges(4), all_edges(2), INDICES, bursts=bursts), at_least=100_000)
    check(Model(all_edges(2), all_edges(5), all_edges(1), 3, bursts=(2, 2, 0, 0), blocking=1), at_least=1_000_000)


def test_interval_0_needs_more_than_the_paper_says_where_emissions_block() -> None:
    """Theorem 4.5 (interval 0 suffices for any number of messages) is right if u tells w its index before it waits for
    room towards v. If it serves v first, as algorithm 4 may, it is stuck there and w never hears of index 1. A node
    that begins nothing without room in *all* its outputs cannot come into this state."""
    model = Model(all_edges(2), all_edges(1), all_edges(0), 2, bursts=(2, 2, 0, 0), blocking=1)
    assert stuck(model) == ("u", "v", "x", "w")
    check(model._replace(order=UW), at_least=10_000)
    check(model._replace(blocking=0, control=all_edges(2)), at_least=1_000)
