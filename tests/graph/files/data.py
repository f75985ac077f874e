"""Files for the tests of file sources, and their items read in all ways that must agree."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps


def items_of(stream: ps.Stream) -> Any:
    return stream.node.source.items


def rows_of(stream: ps.Stream, about_bytes: int | None = None, at_most: int = 1000, columns: Any = None) -> list[dict]:
    """The items of a source: read as one, or in splits, each of which goes through a pickle first."""
    items = items_of(stream)
    if about_bytes is None:
        batches = list(items.batches(at_most, columns))
    else:
        splits = [pickle.loads(pickle.dumps(split)) for split in items.splits(about_bytes)]
        batches = [batch for split in splits for batch in split.read(columns, at_most)]
    assert all(0 < batch.num_rows <= at_most for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def write(folder: Path, **files: str | bytes) -> Path:
    """Write files; in their names `__` stands for a dot and `___` for a slash."""
    for name, content in files.items():
        path = folder / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def write_parquet(path: Path, columns: Any, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return path
