"""Random graphs as streams on a real Spark, over files that come in random micro-batches, some of them after a restart.

`python -m tests.spark.streaming.simulated --seed N` runs the same graph without Spark.
"""

from __future__ import annotations

import os
import random
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.property.check import difference
from tests.property.graphs import from_seed
from tests.spark.streaming.simulated import expected, one_result
from tests.spark.test_graphs import FOUND, KEYED, OTHERS, over_files

import penstock as ps
from penstock.graph import nodes as n
from penstock.graph.reference import Result
from penstock.graph.tree import Tree
from penstock.spark.streaming.handle import start
from penstock.spark.streaming.refusals import refuse_endings

SEEDS = tuple(dict.fromkeys((*KEYED, *FOUND, *OTHERS)))
FEW, MANY = 6, 26
"""How many are to be streams: some have no files, or give nothing before their end."""


def is_a_stream(leaf: Any) -> bool:
    """Whether a graph has files, gives something before its end, and has no windows that the time of others closes.

    Those are in test_idle_windows.py: the reference closes none before its own key has gone on.
    """
    nodes = Tree((leaf,)).nodes
    if any((window := n.timed_of(node)) is not None and window.late is None for node in nodes):
        return False
    try:
        refuse_endings(Tree((leaf,)))
    except ps.GraphError:
        return False
    return not leaf.source.items.is_here


@pytest.mark.parametrize("graphs", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_random_graphs(spark: Any, tmp_path: Path, graphs: int) -> None:
    seeds = (seed for seed in SEEDS if as_a_stream(seed, spark, tmp_path / str(seed)))
    assert len(list(islice(seeds, graphs))) == graphs


def as_a_stream(seed: int, spark: Any, folder: Path) -> bool:
    """Compare one graph; whether it could be one."""
    case, chance = one_result(from_seed(seed)), random.Random(seed)
    (folder / "in").mkdir(parents=True)
    (leaf,) = over_files(case, folder / "in", chance)
    if not is_a_stream(leaf):
        return False
    files = sorted((folder / "in").iterdir())
    for at, file in enumerate(files):
        os.utime(file, (1_700_000_000 + at, 1_700_000_000 + at))
    later = files[chance.randint(1, len(files)) :] if chance.random() < 0.5 else []
    options = {"buckets": chance.choice([1, 2, 3]), "ordered": True, "compile": False, "control": case.control}
    found = in_turns(leaf, folder, later, spark, options | {"files_per_batch": chance.choice([1, 2, 10])})
    wanted = expected(case)
    if isinstance(wanted, Result) and isinstance(found, pa.Table):
        assert difference(Result(wanted.tables, ()), Result((found,), ())) is None, f"seed {seed}"
    else:
        assert type(found) is type(wanted), f"seed {seed}: wanted {wanted!r}, got {found!r}"
    return True


def in_turns(leaf: Any, folder: Path, later: list[Path], spark: Any, options: dict[str, Any]) -> Any:
    """What a stream gives that is started, stopped, and started again when more files have come; or its error."""
    tables: dict[int, pa.Table] = {}

    def take(table: pa.Table, batch: int) -> None:
        tables[batch] = table

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        try:
            for file in later:
                file.rename(folder / file.name)
            turns = 2 if later else 1
            for _ in range(turns):
                handle = start(leaf, take, folder / "ck", "available", spark, **options)
                handle.await_termination()
                for file in later:
                    (folder / file.name).rename(file)
                later = []
        except ps.PenstockError as error:
            return error
    schema = pa.schema(list(leaf.shape.fields.items()))
    return pa.concat_tables([schema.empty_table(), *(tables[batch] for batch in sorted(tables))])
