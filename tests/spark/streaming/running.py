"""A stream that runs in this process, micro-batch by micro-batch, over lists of items. Every one is done twice."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pyarrow as pa
from tests.property.check import difference
from tests.spark.simulated import Piece
from tests.spark.streaming.simulated import _sorted, micro_batch

import penstock as ps
from penstock.graph.reference import Result
from penstock.graph.tree import Tree
from penstock.plan.cut import cut
from penstock.plan.idle import IdleLimit
from penstock.plan.moving import moved_to
from penstock.plan.stages import Cut
from penstock.spark.driver.job_program import plan_program
from penstock.spark.driver.results import table
from penstock.spark.streaming.arrived import ArrivedPiece as Arrived
from penstock.spark.streaming.batch_record import results_in_order
from penstock.spark.streaming.bucket_partitions import stream_layout
from penstock.spark.streaming.refusals import refuse_idle
from penstock.spark.streaming.state_store import FRAME
from penstock.spark.wire import SenderOrigin
from penstock.spark.worker.result_writers import CollectWriter

Row = dict[str, Any]


class Running:
    """A stream that runs, micro-batch by micro-batch. Everything is done twice, as after a crash."""

    def __init__(self, leaf: Any, made: Cut, buckets: int = 2, **options: Any) -> None:
        self.leaf, self.cut, self.stores, self.number, self.counts = leaf, made, {}, 0, {}
        layout = stream_layout(made, buckets)
        self.program = plan_program(made, layout, CollectWriter, {"compile": False} | options, {}, {})

    def take(self, pieces: list[Arrived], now: int | None = None) -> pa.Table:
        before, tables = deepcopy(self.stores), []
        for again in (1, 2):
            self.stores, chance = deepcopy(before), random.Random(again * self.number)
            found = micro_batch(self.program, self.cut, pieces, self.number, self.stores, chance, now)
            tables.append(table(self.leaf, results_in_order(found, self.cut), has_places=False))
        assert difference(*(Result((_sorted(each),), ()) for each in tables)) is None
        self.number += 1
        states = [each.state for each in found.counts if each.state]
        self.counts = {name: sum(state[name] for state in states) for name in (states[0] if states else ())}
        return tables[0]

    def items(self, *files: list[Row], now: int | None = None) -> list[Row]:
        """Take files of items; what came of them."""
        schema = pa.schema(list(self.leaf.source.items.fields.items()))
        named = enumerate(pa.Table.from_pylist(rows, schema) for rows in files)
        return self.take([Arrived(SenderOrigin(True, f"file {at}"), Piece(t)) for at, t in named], now).to_pylist()

    @property
    def state_bytes(self) -> int:
        pieces = [piece for store in self.stores.values() for piece in store.pieces.items()]
        return sum(len(page) for place, page in pieces if place != FRAME)


def running(stream: ps.Stream, *, buckets: int = 2, ordered: bool = False, **wanted: Any) -> Running:
    idle = IdleLimit(**wanted)
    made = cut([stream.node], is_ordered=ordered, idle=idle)
    refuse_idle(Tree((stream.node,)), made, idle)
    return Running(stream.node, made, buckets, hash_seed=7)  # as a checkpoint has one


def source(t: Any = int, k: Any = str, **fields: Any) -> ps.Stream:
    return ps.from_items([], schema={"k": k, "t": t, "v": float} | fields)


def item(k: Any, t: Any, v: float = 1.0) -> Row:
    return {"k": k, "t": t, "v": v}


def by_key(rows: list[Row], *names: str) -> list[tuple]:
    return sorted(tuple(row[name] for name in names) for row in rows)


class Count(ps.State):
    n: int


def counted(state):
    state.n += 1
    return state.n


def on(stream: ps.Stream, table: pa.Table) -> ps.Stream:
    """The same graph over a table."""
    return ps.Stream(moved_to(stream.node, ps.from_arrow(table).node))
