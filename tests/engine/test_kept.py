"""A run that pauses, is put away as bytes, and goes on in another: the same as one that never paused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.property.check import difference, outcome
from tests.property.graphs import Case, from_seed

from penstock.engine.intake import Batch, batches
from penstock.engine.kept import frame_of, key_groups, resume
from penstock.engine.packed import packed, unpacked
from penstock.engine.run import Run
from penstock.graph import reference
from penstock.graph.reference import Result
from penstock.graph.signal_indices import resolve_indices
from penstock.graph.tree import Tree, check_signals


def pieces(case: Case, cuts: random.Random) -> Iterator[list[Batch]]:
    """The source in batches, some at a time; none of them is the last."""
    tree = Tree(case.leaves)
    columns = Run(case.leaves).plan.columns
    piece: list[Batch] = []
    for batch in batches(tree.source, resolve_indices(check_signals(tree, case.control), tree.source), 3, columns):
        piece.append(replace(batch, is_last=False))
        if cuts.random() < 0.4:
            yield piece
            piece = []
    yield piece


def in_pieces(case: Case, seed: int, **options: object) -> Result:
    """What a run gives that is made anew for every piece of its source, with nothing but bytes from the one before."""
    cuts = random.Random(seed)
    tables: list[list[pa.RecordBatch]] = [[] for _ in case.leaves]
    held: tuple[bytes, list[tuple[list, bytes]]] | None = None
    for piece in pieces(case, cuts):
        if not piece:
            continue
        run = Run(case.leaves, batches_in=iter(piece), is_open=True, **options)
        scheduler = run.scheduler()
        groups = key_groups(run)
        if held is not None:
            resume(run, unpacked(held[0]))
            for group, (values, records) in zip(groups, held[1], strict=True):
                group.put(values, unpacked(records)["records"])
        for _, output in scheduler.run():
            for leaf, rows in output.batches:
                for at, each in enumerate(run.plan.tree.leaves):  # a leaf may have a watermark behind it here
                    if each is leaf:
                        tables[at].append(rows)
        held = packed(frame_of(run)), [of_group(group) for group in groups]
    schemas = [pa.schema(list(leaf.shape.fields.items())) for leaf in case.leaves]
    return Result(tuple(pa.Table.from_batches(t, s) for t, s in zip(tables, schemas, strict=True)), ())


def of_group(group) -> tuple[list, bytes]:
    values = [
        tuple(v.copy() for v in each) if isinstance(each, tuple) else each.copy() for each in group.index.values()
    ]
    return values, packed({"records": group.take(np.arange(group.index.count))})


@pytest.mark.parametrize("seed", range(100))
def test_a_run_in_pieces(seed: int) -> None:
    case = from_seed(seed)
    right = outcome(lambda: reference.run(case.leaves, case.control, is_open=True))
    options = {"fuse": False} if seed % 4 == 3 else {}
    found = outcome(lambda: in_pieces(case, seed, compile=False, **options))
    if isinstance(right, Result):
        right = replace(right, signals=())
    assert difference(right, found) is None, f"{difference(right, found)}\n{case!r}"
