"""Stages of a batch on several cores of a task: how many there are, what nodes do with them, and the same result."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.graph.placed import flexible, on_core
from tests.property.flexible import from_flexible_seed
from tests.property.graphs import Case, from_seed
from tests.property.joins import from_joined_seed
from tests.spark.meets import from_meet_seed
from tests.spark.simulated import check

import penstock as ps
from penstock import tune
from penstock.engine.intake import Arrival, Batch, arriving
from penstock.graph import nodes as n
from penstock.graph import reference
from penstock.plan.balance import choose, loops_of
from penstock.plan.cut import cut
from penstock.spark.driver.bucket_layout import lay_out
from penstock.spark.driver.task_cores import SessionCores, core_notes, task_cores
from penstock.spark.worker import share

SMALL: dict[str, Any] = {"compile": False, "capacity": 64, "width": 32}
ONE_SPLIT = {"split_bytes": 1 << 30}


class Total(ps.State):
    sum: int


def running(v: int, state: Total) -> int:
    state.sum += v
    return state.sum


def files(folder: Path, count: int = 4000, parts: int = 1) -> ps.Stream:
    """A stream over so many files, each of which is a split."""
    table = pa.table({"v": np.arange(count), "k": np.arange(count) % 7})
    for part, start in enumerate(range(0, count, count // parts)):
        pq.write_table(table.slice(start, count // parts), folder / f"part-{part}.parquet")
    return ps.read_parquet(folder)


def expected(stream: ps.Stream) -> pa.Table:
    return reference.run((stream.node,)).tables[0]


# On Spark


def test_a_split_alone_has_both_cores(spark: Any, tmp_path: Path) -> None:
    stream = flexible(files(tmp_path).map(w=lambda v: v * v)).filter(lambda w: w % 3 == 0)
    run = stream.prepare(spark, **SMALL, **ONE_SPLIT)
    assert run.explain().splitlines()[1] == "  2 cores a task: 1 split on 2 cores"
    found = run.collect()
    assert found.equals(expected(stream).cast(found.schema))
    (stage,) = run.statistics().stages
    items = {node.name: node.items for node in stage.nodes}
    assert items["map 'w'"] + items["map 'w' (copy 1)"] == 4000
    assert min(items["map 'w'"], items["map 'w' (copy 1)"]) > 0
    assert len(stage.busy_s) == 2
    assert min(stage.busy_s) > 0
    assert "at work on each core of a task" in str(run.statistics())


def test_keys_and_joins_on_both_cores(spark: Any, tmp_path: Path) -> None:
    items = flexible(files(tmp_path, parts=4).map(w=lambda v: v + 1))
    keyed = on_core(flexible(on_core(items.key_by("k").map(s=running, state=Total), 0).map(t=lambda s: 2 * s)), 1)
    stream = ps.align(keyed, items.filter(lambda v: v % 2 == 0).map(half=lambda v: v // 2))
    run = stream.prepare(spark, ordered=True, buckets=1, **SMALL)
    found = run.collect()
    assert found.equals(expected(stream).cast(found.schema))
    told = run.explain()
    assert "1 core a task: 4 splits on 2 cores" in told
    assert "2 cores a task: 1 part on 2 cores" in told
    assert "1 core a task: 2 tasks on 2 cores" in told  # the keys, and what passes beside them
    assert [len(stage.busy_s) for stage in run.statistics().stages] == [1, 1, 1, 1]


def test_a_bucket_alone_has_both_cores(spark: Any, tmp_path: Path) -> None:
    keyed = files(tmp_path, parts=4).key_by("k").map(s=running, state=Total)
    stream = flexible(keyed.map(t=lambda s: 2 * s)).filter(lambda t: t % 3 == 0)
    run = stream.prepare(spark, ordered=True, buckets=1, **SMALL)
    found = run.collect()
    assert found.equals(expected(stream).cast(found.schema))
    assert [len(stage.busy_s) for stage in run.statistics().stages] == [1, 2]
    assert "  2 cores a task: 1 bucket on 2 cores" in run.explain().splitlines()


def test_wishes_for_more_than_there_is(spark: Any, tmp_path: Path) -> None:
    stream = flexible(on_core(files(tmp_path).map(w=lambda v: v * v), 5).map(x=lambda w: w + 1), 7)
    last = stream.filter(lambda x: x % 3 == 0)
    run = last.prepare(spark, **SMALL, **ONE_SPLIT)
    assert run.explain().splitlines()[1:4] == [
        "  2 cores a task: 1 split on 2 cores",
        "  map 'w': core 5 is core 1 here",
        "  map 'x': 1 of its 7 copies here",
    ]
    found = run.collect()
    assert found.equals(expected(last).cast(found.schema))
    assert len(run.statistics().stages[0].busy_s) == 2


def test_cores_and_dicts_as_asked_for(spark: Any, tmp_path: Path) -> None:
    squares = files(tmp_path, 1000, parts=4).map(w=lambda v: v * v)
    stream = squares.filter(lambda w: w % 3 == 0)
    wanted = expected(stream)
    run = stream.prepare(spark, cores=3, mapping={squares: 0, stream: 2}, flexible={squares: 2}, **SMALL)
    assert run.explain().splitlines()[1] == "  3 cores a task: cores=3"
    found = run.collect()
    assert found.equals(wanted.cast(found.schema))
    assert len(run.statistics().stages[0].busy_s) == 3
    run = stream.prepare(spark, cores=1, flexible={squares: 1}, **SMALL, **ONE_SPLIT)
    assert run.explain().splitlines()[1:3] == [
        "  1 core a task: cores=1",
        "  mapping= and flexible= change nothing on 1 core",
    ]
    assert run.collect().equals(found)
    with pytest.raises(ps.GraphError, match=r"on Spark, mapping= must be a dict .* got a Profile"):
        stream.collect(spark, mapping=tune.profile(stream, 100))


def test_tasks_measure_what_nobody_has_asked_for(spark: Any, tmp_path: Path) -> None:
    stream = files(tmp_path).map(w=lambda v: v * v).filter(lambda w: w % 3 == 0)
    run = stream.prepare(spark, flexible="auto", **SMALL, **ONE_SPLIT)
    assert "each shares out its nodes by what its first items cost" in run.explain()
    found = run.collect()
    assert found.equals(expected(stream).cast(found.schema))


def test_an_error_of_a_copy_is_told_as_any_other(spark: Any, tmp_path: Path) -> None:
    def inverse(v: int) -> float:
        return 1 / (v - 2345)

    stream = flexible(files(tmp_path).map(w=inverse)).filter(lambda w: w > 0)
    for options in ({}, {"flexible": "auto"}):
        with pytest.raises(ps.FunctionError, match=r"map 'w'.*ZeroDivisionError.*item 2345.*part-0\.parquet"):
            stream.collect(spark, **options, **SMALL, **ONE_SPLIT)


def test_cores_that_spark_reserves(tmp_path: Path) -> None:
    files(tmp_path, parts=4)
    code = f"""
        import penstock as ps
        import penstock.spark
        spark = penstock.spark.session(cores=2, settings={{"spark.task.cpus": 2}})
        squares = ps.read_parquet({str(tmp_path)!r}).map(w=lambda v: v * v).named("squares")
        stream = squares.key_by("k").map(u=lambda w: w + 1)
        run = stream.prepare(spark, ordered=True, compile=False, capacity=64, width=32, flexible={{"squares": 1}})
        print([line for line in run.explain().splitlines() if " a task: " in line])
        print(run.collect().equals(stream.collect(spark=False)))
        print([(stage.tasks, len(stage.busy_s)) for stage in run.statistics().stages])
        """
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=600,
    )
    wanted = ["['  2 cores a task: spark.task.cpus=2']", "True", "[(4, 2)]"]
    assert ran.stdout.splitlines() == wanted, ran.stderr


# Without Spark: the plan


def planned(stream: ps.Stream, splits: int, buckets: int, machine: SessionCores, **options: Any) -> list[str]:
    made = cut((stream.node,), meets_by_place=True)
    found = task_cores(made, lay_out(made, splits, buckets), machine, **options)
    return [str(found[stage.number]) for stage in made.stages]


def test_how_many_cores_a_task_has() -> None:
    items = ps.from_items([{"v": 1, "k": 1}])
    plain, keyed = items.map(w=lambda v: v), items.key_by("k").map(s=running, state=Total)
    eight = SessionCores(8, 8, 1)
    assert planned(plain, 2, 8, eight) == ["4 cores a task: 2 splits on 8 cores"]
    assert planned(plain, 3, 8, eight) == ["2 cores a task: 3 splits on 8 cores"]
    assert planned(plain, 1200, 8, eight) == ["1 core a task: 1,200 splits on 8 cores"]
    assert planned(keyed, 100, 4, eight)[1] == "2 cores a task: 4 buckets on 8 cores"
    whole = items.map(s=running, state=Total)
    assert planned(whole, 100, 8, eight) == ["8 cores a task: 1 task on 8 cores"]
    # a task never has more than its executor, nor less than Spark reserves for it
    assert planned(plain, 1, 8, SessionCores(8, 4, 1)) == ["4 cores a task: 1 split on 8 cores"]
    assert planned(plain, 100, 8, SessionCores(8, 4, 2)) == ["2 cores a task: spark.task.cpus=2"]
    assert planned(plain, 2, 8, SessionCores(8, 4, 2)) == ["4 cores a task: 2 splits on 8 cores"]
    assert planned(plain, 1, 8, eight, is_frame=True)[0].startswith("1 core a task: how many partitions")
    assert planned(plain, 1, 8, SessionCores(8, 4, 2), is_frame=True) == ["2 cores a task: spark.task.cpus=2"]
    assert planned(plain, 100, 8, eight, asked=3) == ["3 cores a task: cores=3"]


def test_stages_of_one_level_share_the_cores() -> None:
    items = ps.from_items([{"v": 1, "k": 1}])
    both = ps.align(items.key_by("k").map(s=running, state=Total), items.map(h=lambda v: v // 2))
    assert planned(both, 1, 2, SessionCores(8, 8, 1)) == [
        "8 cores a task: 1 split on 8 cores",
        "2 cores a task: 4 tasks on 8 cores",
        "2 cores a task: 4 tasks on 8 cores",
        "4 cores a task: 2 parts on 8 cores",
    ]


def test_a_stage_that_only_hands_on_has_nothing_to_share_out() -> None:
    made = cut((ps.from_items([{"v": 1}]).node,))
    assert core_notes(made, task_cores(made, lay_out(made, 1, 1), SessionCores(2, 2, 1))) == {
        0: ("2 cores a task: 1 split on 2 cores",)
    }


# Without Spark: the tasks


def heavy(v: int) -> float:
    total = 0.0
    for at in range(2000):
        total += (v + at) ** 0.5
    return total


def arrivals(stream: ps.Stream, sizes: tuple[int, ...]) -> Iterator[Batch]:
    """Batches of these sizes, numbered through."""
    firsts = np.cumsum((0, *sizes))
    rows = [pa.record_batch({"v": np.arange(a, b)}) for a, b in pairwise(firsts)]
    return arriving(stream.node.source, (Arrival(each) for each in rows))


def sent(stream: ps.Stream) -> tuple[n.GraphNode, ...]:
    return (n.Send(stream.node, tuple(stream.node.shape.fields)),)


def numbers(made: share.CoreShare) -> list[int]:
    return [v for batch in made.batches for v in batch.rows.column(0).to_pylist()]


def test_what_was_measured_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "ENOUGH_ITEMS", 100)
    stream = ps.from_numpy({"v": np.arange(1)}).map(w=heavy)
    made = share.share_cores(sent(stream), arrivals(stream, (60, 60, 60)), 2, {})
    assert (made.options["cores"], made.options["flexible"]) == (2, "auto")
    assert choose(loops_of(sent(stream)), made.options["mapping"], 2).flexible is stream.node
    assert numbers(made) == list(range(180))


def test_little_work_stays_on_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = ps.from_numpy({"v": np.arange(1)}).map(w=heavy)
    made = share.share_cores(sent(stream), arrivals(stream, (60, 60, 60)), 2, {})
    assert (made.places, made.options, numbers(made)) == (None, {}, list(range(180)))
    monkeypatch.setattr(share, "ENOUGH_ITEMS", 100)
    cheap = ps.from_numpy({"v": np.arange(1)}).map(w=lambda v: v + 1).filter(lambda w: w > 3)
    made = share.share_cores(sent(cheap), arrivals(cheap, (60, 6000, 60)), 2, {})
    assert (made.options, numbers(made)) == ({}, list(range(6120)))
    made = share.share_cores(sent(stream), arrivals(stream, (60, 60, 60)), 2, {"compile": False})
    assert (made.options, numbers(made)) == ({}, list(range(180)))


def test_an_error_on_the_way_keeps_its_place() -> None:
    stream = ps.from_numpy({"v": np.arange(1)})

    def broken() -> Iterator[Batch]:
        yield from list(arrivals(stream, (3, 3)))[:1]
        raise ps.DataError("planted")

    head = share.Head(broken(), 10)
    assert not head.has_more
    found = head.all()
    assert next(found).rows.num_rows == 3
    with pytest.raises(ps.DataError, match="planted"):
        next(found)


def test_the_first_items_with_their_signals_and_places() -> None:
    class Level(ps.Signal):
        level: int

    rows, stream = pa.record_batch({"v": np.arange(5)}), ps.from_numpy({"v": np.arange(1)})
    given = [Arrival(rows, ((1, Level(1)), (4, Level(2))), np.arange(5) * 10 + at) for at in (0, 100)]
    kept = list(arriving(stream.node.source, given))
    first, second = share.first_of(kept, 8)
    assert (first.rows.num_rows, first.is_first, first.is_last) == (5, True, False)
    assert (second.rows.num_rows, second.is_last, second.end) == (3, True, 121)
    assert [each.signal for each in second.control] == [Level(1)]
    assert second.places is not None
    assert second.places.tolist() == [100, 110, 120]
    assert [batch.rows.num_rows for batch in share.first_of(kept, 100)] == [5, 5]
    assert [batch.is_last for batch in share.first_of(kept, 100)] == [False, True]


@pytest.mark.parametrize("make", [from_flexible_seed, from_joined_seed, from_meet_seed, from_seed])
def test_random_graphs(make: Callable[[int], Case]) -> None:
    for seed in range(700, 706):
        assert check(seed, make=make, cores=2 + seed % 3) is None, seed
