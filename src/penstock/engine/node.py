"""A running node: a loop, where it takes its ensembles from, and the channels that it writes to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.codegen.outlets import INDEX
from penstock.engine.actor import Actor
from penstock.engine.channel import Channel
from penstock.engine.ensemble import Ensemble, Table
from penstock.engine.failure import explained, in_copy
from penstock.engine.intake import Reader
from penstock.engine.loop import FiringOutput, RunningLoop
from penstock.engine.sinks import ChannelSink
from penstock.engine.statistics import Firing, bin_name
from penstock.errors import PenstockError, cause_of
from penstock.graph import nodes as n
from penstock.graph.column_function import call_on_columns, check_row_by_row
from penstock.plan.segment import Segment

FEW = 4
"""So many firings of a reader take fewer items than the rest."""


class RunningNode(Actor):
    """One segment at work.

    Invariant: whatever `take` gave and a firing did not finish is still in the input. A node has finished when it has
    consumed the end of its input and has said so to all its channels.
    """

    def __init__(
        self,
        segment: Segment,
        loop: RunningLoop,
        source: Channel | Reader,
        width: int,
        clock: Callable[[], float],
        trace: list[Firing] | None,
    ) -> None:
        super().__init__(segment, segment.name, width, clock, trace)
        self.loop, self.input = loop, source
        loop.clock = clock
        self.sinks: list[ChannelSink] = loop.channels
        self.makes_columns = isinstance(segment.entry, n.MapColumns) and segment.entry is not segment.edge
        self.reads_source = isinstance(source, Reader)
        self.copy = 0
        """Which copy of a flexible node this is; none, or the node's own loop, is 0."""

    # When it may fire

    @property
    def has_work(self) -> bool:  # type: ignore[override]
        """Whether there is an item that it may take, a mark, or the end."""
        source = self.input
        if self.is_finished or self.is_held:
            return False
        return source.ready() > 0 or source.has_marks or source.is_ended

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        """Whether the most that can come of one item or mark fits into every channel."""
        return not any(sink.channel.is_full for sink in self.sinks)

    @property
    def is_ready(self) -> bool:
        """Whether it should fire: on a full ensemble, or on part of one where something forces it.

        That is a signal that no ensemble may cross, the end, or a full queue. What comes of it should fit.
        """
        if self.is_finished or self.is_held:
            return False
        source, items = self.input, self.input.ready()
        if items < self.width:
            forced = source.is_ended or source.is_full or (source.has_marks and not source.spans)
            forced = forced or (source.has_marks and self.segment.copies > 0)  # that may be where its run ends
            if not forced or not (items or source.has_marks or source.is_ended):
                return False
        wanted = min(items, self.width)
        for sink in self.sinks:
            for queue, least, kept in sink.channel.needs:
                room = queue.start + queue.capacity - queue.stop
                if room < least + kept or room < min(wanted * least + kept, queue.capacity):
                    return False
        return True

    # A firing

    def fire(self) -> FiringOutput:
        """Consume what can be consumed of one ensemble: items in the data phase, marks where they stand."""
        started, output = self.clock(), FiringOutput()
        if not (self.has_work and self.has_room):
            self.tell()
            return output
        spent, ensemble = self.loop.kernel_s, self.input.take(self._most())
        given, row, mark, is_all = self._run(ensemble, output)
        items = row - given.start
        marks = self.input.consume(items, mark - given.first_mark)
        if is_all and ensemble.is_last:
            self.is_finished = True
            for sink in self.sinks:
                sink.channel.end()
        self.tell()
        self.count(started, items, items == self.width, marks, output.rows, self.loop.kernel_s - spent)
        return output

    def _most(self) -> int:
        """How many items it takes: of the source few at first where other cores wait for them, then twice as many."""
        before = FEW - self.counter.firings
        is_early = self.is_gentle and self.reads_source and before > 0
        return max(1, self.width >> before) if is_early else self.width

    def _run(self, ensemble: Ensemble, output: FiringOutput) -> tuple[Ensemble, int, int, bool]:
        """The ensemble as the loop had it, and how far the loop has come; an error names the copy that had the item."""
        try:
            given = self._with_columns(ensemble) if self.makes_columns else ensemble
            try:
                return given, *self.loop.run(given, output)
            except Exception as error:
                raise explained(self.loop, error, given) from cause_of(error)
        except PenstockError as error:
            if self.copy:
                in_copy(error, self.name)
            raise

    def outputs_per_input(self) -> dict[str, int]:
        """The items that entered by how many left for each, where this node is one node of the graph."""
        only, counter = self.segment.only, self.counter
        if only is None:
            return {}
        if self.loop.code.counts_outputs:
            found = {bin_name(digits): int(items) for digits, items in enumerate(self.loop.outputs)}
        elif isinstance(only, n.Filter) or self.segment.is_guarded:
            found = {"0": counter.items - counter.outputs, "1": counter.outputs}
        else:
            found = {"0" if isinstance(only, n.Aggregate) else "1": counter.items}
        return {name: items for name, items in found.items() if items}

    def _with_columns(self, ensemble: Ensemble) -> Ensemble:
        """The ensemble with the columns that the function over whole columns makes that this node begins with."""
        entry, started = self.segment.entry, self.clock()
        assert isinstance(entry, n.MapColumns)
        window, start, count = ensemble.window, ensemble.start, ensemble.stop - ensemble.start
        taken = []
        for name in entry.names:
            if name in entry.given.fields:
                taken.append(window.column(None, name).slice(start, count))
            else:
                depth = next(d for d, region in enumerate(entry.given.regions) if name in region.fields)
                taken.append(window.column(depth, name).take(pa.array(ensemble.parent_rows(depth))))
        if count == 0:  # no rows, no call: a function may not be made for it
            made = {name: pa.array([], t) for name, t in entry.types.items()}
        else:
            made = call_on_columns(entry, taken, count)
            check_row_by_row(entry, taken, made, count)
        self.loop.kernel_s += self.clock() - started
        return _at_hand(self.loop, ensemble, made)


def _at_hand(loop: RunningLoop, ensemble: Ensemble, made: dict[str, pa.Array]) -> Ensemble:
    """The ensemble with all that its loop reads as columns of their own, and some more."""
    window, start, stop = ensemble.window, ensemble.start, ensemble.stop
    columns: dict[str, pa.Array] = dict(made)
    parents: list[dict[str, pa.Array]] = [{} for _ in ensemble.initial]
    for name in window.fields():
        if name not in columns:
            columns[name] = window.column(None, name).slice(start, stop - start)
    for given in loop.code.inputs:
        if given.level is not None:
            parents[given.level][given.field] = window.column(given.level, given.field)
    if loop.index_level is None:
        index = window.indices()
        index = index + start if loop.is_contiguous else index[start : stop + 1]
    else:
        index = np.empty(0, np.int64)
        parents[loop.index_level][INDEX] = window.column(loop.index_level, INDEX)
    table = Table(columns, parents, window.signals, index, window.mark_places())
    return Ensemble(
        table,
        0,
        stop - start,
        ensemble.first_mark,
        ensemble.last_mark,
        ensemble.kinds,
        ensemble.places - start,
        ensemble.references,
        ensemble.initial,
        ensemble.is_last,
    )
