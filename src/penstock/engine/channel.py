"""A channel: a bounded queue of items and a bounded queue of marks, kept in step by credit.

Two policies, one channel. With *queued* credit (section 3.1 of the paper on regions) a receiver takes items freely
while no mark is queued, because it trusts that what is not in the control queue was not sent. With *balance* credit
(algorithms 1 and 2 of the paper on precise control) it takes nothing without credit, and the sender gives credit with
every mark, and in a message of its own once more than `threshold` items were sent without.

Three ways to carry regions. In `sparse` and `lane` their boundaries are marks; in `sparse` no ensemble crosses a mark,
in `lane` an ensemble holds any number, each at its place. In `dense` every item carries the number of its region, and
the boundaries are found again from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.codegen.outlets import INDEX
from penstock.engine import invariants
from penstock.engine.channel_form import ChannelCounts, ChannelForm, ChannelScratch, Fields
from penstock.engine.clock_progress import ClockProgress
from penstock.engine.columns import arrays_of
from penstock.engine.control import Control
from penstock.engine.ensemble import Ensemble
from penstock.engine.store import Records, Rows, Scalars
from penstock.engine.tags import LINK, TAG, Tags
from penstock.errors import InternalError
from penstock.kernels.credit import CREDIT


class Channel:
    """The edge between two nodes. The sender's kernel writes into the queues, the receiver's reads from them.

    Invariants, which `check` verifies:
    - both queues, and the tables beside them, hold no more than their capacity;
    - a mark comes to the receiver after exactly the items that were sent before it (Lemma 1): what was consumed, the
      receiver's credit, and the credits up to and with that of a mark add up to what was sent before the mark;
    - with credit there is an item to spend it on, so the receiver of a channel that is not empty is never stuck
      (the claims of Lemma 2); with balance credit, what was sent without credit is never beyond the threshold.
    """

    def __init__(self, form: ChannelForm) -> None:
        """Where the context is `auto`, the channel may be given another at any time."""
        self.form, bounds, signals = form, form.bounds, form.bounds.signals
        self.counts, self.progress = ChannelCounts(), ClockProgress(form.clocks)
        self.trusts, self.depth = bounds.threshold is None, len(form.parents)
        is_tagged = bool(form.parents) and form.context in ("dense", "auto")
        tag: Fields = {TAG: pa.int64()} if is_tagged else {}
        link: Fields = {LINK: pa.int64()} if is_tagged else {}
        self.data = Rows({**form.items, **tag}, bounds.items)
        self.control = Control(signals, len(form.clocks))
        # The parent of an open region stays when its mark is gone, hence one more than there can be marks.
        self.parents = [Rows({**fields, **link}, signals + 1) for fields in form.parents]
        self.records = [Records(dtype, signals) for dtype in form.signals]
        self.tags = Tags(self.data, self.parents, self.control, form.protocol) if is_tagged else None
        can_be_other = form.context == "sparse" or (form.parents and form.context != "auto")
        self.context = form.context if can_be_other else "lane"
        self.is_ended = False
        self.current = 0
        """The receiver's credit: how many items it may take before it looks at the next mark."""
        self.since = 0
        """How many items the sender has sent since its last mark; with balance credit, those without credit."""
        self.sent = self.consumed = self.sent_marks = self.consumed_marks = self.dealt_marks = 0
        """How many were sent and consumed; marks that were dealt with are those that were more than mere credit."""
        self.regions, self.opened, self.is_open = [0] * self.depth, [0] * self.depth, [0] * self.depth
        """At each depth: how many regions were sent, how many the receiver has opened, and whether one is open."""
        self.version = 0
        self._grows = any(
            not isinstance(s, Scalars) for rows in (self.data, *self.parents) for s in rows.stores.values()
        )
        self._scratch = ChannelScratch(self.depth, len(self.records))
        self.limit: Callable[[], int] | None = None
        """Remaining downstream capacity in items; None if unbounded (`engine/bounded.py`)."""
        self.needs: list[tuple[Rows | Control, int, int]] = []
        """What a sender needs: a queue or table, how much room in it for one item or mark, and how much to be kept."""

    def twin(self) -> Channel:
        """An empty channel like this one."""
        return Channel(replace(self.form, keeps=False))

    @property
    def spans(self) -> bool:
        """Whether an ensemble may hold items from both sides of a mark."""
        return self.context != "sparse"

    @property
    def is_tagged(self) -> bool:
        return self.context == "dense" and self.tags is not None

    # What the sender does

    def avail(self) -> int:
        """How many items may be sent."""
        return self.data.avail() if self.limit is None else min(self.data.avail(), self.limit())

    def avail_signals(self) -> int:
        """How many marks may be sent: with balance credit, one place is kept for a message of credit."""
        return self.control.avail() - (not self.trusts)

    @property
    def is_full(self) -> bool:
        """Whether the sender cannot fire before something is consumed."""
        return any(queue.avail() < least + kept for queue, least, kept in self.needs)

    def send(self, items: int, marks: int, parents: Sequence[int], signals: Sequence[int]) -> None:
        """Take over what the sender's kernel wrote: up to these places of the queues and tables.

        Marks were written with the place of the item that they stand before; they get their credit here.
        """
        data, control = self.data, self.control
        if self.is_tagged:
            assert self.tags is not None
            marks = self.tags.put(items, marks, self.regions)
        if marks > control.stop:
            # Rule 2: a credit counts the items sent since the mark before. Rule 1: with no mark queued, all that are.
            before = data.stop - self.since
            if self.trusts and control.start == control.stop:
                before = data.start
            if self.form.keeps or self.form.is_checked:
                control.sent_at[control.stop : marks] = control.credits[control.stop : marks] - data.stop + self.sent
            last = int(self.form.protocol.grant(control.credits, control.stop, marks, before))
            self.counts.granted += last - before
            self.since = items - last
            self.sent_marks += marks - control.stop
            control.stop = marks
        else:
            self.since += items - data.stop
        self.sent += items - data.stop
        self.version += self._grows
        data.stop = items
        for depth, rows in enumerate(self.parents):
            self.regions[depth] += parents[depth] - rows.stop
            rows.stop = parents[depth]
        for number, records in enumerate(self.records):
            records.stop = signals[number]
        threshold = self.form.bounds.threshold
        # A table of parents may be full before the queue is, where boundaries travel as tags and bring no credit.
        if threshold is not None and (self.since > threshold or (self.since and self.is_tagged and self.is_full)):
            self._send_credit()
        if items - data.start > self.counts.highest_items:
            self.counts.highest_items = items - data.start
        if control.stop - control.start > self.counts.highest_signals:
            self.counts.highest_signals = control.stop - control.start

    def _send_credit(self) -> None:
        """Give credit for what was sent without: in a message, or with one that is the last in the queue."""
        control = self.control
        if not (control.stop > control.start and control.kinds[control.stop - 1] == CREDIT):
            if control.avail() == 0:
                raise InternalError("a channel has no place for a message of credit")
            if control.stop == len(control.kinds):
                control.make_room()
            control.kinds[control.stop], control.credits[control.stop] = CREDIT, 0
            for keys in control.keys:
                keys[control.stop] = 0
            control.stop += 1
            self.counts.messages += 1
        control.credits[control.stop - 1] += self.since
        control.sent_at[control.stop - 1] = self.sent
        self.counts.granted += self.since
        self.since = 0

    def tell(self, clock: str, place: int) -> None:
        """Say that nothing more will be sent that stands before a place, and give credit for all that was sent."""
        self.progress.told[clock] = place
        self.counts.beats += 1
        if not self.trusts and self.since:
            self._send_credit()

    def end(self) -> None:
        """Nothing more will be sent."""
        if not self.trusts and self.since:
            self._send_credit()
        self.is_ended = True

    # What the receiver does

    @property
    def news(self) -> tuple[int, ...]:
        """What changes when there may be something new to take."""
        return self.sent, self.sent_marks, self.counts.granted, self.is_ended, *self.progress.told.values()

    @property
    def queued(self) -> int:
        return len(self.data)

    @property
    def has_marks(self) -> bool:
        return self.control.stop > self.control.start

    def ready(self) -> int:
        """How many items could be taken in one ensemble, were it wide enough."""
        data = self.data
        granted = data.stop - data.start if self.trusts else data.stop - data.start - self.since
        if self.context != "sparse" or not self.has_marks:
            return granted
        control, found = self.control, self.current
        for at in range(control.start, control.stop):
            found += int(control.credits[at])
            if control.kinds[at] != CREDIT:
                return found
        return granted if self.trusts else found

    def take(self, most: int) -> Ensemble:
        """The next ensemble, of at most `most` items. What is done with it must be told to `consume`."""
        data, control, next_rows = self.data, self.control, self._scratch.rows
        most = min(most, data.stop - data.start)
        for depth, rows in enumerate(self.parents):
            is_open = self.is_open[depth]
            self._scratch.initial[depth] = rows.start if is_open else -1
            next_rows[depth] = rows.start + is_open
        if control.start == control.stop:
            items, marks = most if self.trusts else 0, 0
        else:
            for number, records in enumerate(self.records):
                next_rows[self.depth + number] = records.start
            items, marks = self.form.protocol.arrange(
                control.kinds,
                control.credits,
                control.start,
                control.stop,
                self.current,
                data.start,
                most,
                self.trusts,
                self.spans,
                self.depth,
                next_rows,
                control.places,
                control.references,
            )
        stop, last = data.start + items, control.start + marks
        is_last = self.is_ended and stop == data.stop and last == control.stop
        self._scratch.is_rebuilt = self.is_tagged and items > 0
        if self._scratch.is_rebuilt:
            tags = self.tags
            assert tags is not None
            count = tags.marks(stop, last, self.opened, self.is_open)
            made = (tags.kinds, tags.places, tags.references)
            return Ensemble(self, data.start, stop, 0, count, *made, self._scratch.initial, is_last)
        return Ensemble(
            self,
            data.start,
            stop,
            control.start,
            last,
            control.kinds,
            control.places,
            control.references,
            self._scratch.initial,
            is_last,
        )

    def consume(self, items: int, marks: int) -> int:
        """Forget items and marks at the front: they have been dealt with. How many marks were more than mere credit."""
        control, passed, queued, mere = self.control, self._scratch.passed, marks, 0
        if self.progress.clocks:
            self.progress.consume(self.data, self.control, items, marks)
        if self._scratch.is_rebuilt:
            assert self.tags is not None
            queued = int(self.tags.sent[marks - 1]) if marks else 0
        if control.stop > control.start:
            if marks:
                passed[:] = 0
            credit = self.form.protocol.settle(
                control.kinds,
                control.credits,
                control.start,
                control.stop,
                self.current,
                items,
                queued,
                self.depth,
                passed,
            )
            self.current = int(credit)
            if not self.trusts:
                mere = int(np.sum(control.kinds[control.start : control.start + queued] == CREDIT))
            control.start += queued
            self.consumed_marks += queued
        if self._scratch.is_rebuilt and marks:
            assert self.tags is not None
            passed[:] = 0
            self.form.protocol.tally(self.tags.kinds, marks, self.depth, passed)
        if marks:
            self._pass(passed.tolist())
        self.data.start += items
        self.consumed += items
        self.dealt_marks += marks - mere
        return marks - mere

    def reached(self, clock: str) -> int:
        """How far the receiver has come: it has consumed all that stands before this place, and no more will come."""
        is_through = self.is_all(self.data.start, self.control.start)
        passed = self.progress.passed[clock]
        return max(passed, self.progress.told[clock]) if is_through else passed

    def is_all(self, item: int, mark: int) -> bool:
        """Whether all that the sender has given credit for lies before an item and a mark.

        What it was told then holds for the rest: with word of how far it has come, a sender gives credit for all.
        """
        without = 0 if self.trusts else self.since
        return item + without == self.data.stop and mark == self.control.stop

    def _pass(self, passed: list[int]) -> None:
        """Note regions that were opened and closed, and signals that were handled."""
        opened = len(passed) - self.depth
        for depth, rows in enumerate(self.parents):
            rows.start += passed[depth]
            self.opened[depth] += passed[opened + depth]
            self.is_open[depth] += passed[opened + depth] - passed[depth]
        for number, records in enumerate(self.records):
            records.start += passed[self.depth + number]

    # As a window, and for checks

    def arrays(self, level: int | None, field: str, is_wide: bool) -> list[np.ndarray]:
        rows = self.data if level is None else self.parents[level]
        if is_wide:
            return arrays_of(rows.stores[field].column(rows.stop), is_wide)
        return rows.stores[field].arrays()

    def column(self, level: int | None, field: str) -> pa.Array:
        rows = self.data if level is None else self.parents[level]
        return rows.stores[field].column(rows.stop)

    def fields(self) -> Sequence[str]:
        return list(self.data.stores)

    def mark_places(self) -> list[np.ndarray]:
        return [*self.control.keys, self.control.emitted] if self.progress.clocks else []

    def indices(self) -> np.ndarray:
        if INDEX in self.data.stores:
            return self.data.array_of(INDEX)
        return np.array([self.consumed - self.data.start])

    @property
    def signals(self) -> list[np.ndarray]:
        return [records.array for records in self.records]

    def check(self) -> None:
        """Raise an `InternalError` where an invariant does not hold."""
        invariants.check(self)
