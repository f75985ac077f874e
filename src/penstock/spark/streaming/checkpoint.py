"""What Penstock itself keeps in the checkpoint folder of a running stream, beside Spark's logs.

Under `penstock/` in that folder there are

==================  =================================================================================================
`graph.json`        the graph that the checkpoint is for (`description`), written anew where that has changed
`lock`              held by the process of the one query that runs, where the folder is on a local filesystem
`control/`          signals that were sent, a file each (`signals`); Spark reads this folder
`placed/`           where each of them was placed
`batches/`          what each micro-batch did
`groups.json`       which files of the last micro-batch of many are read together (`groups`)
==================  =================================================================================================

A file is there whole or not at all, whenever a process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.fs as pf

from penstock.errors import CheckpointError, ControlError, InternalError
from penstock.graph.files.paths import first_line
from penstock.graph.record import Signal
from penstock.spark.files.filesystem import Files, resolve_path
from penstock.spark.streaming.description import Description, differences
from penstock.spark.streaming.lock import Lock
from penstock.spark.streaming.sent_signals import Known, SignalPosition, name_of, new_name, signal_of, signal_record
from penstock.spark.streaming.steps import with_slots

MOST_DIFFERENCES = 5
POLL_S = 0.05
FOLDERS = ("control", "placed", "batches")
LASTING = ("id", "buckets", "hash_seed")
"""What decides where the state of a key lies, and what files are called, and so stays as it was at the first start."""
SPARKS_OWN = ("metadata", "offsets", "commits", "sources", "state")
"""What Spark writes into the folder of a query."""


class Checkpoint:
    """The folder of a stream: to open, for the one query that runs it; or to look into, for anybody.

    `operator` is what messages begin with. It travels to tasks, without its lock.
    """

    def __init__(self, path: str | os.PathLike[str], operator: str = "start") -> None:
        self.given = os.fspath(path)
        self.where = f"{operator}: {self.given!r}"
        filesystem, self.path = resolve_path(self.where, self.given)
        self.files = Files(filesystem)
        self.folder = f"{self.path}/penstock"
        self.lock: Lock | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "lock": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Opening

    def open(self, description: Description) -> Description:
        """Take the folder for a graph: a new one, or one whose state fits the graph. The description in force.

        In that, `LASTING` values are those that the checkpoint was begun with, whatever is given now. At most one query
        may run on a checkpoint; on a local filesystem a lock sees to it, until `close` or the end of the process. On
        others nothing does.
        """
        with self._explain():
            self._refuse_other_programs()
            for name in FOLDERS:
                self.files.make_folder(f"{self.folder}/{name}")
            if self.files.is_local:
                self.lock = Lock(f"{self.folder}/lock", self.where)
        try:
            return self._in_force(description)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another query have the folder. Harmless where it was not opened."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def _in_force(self, now: Description) -> Description:
        held = self.description()
        if held is None:
            self.write("graph", now)
            return now
        found = differences(held, now)
        if found:
            raise self._refused(found)
        lasting = {name: held[name] for name in LASTING if name in held}
        if now["fixed"] is None:
            lasting["stages"] = with_slots(held["stages"], now["stages"])
        made = now | lasting
        if made != held:
            self.write("graph", made)
        return made

    def _refused(self, found: list[str]) -> CheckpointError:
        listed = "; ".join(found[:MOST_DIFFERENCES])
        more = len(found) - MOST_DIFFERENCES
        return CheckpointError(
            f"{self.where} must be the checkpoint of this graph; {listed}{f'; and {more} more' if more > 0 else ''}; "
            f"use another folder, or go on with the graph that it was made for"
            f"{_UPGRADE if any(each.startswith('the state ') for each in found) else ''}"
        )

    def _refuse_other_programs(self) -> None:
        if self.files.kind(self.path) == pf.FileType.File:
            raise CheckpointError(f"{self.where} must be a folder, or not be there; it is a file; name another path")
        if self.files.kind(self.path) == pf.FileType.NotFound or self.description() is not None:
            return
        found = [name for name in self.files.names(self.path) if name in SPARKS_OWN]
        if found:
            raise CheckpointError(
                f"{self.where} must be a new folder, or the checkpoint of a stream of Penstock; it is that of another "
                f"program, because it has {found[0]!r} and no 'penstock/graph.json'; use another folder"
            )

    def description(self) -> Description | None:
        """The description that the checkpoint was begun with, or None where none was."""
        return self.read("graph")

    # Batches

    def write_batch(self, number: int, record: dict[str, Any]) -> None:
        """Note what a micro-batch did: anything that JSON can hold. A later note of the same batch replaces it."""
        self.write(f"batches/{number:020}", record)

    def batch(self, number: int) -> dict[str, Any] | None:
        """What was noted of a micro-batch."""
        return self.read(f"batches/{number:020}")

    def items_until(self, number: int) -> int | None:
        """How many items all micro-batches up to and with this one have taken; None where that was not noted."""
        record = self.batch(number)
        if record is None or "items_before" not in record:
            return None
        return int(record["items_before"]) + int(record["items"])

    def last_batch(self) -> int | None:
        """The number of the last micro-batch that something was noted of."""
        return max(self._batches(), default=None)

    def _batches(self) -> list[int]:
        return [int(name) for name in self.names("batches") if name.isdecimal()]

    def forget_before(self, number: int) -> None:
        """Remove what is known of micro-batches before this one, and the signals that were placed in them.

        They must be beyond recall: Spark may run none of them again.
        """
        with self._explain():
            for batch in self._batches():
                if batch < number:
                    self.remove(f"batches/{batch:020}")
            for name in self.names("placed"):
                place = self.read(f"placed/{name}")
                if place is not None and place["batch"] < number and not name.startswith("at-"):
                    self.remove(f"control/{name}")  # first, so that no signal seems to wait for its place again
                    self.remove(f"placed/{name}")

    # Signals

    def signals(self) -> Known:
        """The signals that the stream handles."""
        held = self.description()
        if held is None:
            raise CheckpointError(
                f"{self.where} must be the checkpoint of a stream; it has no 'penstock/graph.json'; start the stream "
                f"before, or name its folder"
            )
        found: Known = held["signals"]
        return found

    def write_signal(self, signal: str, values: Mapping[str, Any]) -> str:
        """Leave a signal for the stream to place, with a value for every field. The name that it has from now on.

        Nothing is written unless the stream handles such a signal, and its fields can hold these values.
        """
        record, name = signal_record(self.where, self.signals(), signal, values), new_name()
        self.write(f"control/{name}", record)
        return name

    def read_signal(self, path: str, classes: Mapping[str, type[Signal]]) -> Signal:
        """The signal of a file in `control/`: of its path, in whatever form, only the name counts."""
        file = f"control/{name_of(path)}"
        found = self.read(file)
        if found is None:
            raise CheckpointError(
                f"{self.where}: a signal must stay until it is placed; 'penstock/{file}.json' is gone; put it back, or "
                f"use another folder"
            )
        try:
            return signal_of(found, classes)
        except CheckpointError as error:
            raise CheckpointError(
                f"{self.where}: 'penstock/{file}.json' must hold a signal of the stream, {error}; remove the file"
            ) from None

    def note_placed(self, path: str, batch: int, index: int | None = None) -> None:
        """Write down where a signal stands, for good: the same place may be noted again, another may not."""
        name, place = name_of(path), SignalPosition(batch, index)
        before = self.placed(name)
        if before is not None and before.contradicts(place):
            raise InternalError(
                f"{self.where}: a signal must keep its place; {name!r} was placed {before}, and now {place}"
            )
        if before is None or (before.index is None and index is not None):
            self.write(f"placed/{name}", {"batch": batch, "index": index})

    def _is_counted(self) -> bool:
        return bool((self.description() or {}).get("is_counted"))

    def placed(self, path: str) -> SignalPosition | None:
        """Where a signal stands, or None while it waits."""
        found = self.read(f"placed/{name_of(path)}")
        return None if found is None else SignalPosition(found["batch"], found["index"])

    def wait_placed(
        self,
        path: str,
        timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> SignalPosition:
        """Where a signal stands, as soon as it is placed. A ControlError after so many seconds: it still waits then.

        Its index is known when the micro-batch is done, of a stream whose items are counted; that is waited for too.
        """
        until = clock() + timeout_s
        while (place := self.placed(path)) is None or (place.index is None and self._is_counted()):
            left = until - clock()
            if left <= 0 and place is not None:
                return place
            if left <= 0:
                raise ControlError(
                    f"{self.where}: a signal must be placed by a stream that runs; none has placed it within "
                    f"{timeout_s:g} s; it waits, and will be placed when the stream runs"
                )
            sleep(min(POLL_S, left))
        return place

    # Files of JSON, by their names without the ending

    def names(self, folder: str) -> list[str]:
        """The names of the files in one of the folders, in order."""
        with self._explain():
            if self.files.kind(f"{self.folder}/{folder}") != pf.FileType.Directory:
                return []
            found = self.files.names(f"{self.folder}/{folder}")
        return [name.removesuffix(".json") for name in found if name.endswith(".json") and name[0] not in "._"]

    def read(self, name: str) -> dict[str, Any] | None:
        """What a file holds, or None where there is none."""
        path = f"{self.folder}/{name}.json"
        with self._explain():
            try:
                text = self.files.read_text(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        try:
            found = json.loads(text)
        except ValueError as error:
            raise self._damaged(name, first_line(error)) from None
        if not isinstance(found, dict):
            raise self._damaged(name, f"it holds {text[:40]!r}")
        return found

    def _damaged(self, name: str, what: str) -> CheckpointError:
        return CheckpointError(
            f"{self.where}: 'penstock/{name}.json' must hold what Penstock wrote; {what}; restore it, or use another "
            f"folder"
        )

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Have a file hold this, whole or not at all."""
        text = json.dumps(record, indent=1 if name == "graph" else None)
        with self._explain():
            self.files.write_text_atomically(f"{self.folder}/{name}.json", text + "\n")

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is as good as removed."""
        with self._explain(), contextlib.suppress(FileNotFoundError):
            self.files.remove_file(f"{self.folder}/{name}.json")

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        """What is said when the filesystem refuses."""
        try:
            yield
        except PermissionError:
            raise CheckpointError(
                f"{self.where} must be readable and writable; permission was denied; ask for the right to both"
            ) from None
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(
                f"{self.where} must be a folder that can be written; {first_line(error)}; use another"
            ) from None


_UPGRADE = ", or give the state class a classmethod upgrade(cls, old)"
