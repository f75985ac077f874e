"""What the applications share: data sets as files, the same rows in any number of files and in any format.

As `text` a row is a line of a `.txt` file; as `csv` and `parquet` it is a row of named columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

import penstock as ps

SUFFIXES = {"text": ".txt", "csv": ".csv", "parquet": ".parquet"}
LINES = pa.schema([("line", pa.string())])
FILE_ROWS = 1 << 22
"""How many rows a file holds, unless the number of files is given."""

# Writing


def check(app: str, size: int, files: int | None, format: str, **others: int) -> None:
    """Refuse a data set that cannot be: a size below 0, `files` or one of the `others` below 1, an unknown format."""
    if size < 0:
        raise ps.DataError(f"{app}: size must be at least 0; got {size}")
    for name, value in (("files", files), *others.items()):
        if value is not None and value < 1:
            raise ps.DataError(f"{app}: {name} must be at least 1; got {value}")
    if format not in SUFFIXES:
        raise ps.DataError(f"{app}: format must be one of {', '.join(SUFFIXES)}; got {format!r}")


def write(
    path: str | Path, schema: pa.Schema, pieces: Iterator[pa.RecordBatch], size: int, files: int | None, format: str
) -> None:
    """Write pieces of `size` rows in all as a folder of files, each as long as the others but for a row.

    What an earlier call wrote into the folder is removed.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("part-*"):
        stale.unlink()
    count = files or max(1, -(-size // FILE_ROWS))
    rows = RowBuffer(pieces)
    for number in range(count):
        with _writer(folder / f"part-{number:05d}{SUFFIXES[format]}", schema, format) as writer:
            for batch in rows.take(size * (number + 1) // count - size * number // count):
                writer.write_batch(batch)


class RowBuffer:
    """Rows that come in pieces and are taken in other numbers.

    Invariant: `held` are rows of the last piece that were not taken yet.
    """

    def __init__(self, pieces: Iterator[pa.RecordBatch]) -> None:
        self.pieces = pieces
        self.held: pa.RecordBatch | None = None

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        while count > 0:
            piece = self.held if self.held is not None and self.held.num_rows else next(self.pieces)
            taken, self.held = piece.slice(0, count), piece.slice(count)
            count -= taken.num_rows
            yield taken


def _writer(path: Path, schema: pa.Schema, format: str) -> Any:
    if format == "parquet":
        return pq.ParquetWriter(path, schema)
    is_csv = format == "csv"
    options = pc.WriteOptions(include_header=is_csv, delimiter="," if is_csv else "\1", quoting_style="none")
    return pc.CSVWriter(path, schema, write_options=options)


def number_names(prefix: str, numbers: np.ndarray, digits: int) -> pa.StringArray:
    """Names such as `C0000042`: the prefix and each number with so many digits, of which it has at most as many."""
    width = len(prefix) + digits
    block = np.empty((len(numbers), width), np.uint8)
    block[:, : len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    rest = numbers.astype(np.int64)
    for place in range(width - 1, len(prefix) - 1, -1):
        tenth = rest // 10
        block[:, place] = rest - 10 * tenth + ord("0")
        rest = tenth
    offsets = np.arange(0, (len(numbers) + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(block))


# Reading


def list_files(path: str | Path) -> list[Path]:
    """The files of a data set in their order: of a folder those of one format, or the one that is named."""
    given = Path(path)
    found = (sorted(given.glob(f"*{suffix}")) for suffix in SUFFIXES.values())
    return next(filter(None, found), []) if given.is_dir() else [given]


def read(app: str, path: str | Path, usual: pa.Schema, told: Collection[str] = ()) -> ps.Stream:
    """Files as a stream: of `line`, or, where their names end in `.csv` or `.parquet`, of the columns of a schema.

    The columns that are `told` have the types that the files have, as all have in Parquet. Where no file is there yet,
    as may be when a stream is started, they have their usual types.
    """
    suffix = _suffix(path)
    if suffix not in (".parquet", ".csv"):
        return ps.read_text(path, name="lines")
    format_read = ps.read_parquet if suffix == ".parquet" else ps.read_csv
    if is_empty(path):
        return format_read(path, schema=usual, name=app)
    found = _columns(app, path, format_read(path, name=app), usual.names)
    if suffix == ".parquet":
        return found
    types = [found.schema.field(name).type if name in told else usual.field(name).type for name in usual.names]
    return ps.read_csv(path, schema=pa.schema(list(zip(usual.names, types, strict=True))), name=app)


def is_empty(path: str | Path) -> bool:
    """Whether no file is there yet: in a local folder, or of a glob of names in one."""
    given = Path(path)
    if given.is_dir():
        return not any(given.iterdir())
    is_glob = any(mark in given.name for mark in "*?[")
    return is_glob and given.parent.is_dir() and not any(given.parent.glob(given.name))


def _suffix(path: str | Path) -> str:
    """How the names of the files end; of a local folder, those of its first files."""
    names = [str(path), *map(str, list_files(path)[:1])] if Path(path).is_dir() else [str(path)]
    return Path(names[-1].removesuffix(".gz").removesuffix(".zst")).suffix


def _columns(app: str, path: str | Path, stream: ps.Stream, columns: Sequence[str]) -> ps.Stream:
    missing = [name for name in columns if name not in stream.schema.names]
    if missing:
        raise ps.DataError(
            f"{app}: {str(path)!r} must have the columns {', '.join(columns)}; got {', '.join(stream.schema.names)}"
        )
    return stream.select(*columns)
