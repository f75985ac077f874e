"""Micro-batches of a stream in this process, one by one, with lists for Spark's shuffle and dicts for its state.

Everything of a stream but Spark itself, on thousands of graphs; now and then a micro-batch is done twice, as after a
crash. `python -m tests.spark.streaming.simulated --seed 7` repeats one, `--count 2000 --first 0` tries many.
"""

from __future__ import annotations

import random
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from unittest import mock

import pyarrow as pa
from tests.property.check import Outcome, difference, outcome
from tests.property.graphs import Case, from_seed
from tests.spark.simulated import KINDS, Piece, kind_of, main

import penstock as ps
from penstock.engine import sinks
from penstock.graph import nodes as n
from penstock.graph import reference
from penstock.graph.reference import Result
from penstock.graph.signal_indices import resolve_indices
from penstock.graph.split import NoItems
from penstock.graph.tree import Tree, check_signals, handled_signals
from penstock.plan.cut import cut
from penstock.plan.stages import Cut
from penstock.spark.driver.job_program import plan_program
from penstock.spark.driver.results import JobOutput, gather, table
from penstock.spark.streaming import arrived, pages
from penstock.spark.streaming.batch_record import results_in_order
from penstock.spark.streaming.bucket_partitions import stream_layout
from penstock.spark.streaming.keeper import StateKeeper
from penstock.spark.streaming.state_store import PageAddress
from penstock.spark.wire import ArrivedFile, SenderOrigin, messages
from penstock.spark.worker import block_writer, inbox, task
from penstock.spark.worker.program import Program
from penstock.spark.worker.result_writers import CollectWriter


@dataclass
class Store:
    """The state of a bucket."""

    pieces: dict[PageAddress, bytes] = field(default_factory=dict)

    def read(self, places: Sequence[PageAddress]) -> Iterator[bytes]:
        return iter([self.pieces.get(place, b"") for place in places])

    def write(self, pieces: Iterable[tuple[PageAddress, bytes]]) -> None:
        for place, held in pieces:
            self.pieces[place] = held

    def all(self) -> Iterator[tuple[PageAddress, bytes]]:
        return iter([(place, held) for place, held in self.pieces.items() if held])


class Reader:
    """Hands out pieces in memory, by their numbers."""

    def __init__(self, pieces: list[arrived.ArrivedPiece], chance: random.Random) -> None:
        """Files that follow each other are read in groups, now and then: by the task that is given the first."""
        self.pieces = pieces
        self.groups: list[list[arrived.ArrivedPiece]] | None = [] if chance.random() < 0.5 else None
        if self.groups is not None:
            for piece in sorted((each for each in pieces if each.origin.is_data), key=lambda each: each.origin):
                if not self.groups or chance.random() < 0.3:
                    self.groups.append([])
                self.groups[-1].append(piece)

    def takes(self, named: ArrivedFile) -> bool:
        return True

    def piece(self, named: ArrivedFile, batch: int) -> arrived.ArrivedPiece:
        return self.pieces[int(named.path)]

    def group(self, named: ArrivedFile, name: str | None) -> list[arrived.ArrivedPiece] | None:
        piece = self.pieces[int(named.path)]
        if self.groups is None or not piece.origin.is_data:
            return None
        return next((group for group in self.groups if group[0] is piece), [])

    def placer(self, batch: int, first: int | None = None) -> None:
        """Signals come as pieces."""


def micro_batches(case: Case, chance: random.Random) -> list[list[arrived.ArrivedPiece]]:
    """The items cut at random places into files, some of them empty, and these into micro-batches.

    Before an item with a signal in front a micro-batch begins, which has the signal: that is how one is sent.
    """
    tree = Tree(case.leaves)
    control = resolve_indices(check_signals(tree, case.control), tree.source)
    rows = list(tree.source.items.batches(1 << 20))
    empty = pa.table({name: pa.array([], t) for name, t in tree.source.items.fields.items()})
    table = pa.Table.from_batches(rows) if rows else empty
    signals: dict[int, list[ps.Signal]] = {}
    for given in control:
        if given.index <= table.num_rows:
            signals.setdefault(given.index, []).append(given.signal)
    cuts = {chance.randint(0, table.num_rows) for _ in range(chance.choice([0, 1, 3, 6]))} | set(signals)
    ends = sorted(cuts | {table.num_rows})
    found: list[list[arrived.ArrivedPiece]] = [[]]
    start = 0
    for number, end in enumerate(ends):
        found[-1].append(
            arrived.ArrivedPiece(SenderOrigin(True, f"file {number:04}"), Piece(table.slice(start, end - start)))
        )
        start = end
        if end in signals:
            sent = [
                arrived.ArrivedPiece(SenderOrigin(False, f"{at}"), NoItems(), (s,)) for at, s in enumerate(signals[end])
            ]
            found.append(sent)
        elif chance.random() < 0.5 and end < table.num_rows:
            found.append([])
    return [batch for batch in found if batch]


def run(case: Case, chance: random.Random, *, is_ordered: bool, compile: bool = False) -> tuple[Cut, list[pa.Table]]:
    leaf = case.leaves[0]
    kinds = {type(given.signal) for given in case.control}
    made = cut([leaf], list(kinds), is_ordered=is_ordered)
    layout = stream_layout(made, chance.choice([1, 2, 5]))
    options = {
        "compile": compile,
        "batch_items": chance.choice([None, 1, 2, 5]),
        "hash_seed": deepcopy(chance).getrandbits(63),
    }
    program = plan_program(made, layout, CollectWriter, options, {}, {})
    stores: dict[tuple[int, int], Store] = {}
    tables = []
    for number, pieces in enumerate(micro_batches(case, chance)):
        before = deepcopy(stores)
        found = micro_batch(program, made, pieces, number, stores, chance)
        if chance.random() < 0.2:
            stores = before
            found = micro_batch(program, made, pieces, number, stores, chance)
        tables.append(table(leaf, results_in_order(found, made), has_places=False))
    return made, tables


def micro_batch(
    program: Program,
    made: Cut,
    pieces: list[arrived.ArrivedPiece],
    number: int,
    stores: dict,
    chance: random.Random,
    now: int | None = None,
) -> JobOutput:
    named = [ArrivedFile(str(at), 0) for at in range(len(pieces))]
    chance.shuffle(named)
    reader = Reader(pieces, chance)
    rows: list[pa.RecordBatch] = []
    if made.is_whole:
        keeper = StateKeeper(stores.setdefault((0, 0), Store()))
        rows = list(arrived.run_together(program, reader, named, number, keeper))
    else:
        half = chance.randint(0, len(named))
        for partition, some in enumerate((named[:half], named[half:])):
            rows += arrived.run_pieces(program, reader, some, number, partition)
    for stage in made.stages[1:]:
        rows = list(received(program, rows, stage, stores, chance, now))
    return gather(list(messages(rows)))


def received(program: Program, rows: list[pa.RecordBatch], stage, stores: dict, chance: random.Random, now=None):
    for target in {0, *program.targets[stage.number]}:
        mine = [batch for batch in rows if batch.column(0)[0].as_py() == target]
        chance.shuffle(mine)
        is_kept = stage.reads.kind != "order" and target
        keeper = StateKeeper(stores.setdefault((stage.number, target), Store()), now) if is_kept else None
        yield from task.run_blocks(program, messages(mine), keeper)


def one_result(case: Case) -> Case:
    """The case with its first result only: a stream has one."""
    known = handled_signals(Tree(case.leaves[:1]).nodes)
    control = [given for given in case.control if type(given.signal) in known]
    return replace(case, leaves=case.leaves[:1], control=control)


def has_no_end(case: Case) -> bool:
    """Whether there are windows that close only with the stream, which a running one is refused for."""
    windows = [n.timed_of(node) for node in Tree(case.leaves).nodes]
    return any(window is not None and window.late is None for window in windows)


def expected(case: Case) -> Outcome:
    return outcome(lambda: reference.run(case.leaves, case.control, is_open=True))


def check(seed: int, compile: bool = False, make: Callable[[int], Case] = from_seed) -> str | None:
    """What is wrong with a graph, or None."""
    case, chance = one_result(make(seed)), random.Random(seed)
    if has_no_end(case):
        return None
    wanted = expected(case)
    small = mock.patch.multiple(
        block_writer, BLOCK_ITEMS=chance.choice([1, 2, 5, 1000]), BLOCK_SIGNALS=chance.choice([1, 2, 9])
    )
    held = mock.patch.object(inbox, "HELD_BYTES", chance.choice([0, 300, 1 << 20]))
    page = mock.patch.object(pages, "PAGE_BYTES", chance.choice([1, 400, 1 << 14]))
    with small, held, page, mock.patch.object(sinks, "ROOM", case.room or sinks.ROOM), warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        is_ordered = chance.random() < 0.5
        try:
            made, tables = run(case, chance, is_ordered=is_ordered, compile=compile)
            KINDS.append(kind_of(made))
        except ps.InternalError:
            return traceback.format_exc()
        except ps.PenstockError as error:
            if isinstance(wanted, Result):
                return f"wanted a result, got {error!r}"
            return None if type(error) is type(wanted) else f"wanted {wanted!r}, got {error!r}"
        except Exception:
            return traceback.format_exc()
    if not isinstance(wanted, Result):
        return f"wanted {wanted!r}, got a result"
    schema = pa.schema(list(case.leaves[0].shape.fields.items()))
    found = pa.concat_tables(tables) if tables else schema.empty_table()
    is_in_order = is_ordered or made.is_whole or not made.exchanges or all(e.kind == "whole" for e in made.exchanges)
    pair = (wanted.tables[0], found) if is_in_order else (_sorted(wanted.tables[0]), _sorted(found))
    return difference(Result(pair[:1], ()), Result(pair[1:], ()))


def _sorted(table: pa.Table) -> pa.Table:
    rows = sorted(range(table.num_rows), key=lambda at: repr([column[at] for column in table.columns]))
    return table.take(pa.array(rows, pa.int64()))


if __name__ == "__main__":
    sys.exit(main(check) > 0)
