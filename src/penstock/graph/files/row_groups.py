"""What the footer of a Parquet file tells of a row group: whether no row of it can be within some bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.graph import types
from penstock.graph.files.file_columns import FileColumns
from penstock.graph.files.folder_fields import constants
from penstock.graph.files.paths import File
from penstock.graph.split import Bound


def may_skip(
    layout: FileColumns, file: File, parquet: Any, group: Any, bounds: Sequence[Bound], flat: Sequence[str]
) -> bool:
    """Whether a row group holds no row within all bounds, and nothing that a reader of the columns would refuse."""
    statistics = _GroupStatistics(layout, file, parquet, group)
    if not any(statistics.is_outside(bound) for bound in bounds):
        return False
    return all(statistics.is_clean(name) for name in {*flat, *(bound.field for bound in bounds)})


class _GroupStatistics:
    """The statistics of a row group. A column of which they tell nothing is taken to hold anything."""

    def __init__(self, layout: FileColumns, file: File, parquet: Any, group: Any) -> None:
        self.layout = layout
        self.schema = parquet.schema_arrow
        self.columns = {
            group.column(at).path_in_schema: (group.column(at), parquet.schema.column(at))
            for at in range(group.num_columns)
        }
        self.constants = constants(file, layout.keys)

    def is_outside(self, bound: Bound) -> bool:
        """Whether no value of the bound's field is within it."""
        extremes = self._extremes(bound.field)
        return extremes is not None and bound.refuses(*extremes)

    def is_clean(self, name: str) -> bool:
        """Whether a field holds no null, and no integer that 64 bits with a sign do not hold."""
        if name in self.constants:
            return bool(self.constants[name].is_valid)
        chunks = [pair for path, pair in self.columns.items() if self._belongs(path, name)]
        return bool(chunks) and all(self._is_clean(chunk, column, name) for chunk, column in chunks)

    def _belongs(self, path: str, name: str) -> bool:
        """Whether a column of the file is part of a field, or the other way round: better one too many."""
        return path == name or path.startswith(f"{name}.") or name.startswith(f"{path.split('.')[0]}.")

    def _is_clean(self, chunk: Any, column: Any, name: str) -> bool:
        statistics = chunk.statistics
        if column.max_definition_level > 0 and not (
            statistics is not None and statistics.has_null_count and statistics.null_count == 0
        ):
            return False
        if "64" in str(column.logical_type) and "isSigned=false" in str(column.logical_type):
            return statistics is not None and statistics.has_min_max and statistics.max <= types.INT64_MAX
        return True

    def _extremes(self, name: str) -> tuple[int | float, int | float] | None:
        """The least and the greatest value of a plain column, as a function sees them."""
        t = self.layout.fields.get(name)
        if t is None or not types.is_scalar(t) or t == pa.time64("ns"):  # Python's times of a day have no nanoseconds
            return None
        if name in self.constants:
            value = _number(self.constants[name], t)
            return None if value is None else (value, value)
        if name not in self.columns or name not in self.schema.names or self.schema.field(name).type != t:
            return None
        statistics = self.columns[name][0].statistics
        if statistics is None or not statistics.has_min_max:
            return None
        try:
            low, high = _number(statistics.min, t), _number(statistics.max, t)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):  # a time that Python's times cannot tell
            return None
        return None if low is None or high is None else (low, high)


def _number(value: Any, t: pa.DataType) -> int | float | None:
    """A value as a number: a time in its unit. None for a null and for what is not a number."""
    made = value if isinstance(value, pa.Scalar) else pa.scalar(value, t)
    if made.is_valid and types.is_time(t):
        made = made.cast(pa.int32() if t.bit_width == 32 else pa.int64())
    number = made.as_py()
    return number if isinstance(number, (int, float)) and number == number else None
