"""Where the results of a running stream go: folders of files, a Python function, or any sink of Spark's.

For files and functions the driver takes what a micro-batch gave and commits it, before Spark notes the batch as done.
So after a crash the same batch may come again, with the same content and the same number:

- Files. What a batch is to put in place is written down first, under its number; then the parts are moved; then it is
  noted that this is done. A batch that comes again and was written down is brought to its end from what is written
  there, and its new parts are dropped. So every row is there once. All of this is a checkpoint's own: what is written
  down lies in it, and the folder of parts that are not yet in place, and the names of those that are, carry its
  identity. So streams with other checkpoints may write into the same folder.
- A function is called again, with the same number: it can tell by the number what it has seen.
- Spark's own sinks keep the promises that they make.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pf

from penstock.errors import GraphError, OutputError, PenstockError, cause_of, quoted, reason_text
from penstock.graph import nodes as n
from penstock.graph.sink import SparkSink
from penstock.spark.driver.results import parts_of, table
from penstock.spark.files.format import format_of, is_option
from penstock.spark.files.part import ResultPart
from penstock.spark.files.result_folder import ResultFolder
from penstock.spark.streaming.checkpoint import Checkpoint
from penstock.spark.wire import TaskResult
from penstock.spark.worker.program import ResultWriter
from penstock.spark.worker.result_writers import CollectWriter, PartResults

FORMATS = ("parquet", "csv", "json")
STAGING = "_penstock"
Record = dict[str, Any]


class StreamSink(Protocol):
    """What takes the results of micro-batches, in the driver."""

    about: str

    def open(self, checkpoint: Checkpoint, identity: str) -> None:
        """Take the results of the stream of a checkpoint from now on. Nothing is written yet."""

    def results(self) -> Callable[[int, int], ResultWriter]:
        """What the tasks do with results."""

    def begin(self) -> None:
        """Be ready; what a crash has left is cleared away or brought to its end."""

    def commit(self, batch: int, results: Sequence[TaskResult]) -> Record:
        """Take what the tasks gave for a batch, in order; what came of it."""


class FileSink:
    """A folder of files. The parts of a batch have its number, and the identity of the checkpoint, in their names."""

    def __init__(self, path: Any, leaf: n.GraphNode, format: str, options: Mapping[str, Any]) -> None:
        schema = pa.schema(list(leaf.shape.fields.items()))
        self.output = ResultFolder(path, format_of(format, schema, dict(options)), "append")
        self.files, self.target = self.output.files, self.output.target
        self.about = f"{format} in {os.fspath(path)!r}"

    def open(self, checkpoint: Checkpoint, identity: str) -> None:
        self.checkpoint, self.identity = checkpoint, identity
        self.staged = f"{self.target}/{STAGING}/{identity}"

    def results(self) -> Callable[[int, int], ResultWriter]:
        return PartResults(replace(self.output.staging, folder=self.staged))

    def begin(self) -> None:
        with self._explain():
            if self.files.kind(self.target) == pf.FileType.File:
                raise OutputError(f"{self.output.where} must be a folder or not be there; it is a file")
            self.files.make_folder(self.staged)
        last = self.checkpoint.last_batch()
        waiting = {} if last is None else self.checkpoint.batch(last) or {}
        if waiting.get("moves") and not waiting["is_done"]:
            assert last is not None
            self._finish(last, waiting)
        with self._explain():
            for name in self.files.names(self.staged):  # of tasks of this stream that died
                self.files.remove_file(f"{self.staged}/{name}")

    def commit(self, batch: int, results: Sequence[TaskResult]) -> Record:
        parts = parts_of(results)
        known = self.checkpoint.batch(batch)
        if known is None:
            known = self._planned(batch, parts)
            self.checkpoint.write_batch(batch, known)
        if not known["is_done"]:
            known = self._finish(batch, known)
        self._drop([part.name for part in parts])
        return known

    def _planned(self, batch: int, parts: Sequence[ResultPart]) -> Record:
        ending = self.output.format.ending
        names = [f"part-{batch:06}-{at:04}-{self.identity}{ending}" for at in range(len(parts))]
        # Whole paths, because the next start may have another folder.
        moves = [
            [f"{self.staged}/{part.name}", f"{self.target}/{name}"] for part, name in zip(parts, names, strict=True)
        ]
        rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
        return {"is_done": False, "moves": moves, "rows": rows, "bytes": size}

    def _finish(self, batch: int, record: Record) -> Record:
        """Put in place what is not yet there."""
        with self._explain():
            for source, target in record["moves"]:
                if self.files.kind(target) == pf.FileType.NotFound:
                    self.files.move(source, target)
                else:
                    self._refuse_taken(source, target)
        done = record | {"is_done": True}
        self.checkpoint.write_batch(batch, done)
        return done

    def _refuse_taken(self, source: str, target: str) -> None:
        """Refuse a part whose name is taken by another: what a rename has put in place is not where it was any more."""
        if self.files.moves_folders and self.files.kind(source) != pf.FileType.NotFound:
            raise OutputError(
                f"{self.output.where}: {target!r} must be put there by this stream alone; another has put it there, "
                f"with a copy of the checkpoint {self.checkpoint.given!r}; give each stream a checkpoint of its own"
            )

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError, pa.ArrowException):
                if self.files.kind(f"{self.staged}/{name}") == pf.FileType.File:
                    self.files.remove_file(f"{self.staged}/{name}")

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except PenstockError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise self.output.staging.error_of(error) from None


class FunctionSink:
    """A function of the batch's rows, as a table, and of its number."""

    def __init__(self, function: Callable[..., Any], leaf: n.GraphNode) -> None:
        self.function, self.leaf = function, leaf
        self.about = f"the function {getattr(function, '__name__', function)!r}"
        try:
            inspect.signature(function).bind(None, 0)
        except TypeError:
            raise GraphError(
                f"start: a sink that is a function must take a table and the number of its batch; {self.about} cannot"
            ) from None

    def open(self, checkpoint: Checkpoint, identity: str) -> None:
        self.checkpoint = checkpoint

    def results(self) -> Callable[[int, int], ResultWriter]:
        return CollectWriter

    def begin(self) -> None:
        """Nothing is left over."""

    def commit(self, batch: int, results: Sequence[TaskResult]) -> Record:
        made = table(self.leaf, results, has_places=False)
        try:
            self.function(made, batch)
        except Exception as error:
            told = f"{type(error).__name__}: {reason_text(error)}"
            raise OutputError(
                f"start: {self.about} must take batch {batch}; it raised {told}; mend it and start again: the batch "
                f"comes again"
            ) from cause_of(error)
        record = {"is_done": True, "rows": made.num_rows, "bytes": made.nbytes}
        self.checkpoint.write_batch(batch, record)
        return record


def sink_of(given: Any, leaf: n.GraphNode, format: str, options: dict[str, Any]) -> FileSink | FunctionSink | SparkSink:
    """The sink that `start` was given. Options of the format are taken out of `options`."""
    if isinstance(given, SparkSink):
        return given
    if isinstance(given, (str, os.PathLike)):
        if format not in FORMATS:
            raise GraphError(f"start: format must be one of {quoted(FORMATS)}; got {format!r}")
        return FileSink(given, leaf, format, {k: options.pop(k) for k in list(options) if is_option(format, k)})
    if callable(given):
        return FunctionSink(given, leaf)
    raise GraphError(
        f"start: the sink must be a folder, a function of a table and the number of its batch, or ps.spark_sink(...); "
        f"got {given!r}"
    )
