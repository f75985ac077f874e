"""Run a stream: here or on Spark, to a table, to batches, to files or to a DataFrame. And show what would run."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from penstock.errors import GraphError, PenstockError
from penstock.graph import nodes
from penstock.graph.placement import with_steps
from penstock.graph.prepare import prepare, run, warn_of_skipped, with_plan
from penstock.graph.prepared_run import PreparedRun
from penstock.graph.run_options import PrepareOptions, RunOptions, StartOptions, WriteOptions
from penstock.graph.tree import At, in_order

if TYPE_CHECKING:
    from penstock.report.graph import GraphPicture
    from penstock.spark.driver.write import Written
    from penstock.spark.streaming.handle import StreamHandle


class Running:
    """What can be done with a stream that is built.

    `spark=` says where: a session of Spark, True for the active or else the embedded one, False for this process.
    Unless said, a stream of data in the memory of this process runs here, and a stream of files or of a DataFrame on
    Spark. The result is the same.
    """

    __slots__ = ()
    node: nodes.GraphNode

    def collect(
        self,
        spark: Any = None,
        *,
        control: Sequence[At] = (),
        ordered: bool = False,
        **options: Unpack[RunOptions],
    ) -> pa.Table:
        """Run the graph and gather the result as an Arrow table.

        `control` holds signals placed from outside. On Spark the rows of keyed nodes come bucket by bucket, unless
        `ordered=True` asks for them as one thread would have written them; here they always do. The other options say
        how to run and never change the result: `compile=False` interprets everything, so that a debugger can step into
        the functions; `batch_items` bounds how many source items are taken at a time; others are those of `prepare`.

        `on_error="skip"` leaves out items that fail, where "stop", the default, ends the run with an error;
        `dead_letter=` names a folder for what was skipped, and implies it; see `docs/errors.md`.

        >>> import penstock as ps
        >>> ps.from_items([{"v": 1}]).collect().to_pylist()
        [{'v': 1}]
        """
        return run(self, spark=spark, control=control, ordered=ordered, **options)[0]

    def head(self, n: int = 5, spark: Any = None, **options: Unpack[PrepareOptions]) -> pa.Table:
        """Run the graph for the first rows of its result.

        The source is read only as far as it takes. On Spark each task hands over at most `n` rows, and those of the
        whole stream are chosen among them.

        Parameters
        ----------
        n
            How many rows, 0 or more.
        spark
            Where to run, as in `collect`.
        **options
            Those of `collect`.

        Returns
        -------
        pyarrow.Table
            The first `n` rows, as one thread would have written them; fewer where the result has fewer.

        Raises
        ------
        GraphError
            If `n` is not such a number, or a DataFrame of Spark without `order_by=` has no first rows.

        Examples
        --------
        >>> import penstock as ps
        >>> ps.from_items([{"v": v} for v in range(1000)]).map(w=lambda v: v * v).head(2).to_pylist()
        [{'v': 0, 'w': 0}, {'v': 1, 'w': 1}]
        """
        return self._first(n, spark, {"ordered": True} | options)

    def show(self, n: int = 20, spark: Any = None, **options: Unpack[PrepareOptions]) -> None:
        """Print the first rows of the result as a table.

        Of a DataFrame of Spark without `order_by=`, which has no first rows, it prints any.

        Parameters
        ----------
        n
            How many rows, 0 or more.
        spark
            Where to run, as in `collect`.
        **options
            Those of `collect`.

        Examples
        --------
        >>> import penstock as ps
        >>> ps.from_items([{"k": "a", "v": v} for v in range(9)]).map(w=lambda v: v / 2).show(2)
        +-+-+---+
        |k|v|  w|
        +-+-+---+
        |a|0|0.0|
        |a|1|0.5|
        +-+-+---+
        only the first 2 rows
        """
        from penstock.report.listing import as_text

        nodes.limit(self.node, n)
        table = self._first(n + 1, spark, {"ordered": _is_ordered(self.node)} | options)
        print(as_text(table.slice(0, n), has_more=table.num_rows > n))

    def _first(self, n: int, spark: Any, options: Any) -> pa.Table:
        """The first rows of the result: the first of what each task has for it."""
        leaf = nodes.limit(self.node, n, is_by_task=True)
        return prepare(Leaf(leaf), spark=spark, **options).collect().slice(0, n)

    def to_pandas(self, spark: Any = None, **options: Unpack[PrepareOptions]) -> Any:
        """Run the graph and gather the result as a pandas DataFrame. The options are those of `collect`.

        >>> import penstock as ps
        >>> ps.from_items([{"v": 1}]).to_pandas()
           v
        0  1
        """
        return self.collect(spark, **options).to_pandas()

    def to_polars(self, spark: Any = None, **options: Unpack[PrepareOptions]) -> Any:
        """Run the graph and gather the result as a Polars DataFrame. The options are those of `collect`."""
        table = self.collect(spark, **options)
        try:
            polars = importlib.import_module("polars")
        except ImportError:
            raise GraphError(
                "to_polars: needs the package polars, which is not installed; pip install polars"
            ) from None
        return polars.from_arrow(table)

    def to_spark(
        self,
        spark: Any = None,
        *,
        control: Sequence[At] = (),
        ordered: bool = False,
        **options: Unpack[RunOptions],
    ) -> Any:
        """The result as a DataFrame of Spark, computed when an action asks for it: for any writer, join or query.

        With `ordered=True` its partitions, and the rows in each, are in the order of the stream. Nothing runs before
        that, so every function that does not compile must declare its type.
        """
        for name in ("on_error", "dead_letter"):
            if name in options:
                raise GraphError(
                    f"to_spark: a DataFrame has no place for what was skipped, so {name}= is not for it; collect the "
                    f"result, or write it"
                )
        for node in in_order((self.node,)):
            _ = node.shape, node.functions
        made = prepare(self, spark=True if spark is None else spark, control=control, ordered=ordered, **options)
        return made.frame()

    def write_parquet(self, path: Any, spark: Any = None, **options: Unpack[WriteOptions]) -> Written:
        """Run the graph and write the result to a folder of Parquet files, all or nothing; see `docs/spark.md`.

        Each task writes its own part. `mode=` is "error" (the folder must not be there), "overwrite" or "append";
        `ordered=True` gives parts, and the rows in them, in the order of the stream. Other options are those of
        `collect`, and `compression=`.
        """
        return _write(self, "parquet", path, spark, options)

    def write_csv(self, path: Any, spark: Any = None, **options: Unpack[WriteOptions]) -> Written:
        """The same as CSV files with a header. Lists have no form there and are refused."""
        return _write(self, "csv", path, spark, options)

    def write_json(self, path: Any, spark: Any = None, **options: Unpack[WriteOptions]) -> Written:
        """The same as files of JSON, one object a line."""
        return _write(self, "json", path, spark, options)

    def start(
        self, sink: Any, *, checkpoint: Any, trigger: Any = None, spark: Any = None, **options: Unpack[StartOptions]
    ) -> StreamHandle:
        """Run the graph as a stream over a folder that grows, until it is stopped; see `docs/streams.md`.

        `sink` is a folder, for files of `format=` "parquet", "csv" or "json"; a function of a table and the number of
        its micro-batch; or `ps.spark_sink(...)`. `checkpoint` is a folder for what must survive a crash: started again
        with the same, the stream goes on where it was. `trigger` is None, for as fast as it can, a number of seconds
        between micro-batches, or "available": whatever is there, and then stop.

        Other options: `files_per_batch`, how many new files a micro-batch takes at most; `max_file_age`, how far before
        the newest file one may be dated; `buckets`, over how many tasks keys are spread, which the checkpoint fixes;
        `restart`, whether to start again by itself after a failure that may pass, such as a lost worker or a full disk;
        `ordered`; `compile`.

        Keys that are idle: with `expire_after`, a key ends whose newest item is more than that behind the newest of the
        stream, by the field `time` of the items at `key_by`, or by that of windows of time; without either, one that
        has had no item for so many seconds. What is open of it is given then, and if it comes back, it starts anew.
        Both may be a mapping with a value for each of several `key_by`, by its field or its name.
        Windows of time need `late=`; see `docs/time.md`.
        """
        from penstock.spark.driver.usable import require_pyspark

        require_pyspark()  # before what needs it is imported
        from penstock.spark.streaming.handle import start

        nodes.resolve(in_order((self.node,)))
        return start(self.node, sink, checkpoint, trigger, spark, **options)

    def batches(self, spark: Any = None, **options: Unpack[PrepareOptions]) -> Iterator[pa.RecordBatch]:
        """Run the graph and hand out the result batch by batch, so that it need never be in memory as a whole.

        On Spark one partition after the other comes to the driver; with `ordered=True` in the order of the stream.

        Parameters
        ----------
        spark
            Where to run, as in `collect`.
        **options
            Those of `collect`.

        Yields
        ------
        pyarrow.RecordBatch
            Rows of the result, in order.

        Examples
        --------
        >>> import penstock as ps
        >>> sum(batch.num_rows for batch in ps.from_items([{"v": 1}, {"v": 2}]).batches(batch_items=1))
        2
        """
        planned: Any = prepare(self, spark=spark, **options)
        for (batch,) in planned.batches():
            if batch.num_rows:
                yield batch
        warn_of_skipped(planned)

    def prepare(self, spark: Any = None, **options: Unpack[PrepareOptions]) -> PreparedRun:
        """Plan a run without running it.

        Parameters
        ----------
        spark
            Where to run, as in `collect`.
        **options
            `compile`, `batch_items`, `fuse`, `width`, `capacity`, `capacity_signals`, `context`, `credit`, `threshold`,
            `policy`, `seed`, `hash_seed`, `trace`, `check`, `plan`, an advice of `penstock.tune.advise`, and on Spark
            also `buckets`, over how many tasks keys are spread, `split_bytes`, how much of a source a task reads, and
            `on_progress`.

        Returns
        -------
        PreparedRun
            The run: its `collect` gives the result, its `statistics` what was counted.

        Raises
        ------
        GraphError
            If it cannot be run so.

        Examples
        --------
        >>> import penstock as ps
        >>> evens = ps.from_items([{"v": v} for v in range(10)]).filter(lambda v: v % 2 == 0)
        >>> run = evens.map(w=lambda v: v // 2).prepare(fuse=False, width=4)
        >>> run.collect()["w"].to_pylist()
        [0, 1, 2, 3, 4]
        >>> [(node.name, node.firings, node.items) for node in run.statistics().nodes]
        [('filter', 3, 10), ("map 'w'", 2, 5)]
        """
        return prepare(self, spark=spark, **options)

    def explain(self, spark: Any = None, **options: Unpack[PrepareOptions]) -> str:
        """The graph and the plan as text: which nodes run in one loop, why each loop ends where it does, and channels.

        For a stream that runs on Spark also the stages, with the reason of every shuffle, and, where a session is given
        or active, on how many cores a task of each runs. The options are those of `prepare`. What is chosen while
        running, the `explain` of a run tells.

        >>> import penstock as ps
        >>> print(ps.from_items([{"v": 1}], name="numbers").filter(lambda v: v > 0).explain())  # doctest: +ELLIPSIS
        source 'numbers'...
        """
        return self.prepare(spark, **options).explain()

    def draw(self) -> GraphPicture:
        """A picture of the graph and its plan: SVG in a notebook and with `.svg()`, Mermaid text with `.mermaid()`.

        >>> import penstock as ps
        >>> ps.from_items([{"v": 1}]).filter(lambda v: v > 0).draw().svg()[:4]
        '<svg'
        """
        from penstock.report.graph import picture

        return picture((self.node,))

    def _repr_html_(self) -> str:
        """The first rows, where the data is in the memory of this process, and the picture."""
        from penstock.report.listing import as_html

        if not self.node.source.items.is_here:
            return self.draw().svg()
        try:
            table = self._first(SHOWN + 1, False, {})
        except PenstockError as error:
            return f"<pre>{escape(str(error))}</pre>{self.draw().svg()}"
        return as_html(table.slice(0, SHOWN), has_more=table.num_rows > SHOWN) + self.draw().svg()


SHOWN = 20
"""How many rows of a stream a notebook shows."""


@dataclass(frozen=True)
class Leaf(Running):
    """A result that is no point of the user's graph."""

    node: nodes.GraphNode


def _is_ordered(node: nodes.GraphNode) -> bool:
    """Whether the items of the source have an order: those of a DataFrame do by the columns that were named."""
    return bool(getattr(node.source.items, "order_by", True))


def _write(stream: Running, format: str, path: Any, spark: Any, options: Mapping[str, Any]) -> Written:
    from penstock.spark.driver.write import write

    nodes.resolve(in_order((stream.node,)))
    (leaf,), given = with_steps((stream.node,), with_plan((stream.node,), options))
    return write(leaf, format, path, spark, **given)
