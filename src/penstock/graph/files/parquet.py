"""Parquet files: cut at row groups, of which only the columns in use are read."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import DataError, GraphError
from penstock.graph.files.file_columns import FileColumns, layout_of
from penstock.graph.files.file_items import FileItems, FilesPlan
from penstock.graph.files.paths import File, find, first_line
from penstock.graph.files.row_groups import may_skip
from penstock.graph.flat import empty
from penstock.graph.source import UNCUT, as_schema
from penstock.graph.split import Bound, Joined, Split, group_by_bytes, join_splits
from penstock.graph.types import is_text

BATCH_BYTES = 16 << 20
"""A batch is cut so that its columns take about so much, however many rows were asked for."""

FOOTERS_AT_ONCE = 8
MANY, SMALL_BYTES = 64, 1 << 18
"""Of so many files, those of at most so many bytes are not worth a look at their footers before they are read."""


def read_items(source: str, path: Any, schema: Any, partitions: bool) -> FileItems:
    """Items of the rows of Parquet files; see `read_parquet`."""
    listing = find(source, path, partitions=partitions, may_be_empty=schema is not None)
    declared = None if schema is None else as_schema(source, schema)
    cut = _cut(source, listing.files, declared)
    return FileItems(cut.layout.fields, plan=FilesPlan(listing, cut), format="parquet")


def _cut(source: str, files: Sequence[File], declared: pa.Schema | None) -> ParquetCut:
    """Cuts files that are like the first one. Where there is none yet, they must fit the schema that was given.

    A file of zero bytes has no items, and no schema either.
    """
    first = next((file for file in files if file.size), None)
    if first is None and declared is None:
        raise GraphError(f"{source}: all files are empty, so that none has a schema; give schema=")
    if first is None:
        return ParquetCut(layout_of(source, declared, files, declared), "")
    with open_parquet(first) as parquet:
        layout = layout_of(source, parquet.schema_arrow, files, declared)
        refuse_other_schema(layout, first.path, first, parquet.schema_arrow)
    return ParquetCut(layout, first.path)


@dataclass(frozen=True, slots=True)
class ParquetCut:
    """Cuts Parquet files into splits. All must be like the file with the path `first`, where no schema was given."""

    layout: FileColumns
    first: str

    def __call__(
        self, files: Sequence[File], about_bytes: int, bounds: Sequence[Bound], columns: Collection[str] | None
    ) -> Sequence[Split]:
        files = [file for file in files if file.size]
        if about_bytes == UNCUT and not bounds:  # nothing to decide, so that each footer is read when its turn comes
            return join_splits(map(self._whole, files), UNCUT)
        small = self._small(files, about_bytes, bounds)
        return list(_pack_groups(self._groups(files, () if small else bounds, columns, small), about_bytes))

    def _small(self, files: Sequence[File], about_bytes: int, bounds: Sequence[Bound]) -> int:
        """Up to how many bytes a file is read as a whole, without a look at its footer before.

        Where items are left out, it must be known of all others how many they are. To leave out small files saves no
        time, since a look at a footer takes as long as all of the file; but a folder may tell it of many at once.
        """
        small = min(about_bytes, SMALL_BYTES) if len(files) >= MANY else 0
        needs_footers = any(bound.field in self.layout.keys for bound in bounds) or any(f.size > small for f in files)
        return 0 if bounds and needs_footers else small

    def _whole(self, file: File) -> RowGroups:
        """All of a file, whose footer nobody has looked at."""
        return RowGroups(self.layout, self.first, file, 0, None, None, file.size)

    def _groups(
        self, files: Sequence[File], bounds: Sequence[Bound], columns: Collection[str] | None, small: int
    ) -> Iterator[RowGroup]:
        """What the files give, in order: each of at most `small` bytes as a whole, and of others the row groups."""
        with ThreadPoolExecutor(min(FOOTERS_AT_ONCE, len(files) or 1)) as pool:
            large = pool.map(lambda file: self._footer(file, bounds, columns), (f for f in files if f.size > small))
            for file in files:
                yield from [RowGroup(self._whole(file), False)] if file.size <= small else next(large)

    def _footer(self, file: File, bounds: Sequence[Bound], columns: Collection[str] | None) -> list[RowGroup]:
        """The row groups of a file, as its footer tells them."""
        flat, roots = self.layout.columns_to_read(columns)
        made = []
        with open_parquet(file) as parquet:
            refuse_other_schema(self.layout, self.first, file, parquet.schema_arrow)
            for at in range(parquet.metadata.num_row_groups):
                group = parquet.metadata.row_group(at)
                size = sum(column.total_compressed_size for column in _chunks(group, roots))
                split = RowGroups(self.layout, self.first, file, at, at + 1, group.num_rows, size)
                skip = bool(bounds) and may_skip(self.layout, file, parquet, group, bounds, flat)
                made.append(RowGroup(split, skip))
        return made


@dataclass(frozen=True, slots=True)
class RowGroups(Split):
    """Row groups of a Parquet file, from `start` to before `stop` (None: all)."""

    layout: FileColumns
    first: str
    file: File
    start: int
    stop: int | None
    rows: int | None
    bytes: int

    @property
    def label(self) -> str:
        if self.stop is None:
            return self.file.name
        last = self.stop - 1
        groups = f"row group {last}" if self.start == last else f"row groups {self.start} to {last}"
        return f"{self.file.name}, {groups}"

    def followed_by(self, other: RowGroups) -> RowGroups:
        """This and the row groups right behind it in the same file."""
        rows = (self.rows or 0) + (other.rows or 0)
        return RowGroups(self.layout, self.first, self.file, self.start, other.stop, rows, self.bytes + other.bytes)

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        flat, roots = self.layout.columns_to_read(columns)
        with open_parquet(self.file) as parquet:
            refuse_other_schema(self.layout, self.first, self.file, parquet.schema_arrow)
            stop = parquet.metadata.num_row_groups if self.stop is None else self.stop
            for group in range(self.start, stop):
                size = min(at_most, _rows_at_once(parquet.metadata.row_group(group), roots))
                # No threads: a task has one core. One group at a time: of the next nothing is needed yet.
                batches = parquet.iter_batches(batch_size=size, row_groups=[group], columns=roots, use_threads=False)
                for batch in batches:
                    if batch.num_rows:
                        yield self.layout.convert(batch.select(roots), self.file, flat)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group, and whether it can be left out."""

    split: RowGroups
    skip: bool


def _pack_groups(groups: Iterable[RowGroup], about_bytes: int) -> Iterator[Split]:
    """Row groups as splits of about so many bytes, which count the rows left out before each."""
    skipped, run = 0, list[RowGroups]()
    for group in groups:
        if group.skip:
            if run:
                yield from _split_run(run, about_bytes, skipped)
                skipped, run = 0, []
            skipped += group.split.rows or 0
        else:
            run.append(group.split)
    if run:
        yield from _split_run(run, about_bytes, skipped)
    elif skipped:
        yield Joined((), skipped)


def _split_run(run: list[RowGroups], about_bytes: int, skipped: int) -> Iterator[Split]:
    """Row groups that follow each other without a gap; those of one file become one part of a split."""
    for group in group_by_bytes(run, about_bytes):
        parts = tuple(_merge_groups(group))
        yield parts[0] if len(parts) == 1 and not skipped else Joined(parts, skipped)
        skipped = 0


def _merge_groups(group: list[RowGroups]) -> Iterator[RowGroups]:
    for _, parts in itertools.groupby(group, key=lambda part: part.file.path):
        yield functools.reduce(RowGroups.followed_by, parts)


def _chunks(group: Any, roots: Collection[str]) -> Iterator[Any]:
    """The column chunks of a row group that hold some columns."""
    wanted = frozenset(roots)
    for at in range(group.num_columns):
        column = group.column(at)
        # The path of a nested column begins with the name of the column, which may have dots of its own.
        if not wanted.isdisjoint(itertools.accumulate(column.path_in_schema.split("."), "{}.{}".format)):
            yield column


def _rows_at_once(group: Any, roots: Collection[str]) -> int:
    """How many rows of a group make a batch that is not too large, since a row may hold long lists."""
    size = sum(max(column.total_uncompressed_size, 8 * column.num_values) for column in _chunks(group, roots))
    return max(1, BATCH_BYTES * int(group.num_rows) // max(1, int(size)))


@contextlib.contextmanager
def open_parquet(file: File) -> Iterator[Any]:
    """A Parquet file; what Arrow says of it is said in our words."""
    try:
        # The pages of a local file are decoded where they lie; a remote one is asked for a row group at a time.
        stream = pa.memory_map(file.path) if file.is_local else file.filesystem.open_input_file(file.path)
        with stream, pq.ParquetFile(stream, pre_buffer=not file.is_local) as parquet:
            yield parquet
    except (FileNotFoundError, PermissionError) as error:
        raise file.unreadable(error) from None
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{file.where}: must be a whole Parquet file; {first_line(error)}; leave it out, or write it again"
        ) from None


def refuse_other_schema(layout: FileColumns, first: str, file: File, schema: pa.Schema) -> None:
    """Refuse a file without the columns, or with columns of other types than the first file or the user's schema."""
    if schema.equals(layout.schema):
        return  # as of most files: what follows is slow
    says = "schema=" if layout.is_declared else f"{first!r}"
    known = set(schema.names)
    for field in layout.schema:
        if field.name not in known:
            raise DataError(f"{file.where}: must have the field {field.name!r}, as {says} has; there is {schema.names}")
    own = {f.name: f.type for f in empty(pa.schema([schema.field(name) for name in layout.schema.names])).schema}
    for name, t in layout.own_fields.items():
        there = own.get(name)
        if there is None or not (there == t or layout.is_declared or (is_text(there) and is_text(t))):
            raise DataError(
                f"{file.where}: the field {name!r} must be {t}, as in {says}; it is {there}; write the file again, or "
                f"give schema= to convert it"
            )
    extra = [name for name in schema.names if name not in layout.schema.names]
    if extra and not layout.is_declared:
        raise DataError(
            f"{file.where}: must have the fields of {first!r} and no others; it also has {extra}; give schema= "
            f"with the fields to read"
        )
