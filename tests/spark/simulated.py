"""A job's tasks one after the other in this process, with lists for Spark's shuffle, whose rows come in any order.

Everything of a job but Spark itself: the cut, blocks, inboxes and merging, on thousands of graphs.
`python -m tests.spark.simulated --seed 7` repeats one, `--count 2000 --first 0` tries many; with `--joined` they are
graphs in which streams part and meet again.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from unittest import mock

import pyarrow as pa
from tests.property.check import difference, expected
from tests.property.graphs import Case, from_seed
from tests.property.joins import from_joined_seed
from tests.spark.meets import from_meet_seed, from_spread_seed

import penstock as ps
from penstock.engine import sinks
from penstock.graph.reference import Result
from penstock.graph.signal_indices import in_order
from penstock.graph.tree import Tree, check_signals
from penstock.plan.beginnings import alignable, beginnings
from penstock.plan.cut import cut
from penstock.plan.moving import moved_to, without_items
from penstock.plan.stages import Cut
from penstock.spark.driver.bucket_layout import lay_out
from penstock.spark.driver.job_program import plan_program
from penstock.spark.driver.results import gather, table
from penstock.spark.files import region_splits
from penstock.spark.files.region_splits import align_splits
from penstock.spark.wire import messages
from penstock.spark.worker import block_writer, inbox, task
from penstock.spark.worker.first_pass import place_counted
from penstock.spark.worker.program import Program
from penstock.spark.worker.result_writers import CollectWriter


@dataclass(frozen=True)
class Piece:
    """A split in memory."""

    table: pa.Table
    label: str = "a piece"
    bytes: int = 0

    @property
    def rows(self) -> int:
        return self.table.num_rows

    def read(self, columns: Sequence[str] | None, at_most: int) -> Iterator[pa.RecordBatch]:
        taken = self.table if columns is None else self.table.select(list(columns) or self.table.schema.names[:1])
        yield from taken.to_batches(at_most)


KINDS: list[str] = []
"""How the graphs were cut, to see that all ways are tried."""


def kind_of(made: Cut) -> str:
    if made.is_whole:
        return "first whole"
    return "+".join(each.kind + ", merged" * each.is_merged for each in made.exchanges) or "none"


def pieces(items: object, chance: random.Random) -> list[Piece]:
    """The items of a source cut at random places, some pieces empty."""
    rows = list(items.batches(1 << 20))
    table = pa.Table.from_batches(rows) if rows else None
    if table is None:
        return [Piece(pa.table({name: pa.array([], t) for name, t in items.fields.items()}))]
    count = chance.choice([1, 2, 3, 7])
    cuts = sorted(chance.randint(0, table.num_rows) for _ in range(count - 1))
    ends = [0, *cuts, table.num_rows]
    return [Piece(table.slice(a, b - a)) for a, b in pairwise(ends)]


def run(
    case: Case, chance: random.Random, *, is_ordered: bool, compile: bool = False, cores: int = 1, places: bool = True
) -> tuple[Cut, Result]:
    """Run a graph in stages. Without `places` and `is_ordered`, results come in any order."""
    tree = Tree(case.leaves)
    control = in_order(check_signals(tree, case.control))
    splits = pieces(tree.source.items, chance)
    regions = alignable(tree)
    if regions is not None and chance.random() < 0.8:
        send = moved_to(beginnings(regions), without_items(tree.source))
        by = () if regions.start is not None else regions.by
        splits = align_splits(
            splits, {at: region_splits.first_beginning(send, by, split) for at, split in enumerate(splits)}
        )
    else:
        regions = None
    places = place_counted(control, {number: split.rows for number, split in enumerate(splits)}, {})
    kinds = [type(given.signal) for given in control]
    found = [] if regions is None else [regions]
    by_place = chance.random() < 0.8
    made = cut(case.leaves, kinds, places=places, is_ordered=is_ordered, aligned=found, meets_by_place=by_place)
    layout = lay_out(made, len(splits), chance.choice([1, 2, 5]))
    seed = deepcopy(chance).getrandbits(63)
    options = {"compile": compile, "batch_items": chance.choice([None, 1, 2, 5]), "hash_seed": seed}
    on = dict.fromkeys(range(len(made.stages)), cores)
    given = (made, layout, CollectWriter, options, places.signals, places.bases, on)
    program = plan_program(*given, is_measured=cores > 1)
    rows: list[pa.RecordBatch] = []
    if made.is_whole:
        rows = list(task.run_whole(program, splits))
    else:
        for number, split in enumerate(splits):
            rows += task.run_split(program, number, split)
    for count in layout.partitions:
        rows = list(shuffled(program, rows, count, chance))
    found = gather(list(messages(rows)))
    outputs = {output.leaf: output for stage in made.stages for output in stage.outputs if output.leaf is not None}
    tables = tuple(
        table(leaf, found.results.get(at, []), outputs[at].has_places) for at, leaf in enumerate(case.leaves)
    )
    return made, Result(tables, ())


def shuffled(
    program: Program, rows: list[pa.RecordBatch], count: int, chance: random.Random
) -> Iterator[pa.RecordBatch]:
    for target in range(count):
        mine = [batch for batch in rows if batch.column(0)[0].as_py() == target]
        chance.shuffle(mine)
        yield from task.run_received(program, mine)


def check(seed: int, compile: bool = False, make: Callable[[int], Case] = from_seed, cores: int = 1) -> str | None:
    """What is wrong with a graph, or None."""
    case = make(seed)
    chance = random.Random(seed)
    wanted = expected(case)
    small = mock.patch.multiple(
        block_writer, BLOCK_ITEMS=chance.choice([1, 2, 5, 1000]), BLOCK_SIGNALS=chance.choice([1, 2, 9])
    )
    held = mock.patch.object(inbox, "HELD_BYTES", chance.choice([0, 300, 1 << 20]))
    heads = mock.patch.object(region_splits, "HEAD_ITEMS", chance.choice([1, 3, 4096]))
    with small, held, heads, mock.patch.object(sinks, "ROOM", case.room or sinks.ROOM), warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        try:
            made, found = run(case, chance, is_ordered=chance.random() < 0.4, compile=compile, cores=cores)
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
    return difference(Result(wanted.tables, ()), found)


def main(check: Callable[..., str | None]) -> int:
    """Check the graphs that the command line names; how many are wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--joined", action="store_true", help="graphs in which streams part and meet again")
    parser.add_argument("--meets", action="store_true", help="and with keys before, between and behind")
    parser.add_argument("--spread", action="store_true", help="and with keys on the way, each side by itself")
    given = parser.parse_args()
    make = from_joined_seed if given.joined else from_meet_seed if given.meets else from_seed
    make = from_spread_seed if given.spread else make
    seeds = [given.seed] if given.seed is not None else range(given.first, given.first + given.count)
    bad = 0
    for seed in seeds:
        wrong = check(seed, make=make)
        if wrong:
            bad += 1
            print(f"--- seed {seed}\n{wrong[-3000:]}")
            if given.seed is not None:
                print(make(seed).text())
    print(Counter(KINDS))
    print(f"{bad} of {len(seeds)} wrong")
    return bad


if __name__ == "__main__":
    sys.exit(main(check) > 0)
