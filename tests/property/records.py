"""States and signals of the random graphs, and what each state does with each signal.

Every handler folds what it saw into the state, and every stateful function shows the state in its result, so that a
signal that comes late, twice or not at all changes the data and not only the list of deliveries.
"""

from __future__ import annotations

from dataclasses import dataclass

import penstock as ps


class Tally(ps.State):
    """A count and a checksum."""

    n: int
    sum: int = 7


class Window(ps.State):
    """Arrays, a float and a boolean."""

    ring: ps.array(int, 4)  # type: ignore[valid-type]
    level: ps.array(float, 2)  # type: ignore[valid-type]
    at: int
    total: float = 0.5
    up: bool = True


class Level(ps.Signal):
    level: int


class Scale(ps.Signal):
    factor: float
    up: bool


class Tick(ps.Signal):
    """A signal without content."""


class Steps(ps.Signal):
    steps: ps.array(int, 3)  # type: ignore[valid-type]


def tally_level(state, signal):
    state.sum = (state.sum * 31 + state.n * 7 + signal.level % 1009) % 1000003


def tally_level_sum(state, signal):
    return (state.sum * 37 + state.n * 5 + signal.level % 1009) % 1000003


def level_n(signal):
    return signal.level % 5


def tally_level_slowly(state, signal):
    state.sum = (state.sum * 3 + state.n + len(format(signal.level, "b"))) % 1000003


def tally_scale(state, signal):
    state.sum = (state.sum * 31 + state.n * 11) % 1000003
    if signal.up and -1000.0 < signal.factor < 1000.0:
        state.sum += int(signal.factor * 8.0)


def tally_tick(state):
    state.sum = (state.sum * 29 + state.n * 13 + 1) % 1000003


def nothing():
    return 0


def tally_steps(state, signal):
    for step in signal.steps:
        state.sum = (state.sum * 31 + step % 1009 + state.n) % 1000003


def window_level(state, signal):
    state.ring[state.at] = (state.ring[state.at] * 31 + signal.level % 1009) % 1000003
    state.up = not state.up


def window_level_at(state, signal):
    return (state.at + signal.level) % 4


def window_scale(state, signal):
    state.level[1] = state.level[0]
    state.level[0] = signal.factor
    state.up = signal.up


def scale_total(signal):
    return signal.factor


def window_scale_total(state, signal):
    return state.total * 0.5 + signal.factor


def window_tick(state):
    state.at = 0
    state.total = state.total * 0.25


def window_steps(state, signal):
    for k in range(3):
        state.ring[k] = (state.ring[k] * 7 + signal.steps[k] % 1009) % 1000003


HANDLERS: dict[tuple[str, str], tuple[str, ...]] = {
    ("Tally", "Level"): ("tally_level", "sum=tally_level_sum", "n=level_n, sum=tally_level_sum", "tally_level_slowly"),
    ("Tally", "Scale"): ("tally_scale",),
    ("Tally", "Tick"): ("tally_tick", "n=nothing"),
    ("Tally", "Steps"): ("tally_steps",),
    ("Window", "Level"): ("window_level", "at=window_level_at"),
    ("Window", "Scale"): ("window_scale", "total=scale_total", "total=window_scale_total"),
    ("Window", "Tick"): ("window_tick", "at=nothing"),
    ("Window", "Steps"): ("window_steps",),
}
"""How a state of a class handles a signal of a class: what may stand after the signal in `.on(Signal, ...)`."""

SIGNALS = ("Level", "Tick", "Scale", "Steps")


@dataclass(frozen=True, slots=True)
class Emittable:
    """A signal that a graph may emit: its fields with the kinds of function that may compute them."""

    signal: str
    values: tuple[tuple[str, str], ...]


EMITTABLE = (
    Emittable("Level", (("level", "i"),)),
    Emittable("Tick", ()),
    Emittable("Scale", (("factor", "f"), ("up", "b"))),
    Emittable("Scale", (("factor", "i"),)),
    Emittable("Steps", ()),
)
