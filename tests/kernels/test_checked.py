"""Integers in compiled functions are Python's, or there is an error: compared with Python itself on random numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernels.compile import snapshot

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70) | st.sampled_from([2**31, 2**32, 2**62, -(2**62)])
FITS = range(-(2**63), 2**63)

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "divmod": lambda a, b: divmod(a, b)[0],
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "-": lambda a: -a,
    "~": lambda a: ~a,
    "abs": lambda a: abs(a),
    "square": lambda a: a**2,
    "round": lambda a: round(a),
}


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        result = function(*arguments)
    except (OverflowError, ZeroDivisionError, ValueError) as error:
        return type(error)
    return result if not isinstance(result, int) or result in FITS else OverflowError


@pytest.mark.parametrize("name", BINARY)
def test_binary_operators(name: str) -> None:
    compiled = snapshot(BINARY[name]).compiled
    small = st.integers(-3, 80) if name in ("<<", ">>") else INT64

    @settings(max_examples=200, deadline=None)
    @given(INT64, small)
    def agrees(a: int, b: int) -> None:
        assert outcome(compiled, a, b) == outcome(BINARY[name], a, b)

    agrees()


@pytest.mark.parametrize("name", UNARY)
def test_unary_operators(name: str) -> None:
    compiled = snapshot(UNARY[name]).compiled

    @settings(max_examples=200, deadline=None)
    @given(INT64)
    def agrees(a: int) -> None:
        assert outcome(compiled, a) == outcome(UNARY[name], a)

    agrees()


CUTS = [lambda x: int(x), lambda x: math.floor(x), lambda x: math.ceil(x), lambda x: math.trunc(x), lambda x: round(x)]


@pytest.mark.parametrize("function", CUTS)
def test_from_float_to_int(function: Callable[[float], int]) -> None:
    compiled = snapshot(function).compiled

    @settings(max_examples=200, deadline=None)
    @given(st.floats(allow_nan=True, allow_infinity=True) | st.floats(-100, 100))
    def agrees(x: float) -> None:
        assert outcome(compiled, x) == outcome(function, x)

    agrees()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 255), min_size=2, max_size=2))
def test_small_unsigned_numbers_do_not_wrap(pair: list[int]) -> None:
    difference = snapshot(_difference).compiled
    assert difference(np.array(pair, np.uint8)) == pair[0] - pair[1]


def _difference(a: Any) -> Any:
    return a[0] - a[1]


def test_what_is_asked_for_by_name_wraps() -> None:
    """`np.uint64` is how one writes a hash function."""
    mixed = snapshot(lambda a: np.int64((np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(60))).compiled
    assert mixed(7) == ((7 * 0x9E3779B97F4A7C15) % 2**64) >> 60


def test_floats_and_arrays_are_left_alone() -> None:
    assert snapshot(lambda x: x * 2.5 - 1.0).compiled(2.0) == 4.0
    doubled = snapshot(lambda v: v + v).compiled(np.array([1.5, 2.5]))
    assert doubled.tolist() == [3.0, 5.0]


def test_in_place_operators() -> None:
    def added(n: int) -> int:
        total = 2**62
        for _ in range(n):
            total += 2**62
        return total

    compiled = snapshot(added).compiled
    assert compiled(0) == 2**62
    with pytest.raises(OverflowError):
        compiled(1)


def test_every_operator_has_its_twin_in_place() -> None:
    from penstock.kernels import checked

    assert set(checked._IN_PLACE.values()) == set(checked._EXACT)
    assert all(getattr(operator, f"i{op.__name__.rstrip('_')}") in checked._IN_PLACE for op in checked._EXACT)
