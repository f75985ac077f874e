"""A function's identity: the same for the same behaviour, another for any other."""

from __future__ import annotations

import math
import types

import numpy as np
import pytest

from penstock.kernels.fingerprint import fingerprint, globals_read, why_unknown

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


STREAM = object()
s = STREAM


class Record:
    s = 1


def test_an_attribute_that_has_the_name_of_a_global_is_no_global() -> None:
    def running(v: int, state: Record) -> int:
        state.s += v
        return sum([state.s for _ in range(1)])

    assert globals_read(running.__code__) == {"range", "sum"}
    assert fingerprint(running) is not None


def test_globals_of_nested_functions_count() -> None:
    def outer(v: int) -> int:
        inner = lambda w: w + TABLE[0]  # noqa: E731
        return inner(v)  # type: ignore[no-any-return]

    assert globals_read(outer.__code__) == {"TABLE"}


def module(**values: object) -> types.ModuleType:
    made = types.ModuleType("settings")
    vars(made).update(values)
    return made


@pytest.mark.parametrize("is_global", [True, False])
def test_of_a_module_only_what_is_read_counts(is_global: bool) -> None:
    def prints(settings: types.ModuleType) -> str | None:
        if not is_global:
            return fingerprint(lambda v, state: v * settings.K + state.s)
        scope: dict[str, object] = {"settings": settings}
        exec("def f(v, state):\n return v * settings.K + state.s", scope)
        return fingerprint(scope["f"])

    first = prints(module(K=1, s=object()))
    assert first is not None
    assert prints(module(K=1, s=2)) == first
    assert prints(module(K=2)) != first
    assert prints(module(K=object())) is None


def test_a_module_in_a_variable_has_no_identity() -> None:
    settings = module(K=1)

    def f(v: int) -> int:
        local = settings
        return v * local.K  # type: ignore[no-any-return]

    assert why_unknown(f) == "it uses 'settings', and a module has a fixed value only where it is used as `module.name`"


def test_the_reason_names_the_value_without_identity() -> None:
    def calls(v: int) -> object:
        return uses(v)

    def uses(v: int) -> object:
        return STREAM

    assert why_unknown(calls) == "it uses 'STREAM', and an instance of object has no fixed value"
    assert why_unknown(helper) is None


def test_defaults_of_keywords_count() -> None:
    assert fingerprint(lambda v, *, k=1: v + k) != fingerprint(lambda v, *, k=2: v + k)
