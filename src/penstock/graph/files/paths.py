"""Which files a path means, and in which order: files, folders, globs, addresses, and lists of these."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pf

from penstock.errors import DataError, GraphError

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
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


def find(source: str, given: Any, *, partitions: bool = True) -> tuple[File, ...]:
    """The files of a path or of a list of paths, none of them twice.

    A list keeps its order. The files of one path are in the plain order of their whole paths, as strings. In folders
    and globs, names that begin with `_` or `.` are left out.
    """
    paths = [given] if isinstance(given, (str, os.PathLike)) else given
    if not isinstance(paths, (list, tuple)) or not all(isinstance(p, (str, os.PathLike)) for p in paths):
        raise GraphError(f"{source}: the path must be a string, a Path or a list of these; got {given!r}")
    found = [file for path in paths for file in _Finder(source, os.fspath(path), partitions).files()]
    if not found:
        raise GraphError(f"{source}: there must be at least one file; got an empty list of paths")
    _refuse_twice(source, found)
    _refuse_other_folders(found)
    return tuple(found)


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

    def files(self) -> list[File]:
        try:
            return sorted(self._found(*self._filesystem()), key=lambda file: file.path)
        except PermissionError:
            raise GraphError(
                f"{self.source}: {self.given!r} must be readable; permission was denied; ask for the right to read it"
            ) from None
        except (OSError, pa.ArrowException) as error:
            raise GraphError(f"{self.source}: {self.given!r} cannot be read; {first_line(error)}") from None

    def _filesystem(self) -> tuple[pf.FileSystem, str, list[str]]:
        """The file system, the part of the path before any wildcard, and the rest, name by name."""
        is_address = ADDRESS.match(self.given) is not None
        text, mark, options = self.given.partition("?") if is_address else (self.given, "", "")
        text = text.rstrip("/") if is_address else os.path.abspath(os.path.expanduser(text))
        names = text.split("/")
        wild = re.compile(r"[*\[]" if is_address else r"[*\[?]")
        fixed = next((at for at, name in enumerate(names) if wild.search(name)), len(names))
        if not is_address and os.path.lexists(text):  # a file may be called 'a[1].csv'
            fixed = len(names)
        base = "/".join(names[:fixed])
        if not is_address:
            return pf.LocalFileSystem(), base or "/", names[fixed:]
        filesystem, path = pf.FileSystem.from_uri(base + mark + options)
        return filesystem, path, names[fixed:]

    def _found(self, filesystem: pf.FileSystem, base: str, pattern: list[str]) -> Iterator[File]:
        info = filesystem.get_file_info(base)
        if not pattern and info.type == pf.FileType.NotFound:
            raise GraphError(f"{self.source}: {self.given!r} must be a file, a folder or a glob; there is no such path")
        if info.type == pf.FileType.NotFound:
            infos: Iterable[pf.FileInfo] = []
        else:
            infos = _matching(filesystem, info, pattern)
        files = [self._file(filesystem, base, info) for i in infos for info in _inside(filesystem, i)]
        if not files:
            what = "match a file; it matches none" if pattern else "hold a file; the folder has none"
            raise GraphError(
                f"{self.source}: {self.given!r} must {what} (names that begin with '_' or '.' do not count)"
            )
        yield from {file.path: file for file in files}.values()

    def _file(self, filesystem: pf.FileSystem, base: str, info: pf.FileInfo) -> File:
        folders = info.path[len(base) :].strip("/").split("/")[:-1] if self.partitions else []
        return File(self.source, filesystem, info.path, int(info.size or 0), tuple(_keys(folders)))


def _keys(folders: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    for folder in folders:
        key, is_key, value = folder.partition("=")
        if key and is_key:
            yield unquote(key), None if value == NO_VALUE else unquote(value)


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _children(filesystem: pf.FileSystem, folder: pf.FileInfo) -> list[pf.FileInfo]:
    if folder.type != pf.FileType.Directory:
        return []
    return list(filesystem.get_file_info(pf.FileSelector(folder.path)))


def _matching(filesystem: pf.FileSystem, here: pf.FileInfo, pattern: list[str]) -> Iterator[pf.FileInfo]:
    """What a pattern, name by name, matches below a path. `**` stands for any number of folders."""
    if not pattern:
        yield here
        return
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        yield from _matching(filesystem, here, rest or ["*"])
    for child in _children(filesystem, here):
        if first == "**":
            if child.type == pf.FileType.Directory and not _is_hidden(child.base_name):
                yield from _matching(filesystem, child, pattern)
        elif fnmatchcase(child.base_name, first) and (not _is_hidden(child.base_name) or _is_hidden(first)):
            yield from _matching(filesystem, child, rest)


def _inside(filesystem: pf.FileSystem, info: pf.FileInfo) -> Iterator[pf.FileInfo]:
    """The file itself, or all files of a folder."""
    if info.type == pf.FileType.File:
        yield info
    for child in _children(filesystem, info):
        if not _is_hidden(child.base_name):
            yield from _inside(filesystem, child)
