"""The few things that a commit asks of a filesystem."""

from __future__ import annotations

import ctypes
import errno
import io
import os
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.fs as pf

from penstock.errors import GraphError
from penstock.graph.files.paths import ADDRESS, first_line

_RENAME_EXCHANGE = 2
_HERE = -100  # AT_FDCWD: paths count from the working folder


def resolve_path(where: str, given: str) -> tuple[pf.FileSystem, str]:
    """The filesystem of a path or an address of a folder to write to, and the path there. Errors begin with `where`."""
    try:
        if ADDRESS.match(given):
            filesystem, path = pf.FileSystem.from_uri(given)
        else:
            filesystem, path = pf.LocalFileSystem(), os.path.abspath(os.path.expanduser(given))
    except (OSError, pa.ArrowException) as error:
        raise GraphError(f"{where} must be a path or an address; {first_line(error)}") from None
    if isinstance(filesystem, pf.LocalFileSystem):
        path = os.path.realpath(path)  # a link stays, and what it leads to is written
    path = path.rstrip("/")
    if "/" not in path:
        raise GraphError(f"{where} must be a folder that can be made; it is the root of a filesystem")
    return filesystem, path


class Files:
    """A filesystem, local or not, in the words of a commit. Failures are OSErrors."""

    def __init__(self, filesystem: pf.FileSystem) -> None:
        self.filesystem = filesystem
        self.is_local = isinstance(filesystem, pf.LocalFileSystem)
        # Whether a folder moves in one step. An object store has no folders: it would copy file by file.
        self.moves_folders = isinstance(filesystem, (pf.LocalFileSystem, pf.HadoopFileSystem))

    def kind(self, path: str) -> pf.FileType:
        """File, Directory or NotFound."""
        return self.filesystem.get_file_info(path).type

    def names(self, folder: str) -> list[str]:
        """The names of what lies directly in a folder, sorted."""
        return sorted(info.base_name for info in self.filesystem.get_file_info(pf.FileSelector(folder)))

    def make_folder(self, path: str) -> None:
        self.filesystem.create_dir(path, recursive=True)

    def move(self, source: str, target: str) -> None:
        """Rename a file or a folder. An error means that it did not happen, even if it came after the fact."""
        try:
            self._move(source, target)
        except OSError:
            if self.kind(source) != pf.FileType.NotFound or self.kind(target) == pf.FileType.NotFound:
                raise

    def _move(self, source: str, target: str) -> None:
        self.filesystem.move(source, target)

    def exchange(self, one: str, other: str) -> bool:
        """Let two folders change places in one step. False if this filesystem cannot."""
        if not self.is_local:
            return False
        try:
            rename = ctypes.CDLL(None, use_errno=True).renameat2
        except (AttributeError, OSError):
            return False
        if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _RENAME_EXCHANGE) == 0:
            return True
        code = ctypes.get_errno()
        if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            return False
        raise OSError(code, os.strerror(code), other)

    def remove_folder(self, path: str) -> None:
        self.filesystem.delete_dir(path)

    def remove_file(self, path: str) -> None:
        self.filesystem.delete_file(path)

    def read_text(self, path: str) -> str:
        with self.filesystem.open_input_stream(path, compression=None) as stream:
            return bytes(stream.read()).decode()

    def lines(self, path: str) -> Iterator[str]:
        """The lines of a text, with their ends, read as they are asked for."""
        with self.filesystem.open_input_stream(path, compression=None) as stream:
            yield from io.TextIOWrapper(stream, encoding="utf-8")

    def write_text_atomically(self, path: str, text: str) -> None:
        """A file with this text, in place of one that may be there: a reader finds the old one or the new one, whole.

        It survives the end of this process at any moment. Where nothing moves over a file (HDFS), a reader may find
        none for a moment while an old one is replaced. What a process that was killed leaves has a name that begins
        with a dot.
        """
        folder, _, name = path.rpartition("/")
        begun = f"{folder}/.{name}-{uuid.uuid4().hex[:8]}"
        with self.filesystem.open_output_stream(begun, compression=None) as stream:
            stream.write(text.encode())
        if isinstance(self.filesystem, pf.HadoopFileSystem) and self.kind(path) == pf.FileType.File:
            self.remove_file(path)
        self.move(begun, path)

    def write_mark(self, path: str) -> None:
        """An empty file."""
        with self.filesystem.open_output_stream(path):
            pass
