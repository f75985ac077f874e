"""The slowest cycle tells the same as the simulator, wherever nothing is chosen."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from tests.tune.model.nets import marked_graphs

from penstock.errors import ModelError
from penstock.tune.model.exact import cycle_rate, rounds, slowest_cycle
from penstock.tune.model.net import Drawn, Net, Place, Transition
from penstock.tune.model.simulate import simulate


@settings(max_examples=200)
@given(net=marked_graphs())
def test_the_simulator_reaches_the_rate_of_the_slowest_cycle(net: Net) -> None:
    run = simulate(net)
    assert run.is_periodic
    for transition in net.transitions:
        assert run.rate(transition.name) == cycle_rate(net, transition.name)


def ring(tokens: tuple[int, ...], times: tuple[int, ...]) -> Net:
    many = len(tokens)
    places = tuple(Place(f"p{n}", count) for n, count in enumerate(tokens))
    return Net(
        places, tuple(Transition(f"t{n}", times[n], {f"p{n}": 1}, {f"p{(n + 1) % many}": 1}) for n in range(many))
    )


def test_a_ring() -> None:
    assert cycle_rate(ring((1, 0, 1), (2, 3, 4)), "t0") == Fraction(2, 9)


def test_the_slowest_cycle_names_its_places() -> None:
    net = Net(
        (Place("idle a", 1), Place("idle b", 1), Place("data"), Place("room", 1)),
        (
            Transition("a", 2, {"idle a": 1, "room": 1}, {"idle a": 1, "data": 1}),
            Transition("b", 3, {"idle b": 1, "data": 1}, {"idle b": 1, "room": 1}),
        ),
    )
    cycle = slowest_cycle(net, "b")
    assert (cycle.time, cycle.tokens, set(cycle.places)) == (5, 1, {"data", "room"})


def test_what_is_not_behind_a_transition_does_not_hold_it_back() -> None:
    net = Net(
        (Place("idle a", 1), Place("idle b", 1), Place("data")),
        (
            Transition("a", 2, {"idle a": 1}, {"idle a": 1, "data": 1}),
            Transition("b", 3, {"idle b": 1, "data": 1}, {"idle b": 1}),
        ),
    )
    assert (cycle_rate(net, "a"), cycle_rate(net, "b")) == (Fraction(1, 2), Fraction(1, 3))


def test_weights_make_rounds() -> None:
    net = Net(
        (Place("data"), Place("room", 6), Place("idle", 1)),
        (
            Transition("a", 1, {"room": 3, "idle": 1}, {"data": 3, "idle": 1}),
            Transition("b", 1, {"data": 2}, {"room": 2}),
        ),
    )
    assert rounds(net) == [2, 3]
    assert cycle_rate(net, "b") == Fraction(3, 2) * cycle_rate(net, "a") == simulate(net).rate("b")


def test_a_large_net() -> None:
    many = 3_000
    tokens = tuple(int(n % 3 == 0) for n in range(many))
    assert cycle_rate(ring(tokens, tuple(range(many))), "t7") == Fraction(sum(tokens), sum(range(many)))


REFUSED = {
    "a choice": (
        Net((Place("p", 1),), (Transition("t", 1, {"p": 1}, {"p": 1}), Transition("u", 1, {"p": 1}))),
        "one producer and one consumer, so that nothing is chosen; not so 'p'; simulate the net instead",
    ),
    "a time that varies": (
        Net((Place("p", 1),), (Transition("t", Drawn((1, 2)), {"p": 1}, {"p": 1}),)),
        "each time must be constant; not so 't'",
    ),
    "no time": (ring((1,), (0,)), "some cycle behind 't0' must take time"),
    "no token": (ring((0, 0), (1, 1)), "these places lack tokens: 'p0', 'p1'|these places lack tokens: 'p1', 'p0'"),
    "weights that do not balance": (
        Net((Place("p", 2),), (Transition("t", 1, {"p": 1}, {"p": 2}),)),
        "place 'p': the weights of a net must balance",
    ),
    "another name": (ring((1, 1), (1, 1)), "'t0' must be a transition of the net"),
}


@pytest.mark.parametrize(("net", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_exact_rate(net: Net, message: str) -> None:
    name = "t" if "t" in net.number else "t0"
    if "'t0' must be" in message:
        with pytest.raises(ModelError, match="'x' must be a transition of the net"):
            cycle_rate(net, "x")
        return
    with pytest.raises(ModelError, match=message):
        cycle_rate(net, name)
