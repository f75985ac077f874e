"""A folder of result files, all or nothing: the driver's side.

The tasks write into a hidden folder beside the target, on the same filesystem. At the end the driver moves the parts
that it was told of into a second folder there, under their final names, and then puts that folder in place of the
target in one step. Whatever else the tasks have left (files of attempts that failed, or were doubled, or still run)
stays in the first folder and goes with it.

=========  ==================================================  ======================================================
mode       where a folder moves in one step (local, HDFS)      on an object store
=========  ==================================================  ======================================================
error      one rename                                          file by file, then ``_SUCCESS``
overwrite  one exchange, or two renames where there is none    the same beside the old files, then these are removed
append     one rename a file                                   one move a file
=========  ==================================================  ======================================================

When a step fails, the steps before it are undone. When the driver dies, only the rows of this table with more than one
step can leave a state between the old and the new.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.fs as pf

from penstock.errors import GraphError, InternalError, OutputError, quoted
from penstock.spark.files.filesystem import Files, resolve_path
from penstock.spark.files.folders import Folder
from penstock.spark.files.format import ResultFormat
from penstock.spark.files.part import PartWriter, ResultPart, Staging

MODES = ("error", "overwrite", "append")
SUCCESS = "_SUCCESS"
_NUMBER = re.compile(r"part-(\d+)")


class ResultFolder:
    """The result of a run as files in a folder. Begin, let tasks write, then commit; or abort.

    As a context manager it begins, and aborts unless it was committed.
    """

    def __init__(
        self, path: str | os.PathLike[str], form: ResultFormat, mode: str = "error", *, files: Files | None = None
    ) -> None:
        if mode not in MODES:
            raise GraphError(f"{form.operator}: mode must be one of {quoted(MODES)}; got {mode!r}")
        self.given, self.format, self.mode = os.fspath(path), form, mode
        self.where = f"{form.operator}: {self.given!r}"
        filesystem, self.target = resolve_path(self.where, self.given)
        self.files = Files(filesystem) if files is None else files
        parent, _, name = self.target.rpartition("/")
        self.hidden = f"{parent}/.{name}-{uuid.uuid4().hex[:16]}"
        self.tasks, self.ready, self.old = (f"{self.hidden}/{name}" for name in ("tasks", "ready", "old"))
        self.staging = Staging(filesystem, self.tasks, self.given, form)
        self.made: list[str] = []  # folders above the target that were not there, outermost first

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    @property
    def folder(self) -> Folder:
        """The target, as one of the folders of a run."""
        return Folder("the result", self.given, self.staging.filesystem, self.target)

    def part_name(self, number: int) -> str:
        """The name of a file of the result."""
        return f"part-{number:05}{self.format.ending}"

    # The three steps

    def begin(self) -> Staging:
        """Check that the target can be written, and make the place where the tasks write."""
        with self._explain():
            self._check_target()
            self._note_missing_parents()
            try:
                self.files.make_folder(self.tasks)
            except BaseException:
                self.abort()
                raise
        return self.staging

    def commit(self, parts: Sequence[ResultPart]) -> tuple[str, ...]:
        """Put the result in place: these parts, in the order of their keys, and no others. The names of the files.

        If it fails, the target is as it was before, and nothing else is left.
        """
        ordered = sorted(parts, key=lambda part: part.order)
        _refuse_doubled(ordered)
        try:
            with self._explain():
                if not ordered and self.mode != "append":
                    ordered = list(PartWriter(self.staging, ()).write_nothing())
                names = self._commit(ordered)
        except BaseException:
            self.abort()
            raise
        self._clean()
        return names

    def abort(self) -> None:
        """Leave no trace of a result that was not committed. Harmless after a commit."""
        self._clean()
        for folder in reversed(self.made):
            with contextlib.suppress(OSError, pa.ArrowException):
                if not self.files.names(folder):
                    self.files.remove_folder(folder)

    def _clean(self) -> None:
        for _ in range(2):  # an attempt of a task that still writes may come between
            with contextlib.suppress(OSError, pa.ArrowException):
                if self.files.kind(self.hidden) != pf.FileType.NotFound:
                    self.files.remove_folder(self.hidden)
                return

    # Checks

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except OutputError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise self.staging.error_of(error) from None

    def _check_target(self) -> None:
        kind = self.files.kind(self.target)
        if kind == pf.FileType.File:
            raise OutputError(f"{self.where} must be a folder or not be there; it is a file; name another path")
        if kind == pf.FileType.Directory and self.mode == "error":
            raise OutputError(
                f"{self.where} must not be there yet; it is; say mode='overwrite' or mode='append', "
                "or name another path"
            )
        if self.mode == "overwrite" and self.files.is_local and (os.getcwd() + "/").startswith(self.target + "/"):
            raise OutputError(f"{self.where} must not be overwritten: the working folder lies in it; name another path")

    def _note_missing_parents(self) -> None:
        path = self.target.rpartition("/")[0]
        while path and self.files.kind(path) == pf.FileType.NotFound:
            self.made.insert(0, path)
            path = path.rpartition("/")[0]

    # Putting in place

    def _commit(self, parts: Sequence[ResultPart]) -> tuple[str, ...]:
        self._check_target()
        is_there = self.files.kind(self.target) == pf.FileType.Directory
        first = self._next_number() if is_there and self.mode == "append" else 0
        names = [self.part_name(first + at) for at in range(len(parts))]
        if self.files.moves_folders and not (is_there and self.mode == "append"):
            self._put_folder(parts, names, is_there)
        else:
            names = self._put_files(parts, names, is_there)
        return tuple(names)

    def _next_number(self) -> int:
        found = (_NUMBER.match(name) for name in self.files.names(self.target))
        return max((int(match[1]) + 1 for match in found if match), default=0)

    def _put_folder(self, parts: Sequence[ResultPart], names: Sequence[str], is_there: bool) -> None:
        """In one step, at the end, or in two with the way back."""
        self.files.make_folder(self.ready)
        for part, name in zip(parts, names, strict=True):
            self.files.move(f"{self.tasks}/{part.name}", f"{self.ready}/{name}")
        if not is_there:
            self.files.move(self.ready, self.target)
        elif not self.files.exchange(self.ready, self.target):
            self.files.move(self.target, self.old)
            try:
                self.files.move(self.ready, self.target)
            except BaseException:
                self.files.move(self.old, self.target)
                raise

    def _put_files(self, parts: Sequence[ResultPart], names: Sequence[str], is_there: bool) -> list[str]:
        """File by file, beside what is there; if one fails, those before it are taken away again."""
        before = self.files.names(self.target) if is_there else []
        if self.mode == "overwrite":  # the names of the old files may be the same
            ending, mark = self.format.ending, self.hidden[-16:]
            names = [f"{name.removesuffix(ending)}-{mark}{ending}" for name in names]
        put: list[str] = []
        try:
            for part, name in zip(parts, names, strict=True):
                put.append(f"{self.target}/{name}")
                self.files.move(f"{self.tasks}/{part.name}", put[-1])
            if not self.files.moves_folders:
                put += [] if SUCCESS in before else [f"{self.target}/{SUCCESS}"]
                self.files.write_mark(f"{self.target}/{SUCCESS}")
        except BaseException:
            self._take_away(put)
            raise
        if self.mode == "overwrite":  # all new files are in place: from here on, forward is the only way
            self._take_away([f"{self.target}/{name}" for name in before if name != SUCCESS])
        return list(names)

    def _take_away(self, paths: Sequence[str]) -> None:
        """Remove all of these, whatever happens on the way; say which are left."""
        left = []
        for path in paths:
            try:
                kind = self.files.kind(path)
                if kind != pf.FileType.NotFound:
                    (self.files.remove_file if kind == pf.FileType.File else self.files.remove_folder)(path)
            except OSError:
                left.append(path)
        if left:
            raise OutputError(
                f"{self.where} holds files that it must not, and that could not be removed; remove {quoted(left)}"
            )


def _refuse_doubled(ordered: Sequence[ResultPart]) -> None:
    for one, other in pairwise(ordered):
        if one.order == other.order:
            raise InternalError(
                f"commit: each place of a result must have one part; {one.name!r} and {other.name!r} have {one.order}"
            )
