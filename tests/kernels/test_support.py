"""The helpers of loops, each against the plain way to say it; as plain Python and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernels import support

SCOPES = {"plain": support.PLAIN, "compiled": support.compiled_scope()}

BYTES = (
    st.binary(max_size=12)
    | st.text(max_size=6).map(str.encode)
    | st.lists(st.sampled_from(list(range(0x7F, 0x100))), max_size=5).map(bytes)
)


@pytest.fixture(params=SCOPES)
def scope(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SCOPES[request.param]


def test_both_scopes_hold_the_same_names() -> None:
    assert SCOPES["plain"].keys() == SCOPES["compiled"].keys()


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(max_examples=500, deadline=None)
@given(BYTES)
def test_utf8(data: bytes) -> None:
    array = np.frombuffer(data, np.uint8)
    for scope in SCOPES.values():
        assert scope["is_utf8"](array) == is_utf8(data)


def test_a_heap_holds_what_was_put(scope: dict[str, Any]) -> None:
    random = np.random.default_rng(3)
    values = [random.integers(0, 256, size).astype(np.uint8) for size in random.integers(0, 40, 200)]
    offsets, elements = np.zeros(2, np.int64), np.empty(1, np.uint8)
    for count, value in enumerate(values):
        offsets, elements = scope["put"](offsets, elements, count, value)
    assert [elements[offsets[at] : offsets[at + 1]].tobytes() for at in range(len(values))] == [
        v.tobytes() for v in values
    ]


def test_the_same_arrays(scope: dict[str, Any]) -> None:
    a = np.array([1, 2, 3])
    assert scope["same"](a, a.copy())
    assert not scope["same"](a, a[:2])
    assert not scope["same"](a, np.array([1, 2, 4]))
    assert scope["same"](a[:0], a[3:])


@settings(max_examples=300, deadline=None)
@given(
    st.integers(-50, 50), st.integers(1, 9), st.integers(1, 20), st.integers(0, 9), st.sampled_from((None, 0.1, 1 / 3))
)
def test_windows_are_those_that_their_bounds_say(time: Any, every: Any, length: Any, late: Any, unit: Any) -> None:
    """The last that begins at or before a time, and the first that ends, with what is late, behind it."""
    kind = "" if unit is None else "float_"
    if unit is not None:
        time, every, length, late = time * unit, every * unit, length * unit, late * unit
    for scope in SCOPES.values():
        number = scope[f"last_{kind}window"](time, every)
        assert number * every <= time < (number + 1) * every
        number = scope[f"first_{kind}window"](time, every, length, late)
        assert number * every + length + late > time >= (number - 1) * every + length + late
