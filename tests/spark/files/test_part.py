"""Result files, all or nothing: what the tasks write, and what the driver makes of it. No Spark is needed for that."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs as pf
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import GraphError, InternalError, OutputError
from penstock.spark.files.filesystem import Files
from penstock.spark.files.format import format_of
from penstock.spark.files.part import PartWriter, ResultPart, Staging
from penstock.spark.files.result_folder import SUCCESS, ResultFolder
from penstock.spark.wire import TaskResult, decode, encode, messages

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


def rows(first: int, count: int = 3) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch([pa.array(numbers), pa.array([f"n{n}" for n in numbers])], schema=SCHEMA)


def parquet(**options: Any) -> Any:
    return format_of("parquet", SCHEMA, options)


def attempt(staging: Staging, task: int) -> tuple[ResultPart, ...]:
    with PartWriter(staging, (task,)) as writer:
        writer.write(rows(10 * task))
    return tuple(writer.parts)


def ids(folder: Path) -> list[int]:
    """The ids in a result, file by file in the order of their names."""
    return [
        value for path in sorted(folder.glob("part-*")) for value in pyarrow.parquet.read_table(path)["id"].to_pylist()
    ]


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


# What is written


def test_parts_become_files_in_the_order_of_their_keys(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet()) as output:
        parts = [part for task in (2, 0, 10, 1) for part in attempt(output.staging, task)]
        names = output.commit(parts)
    assert names == tuple(f"part-{at:05}.parquet" for at in range(4))
    assert ids(tmp_path / "out") == [0, 1, 2, 10, 11, 12, 20, 21, 22, 100, 101, 102]
    assert everything(tmp_path) == ["out", *(f"out/{name}" for name in names)]


def test_a_part_that_is_large_enough_is_followed_by_another(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet(part_bytes=1, row_group_rows=3)) as output:
        with PartWriter(output.staging, (0,)) as writer:
            for first in (0, 3, 6):
                writer.write(rows(first))
        assert [part.order for part in writer.parts] == [(0, 0), (0, 1), (0, 2)]
        assert [part.rows for part in writer.parts] == [3, 3, 3]
        assert [part.bytes for part in writer.parts] == [
            (Path(output.tasks) / part.name).stat().st_size for part in writer.parts
        ]
        output.commit(writer.parts)
    assert ids(tmp_path / "out") == list(range(9))


def test_a_task_without_rows_writes_no_part(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet()) as output, PartWriter(output.staging, (0,)) as writer:
        writer.write(rows(0, 0))
        assert writer.close() == ()


@pytest.mark.parametrize("name", ["parquet", "csv", "json"])
def test_a_result_without_rows_is_one_file_with_the_schema(tmp_path: Path, name: str) -> None:
    with ResultFolder(tmp_path / "out", format_of(name, SCHEMA)) as output:
        assert output.commit([]) == (f"part-00000.{name}",)
    path = tmp_path / "out" / f"part-00000.{name}"
    if name == "parquet":
        assert pyarrow.parquet.read_schema(path).equals(SCHEMA)
    else:
        assert path.read_text() == {"csv": '"id","name"\n', "json": ""}[name]


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
@pytest.mark.parametrize("name", ["csv", "json"])
def test_text_is_compressed_if_asked_for(tmp_path: Path, name: str, compression: str | None) -> None:
    with ResultFolder(tmp_path / "out", format_of(name, SCHEMA, {"compression": compression})) as output:
        (part,) = attempt(output.staging, 0)
        (file,) = output.commit([part])
    path = tmp_path / "out" / file
    assert path.stat().st_size == part.bytes
    with pa.input_stream(str(path), compression=compression) as stream:
        text = stream.read().decode()
    lines = {
        "csv": ['"id","name"', '0,"n0"', '1,"n1"', '2,"n2"'],
        "json": ['{"id":0,"name":"n0"}', '{"id":1,"name":"n1"}', '{"id":2,"name":"n2"}'],
    }
    assert text.splitlines() == lines[name]


@pytest.mark.parametrize("compression", ["zstd", "snappy", None])
def test_parquet_is_compressed_as_asked_for(tmp_path: Path, compression: str | None) -> None:
    with ResultFolder(tmp_path / "out", parquet(compression=compression)) as output:
        (name,) = output.commit(attempt(output.staging, 0))
    group = pyarrow.parquet.read_metadata(tmp_path / "out" / name).row_group(0)
    assert group.column(0).compression == (compression or "uncompressed").upper()


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet(row_group_rows=10)) as output:
        with PartWriter(output.staging, (0,)) as writer:
            for first in range(0, 24, 3):
                writer.write(rows(first))
        output.commit(writer.parts)
    metadata = pyarrow.parquet.read_metadata(tmp_path / "out" / "part-00000.parquet")
    assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [10, 2, 10, 2]


def test_the_place_to_write_travels_to_a_task(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet()) as output:
        there = pickle.loads(pickle.dumps(output.staging))
        (result,) = decode(messages([encode(TaskResult(0, 7, parts=tuple(attempt(there, 7))))]), TaskResult)
        output.commit(result.parts)
    assert ids(tmp_path / "out") == [70, 71, 72]


def test_addresses_are_paths_too(tmp_path: Path) -> None:
    with ResultFolder((tmp_path / "out").as_uri(), parquet()) as output:
        output.commit(attempt(output.staging, 0))
    assert ids(tmp_path / "out") == [0, 1, 2]


# Attempts


def test_an_attempt_that_nobody_reports_leaves_nothing(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet()) as output:
        twice = [attempt(output.staging, task) for task in (0, 0, 1)]
        with contextlib.suppress(KeyError), PartWriter(output.staging, (1,)) as writer:
            writer.write(rows(0))
            raise KeyError
        output.commit([*twice[1], *twice[2]])
    assert ids(tmp_path / "out") == [0, 1, 2, 10, 11, 12]
    assert len(everything(tmp_path)) == 3


def test_an_attempt_that_still_writes_after_the_commit_leaves_nothing(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet()) as output:
        late = PartWriter(output.staging, (0,))
        late.write(rows(0))
        output.commit(attempt(output.staging, 0))
    late.close()
    with pytest.raises(OutputError):
        attempt(output.staging, 1)
    assert everything(tmp_path) == ["out", "out/part-00000.parquet"]


def test_two_parts_for_one_place_are_our_own_fault(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet()) as output, pytest.raises(InternalError, match="must have one part"):
        output.commit([*attempt(output.staging, 0), *attempt(output.staging, 0)])
    assert everything(tmp_path) == []


def test_a_failed_attempt_removes_the_part_it_began(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet()) as output:
        with contextlib.suppress(KeyError), PartWriter(output.staging, (0,)) as writer:
            writer.write(rows(0))
            raise KeyError
        assert os.listdir(output.tasks) == []


# Modes


def write(path: Path, tasks: list[int], mode: str) -> None:
    with ResultFolder(path, parquet(), mode) as output:
        output.commit([part for task in tasks for part in attempt(output.staging, task)])


def test_overwrite_leaves_nothing_of_the_old(tmp_path: Path) -> None:
    write(tmp_path / "out", [0, 1, 2], "error")
    write(tmp_path / "out", [5], "overwrite")
    assert ids(tmp_path / "out") == [50, 51, 52]
    assert everything(tmp_path) == ["out", "out/part-00000.parquet"]


def test_append_goes_on_after_the_last(tmp_path: Path) -> None:
    for tasks in ([0, 1], [2], []):
        write(tmp_path / "out", tasks, "append")
    assert ids(tmp_path / "out") == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert everything(tmp_path) == ["out", *(f"out/part-{at:05}.parquet" for at in range(3))]


@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
def test_folders_above_are_made_and_taken_away_again(tmp_path: Path, mode: str) -> None:
    with ResultFolder(tmp_path / "a" / "b" / "out", parquet(), mode) as output:
        attempt(output.staging, 0)
    assert everything(tmp_path) == []
    write(tmp_path / "a" / "b" / "out", [0], mode)
    assert everything(tmp_path) == ["a", "a/b", "a/b/out", "a/b/out/part-00000.parquet"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "real", [0], "error")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", [1], "overwrite")
    assert (tmp_path / "link").is_symlink()
    assert ids(tmp_path / "real") == [10, 11, 12]


# Refusals

REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "target exists": (lambda path: path.mkdir(), "must not be there yet; it is; say mode='overwrite'"),
    "target is a file": (lambda path: path.touch(), "must be a folder or not be there; it is a file"),
}


@pytest.mark.parametrize(("prepare", "message"), REFUSED.values(), ids=REFUSED)
def test_a_target_that_cannot_be_is_refused_at_the_beginning(tmp_path: Path, prepare: Any, message: str) -> None:
    prepare(tmp_path / "out")
    with pytest.raises(OutputError, match=message) as caught:
        ResultFolder(tmp_path / "out", parquet()).begin()
    assert str(caught.value).startswith(f"write_parquet: {str(tmp_path / 'out')!r} ")
    assert everything(tmp_path) == ["out"]


def test_a_target_that_came_meanwhile_is_left_alone(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", parquet()) as output:
        parts = attempt(output.staging, 0)
        (tmp_path / "out").mkdir()
        with pytest.raises(OutputError, match="must not be there yet"):
            output.commit(parts)
    assert everything(tmp_path) == ["out"]


def test_the_working_folder_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home" / "project").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "home" / "project")
    with pytest.raises(OutputError, match="the working folder lies in it"):
        ResultFolder(tmp_path / "home", parquet(), "overwrite").begin()


def test_a_file_on_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        ResultFolder(tmp_path / "file" / "out", parquet()).begin()


def test_a_missing_permission_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        if os.geteuid() == 0:  # who may do everything is refused nothing: let the filesystem say no instead
            refusing = Faulty(pf.LocalFileSystem(), fails_at=2, error=PermissionError(13, "Permission denied"))
            output = ResultFolder(tmp_path / "out", parquet(), files=refusing)
        else:
            output = ResultFolder(tmp_path / "out", parquet())
        with pytest.raises(OutputError, match="must be writable; permission was denied"):
            output.begin()
    finally:
        tmp_path.chmod(0o700)
    assert everything(tmp_path) == []


def test_types_that_a_format_cannot_hold_are_refused() -> None:
    schema = pa.schema({"id": pa.int64(), "values": pa.list_(pa.float64())})
    with pytest.raises(GraphError) as caught:
        format_of("csv", schema)
    assert str(caught.value) == (
        "write_csv: field 'values' is list<item: double>, which a CSV file cannot hold; write_parquet or write_json "
        "can, or leave the field out with select"
    )
    format_of("json", schema)
    with pytest.raises(GraphError, match="write_json: field 'raw' is binary"):
        format_of("json", pa.schema({"raw": pa.binary()}))
    with pytest.raises(GraphError, match="write_csv: field 'raw' is binary"):
        format_of("csv", pa.schema({"raw": pa.binary()}))
    with pytest.raises(GraphError, match="write_parquet: field 'span' is month_day_nano_interval"):
        format_of("parquet", pa.schema({"span": pa.month_day_nano_interval()}))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("orc", {}, "the format must be one of 'parquet', 'csv', 'json'; got 'orc'"),
        ("csv", {"separator": ";"}, "the options are 'header', 'delimiter', 'compression', 'part_bytes'; got"),
        ("csv", {"delimiter": ";;"}, "write_csv: delimiter must be one character; got ';;'"),
        ("json", {"compression": "snappy"}, "write_json: compression must be 'gzip', 'zstd' or None; got 'snappy'"),
        ("parquet", {"part_bytes": 0}, "write_parquet: part_bytes must be a whole number of at least 1; got 0"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        format_of(name, SCHEMA, options)


def test_modes_are_checked(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="mode must be one of 'error', 'overwrite', 'append'; got 'replace'"):
        ResultFolder(tmp_path / "out", parquet(), "replace")


def test_an_address_of_no_known_kind_is_refused() -> None:
    with pytest.raises(GraphError, match="must be a path or an address"):
        ResultFolder("gopher://somewhere/out", parquet())


# A full disk


@pytest.mark.parametrize("name", ["parquet", "csv", "json"])
def test_a_full_disk_is_told(tmp_path: Path, name: str) -> None:
    with ResultFolder(tmp_path / "out", format_of(name, SCHEMA)) as output:
        writer = PartWriter(output.staging, (0,))
        full = f"0-0-{writer.attempt}.{name}"
        (Path(output.tasks) / full).symlink_to("/dev/full")
        with pytest.raises(OutputError, match="must have room for the result; its disk is full"):
            writer.write(rows(0, 100_000))
            writer.close()
        assert os.listdir(output.tasks) == []
    assert everything(tmp_path) == []


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_limit_on_the_size_of_files_is_told(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out", format_of("json", SCHEMA)) as output:
        told = pytest.raises(OutputError, match="set part_bytes below the limit")
        with largest_file(1 << 20), told, PartWriter(output.staging, (0,)) as writer:
            writer.write(rows(0, 100_000))
        assert os.listdir(output.tasks) == []


# Failures at every call


class Crash(BaseException):
    """The driver dies: nothing that it would have done after this happens."""


class Faulty(Files):
    """A filesystem whose call number `fails_at` fails, before it does anything or after it did it.

    With a Crash as the error, no later call does anything either.
    """

    def __init__(
        self,
        filesystem: pf.FileSystem,
        fails_at: int,
        error: BaseException,
        *,
        is_late: bool = False,
        is_store: bool = False,
        can_exchange: bool = True,
    ) -> None:
        super().__init__(filesystem)
        self.moves_folders = not is_store
        self.fails_at, self.error, self.is_late, self.can_exchange = fails_at, error, is_late, can_exchange
        self.calls = 0

    def _call(self, act: Callable[[], Any]) -> Any:
        self.calls += 1
        fails = self.calls == self.fails_at or (self.calls > self.fails_at and isinstance(self.error, Crash))
        if fails and not (self.is_late and self.calls == self.fails_at):
            raise self.error
        found = act()
        if fails:
            raise self.error
        return found

    def kind(self, path: str) -> Any:
        return self._call(lambda: super(Faulty, self).kind(path))

    def names(self, folder: str) -> Any:
        return self._call(lambda: super(Faulty, self).names(folder))

    def make_folder(self, path: str) -> None:
        self._call(lambda: super(Faulty, self).make_folder(path))

    def _move(self, source: str, target: str) -> None:
        if not self.moves_folders:
            os.makedirs(os.path.dirname(target), exist_ok=True)  # a store has no folders that must be there
        self._call(lambda: super(Faulty, self)._move(source, target))

    def exchange(self, one: str, other: str) -> Any:
        if self.is_late and not isinstance(self.error, Crash):
            return self.can_exchange and super().exchange(one, other)  # the kernel does not fail after the fact
        return self.can_exchange and self._call(lambda: super(Faulty, self).exchange(one, other))

    def remove_folder(self, path: str) -> None:
        self._call(lambda: super(Faulty, self).remove_folder(path))

    def remove_file(self, path: str) -> None:
        self._call(lambda: super(Faulty, self).remove_file(path))

    def write_mark(self, path: str) -> None:
        self._call(lambda: super(Faulty, self).write_mark(path))


NEVER = 1 << 30
OLD, NEW = [0, 1, 2, 10, 11, 12], [20, 21, 22, 30, 31, 32, 40, 41, 42]
AFTER = {"error": NEW, "overwrite": NEW, "append": OLD + NEW}


def commit_with(files: Faulty, path: Path, mode: str) -> None:
    output = ResultFolder(path, parquet(), mode, files=files)
    output.begin()
    output.commit([part for task in (2, 3, 4) for part in attempt(output.staging, task)])


def before(path: Path, mode: str) -> list[int] | None:
    """Make what is there before, and say what it is."""
    if mode == "error":
        return None
    write(path, [0, 1], "error")
    return OLD


def state(path: Path) -> list[int] | None:
    """What is there. A folder without files counts as none: a store has no folders."""
    return ids(path) if path.exists() and os.listdir(path) else None


SETTINGS = [
    *((mode, is_store, not is_store) for mode in AFTER for is_store in (False, True)),
    ("overwrite", False, False),
]

NAMES = [
    f"{mode}-{'store' if store else 'folder'}-{'exchange' if swap else 'renames'}" for mode, store, swap in SETTINGS
]


def number_of_calls(tmp_path: Path, mode: str, is_store: bool, can_exchange: bool) -> int:
    files = Faulty(pf.LocalFileSystem(), NEVER, OSError(), is_store=is_store, can_exchange=can_exchange)
    before(tmp_path / "count", mode)
    commit_with(files, tmp_path / "count", mode)
    assert state(tmp_path / "count") == AFTER[mode]
    assert (tmp_path / "count" / SUCCESS).exists() == is_store
    return files.calls


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("mode", "is_store", "can_exchange"), SETTINGS, ids=NAMES)
def test_a_failure_at_any_call_is_undone(
    tmp_path: Path, mode: str, is_store: bool, can_exchange: bool, is_late: bool
) -> None:
    for at in range(1, number_of_calls(tmp_path, mode, is_store, can_exchange) + 1):
        files = Faulty(
            pf.LocalFileSystem(),
            at,
            OSError(5, "planted"),
            is_late=is_late,
            is_store=is_store,
            can_exchange=can_exchange,
        )
        folder = tmp_path / f"at-{at}"
        folder.mkdir()
        old = before(folder / "out", mode)
        message = ""
        try:
            commit_with(files, folder / "out", mode)
        except OutputError as error:
            message = str(error)
        assert set(os.listdir(folder)) <= {"out"}
        if "holds files that it must not" in message:
            assert is_store and state(folder / "out") != old  # it is told, with the names of the files
            continue
        assert state(folder / "out") == (old if message else AFTER[mode]), f"call {at}: {message}"


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("mode", "can_exchange"), [("error", True), ("overwrite", True)])
def test_a_crash_at_any_call_leaves_the_old_or_the_new(
    tmp_path: Path, mode: str, can_exchange: bool, is_late: bool
) -> None:
    seen = []
    for at in range(1, number_of_calls(tmp_path, mode, False, can_exchange) + 1):
        folder = tmp_path / f"at-{at}"
        folder.mkdir()
        old = before(folder / "out", mode)
        with pytest.raises(Crash):
            commit_with(Faulty(pf.LocalFileSystem(), at, Crash(), is_late=is_late), folder / "out", mode)
        seen.append(state(folder / "out"))
        assert seen[-1] in (old, AFTER[mode])
    assert seen[0] != seen[-1], "one crash came before the commit and one after"


def test_a_crash_between_two_renames_keeps_the_old_aside(tmp_path: Path) -> None:
    calls = number_of_calls(tmp_path, "overwrite", False, False)
    for at in range(1, calls + 1):
        folder = tmp_path / f"at-{at}"
        folder.mkdir()
        before(folder / "out", "overwrite")
        with pytest.raises(Crash):
            commit_with(Faulty(pf.LocalFileSystem(), at, Crash(), can_exchange=False), folder / "out", "overwrite")
        aside = list(folder.glob(".out-*/old"))
        found = state(folder / "out")
        assert found in (OLD, NEW) or (found is None and ids(aside[0]) == OLD)


def test_a_crash_while_appending_leaves_the_old_whole(tmp_path: Path) -> None:
    for at in range(1, number_of_calls(tmp_path, "append", False, True) + 1):
        folder = tmp_path / f"at-{at}"
        folder.mkdir()
        before(folder / "out", "append")
        with pytest.raises(Crash):
            commit_with(Faulty(pf.LocalFileSystem(), at, Crash()), folder / "out", "append")
        found = ids(folder / "out")
        assert found[: len(OLD)] == OLD
        assert (OLD + NEW)[: len(found)] == found


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.booleans()), max_size=12), st.data())
def test_any_attempts_in_any_order(attempts: list[tuple[int, int, bool]], data: st.DataObject) -> None:
    """Attempts (task, parts, whether it succeeds); of each task one that succeeds is reported, the last word wins."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ResultFolder(folder / "out", parquet(part_bytes=1, row_group_rows=1)) as output:
            reported: dict[int, tuple[ResultPart, ...]] = {}
            for task, parts, succeeds in attempts:
                with contextlib.suppress(KeyError), PartWriter(output.staging, (task,)) as writer:
                    for at in range(parts):
                        writer.write(rows(100 * task + 10 * at, 1))
                    if not succeeds:
                        raise KeyError
                    reported[task] = writer.close()
            told = data.draw(st.permutations([part for parts in reported.values() for part in parts]))
            output.commit(told)
        wanted = [100 * task + 10 * at for task in sorted(reported) for at in range(len(reported[task]))]
        assert ids(folder / "out") == wanted
        assert os.listdir(folder) == ["out"]
