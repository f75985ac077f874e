"""Plan a run of some streams: here or on Spark, with all that its options ask for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from penstock.errors import GraphError, SkippedWarning
from penstock.graph import nodes
from penstock.graph.placement import with_steps
from penstock.graph.prepared_run import PreparedRun
from penstock.graph.run_options import PrepareOptions, RunOptions
from penstock.graph.tree import At, in_order

if TYPE_CHECKING:
    from penstock.graph.running import Running


def run(*streams: Running, spark: Any = None, **options: Unpack[PrepareOptions]) -> tuple[pa.Table, ...]:
    """Run several results of one source together, in one pass, and gather each as a table.

    >>> import penstock as ps
    >>> items = ps.from_items([{"v": 1}, {"v": -1}])
    >>> up, down = ps.run(items.filter(lambda v: v > 0), items.filter(lambda v: v < 0))
    >>> up.to_pydict(), down.to_pydict()
    ({'v': [1]}, {'v': [-1]})
    """
    made = prepare(*streams, spark=spark, **options)
    tables = tuple(made.tables())
    warn_of_skipped(made)
    return tables


def prepare(
    *streams: Running,
    spark: Any = None,
    control: Sequence[At] = (),
    ordered: bool = False,
    **options: Unpack[RunOptions],
) -> PreparedRun:
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
        if not isinstance(getattr(stream, "node", None), nodes.GraphNode):
            raise GraphError(f"run: takes streams; got {stream!r}")
    if not streams:
        raise GraphError("run: takes at least one stream; got none")
    leaves = tuple(stream.node for stream in streams)
    nodes.resolve(in_order(leaves))
    leaves, given = with_steps(leaves, _lettered(leaves, with_plan(leaves, options)))
    if _is_here(leaves, spark):
        from penstock.engine.run import Run

        return Run(leaves, control, **given)
    from penstock.spark.driver.spark_run import SparkRun

    return SparkRun(leaves, control, None if isinstance(spark, bool) else spark, ordered=ordered, **given)


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


def warn_of_skipped(made: Any) -> None:
    if made.skipped and made.letters_to is None:
        warnings.warn(
            f"run: {made.skipped:,} item(s) failed and were skipped, as on_error='skip' asks for; name a folder with "
            f"dead_letter= to keep what they were, or run prepare(on_error='skip') and see its dead_letters()",
            SkippedWarning,
            stacklevel=3,
        )


def _is_here(leaves: Sequence[nodes.GraphNode], spark: object) -> bool:
    """Whether to run in this process."""
    if spark is None:
        return leaves[0].source.items.is_here
    return spark is False


def with_plan(leaves: tuple[nodes.GraphNode, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run, with those that an advice stands for."""
    if options.get("plan") is None:
        return {name: value for name, value in options.items() if name != "plan"}
    from penstock.tune.adviser import STANDS_FOR, Advice

    given = {name: value for name, value in options.items() if name != "plan"}
    advice, both = options["plan"], [name for name in STANDS_FOR if given.get(name) is not None]
    if not isinstance(advice, Advice):
        raise GraphError(f"run: plan= takes an advice, as of tune.advise(stream); got {advice!r}")
    if both:
        raise GraphError(f"run: plan= stands for {', '.join(f'{name}=' for name in both)} too; give one of both")
    return {**given, **advice.options(leaves)}
