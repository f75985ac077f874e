"""How a running stream is doing, from records and logs such as Spark and the commit of a micro-batch leave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.graph.files.file_items import FileItems
from penstock.spark.streaming.checkpoint import Checkpoint
from penstock.spark.streaming.stream_progress import FORGET_FROM, WaitingFiles, has_run, progress_of

TIMES = {
    "latestOffset": 20,
    "getBatch": 10,
    "queryPlanning": 80,
    "walCommit": 10,
    "addBatch": 850,
    "commitOffsets": 10,
    "triggerExecution": 1000,
}
RECORD = {
    "items": 500,
    "rows": 7,
    "items_before": 1000,
    "keys": 50,
    "pages": 8,
    "touched": 5,
    "written": 3,
    "state_bytes": 1200,
    "run_s": 0.7,
    "commit_s": 0.04,
}


def told(batch: int = 3, **times: int) -> dict[str, Any]:
    return {"batchId": batch, "durationMs": times or TIMES, "sink": {"numOutputRows": -1}}


def test_a_micro_batch() -> None:
    found = progress_of(told(), RECORD, 2)
    assert (found.batch, found.items, found.rows, found.total_items, found.waiting) == (3, 500, 7, 1500, 2)
    assert (found.keys, found.pages, found.pages_touched, found.pages_written, found.state_bytes) == (50, 8, 5, 3, 1200)
    assert found.phases == pytest.approx({"look": 0.02, "plan": 0.1, "run": 0.7, "commit": 0.05, "other": 0.13})
    assert found.seconds == pytest.approx(1.0) and found.items_per_s == pytest.approx(500)


def test_a_micro_batch_that_nothing_was_noted_of() -> None:
    found = progress_of(told() | {"sink": {"numOutputRows": 9}}, {}, None)
    assert (found.items, found.rows, found.pages, found.waiting) == (0, 9, 0, None)
    assert found.phases["run"] == pytest.approx(0.85) and found.seconds == pytest.approx(1.0)


def test_a_look_that_found_nothing_is_no_micro_batch() -> None:
    assert has_run(told())
    assert not has_run(told(latestOffset=4, triggerExecution=4)) and not has_run(None)


# Files that wait


AGE = 1000


def waiting(path: Path, checkpoint: Path) -> WaitingFiles:
    items = ps.read_text(path).node.source.items
    assert isinstance(items, FileItems)
    return WaitingFiles(items, Checkpoint(checkpoint), lambda newest: newest - AGE)


def log(checkpoint: Path, name: str, *paths: str, time: int = 1) -> None:
    """A file of Spark's log of a source: its version, and a line for each file that was taken."""
    batch = int(name.split(".")[0] or 0)
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": path, "timestamp": time, "batchId": batch}) for path in paths]
    (folder / name).write_text("\n".join(["v1", *lines]))


def test_files_that_no_batch_has_taken_wait(tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "ck"
    (source / "a b").mkdir(parents=True)
    found = waiting(source, checkpoint)
    assert found.count() == 0
    for name in ("1.txt", "2.txt", "a b/3%.txt", "_begun.txt"):
        (source / name).write_text("x\n")
    assert found.count() == 3
    log(checkpoint, "0", f"file://{source}/1.txt")
    log(checkpoint, ".0.crc")
    assert found.count() == 2
    log(checkpoint, "1", f"file://{source}/a%20b/3%25.txt")
    assert found.count() == 1
    (source / "1.txt").unlink()  # what was taken may go, and counts for nothing
    assert found.count() == 1
    assert waiting(source, checkpoint).count() == 1


def test_a_log_that_was_made_shorter(tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "ck"
    source.mkdir()
    for at in range(12):
        (source / f"{at}.txt").write_text("x\n")
    paths = [f"file://{source}/{at}.txt" for at in range(12)]
    log(checkpoint, "8", paths[8])
    log(checkpoint, "9.compact", *paths[:10])
    log(checkpoint, "10", paths[10])
    found = waiting(source, checkpoint)
    assert found.count() == 1
    log(checkpoint, "11", paths[11])
    assert found.count() == 0


def test_of_a_glob_only_what_it_means_waits(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    found = waiting(tmp_path / "in" / "*.txt", tmp_path / "ck")
    assert found.count() == 0
    (tmp_path / "in" / "1.txt").write_text("x\n")
    (tmp_path / "in" / "1.csv").write_text("x\n")
    assert found.count() == 1
    (tmp_path / "in" / "1.txt").unlink()
    (tmp_path / "in" / "1.csv").unlink()
    (tmp_path / "in").rmdir()
    assert found.count() == 0


# The names that are remembered


def folders(path: Path) -> tuple[Path, Path]:
    (path / "in").mkdir()
    return path / "in", path / "ck"


def taken(source: Path, checkpoint: Path, number: int, time: int) -> Path:
    """A file that a micro-batch has taken."""
    path = source / f"{number}.txt"
    path.write_text("x\n")
    log(checkpoint, str(number), f"file://{path}", time=time)
    return path


def test_names_stay_bounded_where_files_are_removed(tmp_path: Path) -> None:
    source, checkpoint = folders(tmp_path)
    found, kept = waiting(source, checkpoint), 5
    for number in range(200):
        taken(source, checkpoint, number, time=100 * number)
        if number >= kept:
            (source / f"{number - kept}.txt").unlink()
        assert found.count() == 0
        assert len(found.taken) <= AGE // 100 + 2


def test_names_of_files_that_are_there_stay_however_old(tmp_path: Path) -> None:
    source, checkpoint = folders(tmp_path)
    found = waiting(source, checkpoint)
    for number in range(10):
        taken(source, checkpoint, number, time=10 * AGE * number)
        assert found.count() == 0
    assert len(found.taken) == 10


def test_a_compact_log_brings_no_name_back(tmp_path: Path) -> None:
    source, checkpoint = folders(tmp_path)
    found = waiting(source, checkpoint)
    entries = [(taken(source, checkpoint, number, time=10 * AGE * number), number) for number in range(10)]
    assert found.count() == 0
    for path, _ in entries:
        path.unlink()
    taken(source, checkpoint, 10, time=100 * AGE)
    lines = [{"path": f"file://{path}", "timestamp": 10 * AGE * at, "batchId": at} for path, at in entries]
    last = {"path": f"file://{source}/10.txt", "timestamp": 100 * AGE, "batchId": 10}
    (checkpoint / "sources" / "0" / "10").unlink()
    text = "\n".join(["v1", *map(json.dumps, [*lines, last])])
    (checkpoint / "sources" / "0" / "10.compact").write_text(text)
    assert found.count() == 0 and list(found.taken) == ["9.txt", "10.txt"]  # the log before had none that was newer
    assert found.count() == 0 and list(found.taken) == ["10.txt"]


def test_a_long_log_is_read_in_bounded_memory(tmp_path: Path) -> None:
    source, checkpoint = folders(tmp_path)
    path = taken(source, checkpoint, 0, time=0)
    entries = [{"path": f"file://{source}/{at}.txt", "timestamp": at, "batchId": 9} for at in range(5 * FORGET_FROM)]
    text = "\n".join(["v1", *map(json.dumps, entries)])
    (checkpoint / "sources" / "0" / "9.compact").write_text(text)
    found = waiting(source, checkpoint)
    assert found.count() == 0 and path.name in found.taken
    assert len(found.taken) <= FORGET_FROM


def test_nothing_is_forgotten_while_the_folder_cannot_be_read(tmp_path: Path) -> None:
    source, checkpoint = folders(tmp_path)
    found = waiting(source, checkpoint)
    for number in range(3):
        taken(source, checkpoint, number, time=10 * AGE * number)
    assert found.count() == 0
    source.rename(tmp_path / "away")
    assert found.count() == 0
    (tmp_path / "away").rename(source)
    assert found.count() == 0 and len(found.taken) == 3


def test_a_name_that_was_forgotten_waits_when_it_comes_back(tmp_path: Path) -> None:
    source, checkpoint = folders(tmp_path)
    found = waiting(source, checkpoint)
    taken(source, checkpoint, 0, time=0).unlink()
    taken(source, checkpoint, 1, time=10 * AGE)
    assert [found.count(), found.count()] == [0, 0]
    (source / "0.txt").write_text("x\n")  # Spark has forgotten it as well: it takes it, or passes over it
    assert found.count() == 1
