"""How a stream's job will scale on a cluster of Spark: measure a sample, then ask the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.source import UNCUT

if TYPE_CHECKING:
    from penstock.tune.cluster import DataSize
    from penstock.tune.job_profile import JobProfile
    from penstock.tune.scaling import Scaling

OF_CLUSTER = (
    "cores",
    "machines",
    "skew",
    "stragglers",
    "cold",
    "bandwidth",
    "storage",
    "buckets",
    "split_bytes",
    "local",
)
MEASURES = ("bytes", "rows", "times")


def scale(
    node: n.GraphNode, executors: Sequence[int], data: Any, spark: Any, profile: JobProfile | None, options: Any
) -> Scaling:
    """What `Stream.scale` does."""
    from penstock.tune.cluster import Cluster
    from penstock.tune.job_sample import job_profile, measurable_plan
    from penstock.tune.scaling import check_executors, predict_scaling

    options = dict(options)
    seed, sink = options.pop("seed", 0), options.pop("sink", "collect")
    of_cluster = {name: options.pop(name) for name in OF_CLUSTER if name in options}
    cluster = Cluster(**of_cluster)
    check_executors(executors)
    _, names = measurable_plan(node, sink)
    _check_data(data)
    if spark is False:
        raise GraphError("scale: a cluster of Spark is foreseen from a run on Spark; got spark=False; leave it out")
    if profile is None:
        profile = job_profile(node, None if spark is True else spark, sink=sink, **options)
    profile.check(names, sink)
    slots = [count * cluster.cores for count in executors]
    return predict_scaling(
        profile, executors, _data(node, data, profile, slots, cluster.split_bytes), cluster, seed=seed
    )


def _check_data(data: Any) -> None:
    numbers = [data] if not isinstance(data, Mapping) else [data[name] for name in MEASURES if name in data]
    known = not isinstance(data, Mapping) or (len(numbers) == 1 and not set(data) - {*MEASURES, "splits"})
    right = all(isinstance(each, (int, float)) and not isinstance(each, bool) and each > 0 for each in numbers)
    if data is not None and not (known and right):
        raise GraphError(
            "scale: data= must be a number of bytes, or one of {'bytes': …}, {'rows': …} and {'times': …}, above 0, "
            f"with 'splits' where that is known; got {data!r}; leave it out for the data of the stream itself"
        )


def _data(node: n.GraphNode, data: Any, profile: JobProfile, slots: Sequence[int], split_bytes: int | None) -> DataSize:
    """How much data there is to be, as splits count it: of Parquet files the columns that are used."""
    from penstock.tune.cluster import DataSize
    from penstock.tune.job_sample import own_sizes

    own = own_sizes(node, [1, 2, *slots], split_bytes)
    total = float(sum(own[1]))
    if data is None:
        return DataSize(total, sizes=own)
    given = data if isinstance(data, Mapping) else {"bytes": data}
    measured = profile.of("side by side")[0]
    stored = sum(split.bytes for split in node.source.items.splits(UNCUT))
    size = {
        "bytes": total / stored if stored else 1.0,
        "rows": measured.source_bytes / max(1, measured.source_items),
        "times": total,
    }
    name = next(name for name in MEASURES if name in given)
    return DataSize(given[name] * size[name], given.get("splits"))
