"""Every state that the diamond can come to, breadth first, and what is wrong in the first bad one.

The search is exhaustive: every interleaving of the nodes' steps, every choice of what is dropped and of where control
messages are placed. States are kept as they are (no hashing away of collisions), so a count is the true count.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from tests.protocol.blocking import describe
from tests.protocol.model import SIZE, STUCK, VERDICTS, WRONG, Model, State, compiled, is_final
from tests.protocol.steps import MOST_CHOICES, starts, successors

WORDS = SIZE // 8
ROOM = 1 << 16


@dataclass(frozen=True, slots=True)
class Explored:
    """What an exploration found: how much there is, and the first bad state with the way there, if there is one."""

    states: int
    steps: int
    ends: int
    verdict: str
    path: tuple[State, ...] = ()

    @property
    def is_right(self) -> bool:
        return self.verdict == VERDICTS[0]

    def story(self) -> str:
        """The way to the bad state, a line a state."""
        return "\n".join([self.verdict, *map(describe, self.path)])


class Store:
    """All states seen, in the order in which they were found, with where each was reached from, and an index of them.

    Invariants: at least half of `slots` is free, and a slot holds a state's number, or -1. State 0 is no state of the
    diamond but the moment before it, from which all first states are reached.
    """

    def __init__(self, room: int) -> None:
        self.rows = np.zeros((room, SIZE), np.uint8)
        self.parents = np.full(room, -1, np.int32)
        self.slots = np.full(2 * room, -1, np.int32)

    def grown(self, count: int) -> Store:
        made = Store(2 * len(self.rows))
        made.rows[:count], made.parents[:count] = self.rows[:count], self.parents[:count]
        fill(made.words, made.slots, count)
        return made

    @property
    def words(self) -> Any:
        return self.rows.view(np.uint64)

    def path(self, number: int) -> tuple[State, ...]:
        path = []
        while number > 0:
            path.append(self.rows[number].astype(np.int64))
            number = int(self.parents[number])
        return tuple(reversed(path))


@compiled
def is_same(words: Any, number: int, word: Any) -> bool:
    for k in range(WORDS):  # noqa: SIM110 (Numba compiles a plain loop much faster)
        if words[number, k] != word[k]:
            return False
    return True


@compiled
def slot_of(words: Any, slots: Any, word: Any) -> int:
    """The slot that holds this state, or the free one where it belongs."""
    h = np.uint64(0)
    for k in range(WORDS):
        h = (h ^ word[k]) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    at = np.int64(h & np.uint64(len(slots) - 1))
    while slots[at] >= 0 and not is_same(words, slots[at], word):
        at = (at + 1) & (len(slots) - 1)
    return at


@njit(error_model="numpy")
def fill(words: Any, slots: Any, count: int) -> None:
    for number in range(count):
        slots[slot_of(words, slots, words[number])] = number


@compiled
def add(rows: Any, words: Any, parents: Any, slots: Any, count: int, parent: int) -> int:
    """Keep the state that stands behind the last one, unless it is known; the new count."""
    slot = slot_of(words, slots, words[count])
    if slots[slot] >= 0:
        return count
    slots[slot] = count
    parents[count] = parent
    return count + 1


def searcher(digest: str) -> Any:
    """The compiled search. Numba keeps it on disk by what the function closes over, not by what it calls, so it closes
    over a digest of all that it calls."""

    @njit(error_model="numpy", cache=True)
    def advance(m: Model, rows: Any, words: Any, parents: Any, slots: Any, at: Any) -> int:
        """Go on until all states are done, a bad one is found or there is no more room; the bad state's verdict, or 0.

        `at` holds the next state to do, and the numbers of states, of steps and of final states.
        """
        s, out = np.zeros(SIZE, np.int64), np.zeros((MOST_CHOICES, SIZE), np.int64)
        while len(digest) > 0 and at[0] < at[1] and at[1] + MOST_CHOICES < len(rows):
            for k in range(SIZE):
                s[k] = rows[at[0], k]
            if s[WRONG] != 0:
                return s[WRONG]
            n = successors(m, s, out) if at[0] > 0 else starts(m, out)
            if n == 0 and not is_final(s):
                return STUCK
            at[3] += n == 0
            for choice in range(n):
                for k in range(SIZE):
                    rows[at[1], k] = out[choice, k]
                at[1] = add(rows, words, parents, slots, at[1], at[0])
            at[2] += n
            at[0] += 1
        return 0

    return advance


SOURCES = [Path(__file__).with_name(name) for name in ("model.py", "steps.py", "explore.py")]
advance = searcher(sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest())


def explore(model: Model) -> Explored:
    """All states of one case, or those up to the first bad one."""
    store, at = Store(ROOM), np.array([0, 1, 0, 0])
    verdict = 0
    while verdict == 0 and at[0] < at[1]:
        verdict = advance(model, store.rows, store.words, store.parents, store.slots, at)
        if verdict == 0 and at[0] < at[1]:
            store = store.grown(int(at[1]))
    path = store.path(int(at[0])) if verdict else ()
    return Explored(int(at[1]), int(at[2]), int(at[3]), VERDICTS[verdict], path)


def is_safe(data: tuple[int, ...], interval: tuple[int, ...]) -> bool:
    """Inequalities (3), (4) and (5) of the paper for the diamond's one cycle: u, v, x one way and u, w, x the other."""
    (uv, vx, uw, wx), q = interval, data
    return uv + vx < q[2] + q[3] and uw + wx < q[0] + q[1] and all(h < c for h, c in zip(interval, q, strict=True))


def largest_safe(data: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All intervals that are safe, of which none can be made larger by itself."""
    safe = [h for h in product(*(range(q) for q in data)) if is_safe(data, h)]
    larger = {h: [tuple(a + (k == e) for k, a in enumerate(h)) for e in range(4)] for h in safe}
    return [h for h in safe if not any(is_safe(data, more) for more in larger[h])]
