"""Random nets: any, with choice, weights and priorities; and marked graphs, in which nothing is chosen."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import strategies as st

from penstock.tune.model.net import Constant, Drawn, Net, Place, Time, Traced, Transition

NUMBERS = st.sampled_from([0, 0, 1, 1, 2, 3, 5, Fraction(1, 2), Fraction(2, 3)])
SOME = st.lists(NUMBERS, min_size=1, max_size=3).map(tuple)
CONSTANTS: st.SearchStrategy[Time] = NUMBERS.map(Constant)
TIMES: st.SearchStrategy[Time] = st.one_of(NUMBERS.map(Constant), SOME.map(Drawn), SOME.map(Traced))


@st.composite
def nets(draw: st.DrawFn, times: st.SearchStrategy[Time] = TIMES) -> Net:
    """Any net: places that several take from and give to, weights, priorities, and all kinds of times."""
    places = [Place(f"p{n}", draw(st.integers(0, 4))) for n in range(draw(st.integers(1, 5)))]
    names = st.sampled_from([place.name for place in places])
    takes = st.dictionaries(names, st.sampled_from([1, 1, 1, 2, 3]), min_size=1, max_size=3)
    gives = st.dictionaries(names, st.sampled_from([1, 1, 1, 2, 3]), max_size=3)
    transitions = [
        Transition(f"t{n}", draw(times), draw(takes), draw(gives), draw(st.sampled_from([0, 0, 1])))
        for n in range(draw(st.integers(1, 6)))
    ]
    return Net(tuple(places), tuple(transitions))


@st.composite
def resource_nets(draw: st.DrawFn, times: st.SearchStrategy[Time] = CONSTANTS) -> Net:
    """A net that never runs out of tokens nor piles them up: transitions go from state to state of a few processes,
    and borrow shared resources, as tasks do cores."""
    states = [Place(f"s{n}", draw(st.integers(0, 2))) for n in range(draw(st.integers(2, 4)))]
    states[0] = Place("s0", draw(st.integers(1, 3)))
    shared = [Place(f"r{n}", draw(st.integers(1, 2))) for n in range(draw(st.integers(1, 2)))]
    transitions = []
    for n in range(draw(st.integers(len(states), len(states) + 3))):
        source = n % len(states)
        target = (source + 1) % len(states) if n < len(states) else draw(st.integers(0, len(states) - 1))
        held = draw(st.sets(st.sampled_from([place.name for place in shared]), max_size=2))
        ends = [dict.fromkeys([f"s{at}", *sorted(held)], 1) for at in (source, target)]
        time = Constant(draw(st.sampled_from([1, 2, 3, Fraction(1, 2)]))) if n % 2 == 0 else draw(times)
        if target <= source and 0 in time.values:  # or tokens could go round without time passing
            time = Constant(1)
        transitions.append(Transition(f"t{n}", time, *ends, draw(st.sampled_from([0, 0, 1]))))
    return Net((*states, *shared), tuple(transitions))


@st.composite
def marked_graphs(draw: st.DrawFn) -> Net:
    """A strongly connected net in which each place has one producer and one consumer, with weights that balance."""
    many = draw(st.integers(1, 6))
    rounds = [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in range(many)]
    ends = [(n, (n + 1) % many) for n in range(many)]
    ends += draw(st.lists(st.tuples(st.integers(0, many - 1), st.integers(0, many - 1)), max_size=6))
    places: list[Place] = []
    takes: list[dict[str, int]] = [{} for _ in range(many)]
    gives: list[dict[str, int]] = [{} for _ in range(many)]
    for source, target in ends:
        shared = math.gcd(rounds[source], rounds[target])
        # enough for a round on every arc that goes back, so that each cycle can turn
        least = 0 if source < target else rounds[source] * rounds[target]
        place = Place(f"p{len(places)}", least + draw(st.integers(0, 3)))
        places.append(place)
        gives[source][place.name] = rounds[target] // shared
        takes[target][place.name] = rounds[source] // shared
    times = [draw(NUMBERS) for _ in range(many)]
    times[0] = draw(st.sampled_from([1, 2, Fraction(1, 3)]))
    return Net(tuple(places), tuple(Transition(f"t{n}", times[n], takes[n], gives[n]) for n in range(many)))
