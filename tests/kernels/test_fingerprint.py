"""A function's identity: the same for the same behaviour, another for any other."""

from __future__ import annotations

import math

import numpy as np

from penstock.kernels.fingerprint import fingerprint

TABLE = np.arange(3)
OTHER = np.arange(4)


def helper(v: float) -> float:
    return v + 1


def test_the_same_text_is_the_same_function() -> None:
    assert fingerprint(lambda v: v + 1) == fingerprint(lambda v: v + 1)
    assert fingerprint(lambda v: helper(v)) == fingerprint(lambda v: helper(v))


def test_constants_closures_defaults_and_callees_count() -> None:
    def capturing(k: object) -> object:
        return lambda v: v + k  # type: ignore[operator]

    different = [
        lambda v: v + 1,
        lambda v: v + 2,
        lambda v: v + 1.0,
        lambda v: v - 1,
        lambda v, k=1: v + k,
        lambda v, k=2: v + k,
        lambda v: helper(v),
        lambda v: math.sqrt(v),
        lambda v: math.floor(v),
        lambda v: TABLE[v],
        lambda v: OTHER[v],
        capturing(1),
        capturing(2),
        capturing(True),
        capturing(1.0),
        capturing("1"),
    ]
    found = [fingerprint(function) for function in different]
    assert None not in found
    assert len(set(found)) == len(different)


def test_what_has_no_identity_has_no_fingerprint() -> None:
    captured = object()
    assert fingerprint(lambda v: captured) is None


def test_a_function_without_a_module_is_told_by_its_code() -> None:
    made = []
    for body in ("i + 1", "i + 2"):
        scope: dict[str, object] = {}
        exec(f"def f(i):\n return {body}", scope)
        made.append(fingerprint(scope["f"]))
    assert made[0] != made[1]


def test_recursion_ends() -> None:
    def down(n: int) -> int:
        return 0 if n == 0 else down(n - 1)

    assert fingerprint(down) is not None
