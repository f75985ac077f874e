"""Bad input on Spark ends in an error of ours that says where and what; no output is left, and the session works on."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

pytestmark = pytest.mark.filterwarnings("ignore::penstock.errors.InterpretedWarning")


def write(folder: Path, files: int = 4, **more: Any) -> Path:
    """Files of 10 rows: `k` is 0 to 4, `v` counts the rows of all files."""
    folder.mkdir()
    for at in range(files):
        columns = {"k": [row % 5 for row in range(10)], "v": [float(10 * at + row) for row in range(10)]}
        pq.write_table(pa.table(columns | more), folder / f"part-{at}.parquet")
    return folder


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    return write(tmp_path / "readings")


@pytest.fixture
def fails(spark: Any, tmp_path: Path) -> Callable[..., None]:
    """Runs a stream into files, which must fail with a message, and leave nothing behind."""

    def run(error: type[Exception], pattern: str, build: Callable[[], ps.Stream], **options: Any) -> None:
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(error, match=pattern) as caught:
            build().write_parquet(tmp_path / "out", spark, **options)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        assert "Traceback" not in str(caught.value) and "org.apache" not in str(caught.value)
        assert caught.value.__cause__ is None

    return run


# Files


def test_a_truncated_parquet_file(fails: Callable[..., None], readings: Path) -> None:
    file = readings / "part-2.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    fails(
        ps.DataError,
        r"source 'parquet': file '.*/part-2\.parquet': must be a whole Parquet file; .*; leave it out, or write it",
        lambda: ps.read_parquet(readings),
    )


def test_a_parquet_file_with_broken_pages_is_found_by_a_task(fails: Callable[..., None], readings: Path) -> None:
    file = readings / "part-2.parquet"
    held = file.read_bytes()
    file.write_bytes(held[:4] + bytes(100) + held[104:])  # the footer is whole, so the driver sees nothing
    fails(ps.DataError, r"part-2\.parquet': must be a whole Parquet file", lambda: ps.read_parquet(readings))


def test_a_line_with_too_few_fields(fails: Callable[..., None], tmp_path: Path) -> None:
    folder = tmp_path / "csv"
    folder.mkdir()
    (folder / "a.csv").write_text("k,v\n1,2.0\n")
    (folder / "b.csv").write_text("k,v\n1,2.0\n2\n")
    fails(
        ps.DataError,
        r"source 'csv': file '.*/b\.csv', line 3, byte 10: must have 2 fields; got 1 in '2'; mend or remove the line",
        lambda: ps.read_csv(folder, schema={"k": int, "v": float}),
    )


def test_text_that_is_no_utf8(fails: Callable[..., None], tmp_path: Path) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "a.txt").write_text("tea\n")
    (folder / "b.txt").write_bytes(b"tea\ncaf\xe9\n")
    fails(
        ps.DataError,
        r"source 'text': file '.*/b\.txt': must be text in UTF-8; it is not at line 2, byte 7 \(0xe9\); convert",
        lambda: ps.read_text(folder).map(size=lambda line: len(line)),
    )


def test_a_folder_without_files(fails: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    fails(ps.GraphError, r"'.*/empty' must hold a file; the folder has none", lambda: ps.read_text(tmp_path / "empty"))


def test_a_missing_path(fails: Callable[..., None], tmp_path: Path) -> None:
    fails(ps.GraphError, r"there is no such path", lambda: ps.read_parquet(tmp_path / "nowhere"))


def test_a_file_that_is_gone_when_it_is_read(fails: Callable[..., None], tmp_path: Path) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "a.txt").write_text("tea\n")
    (folder / "b.txt").write_text("tea\n")
    stream = ps.read_text(folder)
    (folder / "b.txt").unlink()
    fails(ps.DataError, r"file '.*/b\.txt': must be there while it is read; it is gone", lambda: stream)


def test_files_of_different_schemas(fails: Callable[..., None], readings: Path) -> None:
    pq.write_table(pa.table({"k": ["a"], "v": [1.0]}), readings / "part-3.parquet")
    fails(
        ps.DataError,
        r"part-3\.parquet': the field 'k' must be int64, as in '.*/part-0\.parquet'; it is string",
        lambda: ps.read_parquet(readings),
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(spark: Any, tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "bytes").write_text("".join(f"{os.urandom(500).hex()}\n" for _ in range(4000)))
    stream = ps.read_text(tmp_path / "bytes")
    with pytest.raises(
        ps.OutputError,
        match=r"write_parquet: '.*/disk/out' must have room for the result; its disk is full; free some, or",
    ):
        stream.write_parquet(small_disk / "out", spark, split_bytes=1 << 20)
    assert list(small_disk.iterdir()) == []


# Functions


def above(limit: float) -> Callable[[float], float]:
    def check(v: float) -> float:
        if v >= limit:
            raise ValueError("too much")
        return v

    return check


def test_a_function_that_raises_in_a_split(fails: Callable[..., None], readings: Path) -> None:
    fails(
        ps.FunctionError,
        r"map 'w': check raised ValueError: too much; on item 25 \(k=0, v=25.0\); at .*test_bad_input.py:\d+, in check"
        r"; in part-2\.parquet, row group 0$",
        lambda: ps.read_parquet(readings).map(w=above(25.0)),
    )


def test_small_files_that_are_read_together_are_told_apart(fails: Callable[..., None], tmp_path: Path) -> None:
    folder = tmp_path / "csv"
    folder.mkdir()
    for at in range(4):
        (folder / f"{at}.csv").write_text("k,v\n" + "".join(f"{row},{10 * at + row}\n" for row in range(10)))
    fails(
        ps.FunctionError,
        r"on item 3 of 3\.csv \(k=3, v=33.0\)",
        lambda: ps.read_csv(folder, schema={"k": int, "v": float}).map(w=above(33.0)),
        split_bytes=2 * os.path.getsize(folder / "3.csv"),
    )


class Count(ps.State):
    n: int


@pytest.mark.parametrize("ordered", [False, True])
def test_a_function_that_raises_behind_a_key(fails: Callable[..., None], readings: Path, ordered: bool) -> None:
    def counted(v: float, state: Any) -> int:
        state.n += 1
        if v == 25.0:
            raise ValueError("too much")
        return state.n  # type: ignore[no-any-return]

    fails(
        ps.FunctionError,
        r"map 'n': counted raised ValueError: too much; on an item of part-2\.parquet, row group 0 \(k=0, v=25.0\); at",
        lambda: ps.read_parquet(readings).key_by("k").map(n=counted, state=Count),
        ordered=ordered,
        split_bytes=1,
    )


class Mean(ps.Fold):
    total: float
    n: int

    def run(self, v: float) -> None:
        self.total += v
        self.n += 1

    def end(self) -> float:
        if self.total > 80.0:
            raise ValueError("too much")
        return self.total / self.n


def test_a_function_that_raises_at_the_end_of_a_key(fails: Callable[..., None], readings: Path) -> None:
    fails(
        ps.FunctionError,
        r"aggregate 'm'.* raised ValueError: too much; at the end of the stream, for the key k=\d; at ",
        lambda: ps.read_parquet(readings).key_by("k").aggregate(m=Mean),
    )


def test_nulls_in_a_key(fails: Callable[..., None], readings: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([1, None]), "v": [1.0, 2.0]}), readings / "part-2.parquet")
    fails(
        ps.DataError,
        r"source 'parquet': a field may not be null; 'k' is null in item 21; say .drop_nulls\('k'\) .*; "
        r"in part-2\.parquet, row group 0",
        lambda: ps.read_parquet(readings).key_by("k").aggregate(total=ps.sum("v")),
    )


def test_not_a_number_in_a_key(fails: Callable[..., None], readings: Path) -> None:
    pq.write_table(pa.table({"k": [1], "v": [float("nan")]}), readings / "part-2.parquet")
    fails(
        ps.DataError,
        r"key_by 'v': a key may not be NaN, .*; 'v' is NaN in an item of part-2\.parquet, row group 0; filter",
        lambda: ps.read_parquet(readings).key_by("v").aggregate(n=ps.count()),
        split_bytes=1,
    )


def test_the_rows_of_a_data_frame(fails: Callable[..., None], spark: Any, readings: Path) -> None:
    fails(
        ps.FunctionError,
        r"map 'w': check raised ValueError: too much; on item \d of partition \d of the DataFrame \(.*v=25.0\)",
        lambda: ps.from_spark(spark.read.parquet(str(readings)).coalesce(1), order_by="v").map(w=above(25.0)),
    )


def test_a_function_that_cannot_travel(fails: Callable[..., None], readings: Path) -> None:
    lock = threading.Lock()

    def locked(v: float) -> float:
        with lock:
            return v

    fails(
        ps.GraphError,
        r"map 'w': locked: a function must be able to travel to the tasks; .*lock.*; make what it uses inside of it",
        lambda: ps.read_parquet(readings).map(w=ps.returns(float, locked)),
    )


def test_a_function_that_ends_the_worker(fails: Callable[..., None], readings: Path) -> None:
    def end(v: float) -> float:
        os._exit(3)

    fails(
        ps.JobError,
        r"job: a Python worker must live until its task is done; it died; does a function end the process",
        lambda: ps.read_parquet(readings).map(w=ps.returns(float, end)),
    )


# Which of several, and what comes after


def test_the_first_error_in_the_stream_is_told(fails: Callable[..., None], readings: Path, tmp_path: Path) -> None:
    """The first split fails, but only when another one has failed already."""
    mark = tmp_path / "readings" / "_mark"

    def late(v: float) -> float:
        if v >= 20.0:
            mark.touch()
        deadline = time.monotonic() + 60
        while not mark.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        raise ValueError(f"number {v}")

    # Two tasks run at a time: one with the first two files, one with the others.
    size = sum(os.path.getsize(readings / f"part-{at}.parquet") for at in range(2))
    stream = ps.read_parquet(readings).map(w=ps.returns(float, late))
    fails(ps.FunctionError, r"raised ValueError: number 0.0; on item 0", lambda: stream, split_bytes=size // 2)


def test_a_failed_job_is_cancelled_and_the_next_one_runs(
    fails: Callable[..., None], spark: Any, readings: Path, tmp_path: Path
) -> None:
    """The other tasks would go on for a minute."""

    def endless(v: float) -> float:
        if v == 0.0:
            raise ValueError("at once")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.01)
        raise ValueError("never cancelled")

    stream = ps.read_parquet(readings)
    fails(
        ps.FunctionError, r"raised ValueError: at once", lambda: stream.map(w=ps.returns(float, endless)), split_bytes=1
    )
    assert stream.collect(spark, split_bytes=1)["v"].to_pylist() == [float(v) for v in range(40)]


# On the screen

DRIVER = """
import os, sys, time, traceback, warnings
from pathlib import Path
import penstock as ps, penstock.spark
from penstock.spark import QUICK_START

warnings.simplefilter("ignore", ps.InterpretedWarning)
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder / "modules"))
import only_here

spark = penstock.spark.session(cores=2, settings={**QUICK_START, "spark.driver.maxResultSize": "1m"})
readings = ps.read_parquet(folder / "readings")

class Count(ps.State):
    n: int

def counted(v, state):
    state.n += 1
    if v == 25.0:
        raise ValueError("too much")
    return state.n

def wait(v):
    (folder / f"begun-{os.getpid()}").touch()
    while True:
        time.sleep(0.01)

CASES = {
    "raises": lambda: readings.key_by("k").map(n=counted, state=Count).write_parquet(folder / "out", spark),
    "module": lambda: readings.map(w=only_here.double).write_parquet(folder / "out", spark),
    "too large": lambda: ps.read_text(folder / "long").collect(spark),
    "unreadable": lambda: ps.read_text(folder / "shut").write_parquet(folder / "out", spark),
    "unwritable": lambda: readings.write_parquet(folder / "locked" / "out", spark),
    "interrupted": lambda: readings.map(w=ps.returns(float, wait)).write_parquet(folder / "out", spark),
}
for name, case in CASES.items():
    print(name, end=" | ", flush=True)
    try:
        case()
    except (ps.PenstockError, KeyboardInterrupt) as error:
        print(type(error).__name__, error, sep=" | ", flush=True)
        traceback.print_exception(error)
print("after |", readings.collect(spark).num_rows)
"""


def without_privilege() -> None:
    """What root may read and write although nobody may, it may no more, nor may what it starts."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.fixture
def folder(readings: Path) -> Iterator[Path]:
    found = readings.parent
    for name in ("modules", "long", "shut", "locked"):
        (found / name).mkdir()
    (found / "modules" / "only_here.py").write_text("def double(v):\n    return 2 * v\n")
    (found / "long" / "a.txt").write_text("".join(f"{os.urandom(500).hex()}\n" for _ in range(3000)))
    (found / "shut" / "a.txt").write_text("tea\n")
    (found / "shut" / "b.txt").write_text("tea\n")
    (found / "shut" / "b.txt").chmod(0)
    (found / "locked").chmod(0o500)
    yield found
    (found / "locked").chmod(0o700)


def test_what_reaches_the_screen(folder: Path) -> None:
    """In a process of its own, with all that it and its children print: every error once, and no trace of Java."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        preexec_fn=without_privilege,
    ) as driver:
        assert driver.stdout is not None
        said = {}
        for line in iter(driver.stdout.readline, ""):
            name, *rest = line.rstrip("\n").split(" | ")
            said[name] = rest
            if name == "unwritable":
                workers = begun(folder, driver)
                driver.send_signal(signal.SIGINT)
        assert driver.stderr is not None
        screen = driver.stderr.read()
    assert driver.returncode == 0, screen
    assert said["raises"][0] == "FunctionError" and "on an item of part-2.parquet" in said["raises"][1]
    assert said["module"][0] == "JobError"
    assert said["module"][1].startswith("map 'w': double: the workers must have the module 'only_here'; they have not;")
    assert said["too large"][0] == "JobError"
    assert "the result must fit into spark.driver.maxResultSize, 1024.0 KiB; it has" in said["too large"][1]
    assert said["unreadable"][0] == "DataError"
    assert "b.txt': must be readable; permission was denied; ask for the right to read it" in said["unreadable"][1]
    assert said["unwritable"][0] == "OutputError" and "must be writable; permission was denied" in said["unwritable"][1]
    assert said["interrupted"] == ["KeyboardInterrupt", ""]
    assert said["after"] == ["40"]
    assert sorted(path.name for path in folder.iterdir() if "out" in path.name) == []
    assert list((folder / "locked").iterdir()) == []
    assert len(workers) == 2 and not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert screen.count("Traceback (most recent call last)") == 6, screen
    assert not any(word in screen for word in ("org.apache", "java.", "Caused by", "pyspark/worker"))


def begun(folder: Path, driver: subprocess.Popen[str]) -> list[int]:
    """The workers that have begun the endless job: as soon as there are two."""
    deadline = time.monotonic() + 120
    while len(found := list(folder.glob("begun-*"))) < 2:
        assert driver.poll() is None and time.monotonic() < deadline, "no task has begun"
        time.sleep(0.05)
    return [int(path.name.partition("-")[2]) for path in found]
