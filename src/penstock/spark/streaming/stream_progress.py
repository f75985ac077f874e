"""How a running stream is doing: from what Spark tells of a micro-batch, and from what was noted when it was done."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import unquote

from penstock.errors import GraphError
from penstock.graph.files.file_items import FileItems
from penstock.graph.files.path_pattern import PathPattern
from penstock.graph.files.paths import File, find
from penstock.spark.streaming.checkpoint import Checkpoint

COMPACT = ".compact"
"""How Spark ends the names of files in its log that hold all that was before."""
FORGET_FROM = 4096
"""From so many names on it is worthwhile to forget some."""


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


class WaitingFiles:
    """Counts the files that wait: those that are there, less those that Spark's log of the source names.

    The log has a file for each micro-batch, written before it runs. `oldest` maps the date of the newest file that was
    taken to the date before which Spark takes none. The name of a file from before that date is forgotten once the file
    is gone. So the names are bounded by the files that are there and those that were taken within the age.

    Invariant: `taken` has the names, from the base of the source on, and the dates of all files in the log up to number
    `read`, but for those that were forgotten; `newest` is the date and the path of the one that was changed last. Dates
    are milliseconds. Several threads may look; `lock` lets one at a time.
    """

    def __init__(self, items: FileItems, checkpoint: Checkpoint, oldest: Callable[[int], int]) -> None:
        self.items, self.checkpoint, self.oldest = items, checkpoint, oldest
        self.lock = threading.Lock()
        self.taken: dict[str, int] = {}
        self.newest: tuple[int, str] | None = None
        self.read, self.has_looked = -1, False

    def count(self) -> int:
        return len(self.left())

    def left(self) -> list[File]:
        """The files that are there and that no micro-batch has taken."""
        place = self.items.plan.found.place
        assert place is not None  # or nothing would watch it
        with self.lock:
            files = self._files()
            there = None if files is None else {_inside(place, file.path): file for file in files}
            # Only now: a file that is taken from here on may be missing from `there`, and still not be gone.
            self._forget(there)
            # The first look is before the first micro-batch of a start, so that nothing is taken meanwhile.
            self._read_log(place, None if self.has_looked else there)
            self.has_looked = True
            return [file for name, file in (there or {}).items() if name not in self.taken]

    def _files(self) -> tuple[File, ...] | None:
        """The files that are there; None where the folder cannot be looked into, which the stream itself will tell."""
        try:
            return find(self.items.plan.found.source, self.items.path, partitions=False, may_be_empty=True).files
        except GraphError:
            return None

    def _forget(self, there: Collection[str] | None) -> None:
        """Forget the names of files that Spark has forgotten too, and that are gone; none where that is unknown."""
        if self.newest is not None and there is not None:
            oldest = self.oldest(self.newest[0])
            self.taken = {name: date for name, date in self.taken.items() if date >= oldest or name in there}

    def _read_log(self, place: PathPattern, there: Collection[str] | None) -> None:
        folder, files = f"{self.checkpoint.path}/sources/0", self.checkpoint.files
        with contextlib.suppress(FileNotFoundError):  # there is none yet; or one is gone that a later one holds as well
            names = {int(name.removesuffix(COMPACT)): name for name in files.names(folder) if _is_of_log(name)}
            new = sorted(number for number in names if number > self.read)
            whole = max((number for number in new if names[number].endswith(COMPACT)), default=0)
            for number in new:
                if number >= whole:
                    self._take(place, files.lines(f"{folder}/{names[number]}"), there)
                self.read = number

    def _take(self, place: PathPattern, lines: Iterator[str], there: Collection[str] | None) -> None:
        """Take over the lines of a file of the log that tell of later micro-batches than those read.

        With `there`, names are forgotten on the way, so that a log of any length fits into memory.
        """
        read, room = self.read, FORGET_FROM
        for line in islice(lines, 1, None):  # behind the version of the log
            entry = json.loads(line)
            if int(entry["batchId"]) <= read:
                continue
            date, path = int(entry["timestamp"]), unquote(entry["path"])
            self.taken[_inside(place, path)] = date
            self.newest = max(self.newest or (0, ""), (date, path))
            if there is not None and len(self.taken) >= room:
                self._forget(there)
                room = max(FORGET_FROM, 2 * len(self.taken))


def _is_of_log(name: str) -> bool:
    return name.removesuffix(COMPACT).isdecimal()


def _inside(place: PathPattern, path: str) -> str:
    return "/".join(place.below(path) or [path])
