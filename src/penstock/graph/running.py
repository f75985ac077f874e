"""Run a stream: here or on Spark, to a table, to batches, to files or to a DataFrame. And show what would run."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import GraphError, PenstockError, SkippedWarning
from penstock.graph import nodes
from penstock.graph.tree import At, in_order

if TYPE_CHECKING:
    from penstock.plan.node_profile import Profile
    from penstock.report.graph import GraphPicture
    from penstock.spark.driver.write import Written
    from penstock.spark.streaming.handle import StreamHandle
    from penstock.tune.adviser import Advice
    from penstock.tune.machine_costs import MachineCosts
    from penstock.tune.run_model import Model
    from penstock.tune.scaling import Scaling


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
        **options: Any,
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

    def head(self, n: int = 5, spark: Any = None, **options: Any) -> pa.Table:
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
        return self._first(n, spark, {"ordered": True, **options})

    def show(self, n: int = 20, spark: Any = None, **options: Any) -> None:
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
        table = self._first(n + 1, spark, {"ordered": _is_ordered(self.node), **options})
        print(as_text(table.slice(0, n), has_more=table.num_rows > n))

    def _first(self, n: int, spark: Any, options: dict[str, Any]) -> pa.Table:
        """The first rows of the result: the first of what each task has for it."""
        leaf = nodes.limit(self.node, n, is_by_task=True)
        return prepare(Leaf(leaf), spark=spark, **options).collect().slice(0, n)

    def to_pandas(self, spark: Any = None, **options: Any) -> Any:
        """Run the graph and gather the result as a pandas DataFrame. The options are those of `collect`.

        >>> import penstock as ps
        >>> ps.from_items([{"v": 1}]).to_pandas()
           v
        0  1
        """
        return self.collect(spark, **options).to_pandas()

    def to_polars(self, spark: Any = None, **options: Any) -> Any:
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
        **options: Any,
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

    def write_parquet(self, path: Any, spark: Any = None, **options: Any) -> Written:
        """Run the graph and write the result to a folder of Parquet files, all or nothing; see `docs/spark.md`.

        Each task writes its own part. `mode=` is "error" (the folder must not be there), "overwrite" or "append";
        `ordered=True` gives parts, and the rows in them, in the order of the stream. Other options are those of
        `collect`, and `compression=`.
        """
        return _write(self, "parquet", path, spark, options)

    def write_csv(self, path: Any, spark: Any = None, **options: Any) -> Written:
        """The same as CSV files with a header. Lists have no form there and are refused."""
        return _write(self, "csv", path, spark, options)

    def write_json(self, path: Any, spark: Any = None, **options: Any) -> Written:
        """The same as files of JSON, one object a line."""
        return _write(self, "json", path, spark, options)

    def start(
        self, sink: Any, *, checkpoint: Any, trigger: Any = None, spark: Any = None, **options: Any
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

    def batches(self, *, control: Sequence[At] = (), **options: Any) -> Iterator[pa.RecordBatch]:
        """Run the graph and hand out the result batch by batch, so that it need never be in memory as a whole.

        >>> import penstock as ps
        >>> sum(batch.num_rows for batch in ps.from_items([{"v": 1}, {"v": 2}]).batches(batch_items=1))
        2
        """
        from penstock.engine.run import Run

        leaves = (self.node,)
        nodes.resolve(in_order(leaves))
        made = Run(leaves, control, **_lettered(leaves, _planned(leaves, options)))
        for (batch,) in made.batches():
            if batch.num_rows:
                yield batch
        made.warn_late()
        _warn_of_skipped(made)

    def prepare(self, spark: Any = None, **options: Any) -> Any:
        """Plan a run without running it: the result comes from its `collect`, what was counted from `statistics`.

        Options: `compile`, `batch_items`, `fuse`, `width`, `capacity`, `capacity_signals`, `context`, `credit`,
        `threshold`, `policy`, `seed`, `hash_seed`, `trace`, `check`, `plan`, which is an advice of `advise`, and on
        Spark also `buckets`, over how many tasks keys are spread, `split_bytes`, how much of a source a task reads, and
        `on_progress`. What cannot be run is refused here.

        >>> import penstock as ps
        >>> evens = ps.from_items([{"v": v} for v in range(10)]).filter(lambda v: v % 2 == 0)
        >>> run = evens.map(w=lambda v: v // 2).prepare(fuse=False, width=4)
        >>> run.collect()["w"].to_pylist()
        [0, 1, 2, 3, 4]
        >>> [(node.name, node.firings, node.items) for node in run.statistics().nodes]
        [('filter', 3, 10), ("map 'w'", 2, 5)]
        """
        return prepare(self, spark=spark, **options)

    def profile(self, sample: int = 100_000, **options: Any) -> Profile:
        """Measure what each node costs, on the first items: time an item and how it varies, items out, bytes.

        Every node is a loop of its own, on one core, in ensembles of `width=` items.

        >>> import penstock as ps
        >>> items = ps.from_items([{"v": float(v)} for v in range(5000)])
        >>> found = items.filter(lambda v: v > 10).map(w=lambda v: v ** 0.3 + v ** 0.7).profile(4000)
        >>> [(node.name, node.items, node.outputs) for node in found.nodes]
        [('filter', 4000, 3989), ("map 'w'", 3989, 3989)]
        >>> found.bottleneck().name
        "map 'w'"
        """
        from penstock.tune.profiler import profile

        return profile((self.node,), sample, **options)

    def model(
        self,
        profile: Profile,
        *,
        cores: int = 1,
        mapping: Mapping[Any, int] | None = None,
        flexible: str | Mapping[Any, int] | None = None,
        capacities: int | Mapping[Any, int] | None = None,
        block_items: int | None = None,
        machine: MachineCosts | None = None,
    ) -> Model:
        """A model of a run of this stream: what it is to give, before anyone runs it; see `docs/model.md`.

        `cores`, `mapping`, `flexible` and `block_items` are as those of `prepare`; unless there is a mapping, nodes are
        shared out by what they cost. `capacities` is how many items channels hold, all of them or, as a dict from
        streams, those that leave each. What the engine itself costs is measured on this machine once, unless `machine`
        states it.

        >>> import penstock as ps
        >>> items = ps.from_items([{"v": float(v)} for v in range(5000)])
        >>> roots = items.map(w=lambda v: v ** 0.3 + v ** 0.7)
        >>> print(roots.model(roots.profile(4000), cores=2, flexible={roots: 1}).net().cores)
        ('core 0', 'core 1')
        """
        from penstock.tune.run_model import model

        return model(
            (self.node,),
            profile,
            machine or _machine(),
            cores=cores,
            mapping=mapping,
            flexible=flexible,
            capacities=capacities,
            block_items=block_items,
        )

    def scale(
        self, executors: Sequence[int], data: Any = None, *, profile: Any = None, spark: Any = None, **options: Any
    ) -> Scaling:
        """Foresee how long the job will take on a cluster of so many executors, and where it stops scaling.

        A sample of the source (`sample=` bytes) runs on Spark here, some times, and a model takes it from there; see
        `docs/scale.md`. `data` is how much there will be: bytes, or `{"rows": …}` or `{"times": …}` of what the stream
        has, with `"splits"` where that is known; left out, what the stream has. `sink="parquet"` (or csv, json) has
        results written, in the sample to a temporary folder within `folder=`.

        Of the cluster: `cores` of an executor; `machines`, on how many of them the executors are, where not each has
        its own; `skew`, the largest bucket over the mean; `stragglers`, a probability and a factor; `cold=True` for
        workers that are not awake; `bandwidth` and `storage` in bytes a second; `buckets` and `split_bytes` as in a
        run. `profile=` takes the `profile` of an earlier answer, so that nothing is measured again.

        >>> import penstock as ps
        >>> from penstock.tune.synthetic_profile import synthetic_profile  # of a job that was never run
        >>> numbers = ps.from_items([{"v": 1}]).map(w=lambda v: v + 1)
        >>> profile = synthetic_profile(["stage 1 (source): map 'w'"])
        >>> foreseen = numbers.scale([1, 8, 64], data=10_000_000_000, profile=profile)
        >>> [round(point.seconds, 1) for point in foreseen.points], foreseen.stops_at
        ([101.7, 13.1, 1.8], 432)
        """
        from penstock.graph.scale import scale

        return scale(self.node, executors, data, spark, profile, options)

    def advise(
        self,
        cores: int,
        *,
        memory: int | None = None,
        objective: str = "throughput",
        profile: Profile | None = None,
        machine: MachineCosts | None = None,
    ) -> Advice:
        """How to run this stream on at most so many cores, and what that is to gain; see `docs/model.md`.

        It looks with the model for where nodes are best at work, which of them are to have copies, and how large blocks
        and channels are, within `memory` bytes for all channels. With `objective="latency"` blocks are to be under way
        for the least time, of what gives nearly the most. Unless there is a `profile`, one is measured.

        The advice tells its steps, and what was rejected and why; `collect(plan=advice)` follows it.

        >>> import penstock as ps
        >>> squares = ps.from_items([{"v": v} for v in range(1000)]).map(w=lambda v: v * v)
        >>> advice = squares.advise(cores=2)
        >>> advice.plan.cores, advice.gain
        (1, 1.0)
        >>> squares.collect(plan=advice).num_rows
        1000
        """
        from penstock.tune.adviser import advise, check

        check(cores, memory, objective)
        measured = self.profile() if profile is None else profile
        return advise((self.node,), measured, machine or _machine(), cores, memory, objective)

    def explain(self, **options: Any) -> str:
        """The graph and the plan as text: which nodes run in one loop, why each loop ends where it does, and channels.

        For a stream that runs on Spark also the stages, with the reason of every shuffle, and, where a session is given
        or active, on how many cores a task of each runs. The options are those of `prepare`. What is chosen while
        running, the `explain` of a run tells.

        >>> import penstock as ps
        >>> print(ps.from_items([{"v": 1}], name="numbers").filter(lambda v: v > 0).explain())  # doctest: +ELLIPSIS
        source 'numbers'...
        """
        return str(self.prepare(**options).explain())

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


def run(*streams: Running, spark: Any = None, **options: Any) -> tuple[pa.Table, ...]:
    """Run several results of one source together, in one pass, and gather each as a table.

    >>> import penstock as ps
    >>> items = ps.from_items([{"v": 1}, {"v": -1}])
    >>> up, down = ps.run(items.filter(lambda v: v > 0), items.filter(lambda v: v < 0))
    >>> up.to_pydict(), down.to_pydict()
    ({'v': [1]}, {'v': [-1]})
    """
    made = prepare(*streams, spark=spark, **options)
    tables = tuple(made.tables())
    _warn_of_skipped(made)
    return tables


def prepare(
    *streams: Running,
    spark: Any = None,
    control: Sequence[At] = (),
    ordered: bool = False,
    **options: Any,
) -> Any:
    """Plan a run of several results without running it, as `Stream.prepare` does for one.

    >>> import penstock as ps
    >>> items = ps.from_items([{"v": 1}, {"v": -1}])
    >>> planned = ps.prepare(items.filter(lambda v: v > 0), items.filter(lambda v: v < 0), fuse=False, compile=False)
    >>> [table.num_rows for table in planned.tables()]
    [1, 1]
    >>> [node.items for node in planned.statistics().nodes]
    [2, 2]
    """
    for stream in streams:
        if not isinstance(stream, Running):
            raise GraphError(f"run: takes streams; got {stream!r}")
    if not streams:
        raise GraphError("run: takes at least one stream; got none")
    leaves = tuple(stream.node for stream in streams)
    nodes.resolve(in_order(leaves))
    options = _lettered(leaves, _planned(leaves, options))
    if _is_here(leaves, spark):
        from penstock.engine.run import Run

        return Run(leaves, control, **options)
    from penstock.spark.driver.spark_run import SparkRun

    return SparkRun(leaves, control, None if isinstance(spark, bool) else spark, ordered=ordered, **options)


def _lettered(leaves: tuple[nodes.GraphNode, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The options of a run, with what writes dead letters for where they are to be; that implies to skip."""
    path = options.pop("dead_letter", None)
    if path is None:
        return options
    from penstock.spark.files.dead_letters import letters_to

    mode = options.pop("mode", "error")
    return {**options, "on_error": skipping(options), "letters_to": letters_to(path, mode, leaves)}


def skipping(options: Mapping[str, Any]) -> str:
    """That items are skipped, as `dead_letter=` implies."""
    if options.get("on_error", "skip") != "skip":
        raise GraphError(
            f"run: dead_letter= implies on_error='skip'; got on_error={options['on_error']!r}; leave it out"
        )
    return "skip"


def _warn_of_skipped(made: Any) -> None:
    if made.skipped and made.letters_to is None:
        warnings.warn(
            f"run: {made.skipped:,} item(s) failed and were skipped, as on_error='skip' asks for; name a folder with "
            f"dead_letter= to keep what they were, or run prepare(on_error='skip') and see its dead_letters()",
            SkippedWarning,
            stacklevel=3,
        )


def _is_ordered(node: nodes.GraphNode) -> bool:
    """Whether the items of the source have an order: those of a DataFrame do by the columns that were named."""
    return bool(getattr(node.source.items, "order_by", True))


def _is_here(leaves: Sequence[nodes.GraphNode], spark: object) -> bool:
    """Whether to run in this process."""
    if spark is None:
        return leaves[0].source.items.is_here
    return spark is False


def _write(stream: Running, format: str, path: Any, spark: Any, options: dict[str, Any]) -> Written:
    from penstock.spark.driver.write import write

    nodes.resolve(in_order((stream.node,)))
    return write(stream.node, format, path, spark, **_planned((stream.node,), options))


def _planned(leaves: tuple[nodes.GraphNode, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The options of a run, with those that an advice stands for."""
    if options.get("plan") is None:
        return {name: value for name, value in options.items() if name != "plan"}
    from penstock.tune.adviser import STANDS_FOR, Advice

    given = {name: value for name, value in options.items() if name != "plan"}
    advice, both = options["plan"], [name for name in STANDS_FOR if given.get(name) is not None]
    if not isinstance(advice, Advice):
        raise GraphError(f"run: plan= takes an advice, as stream.advise() gives; got {advice!r}")
    if both:
        raise GraphError(f"run: plan= stands for {', '.join(f'{name}=' for name in both)} too; give one of both")
    return {**given, **advice.options(leaves)}


def _machine() -> MachineCosts:
    from penstock.tune.machine_costs import machine_costs

    return machine_costs()
