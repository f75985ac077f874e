"""Many small files in one micro-batch: read in groups, in the order of their paths, each with positions of its own."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.streaming.test_bad_input import averages, written
from tests.spark.streaming.test_streams import ran, readings, right, rows

import penstock as ps
from penstock.plan.cut import cut
from penstock.spark.driver.job_program import plan_program
from penstock.spark.streaming.arrived import FileSplit
from penstock.spark.streaming.bucket_partitions import stream_layout
from penstock.spark.streaming.groups import MANY, MOST_FILES, Groups, group_files
from penstock.spark.streaming.query import TASKS_A_CORE
from penstock.spark.wire import SenderOrigin, TaskCounts, decode, messages
from penstock.spark.worker import stage_input, task
from penstock.spark.worker.result_writers import CollectWriter

COUNT = MANY + 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(COUNT):
        pq.write_table(readings(2 * number, 2), tmp_path / "in" / f"f{number:03}.parquet")
    return tmp_path


def run(stream: ps.Stream, folder: Path, spark: Any, **options: Any) -> Any:
    return ran(stream, folder / "out", folder, spark, files_per_batch=None, **options)


def test_items_keep_the_order_of_the_paths(folder: Path, spark: Any) -> None:
    (folder / "in" / "f000.parquet").write_bytes(b"")  # no task is given the first file
    handle = run(averages(folder), folder, spark)
    assert (handle.progress().batch, handle.progress().total_items) == (0, 2 * COUNT - 2)
    assert written(folder) == rows(right(averages(folder)))


def test_rows_without_state_are_in_order_and_in_few_files(folder: Path, spark: Any) -> None:
    run(ps.read_parquet(folder / "in").filter(lambda value: value > 2), folder, spark)
    parts = sorted((folder / "out").glob("part-*"))
    assert 1 < len(parts) <= 16
    found = pa.concat_tables(map(pq.read_table, parts))["at"].to_pylist()
    assert found == [at for at in range(2 * COUNT) if at * 17 % 11 > 2]


def inverse(at):
    return 1 // (at - 77)


def shared(at, state):
    state.n += 1
    return 1 // (at - 77)


class Count(ps.State):
    n: int


def test_an_error_names_its_file_and_the_item_in_it(folder: Path, spark: Any) -> None:
    with pytest.raises(ps.FunctionError, match=r"item 1 of .*f038\.parquet"):
        run(ps.read_parquet(folder / "in").map(inverse=inverse), folder, spark)


def test_an_error_behind_keys_names_its_file(folder: Path, spark: Any) -> None:
    keyed = ps.read_parquet(folder / "in").key_by("device").map(inverse=shared, state=Count)
    with pytest.raises(ps.FunctionError, match=r"an item of .*f038\.parquet"):
        run(keyed, folder, spark)


def test_files_are_put_into_few_tasks(folder: Path, spark: Any) -> None:
    """Spark gives a task to every 32 small files, by a setting of the session in which the stream was started."""
    handle = run(averages(folder), folder, spark)
    plan = handle.running.query._jsq.explainInternal(False)
    assert f"Coalesce {TASKS_A_CORE * spark.sparkContext.defaultParallelism}\n" in plan


def test_what_is_read_is_decided_once_for_a_group(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = averages(folder).node
    items = leaf.source.items
    made = cut([leaf], [])
    program = plan_program(made, stream_layout(made, 2), CollectWriter, {}, {}, {})
    origins = tuple(SenderOrigin(True, f"file://{file.path}") for file in items.files)
    splits = [FileSplit(items.without_files(), file.path, file.size) for file in items.files]
    calls: list[Any] = []
    used_columns = stage_input.used_columns
    monkeypatch.setattr(stage_input, "used_columns", lambda tree: calls.append(tree) or used_columns(tree))
    rows = list(task.run_files(replace(program, origin=origins[0], files=origins), 0, splits))
    (counts,) = decode(messages(rows), TaskCounts)
    assert (counts.items, len(counts.origins), len(calls)) == (2 * COUNT, COUNT, 1)


# Which files are read together


@pytest.mark.parametrize("seed", range(20))
def test_groups_have_all_files_in_order(seed: int) -> None:
    chance = random.Random(seed)
    files = [(f"/in/{number:05}", chance.choice([0, 1, 50, 10_000])) for number in range(chance.randint(1, 3000))]
    wanted = chance.choice([1, 4, 16])
    found = group_files(chance.sample(files, len(files)), wanted).groups
    assert [entry for group in found for entry in group] == [entry for entry in files if entry[1]]
    assert all(1 <= len(group) <= MOST_FILES for group in found)
    most = sum(size for _, size in files) // wanted + 1
    assert all(len(group) == 1 or sum(size for _, size in group) <= most for group in found)


def test_one_task_reads_a_group() -> None:
    groups = Groups(((("file:///in/a", 3), ("file:///in/b", 4)), (("file:///in/c", 5),)))
    sizes = {"a": 3, "b": 4, "c": 5}
    assert [len(groups.begun_by(f"file:/in/{name}", size)) for name, size in sizes.items()] == [2, 0, 1]


@pytest.mark.parametrize(("name", "size"), [("b", 5), ("d", 1)])
def test_a_file_that_has_changed_is_an_error(name: str, size: int) -> None:
    groups = Groups(((("file:///in/a", 3), ("file:///in/b", 4)),))
    with pytest.raises(ps.DataError, match="must not change once it is there"):
        groups.begun_by(f"file:/in/{name}", size)
