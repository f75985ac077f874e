"""The fast event loop against a slow, plain interpreter of the same rules, and against what must always hold."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tune.model.nets import NUMBERS, marked_graphs, nets, resource_nets
from tests.tune.model.plain import Plain

from penstock.errors import ModelError
from penstock.tune.model import event_loop
from penstock.tune.model.net import Constant, Drawn, Net, Place, Traced, Transition
from penstock.tune.model.simulate import NetSimulation, simulate

MOST = 120


def plain_firings(net: Net, seed: int) -> tuple[list[tuple[str, Fraction, Fraction]], bool]:
    """The first firings by the plain rules, and whether the net stopped by itself."""
    plain = Plain(net, seed, most=MOST)
    stopped = True
    for _ in plain.instants():
        if len(plain.firings) >= MOST:
            stopped = False
            break
    return plain.firings[:MOST], stopped


@settings(max_examples=300)
@given(net=st.one_of(nets(), resource_nets(), marked_graphs()), seed=st.integers(0, 3))
def test_the_loop_does_what_the_rules_say(net: Net, seed: int) -> None:
    expected, stopped = plain_firings(net, seed)
    machine = NetSimulation(net, seed, frozenset(t.name for t in net.transitions), MOST)
    machine.burst = MOST
    try:
        why = machine.advance(MOST)
        assert (why == event_loop.STOPPED) == stopped or len(expected) == MOST
        end = machine.mark()
    except ModelError:  # without time passing for ever
        end = machine.mark()
    found = [(f.transition, f.start, f.end) for f in machine.run(start_of(net), end, has_stopped=True).log]
    assert found == expected


def start_of(net: Net) -> object:
    return NetSimulation(net, 0, frozenset(), 0).mark()


@settings(max_examples=150)
@given(net=resource_nets())
def test_a_period_goes_on_for_ever(net: Net) -> None:
    try:
        run = simulate(net, firings=20_000)
    except ModelError as error:
        assert "none can" in str(error)
        return
    assert run.is_periodic
    before, after = simulate(net, until=run.end), simulate(net, until=run.end + 3 * run.time)
    for transition in net.transitions:
        assert after.count(transition.name) - before.count(transition.name) == 3 * run.count(transition.name)
        assert after.running(transition.name) * after.end - before.running(transition.name) * before.end == (
            3 * run.running(transition.name) * run.time
        )
    for place in net.places:
        assert (
            after.mean(place.name) * after.end - before.mean(place.name) * before.end
            == 3 * run.mean(place.name) * run.time
        )


def invariants(net: Net) -> list[list[Fraction]]:
    """A basis of the weights of places for which no firing changes the weighted sum of the tokens."""
    rows = []
    for transition in net.transitions:
        row = [Fraction(0)] * len(net.places)
        for sign, arcs in ((-1, transition.takes), (1, transition.gives)):
            for name, weight in arcs:
                row[net.number[name]] += sign * weight
        rows.append(row)
    pivots: list[int] = []
    reduced: list[list[Fraction]] = []
    for row in rows:
        for pivot, known in zip(pivots, reduced, strict=True):
            row = [a - row[pivot] * b for a, b in zip(row, known, strict=True)]
        pivot = next((at for at, value in enumerate(row) if value), None)
        if pivot is None:
            continue
        row = [value / row[pivot] for value in row]
        reduced = [[a - known[pivot] * b for a, b in zip(known, row, strict=True)] for known in reduced]
        pivots.append(pivot)
        reduced.append(row)
    free = [at for at in range(len(net.places)) if at not in pivots]
    basis = []
    for at in free:
        weights = [Fraction(int(place == at)) for place in range(len(net.places))]
        for pivot, known in zip(pivots, reduced, strict=True):
            weights[pivot] = -known[at]
        basis.append(weights)
    return basis


@settings(max_examples=150)
@given(
    net=st.one_of(resource_nets(st.one_of(NUMBERS.map(Constant))), marked_graphs(), nets()), firings=st.integers(1, 200)
)
def test_tokens_are_conserved_on_every_place_invariant(net: Net, firings: int) -> None:
    machine = NetSimulation(net, 0, frozenset(), 0)
    machine.burst = 500
    with contextlib.suppress(ModelError):  # where time does not pass for ever: then too
        machine.advance(firings)
    end = machine.mark()
    tokens = [int(count) for count in end.tokens]
    for who in end.running[0]:  # what a firing has taken counts until it gives
        for name, weight in net.transitions[int(who)].takes:
            tokens[net.number[name]] += weight
    for weights in invariants(net):
        first = sum(w * place.tokens for w, place in zip(weights, net.places, strict=True))
        assert sum(w * count for w, count in zip(weights, tokens, strict=True)) == first


def test_a_random_net_has_invariants() -> None:
    ring = Net(
        (Place("a", 1), Place("b")), (Transition("t", 1, {"a": 1}, {"b": 2}), Transition("u", 1, {"b": 2}, {"a": 1}))
    )
    assert invariants(ring) == [[Fraction(2), Fraction(1)]]


# Times


def worker(time: object, servers: int = 1) -> Net:
    return Net((Place("idle", servers),), (Transition("work", time, {"idle": 1}, {"idle": 1}),))  # type: ignore[arg-type]


def test_a_trace_is_repeated_in_its_order() -> None:
    run = simulate(worker(Traced((1, 2, 3))), until=10, log=5)
    assert [firing.end - firing.start for firing in run.log] == [1, 2, 3, 1, 2]


def test_a_drawn_time_has_the_mean_of_what_was_measured() -> None:
    run = simulate(worker(Drawn((1, 2, 6))), firings=30_000)
    assert abs(float(run.rate("work")) - 1 / 3) < 0.005
    assert not run.is_periodic


def test_the_seed_decides_what_is_drawn() -> None:
    times = Drawn(tuple(range(1, 50)))
    runs = [simulate(worker(times), firings=100, seed=seed, log=100).log for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_what_one_transition_draws_does_not_depend_on_the_others() -> None:
    times = Drawn(tuple(range(1, 50)))
    other = Transition("other", times, {"idle too": 1}, {"idle too": 1})
    more = Net((Place("idle too", 1), *worker(times).places), (other, *worker(times).transitions))
    alone, among = (simulate(net, firings=100, log=20, logged=["work"]).log for net in (worker(times), more))
    assert alone[:20] == among[:20]


def test_a_token_for_each_firing_lets_them_overlap() -> None:
    assert simulate(worker(3, servers=2)).rate("work") == Fraction(2, 3)
    assert simulate(worker(3, servers=2)).running("work") == 2


def test_round_robin_and_permanent_priority() -> None:
    def net(priority: int) -> Net:
        core = {"core": 1}
        return Net((Place("core", 1),), (Transition("a", 1, core, core), Transition("b", 1, core, core, priority)))

    assert simulate(net(0)).rate("b") == Fraction(1, 2)
    assert simulate(net(1)).rate("b") == 0


def test_more_firings_at_a_time_than_there_was_room_for() -> None:
    run = simulate(worker(7, servers=5000))
    assert run.rate("work") == Fraction(5000, 7)


# Size


def test_a_net_of_100_000_transitions() -> None:
    many = 100_000
    places = tuple(Place(f"p{n}", int(n % 10 == 0)) for n in range(many))
    ring = tuple(Transition(f"t{n}", 1, {f"p{n}": 1}, {f"p{(n + 1) % many}": 1}) for n in range(many))
    run = simulate(Net(places, ring), firings=300_000)
    assert run.is_periodic
    assert run.rate("t0") == Fraction(1, 10)


def test_ten_thousand_that_compete_for_one_token() -> None:
    many = 10_000
    core = {"core": 1}
    net = Net((Place("core", 1),), tuple(Transition(f"t{n}", 1, core, core) for n in range(many)))
    run = simulate(net, firings=50_000)
    assert run.rate("t1234") == Fraction(1, many)


# What goes wrong


def test_a_net_that_stops_names_the_places_that_lack_tokens() -> None:
    chain = Net((Place("supply", 3), Place("made")), (Transition("make", 2, {"supply": 1}, {"made": 1}),))
    with pytest.raises(ModelError, match=r"at time 2 none can, after 3 firings; these places lack tokens: 'supply' "):
        simulate(chain)
    run = simulate(chain, may_stop=True)
    assert run.has_stopped
    assert (run.end, run.tokens_left("made"), run.count("make")) == (2, 3, 3)


def test_time_must_pass() -> None:
    with pytest.raises(ModelError, match=r"time must pass; at time 0 .* firings took no time; .* 'work'"):
        simulate(worker(0))


def test_sums_that_would_not_fit() -> None:
    many = Net((Place("many", 1 << 40), *worker(1).places), (*worker(1).transitions,))
    with pytest.raises(ModelError, match="tokens times ticks must stay below 2⁶²"):
        simulate(many, until=1 << 23)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"firings": 0}, "at least one firing"),
        ({"seed": -1}, "the seed must be in"),
        ({"until": -1}, "must run until a time in"),
        ({"logged": ["x"]}, "only transitions of the net can be logged; got 'x'"),
        ({"may_stop": True, "firings": 10}, "still ran after"),
    ],
)
def test_options_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        simulate(worker(1), **options)  # type: ignore[arg-type]


def test_a_run_knows_only_what_is_in_its_net() -> None:
    run = simulate(worker(1))
    with pytest.raises(ModelError, match="'x' must be a place or a transition of the net"):
        run.rate("x")
    with pytest.raises(ModelError, match="'x' must be a core of the net; it has none"):
        run.utilisation("x")
