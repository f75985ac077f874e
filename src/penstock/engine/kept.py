"""What an open run remembers when its stream pauses, as arrays: so that it can go on later, in another process.

What belongs to keys can be had key by key: a `KeyGroup` for each `key_by`, in which every key has one record with all
that the nodes behind it know of it. All else is the `frame`: the records of states without a key, the record that a new
key begins with; and, only where something outlives a pause there, the variables of the loops and what lies in channels:
regions that are open, and streams that meet.

All goes by the slots of the nodes that remember something, which stay the same while other nodes come and go. What lies
in loops and channels goes by their numbers, so that such a graph must stay as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codegen.generated import GeneratedLoop
from penstock.engine.build import Runner
from penstock.engine.channel import Channel
from penstock.engine.intake import arriving
from penstock.engine.joint import JointNode
from penstock.engine.keys import KeyValues, taken
from penstock.engine.loop import Memory, RunningLoop
from penstock.engine.piece import Piece, piece_of, put
from penstock.engine.remember import kept_in_loops
from penstock.engine.run import Run
from penstock.engine.state import Arrivals, HeldCells, States
from penstock.engine.upgrade import upgraded_states
from penstock.engine.windows import KEPT, TimedCells
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.kernels.credit import SIGNAL

Frame = dict[str, np.ndarray]


def _keeps_loops(run: Run) -> bool:
    return any(map(kept_in_loops, run.plan.tree.nodes))


def frame_of(run: Run) -> Frame:
    """All that a paused run remembers but for its keys."""
    found = _of_loops(run) if _keeps_loops(run) else {}
    for node, states in run.memory.states.items():
        number = run.slots[node]
        found[f"state{number}.fresh"] = states.fresh
        if node.given.key is None:
            found[f"state{number}.record"] = states.records[:1]
    for node, arrivals in run.memory.arrivals.items():
        if node.given.key is None:
            found[f"seen{run.slots[node]}"] = arrivals.seen[:1]
        else:
            found[f"ranked{run.slots[node]}"] = arrivals.ranked + arrivals.count
    for node, cells in run.memory.cells.items():
        if isinstance(cells, TimedCells):
            found[f"windows{run.slots[node]}"] = cells.counts[KEPT]
    return found


def _of_loops(run: Run) -> Frame:
    found: Frame = {}
    for at, running in enumerate(run.parts.nodes):
        held = _of_joint(running) if isinstance(running, JointNode) else _of_loop(running.loop)
        found |= {f"loop{at}.{name}": array for name, array in held}
    for at, channel in enumerate(run.parts.channels.values()):
        found |= {f"channel{at}.{name}": array for name, array in _of_channel(channel)}
    return found


def resume(run: Run, frame: Frame) -> None:
    """Let a run whose parts are made, and that has not begun, go on from what another remembered."""
    left = dict(frame)
    if _keeps_loops(run):
        _into_loops(run, left)
    for code in run.plan.codes.values():
        for node in code.states.values():
            held = _taken(left, f"state{run.slots[node]}.")
            if held:
                states = run.memory.of(node)
                assert node.state is not None
                states.fresh = upgraded_states(held["fresh"], node.state)
                states.records = upgraded_states(held.get("record", held["fresh"]), node.state).copy()
        for node in code.arrivals.values():
            seen = left.pop(f"seen{run.slots[node]}", None)
            if seen is not None:
                run.memory.arrivals_at(node).seen[:1] = seen
            ranked = left.pop(f"ranked{run.slots[node]}", None)
            if ranked is not None:
                run.memory.arrivals_at(node).ranked = int(ranked[0])
        for cells in code.cells.values():
            counts = left.pop(f"windows{run.slots[cells.node]}", None)
            if counts is not None:
                run.memory.cells_of(cells).counts[KEPT] = counts  # type: ignore[attr-defined]
    if left:
        raise InternalError(f"resume: nothing takes {sorted(left)}, which another run remembered")


def _into_loops(run: Run, left: Frame) -> None:
    for at, running in enumerate(run.parts.nodes):
        taken_here = _taken(left, f"loop{at}.")
        if isinstance(running, JointNode):
            running.input.numbered, running.input.place = taken_here["counts"].tolist()
        else:
            _into_loop(running.loop, taken_here)
    for at, channel in enumerate(run.parts.channels.values()):
        _into_channel(channel, _taken(left, f"channel{at}."))


def _taken(left: Frame, prefix: str) -> Frame:
    found = {name: array for name, array in left.items() if name.startswith(prefix)}
    for name in found:
        del left[name]
    return {name.removeprefix(prefix): array for name, array in found.items()}


# Loops, and where streams meet


def _of_joint(joint: JointNode) -> Iterator[tuple[str, np.ndarray]]:
    yield "counts", np.array([joint.input.numbered, joint.input.place])


def _of_loop(loop: RunningLoop) -> Iterator[tuple[str, np.ndarray]]:
    yield "first", np.array([loop.is_first])
    yield "integers", loop.integers
    yield "floats", loop.floats
    for name, pair in loop.records.items():
        for at, record in enumerate(pair):
            yield f"record.{name}.{at}", record
    for name, heap in loop.heaps.held.items():
        yield f"heap.{name}.counts", np.array([heap.count, heap.used])
        yield f"heap.{name}.offsets", heap.offsets[: heap.count + 1]
        yield f"heap.{name}.elements", heap.elements[: max(heap.used, int(heap.offsets[heap.count]))]


def _into_loop(loop: RunningLoop, held: Frame) -> None:
    loop.is_first = bool(held["first"][0])
    # The index of an opened list comes last, and only loops that skip what fails may need it: none is open here.
    known = min(len(loop.integers), len(held["integers"]))
    loop.integers[:known], loop.floats[:] = held["integers"][:known], held["floats"]
    for name, pair in loop.records.items():
        for at, record in enumerate(pair):
            record[:] = held[f"record.{name}.{at}"]
    for name, heap in loop.heaps.held.items():
        heap.hold(held[f"heap.{name}.offsets"], held[f"heap.{name}.elements"])
        heap.count, heap.used = (int(value) for value in held[f"heap.{name}.counts"])


# Channels: everything in them has been consumed, but for the parents of regions that are still open, and for signals
# that came within a region, where what meets are regions: they wait for its end.

_COUNTERS = ("current", "since", "sent", "consumed", "sent_marks", "consumed_marks")


def _of_channel(channel: Channel) -> Iterator[tuple[str, np.ndarray]]:
    waiting = _waiting(channel)
    yield "counters", np.array([getattr(channel, name) for name in _COUNTERS])
    yield "parents", np.array([len(rows) for rows in channel.parents], np.int64)
    yield "waiting.kinds", waiting.kinds
    for number, array in enumerate(waiting.by_clock):
        yield f"waiting.clock{number}", array
    for number, array in enumerate(waiting.signals):
        yield f"waiting.signals{number}", array
    yield "regions", np.array([channel.regions, channel.opened, channel.is_open], np.int64)
    for depth, rows in enumerate(channel.parents):
        batch = pa.RecordBatch.from_arrays(
            [store.column(rows.stop).slice(rows.start) for store in rows.stores.values()], names=list(rows.stores)
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield f"parents{depth}", np.frombuffer(sink.getvalue(), np.uint8)


def _waiting(channel: Channel) -> Piece:
    """The signals that wait in a channel."""
    data, control = channel.data, channel.control
    kinds = control.kinds[control.start : control.stop]
    if len(data) or np.any(kinds < SIGNAL):
        raise InternalError("a run paused with items or marks in a channel")
    return piece_of(channel, channel.take(0), data.start, data.start, control.start, control.stop)


def _into_channel(channel: Channel, held: Frame) -> None:
    for name, value in zip(_COUNTERS, held["counters"].tolist(), strict=True):
        setattr(channel, name, value)
    channel.regions, channel.opened, channel.is_open = held["regions"].tolist()
    for depth, rows in enumerate(channel.parents):
        table = pa.ipc.open_stream(pa.py_buffer(held[f"parents{depth}"])).read_all().combine_chunks()
        for name, store in rows.stores.items():
            if table.num_rows:
                store.put(0, table.column(name).chunk(0))
        rows.start, rows.stop = 0, int(held["parents"][depth])  # also where nobody needs a field of them
    channel.version += 1
    kinds = held["waiting.kinds"]
    if len(kinds):
        channel.sent_marks -= len(kinds)
        put(channel, _piece(channel, kinds, held))


def _piece(channel: Channel, kinds: np.ndarray, held: Frame) -> Piece:
    """Signals, to be put into a channel in which nothing else is."""
    clocks = len(channel.progress.clocks)  # and which node emitted each
    by_clock = [held[f"waiting.clock{number}"] for number in range(clocks + bool(clocks))]
    signals = [held[f"waiting.signals{number}"] for number in range(len(channel.records))]
    nowhere, none = np.zeros(len(kinds), np.int64), [0] * channel.depth
    return Piece({}, 0, kinds, nowhere, by_clock, [{} for _ in none], none, signals, 0)


# By key


def key_groups(run: Run) -> list[KeyGroup]:
    """What the run knows of keys, for each `key_by` that some node has a state for."""
    nodes: dict[n.KeyBy, None] = {}
    for code in run.plan.codes.values():
        for node in _stateful(code):
            if node.given.key is not None:
                nodes[node.given.key] = None
    return [KeyGroup(run, key) for key in nodes]


def _stateful(code: GeneratedLoop) -> list[n.Stateful]:
    return [*code.states.values(), *code.arrivals.values(), *(cells.node for cells in code.cells.values())]


class KeyGroup:
    """All that is known of the keys of one `key_by`: of each key a record, by the number of the key."""

    def __init__(self, run: Run, key: n.KeyBy) -> None:
        self.key, self.memory = key, run.memory
        self.number = min(slot for node, slot in run.slots.items() if node.given.key is key)
        self.index = self.memory.index(key)
        self.parts: dict[str, States | Arrivals | HeldCells] = {}
        self.states: dict[str, type] = {}
        """The class of each part that is the record of a state."""
        self.has_places = isinstance(run.plan.tree.source, n.Received) and run.plan.tree.source.has_places
        for code in run.plan.codes.values():
            self._add(code, self.memory, run)

    def _add(self, code: GeneratedLoop, memory: Memory, run: Run) -> None:
        for node in code.states.values():
            if node.given.key is self.key:
                assert node.state is not None
                self.parts[f"state{run.slots[node]}"] = memory.of(node)
                self.states[f"state{run.slots[node]}"] = node.state
        for node in code.arrivals.values():
            if node.given.key is self.key:
                self.parts[f"seen{run.slots[node]}"] = memory.arrivals_at(node)
        for cells in code.cells.values():
            if cells.node.given.key is self.key:
                self.parts[f"cells{run.slots[cells.node]}"] = memory.cells_of(cells)

    @cached_property
    def dtype(self) -> np.dtype:
        """The record of one key."""
        fields: list[tuple[str, np.dtype, tuple[int, ...]]] = []
        for name, part in self.parts.items():
            for at, (array, width) in enumerate(self._arrays(part)):
                fields.append((f"{name}.{at}" if at else name, array.dtype, () if width is None else (width,)))
        return np.dtype(fields)

    def take(self, slots: np.ndarray) -> np.ndarray:
        """The records of some keys, in this order."""
        found = np.zeros(len(slots), self.dtype)
        for names, arrays, _ in self._fields():
            for name, array in zip(names, arrays, strict=True):
                found[name] = array[slots]
        return found

    def put(self, values: Sequence[KeyValues], records: np.ndarray) -> np.ndarray:
        """Know these keys, of which none was known before, with these records; their numbers."""
        slots = self.index.number_values(values).copy()
        self.change(slots, records)
        return slots

    def change(self, slots: np.ndarray, records: np.ndarray) -> None:
        """Have other records for some keys."""
        for names, arrays, part in self._fields():
            if isinstance(part, TimedCells):
                part.put(slots, [records[name] for name in names])
                continue
            for name, array in zip(names, arrays, strict=True):
                array[slots] = records[name]

    def _fields(self) -> Iterator[tuple[list[str], list[np.ndarray], Any]]:
        """What is kept of all keys, part by part: fields of their records, each with an array that has a row a key."""
        names = iter(self.dtype.names or ())
        for part in self.parts.values():
            part.reserve(self.index.count)
            held = self._arrays(part)
            arrays = [array if width is None else array.reshape(-1, width) for array, width in held]
            yield [next(names) for _ in held], arrays, part

    def _arrays(self, part: States | Arrivals | HeldCells) -> list[tuple[np.ndarray, int | None]]:
        """The arrays of a part that are kept, each with how many values a key has in it."""
        if isinstance(part, States):
            return [(part.records, None)]
        if isinstance(part, Arrivals):
            found = [part.seen, part.ranks(), *([part.index] if self.has_places else [])]
            return [(array, None) for array in found]
        if isinstance(part, TimedCells):
            return [(rows, part.width) for rows in part.by_key(self.index.count)]
        return [(array, part.width) for array in (part.records, *part.folds)]


def ending(run: Run, group: KeyGroup, slots: np.ndarray, base: int) -> tuple[Run, Runner]:
    """A run that does with some keys of a paused one what the end of the stream would.

    There its keys have the numbers from 0 on, in the order of `slots`. `base` is how many items have come.
    """
    nothing, kept_as = arriving(run.plan.tree.source, (), base), tuple(run.slots.values())
    made = Run(run.plan.tree.leaves, batches_in=nothing, slots=kept_as, **vars(run.options))
    scheduler = made.scheduler()
    resume(made, frame_of(run))
    own = next(each for each in key_groups(made) if each.key is group.key)
    own.put(taken(group.index.values(), slots), group.take(slots))
    for arrivals in made.memory.arrivals.values():
        arrivals.arrange()
    return made, scheduler
