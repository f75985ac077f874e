"""Where compiled code, and what was learned by compiling and measuring, is kept from one process to the next.

What is kept is code that runs. So the folder is private to the user (see `private`), or it is one that the user has
named, and then trusts; or there is none, and every process compiles for itself, in memory.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from penstock.kernels.private import is_own_file, open_new, private_folder, read_own

VARIABLE = "PENSTOCK_CACHE_DIR"


def cache() -> Cache | None:
    """The cache: PENSTOCK_CACHE_DIR as it is, or a private folder of the user's, or None.

    The private folder is `penstock` in XDG_CACHE_HOME or in `~/.cache`, or else one in the folder for temporary files.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Cache(Path(named), is_private=False)
    found = next(
        (folder for folder in map(private_folder, _candidates()) if folder and os.access(folder, os.W_OK)), None
    )
    return None if found is None else Cache(found, is_private=True)


def _candidates() -> Iterator[Path]:
    home = os.environ.get("XDG_CACHE_HOME")
    if home:
        yield Path(home) / "penstock"
    else:
        with contextlib.suppress(RuntimeError):  # a user without a home
            yield Path.home() / ".cache" / "penstock"
    yield Path(tempfile.gettempdir()) / f"penstock-{os.geteuid()}"


@dataclass(frozen=True, slots=True)
class Cache:
    """Small texts in a folder, by names of a folder and a file in it: `loops/a.py`.

    Of a private folder, only what the user itself has written is read.
    """

    folder: Path
    is_private: bool

    def read(self, name: str) -> str | None:
        """The text of this name, or None."""
        path = self.folder / name
        if self.is_private:
            return read_own(path) if self._has_folder(path.parent) else None
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def write(self, name: str, text: str) -> Path | None:
        """Have this name hold a text: whole, or not at all, and then None. One that holds another is replaced."""
        path = self.folder / name
        if not self._has_folder(path.parent):
            return None
        if self.read(name) == text:
            return path
        draft = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
        try:
            with open(open_new(draft, 0o600 if self.is_private else 0o666), "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(draft, path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            return None
        return path

    def trusts_code_of(self, path: Path) -> bool:
        """Whether what Python and Numba keep beside a file, in `__pycache__`, may be run."""
        if not self.is_private:
            return True
        folder = path.parent / "__pycache__"
        if not self._has_folder(folder):
            return False
        return all(is_own_file(each) for each in folder.glob(f"{path.stem}.*"))

    def subfolder(self, name: str) -> Path | None:
        """A folder in the cache, made where it is missing; None where that cannot be."""
        folder = self.folder / name
        return folder if self._has_folder(folder) else None

    def _has_folder(self, folder: Path) -> bool:
        if self.is_private:
            return private_folder(folder) is not None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return True
