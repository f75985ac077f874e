"""What a kernel is called with is bound by name to what its signature declares."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.property.check import check, check_channels
from tests.property.graphs import from_seed

from penstock.codegen import signature
from penstock.codegen.signature import CallBounds, Signature
from penstock.engine import binding, loop
from penstock.engine.binding import BINDINGS


def kinds(base: type[signature.Argument]) -> set[type[signature.Argument]]:
    """The kinds of arguments that a signature may hold: those with no kinds below them."""
    below = base.__subclasses__()
    return {base} if not below else set().union(*map(kinds, below))


def test_every_kind_of_argument_is_bound() -> None:
    bases = {signature.OneArray, signature.RecordPair}
    assert set(BINDINGS) == kinds(signature.Argument) - bases


def test_arguments_have_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all loops that some graphs run: no name twice, and the kernel takes just these parameters."""
    seen: list[Signature] = []
    original = loop.bind

    def bind(declared: Signature, call: binding.Call) -> list[Any]:
        seen.append(declared)
        arrays = original(declared, call)
        assert len(arrays) == len(declared.arrays)
        header = call.loop.code.source.partition("\n")[0]
        assert header == f"def kernel({', '.join(declared.parameters)}):"
        return arrays

    monkeypatch.setattr(loop, "bind", bind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(20):
            check(from_seed(seed))
            check_channels(from_seed(seed))
    assert all(len(set(each.parameters)) == len(each.parameters) for each in seen)
    assert len({type(argument) for each in seen for argument in each.arguments}) > 8


def test_an_array_that_is_missing_is_an_error() -> None:
    """Arrays go by name, so that one that is not there cannot be taken for another."""
    declared = Signature((signature.OutputCounts("a"), signature.OutputCounts("b")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BINDINGS, signature.OutputCounts, lambda call, argument: {"a": np.zeros(1)})
        with pytest.raises(KeyError, match="b"):
            binding.bind(declared, None)  # type: ignore[arg-type]


def test_the_bounds_of_a_call_come_first() -> None:
    assert Signature((signature.Counters(),)).parameters[: len(CallBounds._fields)] == CallBounds._fields
