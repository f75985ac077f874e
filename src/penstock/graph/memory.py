"""Splits of what is in memory, and of datasets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.graph.flat import flat_columns, flatten
from penstock.graph.split import Split, join_splits


def pieces(batches: Iterable[pa.RecordBatch], flat: list[str], at_most: int) -> Iterator[pa.RecordBatch]:
    """Batches made flat, cut to size, and without columns that were not asked for."""
    for batch in batches:
        for start in range(0, batch.num_rows, at_most):
            made = flatten(batch.slice(start, at_most))
            yield made if made.schema.names == flat else made.select(flat)


@dataclass(frozen=True, eq=False)
class Slice(Split):
    """Rows of a table. Its pickle holds those rows and no others."""

    name: str
    table: pa.Table
    start: int = 0

    @property
    def label(self) -> str:
        return f"{self.name}, rows {self.start} to {self.start + self.table.num_rows}"

    @property
    def bytes(self) -> int:
        return int(self.table.nbytes)

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        flat, roots = flat_columns(self.table.schema, columns)
        return pieces(self.table.select(roots).to_batches(), flat, at_most)

    def __reduce__(self) -> Any:
        # A pickled slice would carry the buffers of the whole table; Arrow's own form does not.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table)
        return _unpickle, (self.name, sink.getvalue().to_pybytes(), self.start)


def _unpickle(name: str, stream: Any, start: int) -> Slice:
    return Slice(name, pa.ipc.open_stream(stream).read_all(), start)


def slices(name: str, table: pa.Table, about_bytes: int) -> Sequence[Split]:
    """The rows of a table, in splits of about so many bytes, all of one number of rows but the last."""
    if not table.num_rows:
        return []
    rows = min(table.num_rows, max(1, table.num_rows * about_bytes // max(1, table.nbytes)))
    return [Slice(name, table.slice(start, rows), start) for start in range(0, table.num_rows, rows)]


@dataclass(frozen=True, eq=False)
class Fragment(Split):
    """One file of a dataset, read by Arrow."""

    fragment: Any
    schema: pa.Schema
    bytes: int = 0

    @property
    def label(self) -> str:
        return str(self.fragment.path)

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        flat, roots = flat_columns(self.schema, columns)
        # Arrow reads ahead by itself; a little is enough, and more is only memory.
        batches = self.fragment.to_batches(schema=self.schema, columns=roots, batch_readahead=2)
        return pieces(batches, flat, at_most)


@dataclass(frozen=True, eq=False)
class AllBatches(Split):
    """Anything that gives record batches each time. In another process it is a table."""

    name: str
    data: Any

    @property
    def label(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        return 0

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        flat, _ = flat_columns(self.data.schema, columns)
        return pieces(self.data.to_batches(), flat, at_most)

    def __reduce__(self) -> Any:
        return Slice(self.name, pa.Table.from_batches(self.data.to_batches(), self.data.schema)).__reduce__()


def fragments(name: str, data: Any, about_bytes: int) -> Sequence[Split]:
    """The files of a dataset, small ones together; what has no files is one split."""
    if not hasattr(data, "get_fragments"):
        return [AllBatches(name, data)]
    try:
        files = list(data.get_fragments())
    except ValueError:  # a filtered dataset does not tell its fragments
        return [AllBatches(name, data)]
    if not all(hasattr(fragment, "path") for fragment in files):
        return [AllBatches(name, data)]
    return join_splits((Fragment(f, data.schema, _size(f)) for f in files), about_bytes)


def _size(fragment: Any) -> int:
    return int(fragment.filesystem.get_file_info(fragment.path).size or 0)
