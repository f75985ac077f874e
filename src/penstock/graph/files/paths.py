"""Which files a path means, and in which order: files, folders, globs, addresses, and lists of these."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pf

from penstock.errors import DataError, GraphError
from penstock.graph.files.path_pattern import ADDRESS as ADDRESS
from penstock.graph.files.path_pattern import ANY_FOLDERS, PathPattern, is_hidden, matches, pattern_of

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

Keys = tuple[tuple[str, str | None], ...]
"""The partition folders that a file lies in, from the outside in: names, and values as text."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was found.

    `where` is what messages begin with: the source and the file as the user would name it.
    """

    source: str
    filesystem: pf.FileSystem
    path: str
    size: int
    keys: Keys = ()

    @property
    def where(self) -> str:
        return f"{self.source}: file {self.path!r}"

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def is_local(self) -> bool:
        return isinstance(self.filesystem, pf.LocalFileSystem)

    def unreadable(self, error: Exception) -> DataError:
        """What is said when the file system refuses."""
        if isinstance(error, FileNotFoundError):
            return DataError(f"{self.where}: must be there while it is read; it is gone; build the stream again")
        if isinstance(error, PermissionError):
            return DataError(f"{self.where}: must be readable; permission was denied; ask for the right to read it")
        return DataError(f"{self.where}: cannot be read; {first_line(error)}")


def first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


@dataclass(frozen=True, slots=True)
class PathFiles:
    """What a path, or a list of paths, meant when it was looked at.

    `place` is None for a list of several paths. `nothing` is what is wrong where there is no file.
    """

    source: str
    path: Any
    place: PathPattern | None
    files: tuple[File, ...]
    keys: tuple[str, ...] | None
    """The names of the partition folders in which all files lie; None where such folders have no meaning."""
    nothing: str = ""


def find(source: str, given: Any, *, partitions: bool = True, may_be_empty: bool = False) -> PathFiles:
    """The files of a path or of a list of paths, none of them twice.

    A list keeps its order. The files of one path are in the plain order of their whole paths, as strings. In folders
    and globs, names that begin with `_` or `.` are left out. With `may_be_empty`, one folder without files is found,
    or a glob of names in a folder that has none such; since nothing tells which partition folders there will be, they
    have no meaning.
    """
    paths = [given] if isinstance(given, (str, os.PathLike)) else given
    if not isinstance(paths, (list, tuple)) or not all(isinstance(p, (str, os.PathLike)) for p in paths):
        raise GraphError(f"{source}: the path must be a string, a Path or a list of these; got {given!r}")
    if not paths:
        raise GraphError(f"{source}: there must be at least one file; got an empty list of paths")
    finders = [_Finder(source, os.fspath(path), partitions) for path in paths]
    try:
        looked = [finder.find() for finder in finders]
    except _NoFiles as nothing:
        if not may_be_empty or len(paths) > 1:
            raise GraphError(str(nothing)) from None
        return PathFiles(source, given, nothing.place, (), None, str(nothing))
    files = tuple(file for _, some in looked for file in some)
    _refuse_twice(source, files)
    _refuse_other_folders(files)
    keys = tuple(key for key, _ in files[0].keys) if partitions else None
    return PathFiles(source, given, looked[0][0] if len(looked) == 1 else None, files, keys)


class _NoFiles(Exception):
    """A folder is there and holds no file, or none that fits."""

    def __init__(self, place: PathPattern, message: str) -> None:
        super().__init__(message)
        self.place = place


def _refuse_twice(source: str, files: Sequence[File]) -> None:
    seen: set[str] = set()
    for file in files:
        if file.path in seen:
            raise GraphError(f"{source}: a file may be given only once; {file.path!r} is there twice")
        seen.add(file.path)


def _refuse_other_folders(files: Sequence[File]) -> None:
    first = files[0]
    for file in files:
        if [key for key, _ in file.keys] != [key for key, _ in first.keys]:
            raise GraphError(
                f"{file.where}: must lie in partition folders of the same names as {first.path!r}; "
                f"got {[key for key, _ in file.keys]} and {[key for key, _ in first.keys]}; say partitions=False"
            )


@dataclass(frozen=True)
class _Finder:
    """Finds the files of one path."""

    source: str
    given: str
    partitions: bool

    def find(self) -> tuple[PathPattern, list[File]]:
        try:
            place = pattern_of(self.given)
            return place, sorted(self._files(place), key=lambda file: file.path)
        except PermissionError:
            raise GraphError(
                f"{self.source}: {self.given!r} must be readable; permission was denied; ask for the right to read it"
            ) from None
        except (OSError, pa.ArrowException) as error:
            raise GraphError(f"{self.source}: {self.given!r} cannot be read; {first_line(error)}") from None

    def _files(self, place: PathPattern) -> Iterable[File]:
        here = place.filesystem.get_file_info(place.base)
        if not place.pattern and here.type == pf.FileType.NotFound:
            raise GraphError(f"{self.source}: {self.given!r} must be a file, a folder or a glob; there is no such path")
        infos = [] if here.type == pf.FileType.NotFound else _matching(place.filesystem, here, place.pattern)
        inside = (info for i in infos for info in _inside(place.filesystem, i))
        files = {info.path: file_at(self.source, place, info, self.partitions) for info in inside}
        if not files:
            what = "match a file; it matches none" if place.pattern else "hold a file; the folder has none"
            said = f"{self.source}: {self.given!r} must {what} (names that begin with '_' or '.' do not count)"
            may_come = len(place.pattern) <= 1 and here.type == pf.FileType.Directory
            raise _NoFiles(place, said) if may_come else GraphError(said)
        return files.values()


def file_at(source: str, place: PathPattern, info: pf.FileInfo, partitions: bool) -> File:
    """A file that is there, with the keys of the folders that lead to it from the base of the path."""
    folders = info.path[len(place.base) :].strip("/").split("/")[:-1] if partitions else []
    return File(source, place.filesystem, info.path, int(info.size or 0), tuple(_keys(folders)))


def _keys(folders: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    for folder in folders:
        key, is_key, value = folder.partition("=")
        if key and is_key:
            yield unquote(key), None if value == NO_VALUE else unquote(value)


def _children(filesystem: pf.FileSystem, folder: pf.FileInfo) -> list[pf.FileInfo]:
    if folder.type != pf.FileType.Directory:
        return []
    return list(filesystem.get_file_info(pf.FileSelector(folder.path)))


def _matching(filesystem: pf.FileSystem, here: pf.FileInfo, pattern: Sequence[str]) -> Iterator[pf.FileInfo]:
    """What a pattern, name by name, matches below a path. `**` stands for any number of folders."""
    if not pattern:
        yield here
        return
    first, rest = pattern[0], pattern[1:]
    if first == ANY_FOLDERS:
        yield from _matching(filesystem, here, rest or ["*"])
    for child in _children(filesystem, here):
        if first == ANY_FOLDERS:
            if child.type == pf.FileType.Directory and not is_hidden(child.base_name):
                yield from _matching(filesystem, child, pattern)
        elif matches(child.base_name, first):
            yield from _matching(filesystem, child, rest)


def _inside(filesystem: pf.FileSystem, info: pf.FileInfo) -> Iterator[pf.FileInfo]:
    """The file itself, or all files of a folder."""
    if info.type == pf.FileType.File:
        yield info
    for child in _children(filesystem, info):
        if not is_hidden(child.base_name):
            yield from _inside(filesystem, child)
