"""Regions as tags, and back: what is found again is what was sent, however it was cut into ensembles."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernels.credit import SIGNAL
from penstock.kernels.protocol import protocol

Mark = tuple[int, int, int]
"""A kind, the place of the item that it stands before, and the row of its parent or signal."""


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "compiled"])
def functions(request: pytest.FixtureRequest) -> SimpleNamespace:
    return protocol(request.param)


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, list[Mark], int]:
    """A depth, marks of nested regions and signals, and how many items; no item lies outside the innermost region."""
    depth = draw(st.integers(1, 3))
    marks: list[Mark] = []
    opened, level, items = [0] * depth, 0, 0
    for what in draw(st.lists(st.sampled_from(["item", "item", "open", "close", "signal"]), max_size=30)):
        if what == "item" and level == depth:
            items += 1
        elif what == "open" and level < depth:
            marks.append((2 * level, items, opened[level]))
            opened[level] += 1
            level += 1
        elif what == "close" and level > 0:
            level -= 1
            marks.append((2 * level + 1, items, 0))
        elif what == "signal":
            marks.append((SIGNAL, items, 0))
    return depth, marks, items


@settings(max_examples=400, deadline=None)
@given(stream=streams())
def test_what_is_found_again_is_what_was_sent(functions: SimpleNamespace, stream: tuple[int, list[Mark], int]) -> None:
    depth, marks, items = stream
    size = len(marks) + 1
    kinds, places = (np.array([*(mark[part] for mark in marks), 0], np.int64) for part in (0, 1))
    tags, links = np.zeros(items + 1, np.int64), tuple(np.zeros(size, np.int64) for _ in range(depth))
    opened, rows = np.zeros(depth, np.int64), np.zeros(depth, np.int64)
    kept = functions.tag(kinds, places, 0, len(marks), 0, items, depth, opened, tags, links, rows)
    assert opened.tolist() == rows.tolist() == [sum(mark[0] == 2 * level for mark in marks) for level in range(depth)]
    assert kept <= len(marks)

    seen, is_open, base, wanted = (np.zeros(depth, np.int64) for _ in range(4))
    made = [np.zeros(3 * size, np.int64) for _ in range(4)]
    references = np.zeros(size, np.int64)
    count = functions.rebuild(
        kinds, places, references, 0, kept, 0, items, depth, seen, is_open, base, tags, links, wanted, *made
    )
    found = [(int(made[0][at]), int(made[1][at]), int(made[2][at])) for at in range(count)]
    assert found == marks
    assert made[3][:count].tolist() == sorted(made[3][:count].tolist())
    assert count == 0 or made[3][count - 1] == kept


def test_only_boundaries_that_a_signal_or_nothing_follows_are_sent(functions: SimpleNamespace) -> None:
    """Three regions of one item, with a signal before the last."""
    marks = [(0, 0), (1, 1), (0, 1), (1, 2), (SIGNAL, 2), (0, 2), (1, 3)]
    kinds, places = (np.array([mark[part] for mark in marks], np.int64) for part in (0, 1))
    opened, rows, tags = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(4, np.int64)
    kept = functions.tag(kinds, places, 0, len(marks), 0, 3, 1, opened, tags, (np.zeros(4, np.int64),), rows)
    assert tags[:3].tolist() == [0, 1, 2]
    assert (SIGNAL, 2) in list(zip(kinds[:kept].tolist(), places[:kept].tolist(), strict=True))
    assert (kinds[kept - 1], places[kept - 1]) == (1, 3)
    assert kept < len(marks)


def test_marks_are_counted_by_kind(functions: SimpleNamespace) -> None:
    kinds, passed = np.array([0, 2, 3, SIGNAL + 1, -1, 2, 3, 1]), np.zeros(6, np.int64)
    functions.tally(kinds, len(kinds), 2, passed)
    assert passed.tolist() == [1, 2, 0, 1, 1, 2]
