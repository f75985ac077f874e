"""Parts: the files of a result, as the tasks write them.

A task writes its rows under names that no other attempt of any task uses, and reports them as `ResultPart` records.
Which of them become the result, the driver decides (`penstock.spark.files.result_folder`): those of the attempts whose
records reached it. A task that is run twice, or fails half-way, leaves files that nobody names, and they are removed.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.fs as pf

from penstock.errors import OutputError
from penstock.spark.files.format import FileWriter, ResultFormat


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A file that an attempt of a task has written.

    `order` is its place among all parts of the result: these are compared as tuples. `name` is its name among the files
    that tasks write, not the one that it will have in the result.
    """

    name: str
    order: tuple[int, ...]
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Staging:
    """Where the tasks write, and how: travels to them. `target` is the path of the result, for messages."""

    filesystem: pf.FileSystem
    folder: str
    target: str
    format: ResultFormat

    def error_of(self, error: BaseException) -> OutputError:
        """What the user is told when the filesystem refuses."""
        where, reason = f"{self.format.operator}: {self.target!r}", getattr(error, "errno", None)
        if reason in (errno.ENOSPC, errno.EDQUOT):
            return OutputError(
                f"{where} must have room for the result; its disk is full; free some, or write elsewhere"
            )
        if reason == errno.EFBIG:
            return OutputError(
                f"{where}: a part must not be larger than files may be here; it was; set part_bytes below the limit"
            )
        if isinstance(error, PermissionError):
            return OutputError(f"{where} must be writable; permission was denied; ask for the right to write there")
        said = str(error).strip().split("\n")[0] or type(error).__name__
        return OutputError(f"{where} cannot be written; {said}")


class PartWriter:
    """Writes the rows of one place of a result, as one part or several.

    Parts come into being with their first row: no rows, no part. Leave the `with` block by an error, and the part that
    was begun is removed.

    Invariant: `parts` are whole, closed files; `current` is the only one open.
    """

    def __init__(self, staging: Staging, order: tuple[int, ...]) -> None:
        self.staging, self.order = staging, tuple(order)
        self.attempt = uuid.uuid4().hex[:16]
        self.parts: list[ResultPart] = []
        self.current: _OpenPart | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, after all those before."""
        if batch.num_rows == 0:
            return
        try:
            self._write(batch)
        except OSError as error:
            self.abort()
            raise self.staging.error_of(error) from None

    def _write(self, batch: pa.RecordBatch) -> None:
        if self.current is None:
            self.current = self._open()
        self.current.write(batch)
        if self.current.bytes >= self.staging.format.part_bytes:
            self._finish()

    def close(self) -> tuple[ResultPart, ...]:
        """Finish the last part; all parts, in order."""
        try:
            self._finish()
        except OSError as error:
            self.abort()
            raise self.staging.error_of(error) from None
        return tuple(self.parts)

    def write_nothing(self) -> tuple[ResultPart, ...]:
        """A part without rows, which tells the schema of a result that has none."""
        try:
            self.current = self._open()
        except OSError as error:
            self.abort()
            raise self.staging.error_of(error) from None
        return self.close()

    def abort(self) -> None:
        """Remove the part that was begun, if that can be done: the driver removes whatever is left."""
        if self.current is not None:
            self.current.drop()
            self.current = None

    def _open(self) -> _OpenPart:
        order = (*self.order, len(self.parts))
        name = "-".join([*map(str, order), self.attempt]) + self.staging.format.ending
        return _OpenPart(self.staging, name, order)

    def _finish(self) -> None:
        if self.current is not None:
            self.parts.append(self.current.close())
            self.current = None


class _OpenPart:
    """A part that is being written."""

    def __init__(self, staging: Staging, name: str, order: tuple[int, ...]) -> None:
        self.staging, self.name, self.order, self.rows = staging, name, order, 0
        self.path = f"{staging.folder}/{name}"
        # Without the word, Arrow compresses what it takes for compressed by its name, once more.
        self.sink = staging.filesystem.open_output_stream(self.path, compression=None)
        self.file: FileWriter | None = None  # until its head is written

    @property
    def bytes(self) -> int:
        """The bytes in the file so far; some more may be held back to be written together."""
        return int(self.sink.tell())

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer().write(batch)
        self.rows += batch.num_rows

    def _writer(self) -> FileWriter:
        if self.file is None:
            self.file = self.staging.format.open(self.sink)
        return self.file

    def close(self) -> ResultPart:
        self._writer().close()
        size = self.staging.filesystem.get_file_info(self.path).size or 0
        return ResultPart(self.name, self.order, self.rows, size)

    def drop(self) -> None:
        if self.file is not None:
            self.file.drop()
        with contextlib.suppress(OSError, pa.ArrowException):
            self.sink.close()
        with contextlib.suppress(OSError, pa.ArrowException):
            self.staging.filesystem.delete_file(self.path)
