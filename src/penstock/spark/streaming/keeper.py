"""Keeps what a stage of a running stream remembers: a frame, and pages of keys, in a store of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.engine.build import Runner
from penstock.engine.intake import Arrival, Batch, arriving
from penstock.engine.kept import ending, frame_of, key_groups, resume
from penstock.engine.packed import packed, unpacked
from penstock.engine.run import Run
from penstock.errors import CheckpointError
from penstock.graph import nodes as n
from penstock.graph.record import Signal
from penstock.graph.tree import Tree
from penstock.plan.stages import Exchange, Stage
from penstock.spark.streaming.closings import Tides
from penstock.spark.streaming.idleness import Idleness
from penstock.spark.streaming.pages import Pages, sizes
from penstock.spark.streaming.state_store import FRAME, StateStore
from penstock.spark.wire import SenderOrigin
from penstock.spark.worker.block_columns import MOST_SPLITS, SPLIT_BITS, schema_of, times_of
from penstock.spark.worker.inbox import Inbox, blocks_of, merge_senders
from penstock.spark.worker.task_failure import SplitIndex


@dataclass(frozen=True)
class GroupStore:
    """The pages of one group."""

    store: StateStore
    group: int

    def read(self, pages: Sequence[int]) -> Iterator[bytes]:
        return self.store.read([(self.group, page) for page in pages])

    def write(self, pages: Iterable[tuple[int, bytes]]) -> None:
        self.store.write(((self.group, page), held) for page, held in pages)

    def all(self) -> Iterator[tuple[int, bytes]]:
        return ((page, held) for (group, page), held in self.store.all() if group == self.group)


class StateKeeper:
    """Keeps the state of one bucket over a store.

    `items` and `splits` are how many have come so far: items of this bucket, and splits of the source. `now` is the
    time of the micro-batch in milliseconds, where keys go idle by that.
    """

    def __init__(self, store: StateStore, now: int | None = None) -> None:
        self.store = store
        self.newest: int | float | None = now
        (held,) = store.read([FRAME])
        self.frame = unpacked(held) if held else {}
        self.items, self.splits = self.frame.pop("counts", np.zeros(2, np.int64)).tolist()
        self.sizes: dict[str, np.ndarray] = {name: self.frame.pop(name) for name in list(self.frame) if "pages" in name}
        self.times = Idleness.taken(self.frame)
        self.frame_of_tides = self.frame.pop("tides", None)
        self.is_new = not held
        self.exchange: Exchange | None = None
        self.pages: dict[n.KeyBy, Pages] = {}
        self.origins: list[SenderOrigin] = []

    # What arrives

    def received(self, stage: Stage, inbox: Inbox, index: SplitIndex) -> Iterator[Batch]:
        exchange = self.exchange = stage.reads
        assert exchange is not None
        schema, signals = schema_of(exchange), exchange.signals
        if exchange.idle is not None and exchange.idle.time is not None:
            times = [end.newest for end in inbox.ends().values()]
            self.newest = max((time for time in times if time is not None), default=None)
        if exchange.is_merged:
            arrivals = merge_senders(inbox, inbox.senders(), schema, signals, index)
        else:
            arrivals = self._in_order(inbox, schema, signals, index)
        return arriving(Tree(stage.leaves).source, self.noted(arrivals), self.items, is_open=True)

    def _in_order(
        self, inbox: Inbox, schema: pa.Schema, signals: Sequence[type[Signal]], index: SplitIndex
    ) -> Iterator[Arrival]:
        """What all senders have sent, in the order of what they read, with places behind those of all before."""
        senders = {sender: end.read for sender, end in inbox.ends().items()}
        number, in_order = self.splits, sorted(senders, key=senders.__getitem__)
        self.begin([origin for sender in in_order for origin, _ in senders[sender]])
        for sender in in_order:
            for at, (_, before) in enumerate(senders[sender]):
                index.begin(number + at, self.items + before)
            for arrival in blocks_of(inbox, sender, schema, signals):
                if arrival.places is not None:
                    start = number << SPLIT_BITS
                    arrival = replace(arrival, places=arrival.places + start, start=start)
                yield arrival
            number += len(senders[sender])

    def begin(self, origins: Sequence[SenderOrigin]) -> None:
        """These splits come next."""
        self.origins, self.splits = list(origins), self.splits + len(origins)
        if self.splits > MOST_SPLITS:
            raise CheckpointError(
                f"state: a checkpoint must have taken at most {MOST_SPLITS:,} files; it has taken {self.splits:,}; "
                f"start with a new one, or write fewer and larger files"
            )

    def noted(self, arrivals: Iterator[Arrival]) -> Iterator[Arrival]:
        """The same, while they are counted; where there are signals, all keys must hear of them, if they may matter."""
        for arrival in arrivals:
            if self.tides.close(signal for _, signal in arrival.signals):
                for pages in self.pages.values():
                    pages.load_all()
            self._note_times(arrival.rows)
            yield arrival
            self.items += arrival.rows.num_rows

    def _note_times(self, rows: pa.RecordBatch) -> None:
        """Note that the keys of these items are not idle."""
        if self.exchange is None or self.exchange.idle is None or not rows.num_rows:
            return
        times = None if self.exchange.idle.time is None else times_of(rows, self.exchange.idle)
        for pages in self.pages.values():
            if pages.idleness is not None:
                pages.note([rows.column(name) for name in self.exchange.keys], times)

    def label(self, split: int) -> str:
        return str(self.origins[split - self.splits].label)

    # What is remembered

    def resume(self, run: Run) -> None:
        if not self.is_new:
            resume(run, self.frame)
        for group in key_groups(run):
            held = self.sizes.get(f"pages{group.number}", np.array([1, 0, 0])).tolist()
            store = GroupStore(self.store, group.number)
            pages = self.pages[group.key] = Pages(group, store, run.options.hash_seed, *held)
            idle = None if self.exchange is None else self.exchange.idle
            if idle is not None and group.key.before is run.plan.tree.source:
                pages.idleness = Idleness(idle, group, self.times, pages.size)
                pages.idleness.hear(self.newest)
        if any(isinstance(node, n.Emit) for node in run.plan.tree.nodes):
            for pages in self.pages.values():
                pages.load_all()  # all keys must hear of signals that are found within the stage
        self.tides = Tides(run.plan.tree, self.frame_of_tides)
        run.memory.before_keys = self._before_keys

    def _before_keys(self, key: n.KeyBy, columns: Sequence[pa.Array]) -> None:
        if key in self.pages:
            self.pages[key].touch(columns)

    def afterwards(self, run: Run) -> Iterator[tuple[Run, Runner]]:
        for pages in self.pages.values():
            ended = pages.idle()
            slots = np.flatnonzero(ended)
            if len(slots):
                made, scheduler = ending(run, pages.group, slots, self.items)
                yield made, scheduler
                pages.ended = ended

    def keep(self, run: Run) -> Mapping[str, int]:
        frame = frame_of(run) | {"counts": np.array([self.items, self.splits]), "tides": self.tides.first}
        for pages in self.pages.values():
            pages.save()
            frame[f"pages{pages.group.number}"] = np.array([pages.size, pages.count, pages.stored_bytes])
            frame |= {} if pages.idleness is None else dict(pages.idleness.frame())
        made, found = packed(frame), dict(sizes(self.pages.values()))
        self.store.write([(FRAME, made)])
        return found | {"state_bytes": found["state_bytes"] + len(made), "splits": self.splits}
