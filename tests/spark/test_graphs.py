"""Random graphs on a real Spark, over files cut at random, give what the reference gives, in its order.

`python -m tests.spark.simulated --seed N` shows the same graph without Spark.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.property.check import difference, expected
from tests.property.graphs import Case, from_seed

import penstock as ps
from penstock.graph import nodes as n
from penstock.graph.reference import Result
from penstock.graph.source import Items
from penstock.graph.tree import Tree
from penstock.plan.cut import moved
from penstock.spark.run import SparkRun

GRAPHS = 64


@pytest.fixture(scope="session")
def sessions(spark: Any) -> dict[bool, Any]:
    """The session with and without adaptive execution."""
    without = spark.newSession()
    without.conf.set("spark.sql.adaptive.enabled", "false")
    with_it = spark.newSession()
    with_it.conf.set("spark.sql.adaptive.enabled", "true")
    return {True: with_it, False: without}


def over_files(case: Case, folder: Path, chance: random.Random) -> tuple[n.GraphNode, ...]:
    """The leaves of the same graph, whose items lie in a random number of Parquet files."""
    tree = Tree(case.leaves)
    items: Items = tree.source.items
    batches = list(items.batches(1 << 20))
    if not batches or any("." in name for name in items.fields):
        return case.leaves
    table = pa.Table.from_batches(batches)
    ends = sorted(chance.randint(0, table.num_rows) for _ in range(chance.choice([0, 1, 2, 6])))
    for at, (start, stop) in enumerate(zip([0, *ends], [*ends, table.num_rows], strict=True)):
        size = chance.choice([1, 3, 1000])
        pq.write_table(table.slice(start, stop - start), folder / f"part-{at:03}.parquet", row_group_size=size)
    read = ps.read_parquet(str(folder)).node
    if dict(read.shape.fields) != dict(items.fields):
        return case.leaves  # Parquet has no form of some type
    made: dict[n.GraphNode, n.GraphNode] = {tree.source: read}
    for node in tree.nodes[1:]:
        made[node] = moved(node, made[node.inputs[0]])
    return tuple(made[leaf] for leaf in case.leaves)


@pytest.mark.parametrize("first", range(0, GRAPHS, 8))
def test_random_graphs(first: int, sessions: dict[bool, Any], tmp_path: Path) -> None:
    for seed in range(1000 + first, 1008 + first):
        case, chance = from_seed(seed), random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        wanted = expected(case)
        leaves = over_files(case, folder, chance)
        options = {"buckets": chance.choice([1, 2, 7]), "split_bytes": chance.choice([1, 500, 1 << 20])}
        session = sessions[chance.random() < 0.5]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.InterpretedWarning)
            try:
                run = SparkRun(leaves, case.control, session, ordered=True, compile=False, **options)
                found: Any = Result(run.tables(), ())
            except ps.PenstockError as error:
                found = error
        if isinstance(wanted, Result) and isinstance(found, Result):
            assert difference(Result(wanted.tables, ()), found) is None, f"seed {seed}"
        else:
            assert type(found) is type(wanted), f"seed {seed}: wanted {wanted!r}, got {found!r}"
