"""The few things that a commit asks of a filesystem."""

from __future__ import annotations

import ctypes
import errno
import os

import pyarrow.fs as pf

_RENAME_EXCHANGE = 2
_HERE = -100  # AT_FDCWD: paths count from the working folder


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

    def write_mark(self, path: str) -> None:
        """An empty file."""
        with self.filesystem.open_output_stream(path):
            pass
