"""The credit protocol against the plain way to say it: a list of items and marks in the order they were sent in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernels.credit import CREDIT, SIGNAL
from penstock.kernels.protocol import protocol

DEPTH, TYPES = 2, 2
KINDS = (0, 1, 2, 3, SIGNAL, SIGNAL + 1, CREDIT)
MARKS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 4)), max_size=8)
COUNTS = st.lists(st.integers(0, 9), min_size=DEPTH + TYPES, max_size=DEPTH + TYPES)
ITEM = None
quick = settings(max_examples=300, deadline=None)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "compiled"])
def functions(request: pytest.FixtureRequest) -> SimpleNamespace:
    return protocol(request.param)


def array(values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def queue(marks: list[tuple[int, int]], first: int) -> tuple[np.ndarray, np.ndarray]:
    """The arrays of a control queue that begins at a place; what lies around it must not matter."""
    around = [(0, 99)]
    kinds, credits = zip(*around * first, *marks, *around, strict=True)
    return array(kinds), array(credits)


def sent(marks: list[tuple[int, int]], current: int) -> list[int | None]:
    """Items, and the numbers of marks, in the order in which they were sent."""
    stream: list[int | None] = [ITEM] * current
    for number, (_, credit) in enumerate(marks):
        stream += [*[ITEM] * credit, number]
    return stream


# What a sender grants


@quick
@given(places=st.lists(st.integers(0, 5), max_size=8), before=st.integers(0, 5), first=st.integers(0, 3))
def test_a_credit_counts_the_items_since_the_mark_before(
    functions: SimpleNamespace, places: list[int], before: int, first: int
) -> None:
    at = before + np.cumsum(array(places))
    credits = np.concatenate((array([99] * first), at, array([99])))
    last = functions.grant(credits, first, first + len(at), before)
    assert last == (at[-1] if len(at) else before)
    assert credits[first : first + len(at)].tolist() == np.diff(at, prepend=before).tolist()
    assert credits[:first].tolist() == [99] * first and credits[-1] == 99


# What a receiver may take


def takes(
    marks: list[tuple[int, int]], current: int, most: int, trusts: bool, spans: bool, rows: list[int]
) -> tuple[int, list[tuple[int, int]]]:
    """One by one: how many items are taken, and each mark's place and row."""
    stream = sent(marks, current) + ([ITEM] * most if trusts else [])
    taken, has_passed, found = 0, False, []
    for token in stream:
        if token is ITEM:
            if taken == most or (has_passed and not spans):
                break
            taken += 1
            continue
        kind = marks[token][0]
        has_passed = has_passed or kind != CREDIT
        is_row = kind >= SIGNAL or (kind >= 0 and kind % 2 == 0)
        count = DEPTH + kind - SIGNAL if kind >= SIGNAL else kind // 2
        found.append((taken, rows[count] if is_row else 0))
        if is_row:
            rows[count] += 1
    return taken, found


@quick
@given(
    marks=MARKS,
    first=st.integers(0, 3),
    current=st.integers(0, 4),
    start=st.integers(0, 5),
    most=st.integers(0, 20),
    trusts=st.booleans(),
    spans=st.booleans(),
    rows=COUNTS,
)
def test_what_may_be_taken(
    functions: SimpleNamespace,
    marks: list[tuple[int, int]],
    first: int,
    current: int,
    start: int,
    most: int,
    trusts: bool,
    spans: bool,
    rows: list[int],
) -> None:
    current = current if marks else 0  # a receiver that has passed all marks has spent its credit
    kinds, credits = queue(marks, first)
    places, references, next_rows = np.zeros(len(kinds), np.int64), np.zeros(len(kinds), np.int64), array(rows)
    last, kept = first + len(marks), credits.copy()
    items, passed = functions.arrange(
        kinds, credits, first, last, current, start, most, trusts, spans, DEPTH, next_rows, places, references
    )
    wanted_items, wanted = takes(marks, current, most, trusts, spans, rows)
    assert (items, passed) == (wanted_items, len(wanted))
    found = [(int(places[at]) - start, int(references[at])) for at in range(first, first + passed)]
    assert found == wanted
    assert credits.tolist() == kept.tolist()


# What it has then taken


@quick
@given(marks=MARKS, first=st.integers(0, 3), current=st.integers(0, 4), done=st.integers(0, 60), free=st.integers(0, 3))
def test_the_credit_left_reaches_to_the_next_mark(
    functions: SimpleNamespace, marks: list[tuple[int, int]], first: int, current: int, done: int, free: int
) -> None:
    """After any part of the stream, and after items that were taken freely where no mark is queued."""
    stream = sent(marks, current)
    before, after = stream[:done], stream[done:]
    passed = [marks[token][0] for token in before if token is not ITEM]
    items = sum(token is ITEM for token in before) + (0 if after else free)
    kinds, credits = queue(marks, first)
    counts = np.zeros(2 * DEPTH + TYPES, np.int64)
    last = first + len(marks)
    left = functions.settle(kinds, credits, first, last, current, items, len(passed), DEPTH, counts)

    next_mark = next((at for at, token in enumerate(after) if token is not ITEM), len(after))
    assert left == next_mark
    if len(passed) < len(marks):  # what the next mark carried is the receiver's now
        assert credits[first + len(passed)] == 0
        assert credits[first + len(passed) + 1 : last].tolist() == [credit for _, credit in marks[len(passed) + 1 :]]
    closed, opened = [passed.count(1), passed.count(3)], [passed.count(0), passed.count(2)]
    signals = [passed.count(SIGNAL), passed.count(SIGNAL + 1)]
    assert counts.tolist() == [*closed, *signals, *opened]
