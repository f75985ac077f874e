"""The folders of a run, by role: none may lie where it would feed, or destroy, another.

Paths are compared as they really are: links are followed, those that lie in the folder of a source too, because its
reader follows them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pyarrow.fs as pf

from penstock.errors import GraphError
from penstock.graph.files.file_items import FileItems
from penstock.graph.files.path_pattern import fits
from penstock.spark.dataframe import FrameItems
from penstock.spark.files.filesystem import resolve_path


@dataclass(frozen=True, eq=False)
class Folder:
    """A folder that a run reads or writes. `role` and `given` are its words in messages; `path` is the real one."""

    role: str
    given: str
    filesystem: pf.FileSystem
    path: str
    is_read: bool = False

    @property
    def about(self) -> str:
        return f"{self.role} {self.given!r}"

    @property
    def roots(self) -> list[str]:
        """The real paths under which its files lie: its own and, of one that is read, where links in it lead to."""
        return list(_roots(self.path)) if self.is_read and _is_local(self.filesystem) else [self.path]

    def is_beside(self, other: Folder) -> bool:
        """Whether the two are on different filesystems, so that neither lies in the other."""
        return not self.filesystem.equals(other.filesystem)


def folder_of(role: str, given: Any) -> Folder:
    """The folder of a path or an address that will be written."""
    return Folder(role, os.fspath(given), *resolve_path(f"{role} {os.fspath(given)!r}", os.fspath(given)))


def sources_of(items: Any, role: str = "the source") -> list[Folder]:
    """The folders, or the files, that a source reads; none where it is no source of files."""
    if isinstance(items, FrameItems):
        return [replace(folder_of(role, path), is_read=True) for path in items.local_paths()]
    if not isinstance(items, FileItems):
        return []
    place = items.plan.found.place
    if place is not None:
        return [Folder(role, place.given, place.filesystem, _real(place.filesystem, place.base), True)]
    return [Folder(role, file.path, file.filesystem, _real(file.filesystem, file.path), True) for file in items.files]


def refuse_nested(operator: str, folders: Sequence[Folder]) -> None:
    """Refuse folders of a running stream of which one is another, or lies in it.

    A stream would read what it writes, as items or as the logs of its checkpoint; or a reader of its results would read
    more than these. Name what comes first in the stream first: a source, a sink, a checkpoint.
    """
    roots = {folder: folder.roots for folder in folders}
    for one, other in combinations(folders, 2):
        if one.is_beside(other) or (one.is_read and other.is_read):
            continue
        for inner, outer in ((other, one), (one, other)):
            if any(_is_inside(path, root) for path in roots[inner][:1] for root in roots[outer]):
                raise GraphError(
                    f"{operator}: {inner.about} must lie outside of {outer.about}, or the stream would take its own "
                    f"files for others; {_lies(inner, outer)}; name another folder"
                )


def refuse_overwriting(operator: str, target: Folder, items: Any, mode: str, name: str) -> None:
    """Refuse to write the result of a batch where that would destroy what it reads, or add to it.

    `name` is the name of a file that will be written.
    """
    for source in sources_of(items):
        if source.is_beside(target):
            continue
        if mode == "overwrite" and _has_files_in(target, source, items):
            raise GraphError(
                f"{operator}: {target.given!r} must not be overwritten: {source.about} lies in it; write to another "
                f"folder, and move it when it is there"
            )
        if _would_read(source, items, f"{target.path}/{name}"):
            raise GraphError(
                f"{operator}: {target.given!r} must lie outside of {source.about}, or the next run would read this "
                f"result as its input; {_lies(target, source)}; name another folder"
            )


def _has_files_in(target: Folder, source: Folder, items: Any) -> bool:
    files = (file.path for file in items.files if file.is_local) if isinstance(items, FileItems) else ()
    links = (os.path.realpath(path) for path in files if os.path.islink(path))
    return any(_is_inside(path, target.path) for path in (*source.roots, *links))


def _would_read(source: Folder, items: Any, path: str) -> bool:
    """Whether a source would read a file of this real path, if it were there."""
    pattern = items.plan.found.place.pattern if isinstance(items, FileItems) and items.plan.found.place else ()
    below = [_below(path, root) for root in source.roots if _is_inside(path, root)]
    return any(names and fits(names, pattern) for names in below)


def _below(path: str, root: str) -> list[str]:
    return path[len(root) :].strip("/").split("/") if path != root else []


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def _lies(inner: Folder, outer: Folder) -> str:
    """Where two folders are, for a message."""
    if inner.path == outer.path:
        return f"both are {inner.path!r}"
    if _is_inside(inner.path, outer.path):
        return f"it is {inner.path!r}, in {outer.path!r}"
    return f"it is {inner.path!r}, to which a link in {outer.path!r} leads"


def _is_local(filesystem: pf.FileSystem) -> bool:
    return isinstance(filesystem, pf.LocalFileSystem)


def _real(filesystem: pf.FileSystem, path: str) -> str:
    return os.path.realpath(path) if _is_local(filesystem) else path.rstrip("/")


def _roots(path: str) -> Iterator[str]:
    """A real path, and the real paths of all links to folders that are met on the way down from it; each once."""
    waiting, known = [path], {path}
    while waiting:
        root = waiting.pop()
        yield root
        for link in _links(root):
            real = os.path.realpath(link)
            if real not in known and os.path.isdir(real):
                known.add(real)
                waiting.append(real)


def _links(folder: str) -> Iterator[str]:
    """All links below a folder, without following them. What cannot be looked into is for its reader to report."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield entry.path
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
