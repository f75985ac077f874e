"""Keys where streams meet, against a model of plain lists, which shares nothing with the engine or the reference."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.property.plain import Model
from tests.property.plain_graphs import Drawing, from_seed

import penstock as ps
from penstock.graph import reference

SEEDS = 160
PARTS = 4
COMPILED = 2
A_FEW = 3

ENGINES: dict[str, Callable[[Drawing], Any]] = {
    "reference": lambda d: reference.run([each.node for each in d.results], d.control).tables,
    "fused": lambda d: ps.run(*d.results, spark=False, control=d.control, compile=False),
    "channels": lambda d: ps.run(
        *d.results, spark=False, control=d.control, compile=False, fuse=False, width=2, batch_items=3
    ),
    "threads": lambda d: ps.run(*d.results, spark=False, control=d.control, compile=False, fuse=False, cores=2),
}


def check(drawing: Drawing, run: Callable[[Drawing], Any], what: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        found = [table.to_pylist() for table in run(drawing)]
    program = "\n".join([f"items = {drawing.items}", *drawing.text, f"signals = {drawing.model.signals}"])
    assert found == drawing.wanted, f"{what}\n{program}"


@pytest.mark.parametrize("part", range(PARTS))
def test_every_engine_gives_what_plain_lists_give(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        drawing = from_seed(seed)
        for engine, run in ENGINES.items():
            check(drawing, run, f"seed {seed}, {engine}")


def test_compiled_loops_give_what_plain_lists_give() -> None:
    for seed in range(COMPILED):
        drawing = from_seed(seed)
        check(drawing, lambda d: ps.run(*d.results, spark=False, control=d.control), f"seed {seed}, compiled")


def test_every_case_of_keys_is_drawn() -> None:
    counted = Counter(what for seed in range(SEEDS) for what in from_seed(seed).seen)
    wanted = ("one key_by on all sides", "one key of several key_by", "a key whose sides drop rows", "refused")
    wanted += ("sides of several keys", "sides with a key and without", "refused for want of its fields")
    assert [what for what in wanted if counted[what] < A_FEW] == []


def test_the_model_by_hand() -> None:
    """The example of the page on joins, so that a reader can believe the model."""
    model = Model(signals=[(4, 100)])
    items = model.source({"k": k, "v": 1} for k in "aababb")
    one, other = (model.count(model.key_by(items, ["k"]), name, "v") for name in ("n", "m"))
    assert [row["n"] for row in one.items()] == [1001, 2002, 1001, 3003, 2101, 3102]
    joined = model.join([one, model.filter(other, lambda row: row["m"] > 1500)], is_outer=True, fill=0)
    assert [row["m"] for row in joined.items()] == [0, 2002, 0, 3003, 2101, 3102]
    assert [row["z"] for row in model.count(joined, "z", "v").items()] == [1001, 2002, 1001, 3003, 2101, 3102]
