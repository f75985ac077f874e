"""Tune a run before it is paid for: measure nodes, predict runs with the performance model, advise, scale to clusters.

`import penstock` does not import this part. It reads plans and records, and runs streams only through `engine.run.Run`
and Spark's driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import GraphError
from penstock.graph.stream import Stream

if TYPE_CHECKING:
    from penstock.plan.node_profile import Profile
    from penstock.tune.adviser import Advice
    from penstock.tune.machine_costs import MachineCosts
    from penstock.tune.run_model import Forecast
    from penstock.tune.scaling import Scaling

__all__ = ["advise", "predict", "profile", "scale"]


def profile(stream: Stream, sample: int = 100_000, **options: Any) -> Profile:
    """Measure what each node costs, on the first items of a stream.

    Every node is a loop of its own, on one core.

    Parameters
    ----------
    stream
        What would be run.
    sample
        How many items of the source to run.
    **options
        Those of `prepare`; `width` is how many items a node fires on.

    Returns
    -------
    Profile
        For each node its time per item and how that varies, items out, and bytes; what crossing an edge costs.

    Raises
    ------
    GraphError
        If `sample` is no whole number of at least 1.

    Examples
    --------
    >>> import penstock as ps
    >>> from penstock import tune
    >>> items = ps.from_items([{"v": float(v)} for v in range(5000)])
    >>> roots = items.filter(lambda v: v > 10).map(w=lambda v: v ** 0.3 + v ** 0.7)
    >>> found = tune.profile(roots, 4000)
    >>> [(node.name, node.items, node.outputs) for node in found.nodes]
    [('filter', 4000, 3989), ("map 'w'", 3989, 3989)]
    >>> found.bottleneck().name
    "map 'w'"
    """
    from penstock.tune import profiler

    return profiler.profile(_leaves(stream), sample, **options)


def predict(
    stream: Stream,
    profile: Profile,
    *,
    cores: int = 1,
    mapping: Mapping[Any, int] | None = None,
    flexible: str | Mapping[Any, int] | None = None,
    capacities: int | Mapping[Any, int] | None = None,
    block_items: int | None = None,
    machine: MachineCosts | None = None,
) -> Forecast:
    """Predict what a run of a stream would give, by a model of it; see `docs/model.md`.

    Parameters
    ----------
    stream
        What would be run.
    profile
        What its nodes cost, from `profile`.
    cores, mapping, flexible, block_items
        As in `prepare`. Without a mapping, nodes are placed by what they cost.
    capacities
        How many items channels hold: all of them or, as a dict from streams, those that leave each.
    machine
        What the engine itself costs. By default it is measured on this machine, once.

    Returns
    -------
    Forecast
        Throughput, latency, how busy each core is, and what limits the run; its `model` has the Petri net.

    Raises
    ------
    GraphError, ModelError
        If an option is wrong, or the profile is one of another graph.

    Examples
    --------
    >>> import penstock as ps
    >>> from penstock import tune
    >>> items = ps.from_items([{"v": float(v)} for v in range(5000)])
    >>> roots = items.map(w=lambda v: v ** 0.3 + v ** 0.7)
    >>> forecast = tune.predict(roots, tune.profile(roots, 4000), cores=2, flexible={roots: 1})
    >>> forecast.throughput > 0, forecast.model.net().cores
    (True, ('core 0', 'core 1'))
    """
    from penstock.tune.run_model import model

    given = {"mapping": mapping, "flexible": flexible, "capacities": capacities, "block_items": block_items}
    return model(_leaves(stream), profile, machine or _machine(), cores=cores, **given).predict()  # type: ignore[arg-type]


def advise(
    stream: Stream,
    cores: int,
    *,
    memory: int | None = None,
    objective: str = "throughput",
    profile: Profile | None = None,
    machine: MachineCosts | None = None,
) -> Advice:
    """Look for the best way to run a stream on at most so many cores, by its model; see `docs/model.md`.

    Parameters
    ----------
    stream
        What would be run; `collect(plan=advice)` follows the advice.
    cores
        How many cores there are.
    memory
        How many bytes all channels may have together.
    objective
        "throughput"; or "latency": of the plans with nearly the best throughput, the one whose blocks are under way
        for the least time.
    profile
        What the nodes cost. By default it is measured.
    machine
        As in `predict`.

    Returns
    -------
    Advice
        The plan with its expected gain, the steps that led to it, and what was rejected and why.

    Raises
    ------
    ModelError
        If an option is wrong.

    Examples
    --------
    >>> import penstock as ps
    >>> from penstock import tune
    >>> squares = ps.from_items([{"v": v} for v in range(1000)]).map(w=lambda v: v * v)
    >>> advice = tune.advise(squares, cores=2)
    >>> advice.plan.cores, advice.gain
    (1, 1.0)
    >>> squares.collect(plan=advice).num_rows
    1000
    """
    from penstock.tune import adviser, profiler

    leaves = _leaves(stream)
    adviser.check(cores, memory, objective)
    measured = profiler.profile(leaves, 100_000) if profile is None else profile
    return adviser.advise(leaves, measured, machine or _machine(), cores, memory, objective)


def scale(
    stream: Stream,
    executors: Sequence[int],
    data: Any = None,
    *,
    profile: Any = None,
    spark: Any = None,
    **options: Any,
) -> Scaling:
    """Predict how long the job of a stream takes on clusters of several sizes, and where it stops scaling.

    A sample of the source runs on Spark here, some times, and a model takes it from there; see `docs/scale.md`.

    Parameters
    ----------
    stream
        What would be run.
    executors
        The sizes of the clusters.
    data
        How much data there will be: bytes, or `{"rows": …}` or `{"times": …}` of what the stream has, with `"splits"`
        where that is known. By default, what the stream has.
    profile
        The `profile` of an earlier answer, so that nothing is measured again.
    spark
        The session that the sample runs on.
    **options
        Of the sample: `sample`, its bytes; `sink`, "collect", "parquet", "csv" or "json"; `folder`, for a temporary
        folder of results. Of the cluster: `cores` of an executor; `machines`; `skew`; `stragglers`; `cold`;
        `bandwidth`; `storage`; `buckets`; `split_bytes`; `local`.

    Returns
    -------
    Scaling
        Seconds, speed-up and what limits each size; `picture()` draws the curve.

    Raises
    ------
    GraphError
        If an option is wrong, or the profile is one of another job.

    Examples
    --------
    >>> import penstock as ps
    >>> from penstock import tune
    >>> from penstock.tune.synthetic_profile import synthetic_profile  # of a job that was never run
    >>> numbers = ps.from_items([{"v": 1}]).map(w=lambda v: v + 1)
    >>> job = synthetic_profile(["stage 1 (source): map 'w'"])
    >>> foreseen = tune.scale(numbers, [1, 8, 64], data=10_000_000_000, profile=job)
    >>> [round(point.seconds, 1) for point in foreseen.points], foreseen.stops_at
    ([101.7, 13.1, 1.8], 432)
    """
    from penstock.tune import scale_stream

    (node,) = _leaves(stream)
    return scale_stream.scale(node, executors, data, spark, profile, options)


def _leaves(stream: Stream) -> tuple[Any]:
    if not isinstance(stream, Stream):
        raise GraphError(f"tune: takes a stream; got {stream!r}")
    return (stream.node,)


def _machine() -> MachineCosts:
    from penstock.tune.machine_costs import machine_costs

    return machine_costs()
