"""How a running stream is doing: from what Spark tells of a micro-batch, and from what was noted when it was done."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from penstock.errors import GraphError
from penstock.graph.files.items import FileItems
from penstock.graph.files.paths import File, Found, find
from penstock.graph.files.place import Place
from penstock.spark.streaming.checkpoint import Checkpoint

COMPACT = ".compact"
"""How Spark ends the names of files in its log that hold all that was before."""


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How a stream is doing: its last micro-batch, and what there is in all.

    Of the micro-batch: the `items` that it took from the source and the `rows` that it gave to the sink; its `seconds`,
    and of these, in `phases`, how many it took to `look` for new files, to `plan` the batch, to `run` its tasks, to
    `commit` what they gave, and for what is none of these (`other`). `late` items came after their windows had closed.

    Of the stream: `total_items` since its first start. `waiting` is how many files lie in the folder that no batch has
    taken up; None where the source is a DataFrame. `keys` are known, in `pages`, of which the batch has read
    `pages_touched` and changed `pages_written`; `state_bytes` is the size of all that is remembered, of keys and
    otherwise, before the store compresses it.

    `skipped` is how many letters the micro-batch has: items that were skipped with `on_error="skip"`.

    With a sink of Spark's own, what tasks count does not come back: then items, keys, pages and state are 0.
    """

    batch: int
    items: int
    items_per_s: float
    rows: int
    total_items: int
    waiting: int | None
    keys: int
    pages: int
    pages_touched: int
    pages_written: int
    state_bytes: int
    seconds: float
    phases: Mapping[str, float]
    late: int = 0
    skipped: int = 0


def has_run(told: Mapping[str, Any] | None) -> bool:
    """Whether what Spark tells is of a micro-batch, and not of a look at the source that found nothing new."""
    return told is not None and "addBatch" in (told.get("durationMs") or {})


def progress_of(told: Mapping[str, Any], record: Mapping[str, Any], waiting: int | None) -> StreamProgress:
    """The progress of a micro-batch, from what Spark tells of it and what was noted."""
    phases = _phases(told.get("durationMs") or {}, record)
    seconds, items = sum(phases.values()), int(record.get("items", 0))
    rows = record.get("rows", (told.get("sink") or {}).get("numOutputRows", 0))
    return StreamProgress(
        batch=int(told["batchId"]),
        items=items,
        items_per_s=items / seconds if seconds else 0.0,
        rows=max(0, int(rows)),
        total_items=int(record.get("items_before", 0)) + items,
        waiting=waiting,
        keys=int(record.get("keys", 0)),
        pages=int(record.get("pages", 0)),
        pages_touched=int(record.get("touched", 0)),
        pages_written=int(record.get("written", 0)),
        state_bytes=int(record.get("state_bytes", 0)),
        seconds=seconds,
        phases=phases,
        late=int(record.get("late", 0)),
        skipped=int(record.get("skipped", 0)),
    )


def _phases(times: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, float]:
    """Where the time of a micro-batch went, in seconds: Spark's milliseconds, and ours, which lie within them."""
    spent = {name: value / 1000 for name, value in times.items()}
    whole = spent.get("triggerExecution", 0.0)
    found = {
        "look": spent.get("latestOffset", 0.0),
        "plan": sum(spent.get(name, 0.0) for name in ("getBatch", "queryPlanning", "walCommit")),
        "run": float(record.get("run_s", spent.get("addBatch", 0.0))),
        "commit": float(record.get("commit_s", 0.0)) + spent.get("commitOffsets", 0.0),
    }
    return found | {"other": max(0.0, whole - sum(found.values()))}


class Waiting:
    """Counts the files that wait: those that are there, less those that Spark's log of the source names.

    The log has a file for each micro-batch, written before it runs. Invariant: `taken` are the names, from the base of
    the source on, of all files in those up to number `read`, and `newest` is the time in milliseconds and the path of
    the one that was changed last.
    """

    def __init__(self, items: FileItems, checkpoint: Checkpoint) -> None:
        self.items, self.checkpoint = items, checkpoint
        self.taken: set[str] = set()
        self.newest: tuple[int, str] | None = None
        self.read = -1

    def count(self) -> int:
        return len(self.left())

    def left(self) -> list[File]:
        """The files that are there and that no micro-batch has taken."""
        place = self.items.plan.found.place
        assert place is not None  # or nothing would watch it
        found: Found | None
        try:
            found = find(self.items.plan.found.source, self.items.path, partitions=False, may_be_empty=True)
        except GraphError:  # no file is there, or the folder cannot be looked into, which the stream itself will tell
            found = None
        self._read_log(place)
        return [file for file in (found.files if found else ()) if _inside(place, file.path) not in self.taken]

    def _read_log(self, place: Place) -> None:
        folder, files = f"{self.checkpoint.path}/sources/0", self.checkpoint.files
        with contextlib.suppress(FileNotFoundError):  # there is none yet; or one is gone that a later one holds as well
            names = {int(name.removesuffix(COMPACT)): name for name in files.names(folder) if _is_of_log(name)}
            new = sorted(number for number in names if number > self.read)
            whole = max((number for number in new if names[number].endswith(COMPACT)), default=0)
            for number in new:
                if number >= whole:
                    self._take(place, files.read_text(f"{folder}/{names[number]}"))
                self.read = number

    def _take(self, place: Place, text: str) -> None:
        for line in text.splitlines()[1:]:  # behind the version of the log
            entry = json.loads(line)
            path = unquote(entry["path"])
            self.taken.add(_inside(place, path))
            self.newest = max(self.newest or (0, ""), (int(entry["timestamp"]), path))


def _is_of_log(name: str) -> bool:
    return name.removesuffix(COMPACT).isdecimal()


def _inside(place: Place, path: str) -> str:
    return "/".join(place.below(path) or [path])
