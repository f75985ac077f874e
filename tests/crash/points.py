"""The points of a micro-batch at which a driver kills itself, with all that it has started.

The product knows nothing of them: methods of it are wrapped.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.spark.files.filesystem import Files
from penstock.spark.streaming.checkpoint import Checkpoint
from penstock.spark.streaming.query import StreamQuery
from penstock.spark.streaming.stream_sinks import FileSink
from penstock.spark.streaming.supervisor import Supervisor


@dataclass(frozen=True)
class Point:
    """Before or after a call of a method; `when` says of its arguments whether the call is meant.

    `leaves` is what is then to be found of the batch, as `found_of` tells it.
    """

    owner: type
    method: str
    leaves: str
    is_after: bool = False
    when: Callable[..., bool] = lambda *_: True


def _is_part(files: Files, source: str, target: str) -> bool:
    return "/part-" in target and not _is_letter(files, source, target)


def _is_letter(files: Files, source: str, target: str) -> bool:
    return "/dead/part-" in target


def _says_done(checkpoint: Checkpoint, number: int, record: dict[str, Any]) -> bool:
    return bool(record["is_done"]) and "items" not in record


POINTS = {
    # Spark has noted which files belong to the batch; nothing of it has run.
    "planned": Point(StreamQuery, "_commit", "nothing"),
    # The tasks are done: the state of the batch is written, and its parts lie in the staging folder.
    "state written": Point(FileSink, "commit", "nothing"),
    # It is written down which parts are to be moved; none is.
    "intent written": Point(FileSink, "_finish", "intent"),
    # In the middle of the moves.
    "some moved": Point(Files, "move", "some parts", True, _is_part),
    # All parts are in place, and it is not noted yet.
    "all moved": Point(Checkpoint, "write_batch", "all parts", False, _says_done),
    # Our commit is done; what the batch did is not noted yet.
    "committed": Point(FileSink, "commit", "done", True),
    # All of ours is done; Spark has not noted the batch as done.
    "noted": Point(StreamQuery, "_commit", "done, and noted", True),
}


# Where a stream has dead letters: they are put in place before the results of their batch.
LETTER_POINTS = {
    "letters staged": Point(Files, "move", "nothing", False, _is_letter),
    "letters moved": Point(Files, "move", "nothing", True, _is_letter),
}

# Around what a driver does when it sends a signal.
SEND_POINTS = {
    # It lies there for Spark to find; nothing has taken it up.
    "signal written": Point(Checkpoint, "write_signal", "", True),
    # A task has placed it, and it has acted; its index is not noted.
    "signal acted": Point(Checkpoint, "note_placed", "", False, lambda *given: len(given) > 3),
}

# While a stream starts again by itself.
RESTART_POINTS = {
    "restarting": Point(Supervisor, "_again", ""),
    "restarted": Point(StreamQuery, "start", "", True),
}


STAGES = ("nothing", "intent", "some parts", "all parts", "done", "done, and noted")
"""How far the commit of a batch can have come."""


def found_of(checkpoint: Checkpoint, batch: int, out: Path) -> str:
    """How far the commit of a batch has come, one of `STAGES`, by what is on the disk."""
    record = checkpoint.batch(batch)
    if record is None:
        return "nothing"
    if record["is_done"]:
        return "done, and noted" if "items" in record else "done"
    moved = [(out / name).exists() for _, name in record["moves"]]
    return "all parts" if all(moved) else "some parts" if any(moved) else "intent"


def arm(name: str, at: int = 1) -> None:
    """Have this process die at a point, when it gets there for the time `at`, counted from 1."""
    point, count = (POINTS | LETTER_POINTS | SEND_POINTS | RESTART_POINTS)[name], 0
    method = getattr(point.owner, point.method)

    def wrapped(*arguments: Any) -> Any:
        nonlocal count
        is_meant = point.when(*arguments)
        count += is_meant
        if is_meant and count == at and not point.is_after:
            die()
        found = method(*arguments)
        if is_meant and count == at and point.is_after:
            die()
        return found

    setattr(point.owner, point.method, wrapped)


def die() -> None:
    os.killpg(0, signal.SIGKILL)
