"""Where Numba keeps the machine code of our own kernels, if it cannot be kept beside their source.

By itself Numba would take a folder in the user's home without a look at its owner and, where that cannot be written,
refuse to define the kernels at all: Penstock could not be imported.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from numba.core import caching

from penstock.kernels.cache import cache

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


class PrivateLocator(caching.UserWideCacheLocator):  # type: ignore[misc]
    """Keeps what is compiled of this package in our cache, or in a folder for this process alone."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._path = os.path.join(_folder(), self.get_suitable_cache_subpath(file))

    def get_cache_path(self) -> str:
        return self._path

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        return super().from_function(function, file) if os.path.abspath(file).startswith(_PACKAGE) else None


def install() -> None:
    """Let Numba ask this before it looks in the user's home. Folders that the user has named come first."""
    classes: list[Any] = caching.CacheImpl._locator_classes
    if PrivateLocator not in classes:
        classes.insert(classes.index(caching.UserWideCacheLocator), PrivateLocator)


@functools.cache
def _folder() -> str:
    kept = cache()
    folder = None if kept is None else kept.subfolder("kernels")
    if folder is not None and os.access(folder, os.W_OK):
        return str(folder)
    made, owner = tempfile.mkdtemp(prefix="penstock-"), os.getpid()
    atexit.register(lambda: shutil.rmtree(made, ignore_errors=True) if os.getpid() == owner else None)
    return made
