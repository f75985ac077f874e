"""How long the files of a stream are remembered, and which of those in its folder Spark passes over.

Spark's source of files remembers the files that it has taken until they are dated more than `maxFileAge` before the
newest of them, so that the list stays bounded. It takes no file that is older than that when it comes, and says
nothing. What we remember ourselves is bounded by the same date (`stream_progress.Waiting`). One file dated in the
future, by a wrong clock, moves that bound beyond all files that are still to come.

So the age that Spark is given allows for what is dated ahead of the clock when the stream starts, and whatever Spark
passes over all the same is an error, with the name of the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.fs as pf

from penstock.errors import DataError, GraphError
from penstock.graph.files.file_items import FileItems
from penstock.graph.files.paths import File
from penstock.spark.streaming.checkpoint import Checkpoint
from penstock.spark.streaming.stream_progress import WaitingFiles

MAX_AGE = timedelta(days=3650)
UNLIMITED_MS = 36_500_000 * 86_400_000
"""An age that no file reaches, for folders of which only we write the files."""
LOOK_EVERY_S = 60.0
"""How long a stream that runs goes without a look for files that Spark passes over."""


def age_of(given: Any) -> timedelta:
    """The age that `max_file_age=` says.

    >>> age_of(None).days, age_of(3600), age_of(timedelta(days=7)).days
    (3650, datetime.timedelta(seconds=3600), 7)
    """
    if given is None:
        return MAX_AGE
    found = given
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < 1e12:
        found = timedelta(seconds=given)
    if not isinstance(found, timedelta) or found <= timedelta(0):
        raise GraphError(f"start: max_file_age must be a timedelta above 0, or a number of seconds; got {given!r}")
    return found


class Passed:
    """Finds the files in the folder of a source that Spark passes over.

    `age_ms` is the `maxFileAge` that Spark is given: what the user allows, and how far the newest file that it has
    taken so far is ahead of the clock. It is fixed with the start of a query.
    """

    def __init__(
        self,
        items: FileItems,
        checkpoint: Checkpoint,
        max_age: timedelta,
        *,
        now_s: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock, self.start_ms = clock, int(now_s() * 1000)
        self.is_fixed, self.age_ms = False, int(max_age.total_seconds() * 1000)
        self.waiting = WaitingFiles(items, checkpoint, self.oldest)
        self.waiting.count()
        newest, _ = self.waiting.newest or (0, "")
        self.age_ms, self.is_fixed = newest - self.oldest(newest), True
        self.looked_s = clock()

    def oldest(self, newest: int) -> int:
        """The date of the oldest file that Spark takes, and remembers, beside one of a date; in milliseconds."""
        ahead_ms = 0 if self.is_fixed else max(0, newest - self.start_ms)
        return newest - min(UNLIMITED_MS, self.age_ms + ahead_ms)

    def refuse_now_and_then(self) -> None:
        """The same as `refuse`, but no more often than is cheap."""
        if self.clock() - self.looked_s >= LOOK_EVERY_S:
            self.refuse()

    def refuse(self) -> None:
        """Raise for a file that Spark will not take, where there is one."""
        self.looked_s = self.clock()
        left = self.waiting.left()
        if self.waiting.newest is None:
            return  # nothing has been taken: whatever is there will be
        newest, name = self.waiting.newest
        for file, dated in _dated(left):
            if dated < self.oldest(newest):
                raise DataError(
                    f"start: {file.where}: must be dated at most {_days(self.age_ms)} before the newest file that was "
                    f"taken, or Spark passes over it; it is dated {_date(dated)}, and {name!r} is dated "
                    f"{_date(newest)}; start again if that one is dated in the future, which a start allows for; else "
                    f"give the file a newer date, or say max_file_age="
                )


def _dated(files: list[File]) -> Iterator[tuple[File, int]]:
    """Files that are there, each with the time of its last change in milliseconds."""
    for file in files:
        info = file.filesystem.get_file_info(file.path)
        if info.type == pf.FileType.File and info.mtime_ns is not None:
            yield file, info.mtime_ns // 1_000_000


def _date(ms: int) -> str:
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms):%Y-%m-%d %H:%M}"


def _days(ms: int) -> str:
    days = ms / 86_400_000
    return f"{days:,.0f} days" if days >= 2 else f"{ms / 1000:,.0f} s"
