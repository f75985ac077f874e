"""DataFrames of Spark as sources and as results."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import DataError, GraphError, quoted
from penstock.graph import nodes as n
from penstock.graph.files.path_pattern import OF_SPARK
from penstock.graph.flat import flatten
from penstock.graph.source import Items, fields_of
from penstock.graph.split import Split
from penstock.graph.tree import At
from penstock.plan.stages import Cut
from penstock.spark.driver.usable import refuse_connect, require_pyspark
from penstock.spark.wire import Kind, messages
from penstock.spark.worker.task_failure import raise_failed

if TYPE_CHECKING:
    from penstock.spark.driver.spark_run import SparkRun


@dataclass(frozen=True, eq=False)
class FrameItems(Items):
    """The rows of a DataFrame. They have an order only where columns for it are named."""

    frame: Any = None
    order_by: tuple[str, ...] = ()

    def in_order(self, columns: Collection[str], partitions: int) -> Any:
        """The columns that are used, in partitions that follow each other in the order, where there is one.

        Rows that are equal in the first column of the order lie in one partition.
        """
        names = self._names(columns)
        if not self.order_by:
            return self.used(columns)
        kept = [*names, *(name for name in self.order_by if name not in names)]
        ranged = self.frame.select(*map(_quote, kept)).repartitionByRange(partitions, _quote(self.order_by[0]))
        return ranged.sortWithinPartitions(*map(_quote, self.order_by)).select(*map(_quote, names))

    def used(self, columns: Collection[str]) -> Any:
        """The columns that are used, as they come."""
        return self.frame.select(*map(_quote, self._names(columns)))

    def local_paths(self) -> list[str]:
        """The folders of the local filesystem that it reads, as far as its plan shows them. Nothing runs."""
        return [path for leaf in _leaves(self.frame) for path in map(local_path, _paths(leaf)) if path is not None]

    def _names(self, columns: Collection[str]) -> list[str]:
        names = [name for name in self.frame.columns if any(_is_of(used, name) for used in columns)]
        return names or list(self.frame.columns[:1])


def _leaves(frame: Any) -> list[Any]:
    if not hasattr(frame, "_jdf"):  # of Spark Connect
        return []
    found = frame._jdf.queryExecution().analyzed().collectLeaves()
    return [found.apply(at) for at in range(found.size())]


def _paths(leaf: Any) -> list[str]:
    """What a leaf of a plan reads, where it is a source of files."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    kind = str(leaf.getClass().getSimpleName())
    try:
        if kind == "StreamingRelation":
            path = leaf.dataSource().options().get("path")
            return [str(path.get())] if path.isDefined() else []
        if kind == "LogicalRelation":
            roots = leaf.relation().location().rootPaths()
            return [str(roots.apply(at).toString()) for at in range(roots.size())]
    except Py4JError:
        """A relation that has no files."""
    return []


def local_path(path: str) -> str | None:
    """A path of Hadoop as the local filesystem has it, up to where a pattern begins; None for other filesystems."""
    parts = OF_SPARK.fullmatch(path)
    if parts is not None and parts["scheme"] != "file":
        return None
    plain = path if parts is None else parts["path"]
    return re.split(r"/[^/]*[*?\[{]", plain, maxsplit=1)[0] or plain[:1]


def _is_of(used: str, name: str) -> bool:
    return used == name or used.startswith(f"{name}.")


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, eq=False)
class FrameSplit(Split):
    """The batches of one partition, as they reach a task: they can be read once."""

    batches: Iterable[pa.RecordBatch]
    label: str = "a partition of the DataFrame"
    bytes: int = 0

    def read(self, columns: Collection[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            flat = flatten(batch)
            for start in range(0, flat.num_rows, at_most):
                yield flat.slice(start, at_most)


def frame_items(name: str, frame: Any, order_by: str | Sequence[str]) -> FrameItems:
    """The items of a DataFrame, with fields of the types that Arrow has for its columns."""
    require_pyspark()
    refuse_connect(name, frame)
    from pyspark.sql.pandas.types import to_arrow_schema

    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    if not hasattr(frame, "mapInArrow"):
        raise GraphError(f"{name}: must be a DataFrame of Spark; got {type(frame).__name__}")
    missing = [column for column in order if column not in frame.columns]
    if missing:
        raise GraphError(
            f"{name}: order_by= must name columns of the DataFrame; got {quoted(missing)}; there are "
            f"{quoted(frame.columns)}"
        )
    fields = fields_of(name, to_arrow_schema(frame.schema), "cast it in Spark before")

    def here(about_bytes: int, bounds: Any, columns: Any) -> Sequence[Split]:
        """All rows, in this process: for those who ask to run it here."""
        ordered = frame.orderBy(*map(_quote, order)) if order else frame
        return [FrameSplit(ordered.toArrow().to_batches())]

    return FrameItems(fields, here, False, frame, order)


def refuse_unordered(source: n.Source, made: Cut, control: Sequence[At], is_ordered: bool) -> None:
    """A DataFrame has no order of its own, so what depends on one has no meaning."""
    reasons = [exchange.reason for exchange in made.exchanges]
    reasons += ["a signal is placed among its items"] if control else []
    reasons += ["the result is to be in order"] if is_ordered else []
    if reasons:
        raise GraphError(
            f"{source.label}: a DataFrame must have an order, because {reasons[0]}; it has none; name the columns of "
            f"it: from_spark(df, order_by=...)"
        )


# As a result


class FrameWriter:
    """Hands a result on as it is, to be the rows of a DataFrame."""

    def __init__(self, leaf: int, sender: int) -> None:
        self.bytes = 0

    def send(self, rows: pa.RecordBatch) -> Iterator[Any]:
        yield FrameRows(rows)

    def finish(self) -> Iterator[Any]:
        return iter(())

    def abort(self) -> None:
        """Nothing is left behind."""


@dataclass(frozen=True)
class FrameRows:
    """Rows of a result among the rows that a task gives."""

    rows: pa.RecordBatch


def frame(run: SparkRun) -> Any:
    """The first result of a run as a DataFrame. An error of a task is raised by the action that meets it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from penstock.spark.driver.batch_source import RowsAs

    (leaf,) = run.leaves
    schema = spark_schema(leaf)
    job = run.job(is_lazy=True, results=FrameWriter)
    return job.rows(None, RowsAs(schema, data_of(to_arrow_schema(schema), leaf.label)))


def data_of(schema: pa.Schema, where: str) -> Callable[[Iterator[Any]], Iterator[pa.RecordBatch]]:
    """What turns the rows of the last tasks into those of the DataFrame."""

    def convert(rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for each in rows:
            if isinstance(each, FrameRows):
                yield cast(each.rows, schema, where)
            else:
                raise_failed([each])

    return convert


def result_rows(leaf: n.GraphNode, spark_schema: Any) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What makes rows of a result of messages, for a sink of Spark's."""
    from pyspark.sql.pandas.types import to_arrow_schema

    own, wanted = pa.schema(list(leaf.shape.fields.items())), to_arrow_schema(spark_schema)

    def convert(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for message in messages(batches):
            if message.kind == Kind.FAILED:
                raise message.decode().error
            if message.kind == Kind.RESULT:
                yield cast(pa.ipc.read_record_batch(message.payload, own), wanted, leaf.label)

    return convert


def cast(rows: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """The columns of a result in the types that Spark has for them."""
    columns = []
    for field in schema:
        try:
            columns.append(rows.column(field.name).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"to_spark: {where}: {field.name!r} cannot be {field.type} in Spark: {error}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


def spark_schema(leaf: n.GraphNode) -> Any:
    """The columns that a result has in Spark: unsigned integers as the next wider ones, dates and times as Spark's."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields = []
    for name, t in leaf.shape.fields.items():
        try:
            found = from_arrow_type(_signed_type(t), prefer_timestamp_ntz=True)
        except PySparkException:
            raise GraphError(
                f"to_spark: {leaf.label}: Spark has no type for {name!r}, a {t}; convert it before"
            ) from None
        fields.append(StructField(name, found, nullable=True))
    return StructType(fields)


def _signed_type(t: pa.DataType) -> pa.DataType:
    if t in _WIDER:
        return _WIDER[t]
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return pa.list_(_signed_type(t.value_type))
    if pa.types.is_date64(t):
        return pa.date32()
    return pa.time64("us") if pa.types.is_time(t) else t
