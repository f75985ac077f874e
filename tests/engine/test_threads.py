"""Several threads: the same answers, errors from any thread, and an end in every case."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import FunctionError, GraphError
from penstock.graph import reference


def numbers(count: int = 5000) -> ps.Stream:
    return ps.from_numpy({"v": np.arange(count)}, name="numbers")


def diamond(source: ps.Stream) -> ps.Stream:
    """Two sides that drop different items, and meet again."""
    even = source.filter(lambda v: v % 2 == 0).map(half=lambda v: v // 2)
    third = source.filter(lambda v: v % 3 == 0).map(square=lambda v: v * v)
    return ps.align(even, third, how="outer", fill={"half": -1, "square": -1})


def right(stream: ps.Stream, **options: Any) -> Any:
    return reference.run((stream.node,), **options).tables[0]


def no_threads_left() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-core-")]


@pytest.mark.parametrize("cores", [2, 3, 6])
@pytest.mark.parametrize("capacity", [1, 7, None])
@pytest.mark.parametrize("credit", ["queued", "balance"])
def test_a_diamond_on_threads(cores: int, capacity: int | None, credit: str) -> None:
    stream = diamond(numbers(300))
    run = stream.prepare(
        spark=False, fuse=False, cores=cores, capacity=capacity, credit=credit, compile=False, check=True
    )
    assert run.collect().equals(right(stream))
    for edge in run.statistics().edges:
        assert edge.highest_items <= edge.capacity_items
    assert no_threads_left()


def test_compiled_loops_on_threads() -> None:
    stream = diamond(numbers(200_000))
    alone = stream.collect(spark=False)
    assert stream.collect(spark=False, fuse=False, cores=2, width=4096).equals(alone)


class Level(ps.State):
    least: int = 10


class Change(ps.Signal):
    least: int


def test_signals_and_regions_cross_threads() -> None:
    source = numbers(2000).map(group=lambda v: v // 7)
    kept = source.filter(lambda v, state: v % 100 > state.least, state=Level).on(
        Change, least=lambda signal: signal.least
    )
    regions = kept.regions(by="group")
    total, count = regions.aggregate(total=ps.sum("v")), regions.filter(lambda v: v % 2 == 0).aggregate(n=ps.count())
    stream, control = ps.align(total, count), [ps.at(500, Change(50)), ps.at(1500, Change(2))]
    wanted = right(stream, control=control)
    for cores in (2, 4):
        for width in (1, 64):
            found = stream.collect(
                spark=False, control=control, fuse=False, cores=cores, width=width, compile=False, check=True
            )
            assert found.equals(wanted)


def test_lists_and_texts_cross_threads() -> None:
    lines = ps.from_items([{"text": "a" * (at % 5), "values": list(range(at % 4))} for at in range(200)])
    words = lines.enumerate("values", as_="v").filter(lambda v: v != 1).aggregate(kept=ps.to_list("v"))
    stream = ps.align(words, lines.select("text").filter(lambda text: len(text) != 2))
    found = stream.collect(spark=False, fuse=False, cores=3, compile=False, check=True)
    assert found.to_pylist() == right(stream).to_pylist()


def test_an_error_in_any_thread_comes_out() -> None:
    broken = diamond(numbers(100)).map(w=lambda half: 1 // (half - 7))
    with pytest.raises(FunctionError, match="ZeroDivisionError"):
        broken.collect(spark=False, fuse=False, cores=3, width=4)
    assert no_threads_left()


def test_a_run_may_be_left_in_the_middle() -> None:
    found: Iterator[Any] = iter(diamond(numbers(50_000)).batches(fuse=False, cores=2, width=64, batch_items=64))
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert no_threads_left()


def test_a_mapping_by_hand() -> None:
    source = numbers(1000)
    even = source.filter(lambda v: v % 2 == 0)
    half = even.map(half=lambda v: v // 2)
    run = half.prepare(spark=False, fuse=False, cores=2, mapping={even: 1, half: 0})
    assert run.collect().equals(right(half))
    assert sorted(run.plan.cores.values()) == [0, 1]


def test_a_mapping_by_measured_cost() -> None:
    stream = numbers(20_000).map(a=lambda v: v + 1).map(b=lambda a: a + 1).map(c=lambda b: b + 1).map(d=lambda c: c + 1)
    first = stream.prepare(spark=False, fuse=False)
    wanted = first.collect()
    second = stream.prepare(spark=False, fuse=False, cores=2, mapping=first.statistics())
    assert second.collect().equals(wanted)
    assert set(second.plan.cores.values()) == {0, 1}


def test_what_is_wrong_with_a_mapping_is_said() -> None:
    source = numbers(10)
    half = source.map(half=lambda v: v // 2)
    with pytest.raises(GraphError, match=r"run: mapping= must name cores from 0 to 1; got 2 for map 'half'"):
        half.collect(spark=False, cores=2, mapping={half: 2})
    with pytest.raises(GraphError, match="run: mapping= names source 'numbers', which is in no loop of this run"):
        half.collect(spark=False, cores=2, mapping={source: 0})
    with pytest.raises(GraphError, match="run: mapping must be a dict from streams to numbers of cores, the statistic"):
        half.collect(spark=False, cores=2, mapping=3)
    with pytest.raises(GraphError, match=r"run: mapping= must name a step by .*, and none is called so"):
        half.collect(spark=False, cores=2, mapping={"half": 1})
    other = source.prepare(spark=False)
    other.collect()
    with pytest.raises(GraphError, match="run: mapping= must be the statistics of a run of the same graph"):
        half.collect(spark=False, cores=2, mapping=other.statistics())
    with pytest.raises(GraphError, match="run: cores must be a whole number of at least 1; got 0"):
        half.collect(spark=False, cores=0)


def test_threads_that_all_wait_are_noticed() -> None:
    """Without heartbeats a side that drops everything keeps the other waiting: it is said at once, and by name."""
    source = numbers(1000)
    none = source.filter(lambda v: v > 998).map(a=lambda v: v)
    every = source.map(b=lambda v: v)
    stream = ps.align(none, every)
    options: dict[str, Any] = {"spark": False, "fuse": False, "capacity": 4, "batch_items": 1, "compile": False}
    with pytest.raises(Exception, match="align"):
        stream.collect(**options, cores=2, heartbeat="never")
    assert no_threads_left()
    assert stream.collect(**options, cores=2).equals(right(stream))
