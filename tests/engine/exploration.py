"""All orders in which the nodes of a small run can fire, one after the other, on the engine's own code.

A depth-first search over the nodes that may fire. States are remembered, so that two orders that lead to one state are
followed once; a run is copied where there is more than one way to go on.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.engine.channel import Channel
from penstock.engine.intake import Reader
from penstock.engine.loop import RunningLoop
from penstock.engine.run import Run
from penstock.engine.store import Rows, Scalars
from penstock.graph.reference import Result


@dataclass(frozen=True)
class Explored:
    """How much there was: states, firings between them, states in which all is done, and the longest way there."""

    states: int
    firings: int
    ends: int
    longest: int


class World:
    """A run at one moment: its nodes and channels, what came out so far, and which nodes fired to come here."""

    def __init__(self, run: Run) -> None:
        self.run, self.scheduler = run, run.scheduler()
        feeder = self.scheduler.feeder
        feeder.batches = iter(list(feeder.batches))  # unlike a generator, it can be copied
        self.batches: list[tuple[Any, pa.RecordBatch]] = []
        self.deliveries: list[Any] = []
        self.path: list[int] = []

    def copy(self) -> World:
        """The same moment once more. What never changes is shared: the graph, its plan and the kernels."""
        run, made = self.run, copy.copy(self)
        codes = run.plan.codes
        shared = [run.plan, run.plan.tree, *run.plan.tree.nodes, *codes, *codes.values()]
        shared += [part for code in codes.values() for part in (*code.buffers, *code.sinks, code.log)]
        shared.append(self.scheduler.feeder.batch)
        shared += [node.input.portion for node in self.scheduler.nodes if isinstance(node.input, Reader)]
        made.scheduler = copy.deepcopy(self.scheduler, {id(part): part for part in shared})
        made.batches, made.deliveries, made.path = list(self.batches), list(self.deliveries), list(self.path)
        return made

    def choices(self) -> list[int]:
        """The numbers of the nodes that may fire now."""
        self.scheduler.feeder.advance()
        return [number for number, node in enumerate(self.scheduler.nodes) if node.is_fireable]

    def fire(self, number: int) -> None:
        self.path.append(number)
        output = self.scheduler.fire(self.scheduler.nodes[number])
        self.batches += output.batches
        self.deliveries += output.deliveries

    @property
    def is_finished(self) -> bool:
        return all(node.is_finished for node in self.scheduler.nodes)

    def result(self) -> Result:
        schemas = {leaf: pa.schema(list(leaf.shape.fields.items())) for leaf in self.run.plan.tree.leaves}
        tables = [
            pa.Table.from_batches([batch for node, batch in self.batches if node is leaf], schema)
            for leaf, schema in schemas.items()
        ]
        return Result(tuple(tables), tuple(self.deliveries))

    def state(self) -> Hashable:
        """All that decides what can come, and all that came. Not how much was counted, nor what has been consumed."""
        scheduler = self.scheduler
        memory = scheduler.nodes[0].loop.memory
        assert not memory.keys, "numbers of keys are not looked at here"
        states = tuple(held.records.tobytes() + held.fresh.tobytes() for held in memory.states.values())
        nodes = tuple((node.is_finished, _input(node.input), _loop(node.loop)) for node in scheduler.nodes)
        came = tuple(str(batch.to_pydict()) for _, batch in self.batches if batch.num_rows)
        base = scheduler.feeder.batch.base if scheduler.feeder.batch is not None else -1
        return nodes, states, base, came, tuple(map(repr, self.deliveries))


def _input(source: Channel | Reader) -> Hashable:
    if isinstance(source, Reader):
        return source.row, source.mark
    control = source.control
    marks = tuple(array[control.start : control.stop].tobytes() for array in (control.kinds, control.credits))
    tables = tuple(_rows(rows) for rows in (source.data, *source.parents))
    records = tuple((held.start, held.array[held.start : held.stop].tobytes()) for held in source.records)
    numbers = (*source.opened, *source.regions) if source.is_tagged else ()
    counts = (source.current, source.since, source.is_ended, *source.is_open, *numbers)
    return control.start, marks, tables, records, counts, source.context


def _rows(rows: Rows) -> Hashable:
    """What lies there and where, because what is moved to the front could get lost on the way."""
    values = []
    for held in rows.stores.values():
        if isinstance(held, Scalars):
            values.append(held.array[rows.start : rows.stop].tobytes())
        else:
            values.append(str(held.column(rows.stop)[rows.start :].to_pylist()).encode())
    return rows.start, rows.stop, *values


def _loop(loop: RunningLoop) -> Hashable:
    assert not loop.code.heaps, "heaps are not looked at here"
    results = tuple(
        (result.used, *(array[: result.used].tobytes() for array in result.held.held.values()))
        for result in loop.results
    )
    records = tuple(record.tobytes() for pair in loop.records.values() for record in pair)
    return loop.is_first, loop.integers.tobytes(), loop.floats.tobytes(), records, results


def explore(run: Run) -> tuple[Explored, list[World]]:
    """Fire in every order. In every state the invariants hold, some node may fire unless all are done, and no way
    leads back. What comes back is how much there was, and the worlds in which all is done."""
    world = World(run)
    first = world.state()
    seen, on_path = {first}, {first}
    frames = [(world, world.choices(), first)]
    firings, longest, ends = 0, 0, []
    while frames:
        world, left, key = frames[-1]
        if not left:
            on_path.remove(key)
            frames.pop()
            continue
        number = left.pop()
        after = world.copy() if left else world
        _fire(after, number)
        firings, longest, key = firings + 1, max(longest, len(after.path)), after.state()
        assert key not in on_path, f"firing {after.path} leads back to where it was before"
        if key in seen:
            continue
        choices = after.choices()
        if not choices:
            assert after.is_finished, f"after firing {after.path} no node can fire, and not all have finished"
            ends.append(after)
        seen.add(key)
        on_path.add(key)
        frames.append((after, choices, key))
    return Explored(len(seen), firings, len(ends), longest), ends


def _fire(world: World, number: int) -> None:
    try:
        world.fire(number)
    except Exception as error:
        raise AssertionError(f"firing {world.path} fails: {error}") from error


def total(found: Sequence[Explored]) -> Explored:
    """All explorations together."""
    return Explored(
        sum(each.states for each in found),
        sum(each.firings for each in found),
        sum(each.ends for each in found),
        max(each.longest for each in found),
    )
