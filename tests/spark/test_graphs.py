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
from penstock.graph.rebase import rebase
from penstock.graph.reference import Result
from penstock.graph.source import Items
from penstock.graph.tree import Tree
from penstock.plan.beginnings import alignable
from penstock.plan.cut import cut
from penstock.spark.driver.spark_run import SparkRun

KEYED = (
    1000,
    1003,
    1013,
    1014,
    1021,
    1026,
    1036,
    1059,
    1071,
    1074,
    1091,
    1094,
    1095,
    1097,
    1099,
    1108,
    1119,
    1121,
    1145,
)
KEYED += (1147, 1159, 1161, 1167, 1173, 1184, 1194, 1196, 1213, 1217, 1218, 1240, 1248)
FOUND = (1011, 1047, 1062, 1065, 1086, 1090, 1103, 1133, 1135, 1140, 1144, 1154, 1157, 1163, 1171, 1180)
OTHERS = tuple(range(1001, 1011)) + tuple(range(1015, 1021))
SEEDS = (*KEYED, *FOUND, *OTHERS)
"""Graphs that are spread over keys, graphs whose splits are moved to where regions begin, and others."""


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
        made[node] = rebase(node, made[node.inputs[0]])
    return tuple(made[leaf] for leaf in case.leaves)


@pytest.mark.parametrize("first", range(0, len(SEEDS), 8))
def test_random_graphs(first: int, sessions: dict[bool, Any], tmp_path: Path) -> None:
    for seed in SEEDS[first : first + 8]:
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


def test_the_graphs_are_of_the_kinds_that_they_are_listed_as() -> None:
    """Else the lists are to be renewed: the generator of graphs has changed."""
    kinds = {seed: {each.kind for each in cut(from_seed(seed).leaves).exchanges} for seed in KEYED}
    assert sum("key" in found for found in kinds.values()) > len(KEYED) // 2
    assert sum(alignable(Tree(from_seed(seed).leaves)) is not None for seed in FOUND) > len(FOUND) // 2
