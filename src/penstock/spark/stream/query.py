"""A graph as a query of Structured Streaming.

New files, and signals that were sent, are rows that name their paths: Spark's own logs decide which of them belong to a
micro-batch. Tasks read the files and run the first stage; block rows go to the buckets of the next, which Spark calls
once each, with their state. What comes back at the end is small, as of a batch job, and is committed by the driver; or
it goes on to a sink of Spark's.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engine.options import Options
from penstock.errors import GraphError, PenstockError
from penstock.graph import nodes as n
from penstock.graph.files.items import FileItems
from penstock.graph.sink import SparkSink
from penstock.graph.tree import At, Tree, check_signals, signals_at
from penstock.plan.cut import cut
from penstock.plan.idle import Wanted
from penstock.plan.moving import without_items
from penstock.plan.stages import Cut, Exchange
from penstock.spark import job
from penstock.spark.block import ROWS, Block, Origin, blocks
from penstock.spark.frame import FrameItems, cast, refuse_unordered, spark_schema
from penstock.spark.reason import job_error, refuse_held
from penstock.spark.remote import over_arrived, over_blocks, over_frame, packed
from penstock.spark.session import await_sources, session, stream_settings, with_settings
from penstock.spark.stream.arrived import FILE, SIGNAL, Reader
from penstock.spark.stream.assigned import refuse_missing
from penstock.spark.stream.bucket import NOW, Bucket
from penstock.spark.stream.checkpoint import Checkpoint
from penstock.spark.stream.control import Planned, planned, refuse_passed
from penstock.spark.stream.description import describe
from penstock.spark.stream.endings import refuse_idle
from penstock.spark.stream.layout import spread, stream_layout
from penstock.spark.stream.sinks import sink_of
from penstock.spark.task import RESULT, Counted, raise_failed, used_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATHS = "path string, modificationTime timestamp, length long, content binary"
"""The columns of Spark's source of whole files. What is not selected is not read."""
COUNTS = ("keys", "pages", "touched", "written", "state_bytes")
"""What the tasks count of their state."""
KEPT_BATCHES = 100
"""Of how many micro-batches the records stay."""


class StreamQuery:
    """One result of a graph, planned as a query. It can be started once."""

    def __init__(
        self,
        leaf: n.GraphNode,
        sink: Any,
        checkpoint: Any,
        spark: SparkSession | None = None,
        *,
        format: str = "parquet",
        ordered: bool = False,
        buckets: int | None = None,
        files_per_batch: int | None = None,
        control: Sequence[At] = (),
        time: str | None = None,
        expire_after: Any = None,
        **options: Any,
    ) -> None:
        self.leaf, self.tree = leaf, Tree((leaf,))
        self.items = _watched(leaf.source)
        self.files_per_batch = _whole("files_per_batch", files_per_batch)
        self.control = check_signals(self.tree, control)
        self.signals = {signal.__name__: signal for node in self.tree.nodes for signal in signals_at(node)}
        idle = Wanted(time, expire_after)
        self.cut = self._cut(ordered, idle)
        refuse_idle(self.tree, self.cut, idle)
        self.sink = sink_of(sink, leaf, format, options)
        Options.of(options)
        self.options = options
        self.user = session() if spark is None else spark
        wanted = _whole("buckets", buckets) or max(1, int(self.user.sparkContext.defaultParallelism))
        self.checkpoint = Checkpoint(checkpoint)
        described = describe([leaf], buckets=wanted, sink=self.sink.about) | self._own()
        self.buckets = int(self.checkpoint.open(described)["buckets"])
        self.identity = str((self.checkpoint.description() or described)["id"])
        self.failure: PenstockError | None = None
        try:
            self.items_before = self._items_before()
            self.plan = self._planned() if control else None
        except BaseException:
            self.checkpoint.close()
            raise

    def _own(self) -> dict[str, Any]:
        """What the description has beside the graph: a name for the files, and whether items are counted."""
        return {"id": uuid.uuid4().hex[:8], "is_counted": not isinstance(self.sink, SparkSink)}

    def _cut(self, ordered: bool, idle: Wanted) -> Cut:
        signals = list(self.signals.values())
        if isinstance(self.items, FileItems):
            return cut([self.leaf], signals, is_ordered=ordered, idle=idle)
        made = cut([self.leaf], signals, is_ordered=ordered, is_gathered_at_source=False, idle=idle)
        if not self.items.order_by:
            refuse_unordered(self.leaf.source, made, self.control, ordered)
        return made

    def _planned(self) -> Planned:
        if isinstance(self.items, FrameItems):
            raise GraphError(
                "start: control= needs a source of files, whose items have an index; got a DataFrame; send the signals"
            )
        if isinstance(self.sink, SparkSink):
            raise GraphError(
                f"start: control= needs a sink that counts what was taken, a folder or a function; got "
                f"{self.sink.about}"
            )
        found = planned(self.control, without_items(self.tree.source))
        refuse_passed(found, self.checkpoint, self.items_before)
        return found

    def _items_before(self) -> int:
        """How many items all micro-batches have taken. One that a crash cut short comes again, and is counted then."""
        last = self.checkpoint.last_batch()
        known = [self.checkpoint.items_until(number) for number in (() if last is None else (last, last - 1))]
        return next((items for items in known if items is not None), 0)

    # The query

    def start(self, trigger: Mapping[str, Any]) -> Any:
        """Start the query; Spark's handle of it."""
        try:
            self.spark = self.user if isinstance(self.items, FileItems) else self.items.frame.sparkSession
            settings = stream_settings(self.spark, self.buckets, self.checkpoint.files.is_local)
            # A query takes the settings of its session when it is started, and keeps them.
            with with_settings(self.spark, settings):
                writer = self._writer(self._rows()).option("checkpointLocation", self.checkpoint.given)
                running = (writer.trigger(**trigger) if trigger else writer).start()
                await_sources(running)
                return running
        except BaseException:
            self.checkpoint.close()
            raise

    def _writer(self, rows: DataFrame) -> Any:
        if isinstance(self.sink, SparkSink):
            schema = spark_schema(self.leaf)
            found = rows.mapInArrow(_items_of(self.leaf, schema), schema)
            return found.writeStream.format(self.sink.format).options(**self.sink.options).outputMode("append")
        self.sink.begin(self.checkpoint, self.identity)
        return rows.writeStream.foreachBatch(self._commit)

    def _rows(self) -> DataFrame:
        """All that the tasks give, as block rows."""
        held, reader = self._held(), packed(self._reader())
        is_whole = self.cut.is_whole
        found = _stateful(self._arrived(), Bucket(held, reader)) if is_whole else self._first(held, reader)
        for stage in self.cut.stages[1:]:
            assert stage.reads is not None
            if stage.reads.kind == "order":
                found = found.repartitionById(1, "target").mapInArrow(over_blocks(held, None), ROWS)
            else:
                found = _stateful(self._timed(stage.reads, found), Bucket(held))
        return found

    def _timed(self, exchange: Exchange, rows: DataFrame) -> DataFrame:
        """Rows with the time of their micro-batch, where keys go idle by it. Spark logs it: a replay has the same."""
        if exchange.idle is None or exchange.idle.time is not None:
            return rows
        return rows.selectExpr("*", f"unix_millis(current_timestamp()) as {NOW}")

    def _first(self, held: bytes, reader: bytes) -> DataFrame:
        """The first stage, over files or over a DataFrame; what signals send is beside it."""
        task = over_arrived(held, reader)
        if isinstance(self.items, FileItems):
            arrived = self._arrived()
            # Which item is the n-th can be known only by reading one file after the other.
            return (arrived if self.plan is None else arrived.coalesce(1)).mapInArrow(task, ROWS)
        order = self.items.order_by
        rows = self.items.used({*used_columns(Tree(self.cut.stages[0].leaves)), *order})
        found: DataFrame = (rows.coalesce(1) if order else rows).mapInArrow(over_frame(held, order), ROWS)
        return found.unionAll(self._sent().mapInArrow(task, ROWS)) if self.signals else found

    def _held(self) -> bytes:
        results = job.CollectWriter if isinstance(self.sink, SparkSink) else self.sink.results()
        layout = stream_layout(self.cut, self.buckets)
        program = job.program_of(self.cut, layout, results, self.options, {}, {})
        try:
            return packed(program)
        except Exception as error:
            refuse_held(self.tree.nodes, error, packed)
            raise

    def _reader(self) -> Reader:
        items = self.items.without_files() if isinstance(self.items, FileItems) else None
        return Reader(items, self.signals, self.checkpoint, self.plan)

    def _arrived(self) -> DataFrame:
        """A row for each file that is new, and for each signal."""
        assert isinstance(self.items, FileItems)
        folder, names = self.items.root
        found = self._watch(folder, FILE, pathGlobFilter=names)
        return found.unionAll(self._sent()) if self.signals else found

    def _sent(self) -> DataFrame:
        return self._watch(f"{self.checkpoint.folder}/control", SIGNAL, pathGlobFilter="*.json")

    def _watch(self, folder: str, stage: int, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("binaryFile").schema(PATHS).options(**options)
        # Spark would forget files, and pass over those that are older than a week when they come.
        reader = reader.option("maxFileAge", "36500d").option("recursiveFileLookup", "true")
        if self.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.files_per_batch)
        (target,) = spread(1, self.buckets)
        return reader.load(folder).selectExpr(
            f"{target} as target",
            f"{stage} as stage",
            "length as sender",
            "0L as sequence",
            "true as is_last",
            "encode(path, 'UTF-8') as head",
            "cast(null as binary) as payload",
        )

    # Each micro-batch, in the driver

    def _commit(self, frame: DataFrame, batch: int) -> None:
        # What is raised here is told by the handle; the way through Java would print it with a trace as well.
        logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
        try:
            self._commit_batch(frame, int(batch))
        except PenstockError as error:
            self.failure = error
            raise
        except Exception as error:
            self.failure = job_error(error, self.tree.nodes)
            raise

    def _commit_batch(self, frame: DataFrame, batch: int) -> None:
        started = time.perf_counter()
        arrived = [block for rows in frame.toArrow().to_batches() for block in blocks(rows)]
        found = job.gathered(arrived)
        if isinstance(self.items, FileItems):
            taken = [origin.label for origin in _origins(found.counted) if origin.is_data]
            refuse_missing(self.checkpoint, batch, self.items, taken)
        ran = time.perf_counter()
        assert not isinstance(self.sink, SparkSink)
        record = self.sink.commit(batch, in_order(found, self.cut))
        if "items_before" not in record:
            record |= self._counts(found.counted) | {"items_before": self.items_before}
            record |= {"run_s": ran - started, "commit_s": time.perf_counter() - ran}
            self.checkpoint.write_batch(batch, record)
        for origin in _origins(found.counted):
            if not origin.is_data:
                self.checkpoint.note_placed(origin.label, batch, int(record["items_before"]))
        self.items_before = int(record["items_before"]) + int(record["items"])
        if batch % KEPT_BATCHES == 0:
            self.checkpoint.forget_before(batch - KEPT_BATCHES)

    def _counts(self, counted: Sequence[Counted]) -> dict[str, Any]:
        """What a batch did, in numbers."""
        first = [each for each in counted if each.stage == 0]
        state = [each.state for each in counted]
        totals = {name: sum(each.get(name, 0) for each in state) for name in COUNTS}
        return {
            "items": sum(each.items for each in first),
            "files": sum(each.is_data for each in _origins(counted)),
        } | totals


def _origins(counted: Sequence[Counted]) -> list[Origin]:
    """What the first stage has read."""
    return [origin for each in counted if each.stage == 0 for origin in each.origins]


def in_order(found: job.Gathered, cut: Cut) -> list[Block]:
    """The results of a micro-batch: where tasks have read files and given them, in the order of these."""
    blocks = found.results.get(0, [])
    if cut.is_whole or not any(output.leaf is not None for output in cut.stages[0].outputs):
        return blocks
    origins = {each.sender: each.origins[0] for each in found.counted if each.stage == 0}
    return sorted(blocks, key=lambda block: (origins[block.sender], block.sequence))


def _stateful(rows: DataFrame, bucket: Bucket) -> DataFrame:
    return rows.groupBy("target").transformWithStateInPandas(bucket, ROWS, "Append", "None")


def _items_of(leaf: n.GraphNode, schema: Any) -> Any:
    """What turns block rows into the rows of a result, for a sink of Spark's."""
    from pyspark.sql.pandas.types import to_arrow_schema

    own, wanted, where = pa.schema(list(leaf.shape.fields.items())), to_arrow_schema(schema), leaf.label

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            raise_failed(rows)
            for block in blocks(rows):
                if block.stage == RESULT:
                    yield cast(pa.ipc.read_record_batch(block.payload, own), wanted, where)

    return convert


def _watched(source: n.Source) -> FileItems | FrameItems:
    items = source.items
    if isinstance(items, FileItems):
        _ = items.root
        return items
    if isinstance(items, FrameItems) and items.frame.isStreaming:
        return items
    raise GraphError(
        f"start: {source.label} must be a source that grows: a folder (read_parquet, read_csv, read_json, read_text) "
        f"or a streaming DataFrame (from_spark(spark.readStream...)); it is not"
    )


def _whole(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise GraphError(f"start: {name} must be a whole number of at least 1; got {value!r}")
    return value
