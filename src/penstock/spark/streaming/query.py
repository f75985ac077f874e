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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.engine.options import Options
from penstock.errors import GraphError, PenstockError
from penstock.graph import nodes as n
from penstock.graph.files.file_items import FileItems
from penstock.graph.prepare import skipping
from penstock.graph.sink import SparkSink
from penstock.graph.tree import At, Tree, check_signals
from penstock.graph.watermarks import user_signals_at, with_watermarks
from penstock.plan.cut import cut
from penstock.plan.idle import IdleLimit
from penstock.plan.moving import without_items
from penstock.plan.stages import Cut, Exchange
from penstock.spark.dataframe import FrameItems, local_path, refuse_unordered, result_rows, spark_schema
from penstock.spark.driver.batch_source import whole_number
from penstock.spark.driver.job_program import plan_program
from penstock.spark.driver.reason import job_error, refuse_unpackable
from penstock.spark.driver.results import gather
from penstock.spark.driver.session import await_sources, session, stream_settings, with_settings
from penstock.spark.driver.usable import usable
from penstock.spark.files.folders import Folder, folder_of, refuse_nested, sources_of
from penstock.spark.streaming.age import UNLIMITED_MS, Passed, age_of
from penstock.spark.streaming.arrived import ArrivalReader
from penstock.spark.streaming.assigned import assigned_files, refuse_missing
from penstock.spark.streaming.batch_letters import StreamLetters, letters_in
from penstock.spark.streaming.batch_record import batch_counts, origins_of, results_in_order
from penstock.spark.streaming.bucket import NOW, Bucket
from penstock.spark.streaming.bucket_partitions import spread, stream_layout
from penstock.spark.streaming.checkpoint import Checkpoint
from penstock.spark.streaming.description import describe
from penstock.spark.streaming.groups import PROPERTY, plan_groups
from penstock.spark.streaming.interruption import INTERRUPTION, BatchError, brief, is_interruption
from penstock.spark.streaming.pending_signals import Planned, name_signals, refuse_passed
from penstock.spark.streaming.refusals import refuse_idle
from penstock.spark.streaming.steps import slots_of
from penstock.spark.streaming.stream_sinks import FileSink, sink_of
from penstock.spark.streaming.stream_tasks import over_arrived, over_frame
from penstock.spark.wire import (
    ROWS,
    ArrivedFile,
    ArrivedSignal,
    messages,
    sql_of_arrived,
)
from penstock.spark.worker.remote import over_blocks, pack
from penstock.spark.worker.result_writers import CollectWriter
from penstock.spark.worker.stage_input import used_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATHS = "path string, modificationTime timestamp, length long, content binary"
"""The columns of Spark's source of whole files. What is not selected is not read."""
GROUPS_A_CORE = 4
"""How many groups of small files there are, for each task that runs at a time."""
TASKS_A_CORE = 8
"""Into how many tasks the files of a micro-batch are put at most, for each that runs at a time."""
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
        max_file_age: Any = None,
        dead_letter: Any = None,
        **options: Any,
    ) -> None:
        max_age = age_of(max_file_age)
        ((leaf,), _) = with_watermarks((leaf,))
        if dead_letter is not None:
            options["on_error"] = skipping(options)
        self.is_guarded = options.get("on_error") == "skip"
        self.letters = None if dead_letter is None else StreamLetters(dead_letter)
        self.leaf, self.tree = leaf, Tree((leaf,))
        self.items = _watched(leaf.source)
        self.files_per_batch = whole_number("start", "files_per_batch", files_per_batch)
        self.control = check_signals(self.tree, control)
        self.signals = {signal.__name__: signal for node in self.tree.nodes for signal in user_signals_at(node)}
        idle = IdleLimit(time, expire_after)
        self.cut = self._cut(ordered, idle)
        refuse_idle(self.tree, self.cut, idle)
        self.sink = sink_of(sink, leaf, format, options)
        refuse_nested("start", [*sources_of(self.items), *self._written(), folder_of("the checkpoint", checkpoint)])
        hash_seed = Options.of(options).hash_seed
        if self.is_guarded and isinstance(self.sink, SparkSink):
            raise GraphError(
                f"start: on_error='skip' needs a sink that counts what was skipped, a folder or a function; got "
                f"{self.sink.about}"
            )
        self.user = usable(session() if spark is None else spark)
        wanted = whole_number("start", "buckets", buckets) or max(1, int(self.user.sparkContext.defaultParallelism))
        self.checkpoint = Checkpoint(checkpoint)
        folder = next((each.path for each in self._sink_folder()), None)
        described = describe([leaf], buckets=wanted, sink=self.sink.about, made=self.cut, folder=folder)
        in_force = self.checkpoint.open(described | self._own(hash_seed))
        self.buckets, self.slots = int(in_force["buckets"]), slots_of(self.cut, in_force["stages"])
        self.options = {**options, "hash_seed": int(in_force["hash_seed"])}
        if not isinstance(self.sink, SparkSink):
            self.sink.open(self.checkpoint, str(in_force["id"]))
            if self.letters is not None:
                self.letters.open(str(in_force["id"]))
        self.failure: PenstockError | None = None
        self.passed: Passed | None = None
        try:
            if isinstance(self.items, FileItems):
                self.passed = Passed(self.items, self.checkpoint, max_age)
                self.passed.refuse()
            self.items_before = self._items_before()
            self.plan = self._planned() if control else None
        except BaseException:
            self.checkpoint.close()
            raise

    def _written(self) -> list[Folder]:
        """The folders that the results go to, where they go to one, and the letters."""
        letters = [] if self.letters is None else [self.letters.folder]
        return [*self._sink_folder(), *letters]

    def _sink_folder(self) -> list[Folder]:
        if isinstance(self.sink, SparkSink):
            path = local_path(self.sink.options.get("path", ""))
            return [folder_of("the sink", path)] if path else []
        return [replace(self.sink.output.folder, role="the sink")] if isinstance(self.sink, FileSink) else []

    def _own(self, hash_seed: int) -> dict[str, Any]:
        """What the description has beside the graph: a name for the files, the seed of hashes, what is counted."""
        is_counted = not isinstance(self.sink, SparkSink)
        return {"id": uuid.uuid4().hex[:16], "hash_seed": hash_seed, "is_counted": is_counted}

    def _cut(self, ordered: bool, idle: IdleLimit) -> Cut:
        signals = list(self.signals.values())
        how: dict[str, Any] = {"is_ordered": ordered, "idle": idle, "is_guarded": self.is_guarded}
        if isinstance(self.items, FileItems):
            return cut([self.leaf], signals, **how)
        made = cut([self.leaf], signals, is_gathered_at_source=False, **how)
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
        found = name_signals(self.control, without_items(self.tree.source))
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
            found = rows.mapInArrow(result_rows(self.leaf, schema), schema)
            return found.writeStream.format(self.sink.format).options(**self.sink.options).outputMode("append")
        self.sink.begin()
        return rows.writeStream.foreachBatch(self._commit)

    def _rows(self) -> DataFrame:
        """All that the tasks give, as block rows."""
        held, reader = self._held(), pack(self._reader())
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
            # Which item is the n-th can be known only by reading one file after the other.
            tasks = TASKS_A_CORE * self._at_a_time() if self.plan is None else 1
            return self._arrived().coalesce(tasks).mapInArrow(task, ROWS)
        order = self.items.order_by
        rows = self.items.used({*used_columns(Tree(self.cut.stages[0].leaves)), *order})
        found: DataFrame = (rows.coalesce(1) if order else rows).mapInArrow(over_frame(held, order), ROWS)
        return found.unionAll(self._sent().mapInArrow(task, ROWS)) if self.signals else found

    def _held(self) -> bytes:
        results = CollectWriter if isinstance(self.sink, SparkSink) else self.sink.results()
        layout = stream_layout(self.cut, self.buckets)
        program = replace(plan_program(self.cut, layout, results, self.options, {}, {}), slots=self.slots)
        try:
            return pack(program)
        except Exception as error:
            refuse_unpackable(self.tree.nodes, error, pack)
            raise

    def _reader(self) -> ArrivalReader:
        items = self.items.without_files() if isinstance(self.items, FileItems) else None
        return ArrivalReader(items, self.signals, self.checkpoint, self.plan)

    def _arrived(self) -> DataFrame:
        """A row for each file that is new, and for each signal."""
        assert isinstance(self.items, FileItems)
        folder, names = self.items.root
        assert self.passed is not None
        found = self._watch(folder, ArrivedFile, self.passed.age_ms, pathGlobFilter=names)
        return found.unionAll(self._sent()) if self.signals else found

    def _sent(self) -> DataFrame:
        return self._watch(f"{self.checkpoint.folder}/control", ArrivedSignal, UNLIMITED_MS, pathGlobFilter="*.json")

    def _watch(self, folder: str, wanted: type[ArrivedFile | ArrivedSignal], age_ms: int, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("binaryFile").schema(PATHS).options(**options)
        reader = reader.option("maxFileAge", f"{age_ms}ms").option("recursiveFileLookup", "true")
        if self.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.files_per_batch)
        (target,) = spread(1, self.buckets)
        return reader.load(folder).selectExpr(*sql_of_arrived(wanted, target))

    # Each micro-batch, in the driver

    def _commit(self, frame: DataFrame, batch: int) -> None:
        # What is raised here is told by the handle; the way through Java would print it with a trace as well.
        logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
        try:
            self._commit_batch(frame, int(batch))
        except Exception as error:
            if is_interruption(error):  # whether by a stop, Spark knows
                raise BatchError(INTERRUPTION) from None
            self.failure = job_error(error, self.tree.nodes)
            raise BatchError(brief(self.failure)) from None

    def _commit_batch(self, frame: DataFrame, batch: int) -> None:
        started = time.perf_counter()
        paths = assigned_files(self.checkpoint, batch) if isinstance(self.items, FileItems) else []
        self._group(paths)
        output = gather(list(messages(frame.toArrow().to_batches())))
        if isinstance(self.items, FileItems):
            taken = [origin.label for origin in origins_of(output.counts) if origin.is_data]
            refuse_missing(batch, self.items, paths, taken)
        ran = time.perf_counter()
        assert not isinstance(self.sink, SparkSink)
        skipped = letters_in(output, origins_of(output.counts))
        if self.letters is not None:
            self.letters.commit(batch, skipped)
        record = self.sink.commit(batch, results_in_order(output, self.cut))
        if "items_before" not in record:
            record |= batch_counts(output.counts) | {"items_before": self.items_before, "skipped": len(skipped)}
            record |= {"run_s": ran - started, "commit_s": time.perf_counter() - ran}
            self.checkpoint.write_batch(batch, record)
        for origin in origins_of(output.counts):
            if not origin.is_data:
                self.checkpoint.note_placed(origin.label, batch, int(record["items_before"]))
        self.items_before = int(record["items_before"]) + int(record["items"])
        if batch % KEPT_BATCHES == 0:
            self.checkpoint.forget_before(batch - KEPT_BATCHES)
        if self.passed is not None:
            self.passed.refuse_now_and_then()

    def _group(self, paths: Sequence[str]) -> None:
        """Have the tasks of the micro-batch read its files in groups, where these are many."""
        if self.cut.is_whole or self.is_guarded or not isinstance(self.items, FileItems):
            return  # one task reads them all, or letters name the file by its sender
        name = plan_groups(self.checkpoint, self.items, paths, GROUPS_A_CORE * self._at_a_time())
        self.spark.sparkContext.setLocalProperty(PROPERTY, name)  # type: ignore[arg-type]  # None takes it away

    def _at_a_time(self) -> int:
        """How many tasks run at a time."""
        return max(1, int(self.spark.sparkContext.defaultParallelism))


def _stateful(rows: DataFrame, bucket: Bucket) -> DataFrame:
    return rows.groupBy("target").transformWithStateInPandas(bucket, ROWS, "Append", "None")


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
