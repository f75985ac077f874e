"""Streams of items from files, from DataFrames of Spark, and from the memory of this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.errors import GraphError
from penstock.graph import nodes
from penstock.graph.files import csv, json, parquet, text_lines
from penstock.graph.files.csv_format import Dialect
from penstock.graph.source import from_table, table_of_arrays, table_of_dicts, table_of_frame
from penstock.graph.stream import Stream


def read_parquet(path: Any, *, schema: Any = None, partitions: bool = True, name: str = "parquet") -> Stream:
    """A stream of the rows of Parquet files, in the order of their paths.

    `path` is a file, a folder (with all that is in it), a glob, an address such as `s3://bucket/folder`, or a list of
    these. Only the columns that the graph uses are read. All files must have the same columns as the first; with
    `schema=`, names and types, they must have at least these, and others are not read. Folders called `key=value` give
    fields, unless `partitions=False`.

    With `schema=`, one folder may still be empty when the stream is built, so that it can be started before its first
    file is there; a batch over it is refused. Then partition folders give no fields, as none is known.

    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> import penstock as ps
    >>> folder = tempfile.TemporaryDirectory()
    >>> pq.write_table(pa.table({"v": [1, 2, 3]}), f"{folder.name}/part-0.parquet")
    >>> ps.read_parquet(folder.name).filter(lambda v: v > 1).collect(spark=False).to_pydict()
    {'v': [2, 3]}
    >>> folder.cleanup()
    """
    items = parquet.read_items(f"source {name!r}", path, schema, partitions)
    return Stream(nodes.Source(items, name))


def read_text(
    path: Any,
    *,
    line: str = "line",
    file: str | None = None,
    offset: str | None = None,
    partitions: bool = True,
    name: str = "text",
) -> Stream:
    """A stream of the lines of text files in UTF-8, in the order of their paths, without their line ends.

    `line` names the field. `file=` and `offset=` name fields for the path of the file, and for the byte at which the
    line begins in it. Files whose names end with `.gz` or `.zst` are decompressed. About paths, and about a folder that
    is still empty, which needs no schema here, see `read_parquet`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import penstock as ps
    >>> folder = tempfile.TemporaryDirectory()
    >>> written = Path(folder.name, "words.txt").write_text("one\\ntwo")
    >>> ps.read_text(folder.name, offset="at").collect(spark=False).to_pydict()
    {'line': ['one', 'two'], 'at': [0, 4]}
    >>> folder.cleanup()
    """
    items = text_lines.read_items(f"source {name!r}", path, line, file, offset, partitions)
    return Stream(nodes.Source(items, name))


def read_csv(
    path: Any,
    *,
    schema: Any = None,
    names: Sequence[str] | None = None,
    delimiter: str = ",",
    quote: str | None = '"',
    nulls: Sequence[str] | None = None,
    newlines_in_values: bool = False,
    partitions: bool = True,
    name: str = "csv",
) -> Stream:
    """A stream of the rows of CSV files, in the order of their paths.

    The first line of each file is its header, the same in all; or `names=` names all columns, and there is none.
    `schema=` says which columns to read and their types; without it, the first megabyte of the first file tells the
    types, and a value that does not fit is an error. An empty value is null, but in a string it is empty; `nulls=` are
    the texts that are null instead, in strings too. Empty lines are left out.

    Files are cut at line ends, so that a value may not hold any; with `newlines_in_values=True` it may, and each file
    is read as a whole. Files whose names end with `.gz` or `.zst` are decompressed. About paths, see `read_parquet`;
    where a folder was empty, each file that arrives in it may have a header of its own, with the columns of `schema=`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import penstock as ps
    >>> folder = tempfile.TemporaryDirectory()
    >>> written = Path(folder.name, "sensors.csv").write_text("device,value\\na,1.5\\nb,2\\n")
    >>> ps.read_csv(folder.name).collect(spark=False).to_pydict()
    {'device': ['a', 'b'], 'value': [1.5, 2.0]}
    >>> folder.cleanup()
    """
    dialect = Dialect(delimiter, quote, None if nulls is None else tuple(nulls))
    items = csv.read_items(f"source {name!r}", path, schema, names, dialect, newlines_in_values, partitions)
    return Stream(nodes.Source(items, name))


def read_json(path: Any, *, schema: Any = None, partitions: bool = True, name: str = "json") -> Stream:
    """A stream of the objects in JSON files that have one a line, in the order of their paths.

    `schema=` says which fields to read and their types; without it, the first megabyte of the first file tells them. A
    field that an object lacks is null, and a field that is not in the schema is not read. Files whose names end with
    `.gz` or `.zst` are decompressed. About paths, see `read_parquet`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import penstock as ps
    >>> folder = tempfile.TemporaryDirectory()
    >>> written = Path(folder.name, "blobs.json").write_text('{"id": 1, "v": [1, 2]}\\n{"id": 2, "v": []}\\n')
    >>> ps.read_json(folder.name).enumerate("v", as_="x").aggregate(sum=ps.sum("x")).collect(spark=False).to_pydict()
    {'id': [1, 2], 'sum': [3, 0]}
    >>> folder.cleanup()
    """
    items = json.read_items(f"source {name!r}", path, schema, partitions)
    return Stream(nodes.Source(items, name))


def from_spark(frame: Any, *, order_by: str | Sequence[str] = (), name: str = "frame") -> Stream:
    """A stream of the rows of a DataFrame of Spark, in the order of the columns that `order_by` names.

    A DataFrame has no order of its own. Without `order_by`, whatever needs one (regions found in the stream, state,
    signals, `ordered=True`) is refused. Rows that are equal in all of these columns may come in any order, so name
    enough of them. Regions by the first of them are found by many tasks side by side.

    >>> import penstock as ps
    >>> import penstock.spark
    >>> spark = penstock.spark.session(cores=2)
    >>> points = spark.createDataFrame([(1, 10, 2.0), (2, 5, 1.0), (1, 20, 3.0)], "trip int, at int, km double")
    >>> trips = ps.from_spark(points, order_by=["trip", "at"]).regions(by="trip").aggregate(km=ps.sum("km"))
    >>> trips.to_spark().orderBy("trip").collect()
    [Row(trip=1, km=5.0), Row(trip=2, km=1.0)]
    """
    from penstock.spark.dataframe import frame_items

    return Stream(nodes.Source(frame_items(f"source {name!r}", frame, order_by), name))


def from_arrow(data: Any, *, name: str = "arrow") -> Stream:
    """A stream of the rows of an Arrow table, a record batch, or a dataset (which is read batch by batch).

    >>> import penstock as ps
    >>> import pyarrow as pa
    >>> ps.from_arrow(pa.table({"v": [1, 2]})).collect().to_pydict()
    {'v': [1, 2]}
    """
    return Stream(nodes.Source(from_table(f"source {name!r}", data), name))


def from_items(items: Sequence[Mapping[str, Any]], *, schema: Any = None, name: str = "items") -> Stream:
    """A stream of dicts. Every key is a field; `schema=` (names and types) is needed where there are no items.

    >>> import penstock as ps
    >>> ps.from_items([], schema={"v": float}).collect().num_rows
    0
    """
    if not isinstance(items, Iterable) or isinstance(items, (str, bytes, Mapping)):
        raise GraphError(f"source {name!r}: must be a list of dicts; got {type(items).__name__}")
    table = table_of_dicts(f"source {name!r}", list(items), schema)
    return Stream(nodes.Source(from_table(f"source {name!r}", table), name))


def from_numpy(arrays: Any, *, name: str = "numpy") -> Stream:
    """A stream of NumPy arrays: a dict of them, or a structured array. A two-dimensional array is a field of arrays.

    The arrays are not copied, so they must not change while the stream is in use. What is masked is null.

    >>> import numpy as np
    >>> import penstock as ps
    >>> ps.from_numpy({"v": np.arange(3)}).filter(lambda v: v > 0).collect().to_pydict()
    {'v': [1, 2]}
    """
    table = table_of_arrays(f"source {name!r}", arrays)
    return Stream(nodes.Source(from_table(f"source {name!r}", table), name))


def from_pandas(frame: Any, *, name: str = "pandas") -> Stream:
    """Make a stream of the rows of a pandas DataFrame.

    Parameters
    ----------
    frame
        The DataFrame. Its index is left out; write `frame.reset_index()` to keep it. What pandas calls missing (None,
        NaN, NaT) is null, which `drop_nulls` and `fill_null` take care of.
    name
        How messages and pictures name the source.

    Returns
    -------
    Stream
        A stream with a field for each column.

    Raises
    ------
    GraphError
        If it is no DataFrame, or a column has no type of Arrow.

    Examples
    --------
    >>> import pandas as pd
    >>> import penstock as ps
    >>> frame = pd.DataFrame({"device": ["a", "b"], "value": [1.5, None]})
    >>> ps.from_pandas(frame).fill_null(value=0.0).collect().to_pydict()
    {'device': ['a', 'b'], 'value': [1.5, 0.0]}
    """
    table = table_of_frame(f"source {name!r}", frame)
    return Stream(nodes.Source(from_table(f"source {name!r}", table), name))
