"""Nets are valid by construction: what cannot be is refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from penstock.errors import ModelError
from penstock.tune.model.constructs import (
    Sketch,
    add_merges,
    arc,
    buffer,
    chain,
    exclusive,
    exposed_latency,
    flexible,
    move,
    next_task,
    portion,
    site,
    supply,
)
from penstock.tune.model.net import Constant, Drawn, Net, Place, Traced, Transition, mean_time
from penstock.tune.model.simulate import simulate

P = Place("p", 1)


def t(**changes: object) -> Transition:
    given = {"name": "t", "time": 1, "takes": {"p": 1}, "gives": {"p": 1}} | changes
    return Transition(**given)  # type: ignore[arg-type]


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "tokens below none": (lambda: Place("p", -1), "place 'p': it must hold 0 or more tokens; got -1"),
    "half a token": (lambda: Place("p", 0.5), "place 'p': it must hold 0 or more tokens; got 0.5"),  # type: ignore[arg-type]
    "a role": (lambda: Place("p", 1, "x"), "the role must be 'data', 'room' or 'core'; got 'x'"),  # type: ignore[arg-type]
    "a float": (lambda: t(time=0.1), "it must be an exact number, an int or a Fraction; got 0.1, a float"),
    "a time below 0": (lambda: t(time=-1), "must not be negative; got -1"),
    "no measured time": (lambda: Drawn(()), "there must be at least one measured time; got none"),
    "no trace": (lambda: Traced(()), "there must be at least one measured time; got none"),
    "nothing taken": (lambda: t(takes={}), "transition 't': it must take from at least one place"),
    "a weight": (lambda: t(takes={"p": 0}), "the weight of an arc must be 1 or more; got 0 at 'p'"),
    "two arcs": (lambda: t(takes=(("p", 1), ("p", 1))), "one arc must lead to each place; 'p' has several"),
    "a priority": (lambda: t(priority=-1), "the priority must be in 0"),
    "a place twice": (
        lambda: Net((P, P), (t(),)),
        "each place must have a name of its own; 'p' is there several times",
    ),
    "a transition twice": (lambda: Net((P,), (t(), t())), "each transition must have a name of its own; 't'"),
    "no transition": (lambda: Net((P,), ()), "it must have at least one transition"),
    "an unknown place": (
        lambda: Net((P,), (t(gives={"q": 1}),)),
        "must lead to places of the net; got 'q'; the net has 'p'",
    ),
    "one name for both": (lambda: Net((P,), (t(name="p"),)), "a place and a transition must not share a name"),
    "a place added twice": (lambda: [sketch := Sketch(), sketch.place("p"), sketch.place("p")], "must be added once"),
    "a transition added twice": (lambda: chain(sketch_of("a"), {"a": 1}), "must be added once"),
    "an arc to nowhere": (lambda: sketch_of("a").take("a", "q"), "place 'q': an arc must begin or end at a place"),
    "an arc from nobody": (lambda: arc(sketch_of("a"), "a", "b"), "transition 'b': an arc must begin or end"),
    "no buffer": (lambda: buffer(sketch_of("a", "b"), "a", "b", 0), "the capacity must be 1 block or more; got 0"),
    "a time of too many ticks": (lambda: simulate(Net((P,), (t(time=1 << 60),))), "must be at most 2⁵⁰"),
    "behind the last": (lambda: behind_the_last(), "its blocks must come from a core that passes them on"),
}


def sketch_of(*names: str) -> Sketch:
    sketch = Sketch()
    chain(sketch, dict.fromkeys(names, 1))
    return sketch


def behind_the_last() -> None:
    sketch = Sketch()
    last, other = site(sketch, "core 1", 1, is_last=True), site(sketch, "core 2", 1)
    next_task(sketch, "b", 1, last, other)


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make()


def test_ticks_divide_every_time() -> None:
    net = Net((P,), (t(time=Fraction(1, 2)), t(name="u", time=Drawn((Fraction(1, 3), 1)))))
    assert net.ticks == 6
    assert not net.is_deterministic and not net.is_choice_free


def test_times() -> None:
    assert mean_time(Traced((1, 2, 6))) == 3
    assert portion(Constant(3), 2) == Constant(Fraction(3, 2))
    assert portion(Drawn((3, 4)), 2) == Drawn((Fraction(3, 2), Fraction(2)))
    assert portion(Traced((3,)), 1) == Traced((3,))


def test_double_buffering_hides_what_the_work_lasts() -> None:
    assert exposed_latency(1000, 56, Fraction(15, 100), Constant(100)) == 106
    assert exposed_latency(1000, 56, Fraction(15, 100), Constant(300)) == 0
    assert exposed_latency(1000, 56, Fraction(15, 100), Constant(300), double_buffering=False) == 206


def test_a_split_into_three_by_permanent_priority() -> None:
    """The first way that has room gets the token: the original first, then the copies in their order."""
    sketch = Sketch()
    chain(sketch, {"make": 1})
    exclusive(sketch, "core", ["make"])
    sketch.give("make", sketch.place("made"))
    ways = {f"to {n}": {"made": sketch.place(f"inlet {n}")} for n in range(3)}
    flexible(sketch, ways)
    sketch.place("out")
    for n, way in enumerate(ways):
        sketch.take(way, sketch.place(f"room {n}", 1, "room"))
        sketch.transition(f"work {n}", 4)
        sketch.take(f"work {n}", f"inlet {n}")
        sketch.give(f"work {n}", f"room {n}")
        sketch.give(f"work {n}", sketch.place(f"outlet {n}"))
    add_merges(sketch, {f"from {n}": {f"outlet {n}": "out"} for n in range(3)})
    sketch.transition("end", 0)
    sketch.take("end", "out")
    run = simulate(sketch.net(), until=20, log=1000, logged=[*ways])
    assert [firing.transition for firing in run.log[:7]] == ["to 0", "to 1", "to 2", "to 0", "to 1", "to 2", "to 0"]


def test_a_move_takes_its_time() -> None:
    sketch = Sketch()
    sketch.place("from", 1)
    sketch.place("to")
    move(sketch, "over", {"from": "to"}, time=5)
    assert simulate(sketch.net(), may_stop=True).end == 5


def test_a_finite_supply_runs_dry() -> None:
    sketch = sketch_of("a", "b")
    for name in ("a", "b"):
        exclusive(sketch, f"core of {name}", [name])
    supply(sketch, "a", 10)
    run = simulate(sketch.net(), may_stop=True)
    assert (run.end, run.count("b")) == (11, 10)
