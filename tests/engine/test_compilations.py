"""How often loops are compiled: once, whatever names a script has, however often and wherever they run."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core import event

import penstock as ps
from penstock.engine.node_timing import first_batches, measure_nodes


class Total(ps.State):
    s: int


def running(v: int, state: Total) -> int:
    state.s += v
    return state.s


def turned(v: int) -> float:
    x = 0.5 + (v % 97) / 400
    for _ in range(50):
        x = 3.7 * x * (1.0 - x)
    return x


s = ps.from_items([{"k": at % 3, "v": at} for at in range(3_000)])
"""A global with the name of the state's field, as a script may well have."""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))


def compilations(action: Callable[[], object]) -> int:
    with event.install_recorder("numba:compile") as recorder:
        action()
    return sum(happened.is_start for _, happened in recorder.buffer)


def keyed() -> ps.Stream:
    return s.key_by("k").map(total=running, state=Total)


def test_a_second_collect_compiles_nothing() -> None:
    stream = keyed()
    assert compilations(lambda: stream.collect(spark=False)) > 0
    assert compilations(lambda: stream.collect(spark=False)) == 0


def test_a_graph_that_is_built_again_compiles_nothing() -> None:
    keyed().collect(spark=False)
    assert compilations(lambda: keyed().collect(spark=False)) == 0


def branchy() -> ps.Stream:
    return s.map(a=lambda v: v + 1).map(b=turned).map(total=running, state=Total).filter(lambda b: b > 0.5)


@pytest.mark.parametrize("options", [{"fuse": False}, {"fuse": False, "cores": 2}])
def test_a_second_run_on_channels_and_cores_compiles_nothing(options: dict[str, object]) -> None:
    stream = branchy()
    first = stream.collect(spark=False, **options)
    assert compilations(lambda: stream.collect(spark=False, **options).equals(first)) == 0


def test_runs_that_choose_their_copies_compile_no_loop_twice() -> None:
    """Two such runs may measure otherwise and take other loops, so that the second may compile; but each loop once."""
    stream = branchy()
    with event.install_recorder("numba:compile") as recorder:
        for _ in range(3):
            stream.collect(spark=False, cores=2, flexible="auto")
    started = [happened.data for _, happened in recorder.buffer if happened.is_start]
    loops = [data["dispatcher"].py_func.__module__ for data in started]
    kept = [loop for loop in loops if loop.startswith("penstock_loop_")]
    assert kept and len(kept) == len(set(kept)) and "<penstock generated loop>" not in map(file_of, started)


def file_of(data: dict[str, Any]) -> str:
    return str(data["dispatcher"].py_func.__code__.co_filename)


def unknown() -> ps.Stream:
    """A step whose function has no identity, so that its loop cannot be kept."""
    settings = types.ModuleType("settings")
    settings.K = 3  # type: ignore[attr-defined]

    def scaled(v: int) -> int:
        module = settings
        return v * module.K  # type: ignore[no-any-return]

    return s.map(a=scaled)


def test_a_profile_compiles_before_it_measures() -> None:
    """Also what cannot be kept, and is compiled again by every run: in the first run, which does not count."""
    leaves, started = (unknown().node,), []

    def first() -> Iterator[Any]:
        started.append(sum(happened.is_start for _, happened in recorder.buffer))
        return first_batches(leaves[0].source, 1000, 64, None)

    with event.install_recorder("numba:compile") as recorder:
        measure_nodes(leaves, first, 1000, width=64)
    compiled = sum(happened.is_start for _, happened in recorder.buffer)
    assert started[0] < started[1] == started[-1] == compiled


def test_explain_says_which_loop_is_compiled_again_and_why() -> None:
    assert "compiled again" not in keyed().explain()
    stream = unknown()
    stream.collect(spark=False)
    assert compilations(lambda: stream.collect(spark=False)) > 0
    told = "compiled again by every run, because of scaled ("
    assert told in stream.explain() and "it uses 'settings', and a module has a fixed value only" in stream.explain()
