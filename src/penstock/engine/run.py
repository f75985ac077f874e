"""Run a graph: plan it, feed the source through its loops, gather the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.engine.ensemble import Ensemble
from penstock.engine.intake import batches, ensemble_of
from penstock.engine.loop import Memory, RunningLoop
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.columns import call_on_columns, check_row_by_row
from penstock.graph.reference import Result
from penstock.graph.tree import At, Delivery, Tree, check_signals, never_reached
from penstock.plan.fuse import Segment
from penstock.plan.plan import Plan, plan

BATCH_ITEMS = 1 << 20
"""How many items of the source are taken at a time."""


class Run:
    """One run of some results of a graph. It can be run once."""

    def __init__(
        self,
        leaves: tuple[n.GraphNode, ...],
        control: Sequence[At] = (),
        *,
        compile: bool = True,
        batch_items: int | None = None,
    ) -> None:
        if batch_items is not None and (not isinstance(batch_items, int) or not 1 <= batch_items < 2**63):
            raise GraphError(f"run: batch_items must be a whole number of at least 1; got {batch_items!r}")
        self.tree = Tree(leaves)
        self.control = check_signals(self.tree, control)
        self.compile = compile
        self.batch_items = batch_items or BATCH_ITEMS
        self.deliveries: list[Delivery] = []

    def tables(self) -> tuple[pa.Table, ...]:
        """All results, whole."""
        return self._gathered(plan(self.tree))

    def result(self) -> Result:
        """All results, and every signal with the place where it was handed to a node."""
        tables = self._gathered(plan(self.tree, trace=True))
        return Result(tables, tuple(self.deliveries))

    def _gathered(self, planned: Plan) -> tuple[pa.Table, ...]:
        found: list[list[pa.RecordBatch]] = [[] for _ in self.tree.leaves]
        for made in self._batches(planned):
            for gathered, batch in zip(found, made, strict=True):
                gathered.append(batch)
        return tuple(
            pa.Table.from_batches(batches, _schema(leaf)) for leaf, batches in zip(self.tree.leaves, found, strict=True)
        )

    def batches(self) -> Iterator[tuple[pa.RecordBatch, ...]]:
        """The results as they come: each time a batch for every result."""
        return self._batches(plan(self.tree))

    def _batches(self, planned: Plan) -> Iterator[tuple[pa.RecordBatch, ...]]:
        memory = Memory()
        self.loops = {
            segment: RunningLoop(planned.codes[segment], memory, planned.signals, compile=self.compile)
            for segment in planned.segments
        }
        self.planned = planned
        self.fed: set[Segment] = set()
        for batch in batches(self.tree.source, self.control, self.batch_items):
            ensembles: dict[n.GraphNode, Ensemble] = {}
            for segment in planned.fed_by(None):
                if segment.edge not in ensembles:
                    needed = planned.needed_at(segment.edge)
                    ensembles[segment.edge] = ensemble_of(segment.edge, batch, planned.signals, needed)
                yield from self._feed(segment, ensembles[segment.edge])
            if not batch.is_last and batch.control and batch.control[-1].index > batch.base + batch.rows.num_rows:
                raise never_reached(batch.control[-1], batch.base + batch.rows.num_rows)

    def _feed(self, segment: Segment, ensemble: Ensemble) -> Iterator[tuple[pa.RecordBatch, ...]]:
        """Run a segment over an ensemble, and at once the segments that its cuts feed, so that order is kept."""
        if isinstance(segment.entry, n.MapColumns) and segment.entry is not segment.edge:
            ensemble = _with_columns(segment.entry, ensemble)
        for output in self.loops[segment].feed(ensemble):
            self.deliveries += output.deliveries
            if output.batches:
                found = dict(output.batches)
                yield tuple(found[leaf] if leaf in found else _nothing(leaf) for leaf in self.tree.leaves)
            for node, made in output.ensembles:
                for fed in self.planned.fed_by(segment, node):
                    made.is_first = fed not in self.fed
                    self.fed.add(fed)
                    yield from self._feed(fed, made)


def _schema(leaf: n.GraphNode) -> pa.Schema:
    return pa.schema(list(leaf.shape.fields.items()))


def _nothing(leaf: n.GraphNode) -> pa.RecordBatch:
    schema = _schema(leaf)
    return pa.RecordBatch.from_arrays([pa.array([], t) for t in schema.types], schema=schema)


def _with_columns(node: n.MapColumns, ensemble: Ensemble) -> Ensemble:
    """The ensemble with the columns that a function over whole columns makes."""
    columns = []
    for name in node.names:
        if name in ensemble.columns:
            columns.append(ensemble.columns[name])
        else:
            depth = next(d for d, region in enumerate(node.given.regions) if name in region.fields)
            columns.append(ensemble.parents[depth][name].take(pa.array(ensemble.parent_rows(depth))))
    if ensemble.count == 0:  # no rows, no call: a function may not be made for it
        made = {name: pa.array([], t) for name, t in node.types.items()}
    else:
        made = call_on_columns(node, columns, ensemble.count)
        check_row_by_row(node, columns, made, ensemble.count)
    return Ensemble(**{**vars(ensemble), "columns": ensemble.columns | made})
