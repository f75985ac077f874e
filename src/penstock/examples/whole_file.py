"""What the applications share that make one file of another: the file as a stream, and data sets that are one file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

import penstock as ps


@dataclass(frozen=True, eq=False)
class Batches:
    """Record batches that are made anew each time, so that a file need never be in memory as a whole."""

    schema: pa.Schema
    made: Callable[[], Iterator[pa.RecordBatch]]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return self.made()


def one_file(app: str, path: str | Path) -> Path:
    """The file that a path means: itself, or the only one in the folder that it is."""
    given = Path(path)
    if not given.exists():
        raise ps.DataError(f"{app}: {str(path)!r} must be a file; there is no such path")
    if not given.is_dir():
        return given
    found = sorted(each for each in given.iterdir() if each.is_file() and not each.name.startswith("."))
    if len(found) != 1:
        raise ps.DataError(
            f"{app}: {str(path)!r} must be a file, or a folder with one; it holds {len(found)}; name one"
        )
    return found[0]


def opened(app: str, path: Path) -> BinaryIO:
    """A file to read."""
    try:
        return path.open("rb")
    except OSError as error:
        raise ps.DataError(f"{app}: file {str(path)!r} cannot be read; {error.strerror}") from None


def read_bytes(app: str, path: Path, size: int) -> Iterator[bytes]:
    """The contents of a file, in pieces of `size` bytes but for the last."""
    with opened(app, path) as file:
        while piece := file.read(size):
            yield piece


def write_one(path: str | Path, name: str, pieces: Iterable[bytes]) -> Path:
    """Write a folder with one file in it; what an earlier call wrote there is replaced."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    with made.open("wb") as file:
        file.writelines(pieces)
    return made


def column(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[bytes]:
    """The values of a column of bytes, one after the other."""
    for batch in batches:
        for value in batch.column(name):
            yield value.as_buffer()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write and read, which takes its place under its name when all went well, and else is gone."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ps.OutputError(
            f"output {str(path)!r}: must be in a folder that can be written; {error.strerror}"
        ) from None
    try:
        with open(handle, "w+b") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except ps.OutputError:
        raise
    except OSError as error:
        raise ps.OutputError(f"output {str(path)!r}: cannot be written; {error.strerror or error}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _umask() -> int:
    """The rights that new files are not given; there is no way to ask but to set."""
    held = os.umask(0o077)
    os.umask(held)
    return held
