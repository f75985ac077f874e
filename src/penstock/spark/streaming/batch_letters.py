"""The dead letters of a running stream: each micro-batch's in one file, whose name tells the batch and the checkpoint.

What a batch skips is fixed by its files and by the state before it, so a batch that comes again has the same letters.
Its file is moved into place in one step, and one that is there already is left alone: so every letter is there once.
Letters are in place before the results of their batch are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pf

from penstock.errors import OutputError, PenstockError
from penstock.graph.letters import SCHEMA, Letter, order_of, table_of
from penstock.spark.driver.results import JobOutput
from penstock.spark.files.folders import Folder
from penstock.spark.files.format import format_of
from penstock.spark.files.part import PartWriter
from penstock.spark.files.result_folder import ResultFolder
from penstock.spark.streaming.stream_sinks import STAGING
from penstock.spark.wire import SenderOrigin


def letters_in(output: JobOutput, origins: Sequence[SenderOrigin]) -> list[Letter]:
    """The letters of a micro-batch that has read these, in the order of the source: files, items, nodes.

    The index is that in the file. Rows of windows of time, and what is given when idle keys end, have none of both, and
    come last.
    """
    taken = sorted(origins)
    splits = max((int(each.state.get("splits", 0)) for each in output.counts), default=0)
    made: dict[tuple[Any, ...], Letter] = {}
    for each in output.skipped:
        at = len(taken)
        if each.label is not None:
            at = [origin.label for origin in taken].index(each.label)
        elif each.split is not None:
            at = each.split - (splits - len(taken))
        label = taken[at].label if 0 <= at < len(taken) else None
        letter = replace(each.letter, index=each.offset if label else None, file=label)
        key = (at, *order_of(letter))
        known = made.get(key)
        made[key] = letter if known is None else replace(known, count=known.count + letter.count)
    return [_with_position(made[key]) for key in sorted(made)]


def _with_position(letter: Letter) -> Letter:
    return letter if letter.file is None or letter.position else replace(letter, position=f"item {letter.index}")


class StreamLetters:
    """A folder for the dead letters of a stream."""

    def __init__(self, path: Any) -> None:
        self.output = ResultFolder(os.fspath(path), format_of("parquet", SCHEMA, {}), "append")
        self.files, self.target = self.output.files, self.output.target

    @property
    def folder(self) -> Folder:
        return replace(self.output.folder, role="the dead letters")

    def open(self, identity: str) -> None:
        """Take the letters of the stream of a checkpoint with this identity. Clear away what a crash has left."""
        self.identity = identity
        self.staged = f"{self.target}/{STAGING}/{identity}"
        with self._explain():
            if self.files.kind(self.target) == pf.FileType.File:
                raise OutputError(f"{self.output.where} must be a folder or not be there; it is a file")
            self.files.make_folder(self.staged)
            for name in self.files.names(self.staged):
                self.files.remove_file(f"{self.staged}/{name}")

    def commit(self, batch: int, letters: Sequence[Letter]) -> None:
        """Put the letters of a micro-batch in place, unless they are."""
        target = f"{self.target}/part-{batch:06}-0000-{self.identity}{self.output.format.ending}"
        with self._explain():
            if not letters or self.files.kind(target) != pf.FileType.NotFound:
                return
            with PartWriter(replace(self.output.staging, folder=self.staged), (batch,)) as writer:
                for rows in table_of(letters).to_batches():
                    writer.write(rows)
                (part,) = writer.close()
            self.files.move(f"{self.staged}/{part.name}", target)

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except PenstockError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise self.output.staging.error_of(error) from None
