"""Which files Spark has given to a micro-batch, from its own logs in the checkpoint.

Spark hands out no row for a file of zero bytes, nor for one that was there when the micro-batch was planned and is gone
when it runs. So what the tasks have read is compared with what is written there.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from urllib.parse import unquote

import pyarrow.fs as pf

from penstock.errors import CheckpointError, DataError
from penstock.graph.files.file_items import FileItems
from penstock.spark.streaming.checkpoint import Checkpoint


def refuse_missing(batch: int, items: FileItems, paths: Collection[str], taken: Collection[str]) -> None:
    """Refuse a micro-batch of which a file was not read. `paths` are all of its files, `taken` those that were read.

    A file of zero bytes has no items, so that none of it is missing.
    """
    known = {plain(path) for path in taken}
    for path in paths:
        if plain(path) in known or not items.takes(path):
            continue
        size = items.arrived_file(path).size  # an error where it is gone
        if size:
            raise DataError(
                f"start: file {path!r}: must not change once it is there; it had no bytes when batch {batch} began, "
                f"and has {size} now; write each file under a hidden name, and rename it; start again to read it"
            )


def assigned_files(checkpoint: Checkpoint, batch: int) -> list[str]:
    """The paths of the files of a micro-batch, as Spark writes them."""
    last = _offset(checkpoint, batch)
    before = _offset(checkpoint, batch - 1) if batch else -1
    return [path for number in range(before + 1, last + 1) for path in _files(checkpoint, number)]


def _offset(checkpoint: Checkpoint, batch: int) -> int:
    """How far the source of files was with a micro-batch; -1 where it had not begun."""
    lines = _lines(checkpoint, f"offsets/{batch}")
    if lines is None or len(lines) < 3:
        raise CheckpointError(f"{checkpoint.where}: must hold Spark's log 'offsets/{batch}'; it does not")
    return -1 if lines[2] == "-" else int(json.loads(lines[2])["logOffset"])


def _files(checkpoint: Checkpoint, number: int) -> list[str]:
    """Every tenth log holds those before it too."""
    lines = _lines(checkpoint, f"sources/0/{number}") or _lines(checkpoint, f"sources/0/{number}.compact")
    if lines is None:
        raise CheckpointError(f"{checkpoint.where}: must hold Spark's log 'sources/0/{number}'; it does not")
    entries = [json.loads(line) for line in lines[1:] if line]
    return [unquote(entry["path"]) for entry in entries if int(entry["batchId"]) == number]


def _lines(checkpoint: Checkpoint, name: str) -> list[str] | None:
    path = f"{checkpoint.path}/{name}"
    if checkpoint.files.kind(path) != pf.FileType.File:
        return None
    return checkpoint.files.read_text(path).splitlines()


def plain(path: str) -> str:
    """A path without the several ways to write its beginning.

    >>> plain("file:/a/b"), plain("file:///a/b"), plain("s3a://bucket/a")
    ('/a/b', '/a/b', 's3a://bucket/a')
    """
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path
