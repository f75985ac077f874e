"""Run a graph: plan it, have its running parts made, fire them, and gather the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

from penstock.codegen.generate import PASSES
from penstock.engine.build import Parts, Runner, build
from penstock.engine.enough import has_enough, items_at_a_time, may_end_early
from penstock.engine.intake import Batch, Feeder, Skipped, batches
from penstock.engine.loop import Memory
from penstock.engine.options import Options
from penstock.engine.remember import remembering
from penstock.engine.statistics import RunTrace, Statistics
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.letters import first_of_each, table_of
from penstock.graph.prepared_run import PreparedRun
from penstock.graph.reference import Result
from penstock.graph.signal_indices import resolve_indices
from penstock.graph.tree import At, Places, check_signals
from penstock.graph.watermarks import translate_option, warn_late, with_watermarks
from penstock.plan.balance import BLOCK
from penstock.plan.make import plan
from penstock.plan.node_profile import Profile
from penstock.plan.request import Measured, PlanRequest

SAMPLE, SAMPLE_BYTES = 1 << 14, 1 << 24
"""How many items, or bytes of them, are measured where the run is to choose which node is flexible."""


class Run(PreparedRun):
    """One run of some results of a graph, with its options. It can be run once.

    `plan` is what was decided before, `parts` what runs, `memory` what the loops remember, and `trace` what is noted.
    """

    def __init__(
        self,
        leaves: tuple[n.GraphNode, ...],
        control: Sequence[At] = (),
        *,
        batches_in: Iterator[Batch] | None = None,
        is_open: bool = False,
        places: Places | None = None,
        slots: Sequence[int] | None = None,
        letters_to: Callable[[pa.Table], None] | None = None,
        **options: Any,
    ) -> None:
        """With `is_open` the batches need not end the stream: what the run remembers then is in `kept`.

        `places`, where given, stand for what the graph has of cores and copies. `slots` are the numbers
        under which is kept what nodes remember, in their order; by default from 0 on. `letters_to` takes the letters of
        all items that were skipped, when the run has ended.
        """
        leaves, made = with_watermarks(leaves)
        options |= {
            name: translate_option(options[name], made)
            for name in ("mapping", "flexible", "context")
            if name in options
        }
        self.options = Options.of(options)
        if self.options.cores > 1 and is_open:
            raise GraphError("run: a running stream has one core for each task; leave out cores=")
        if places is not None and made:
            places = Places(*({made[node]: at for node, at in each.items()} for each in (places.cores, places.copies)))
        self.plan = plan(leaves, request_of(leaves, self.options, places), PASSES)
        nodes = remembering(self.plan.tree)
        self.slots = dict(zip(nodes, range(len(nodes)) if slots is None else slots, strict=True))
        self.control = check_signals(self.plan.tree, control)
        self.batches_in, self.is_open, self.letters_to = batches_in, is_open, letters_to
        self.memory, self.trace = Memory(self.options.hash_seed), RunTrace()
        self.parts, self.has_begun = Parts(), False

    @property
    def seconds(self) -> float:
        """How long it took, once it is through."""
        return self.trace.seconds

    # Results

    @property
    def results(self) -> tuple[n.GraphNode, ...]:
        return self.plan.tree.leaves

    @property
    def has_started(self) -> bool:
        return self.has_begun

    def tables(self) -> tuple[pa.Table, ...]:
        """All results, whole."""
        found: list[list[pa.RecordBatch]] = [[] for _ in self.plan.tree.leaves]
        for made in self.batches():
            for gathered, batch in zip(found, made, strict=True):
                gathered.append(batch)
        self.warn_late()
        by_leaf = zip(self.plan.tree.leaves, found, strict=True)
        return tuple(pa.Table.from_batches(batches, _schema(leaf)) for leaf, batches in by_leaf)

    def warn_late(self) -> None:
        """Warn of items that came too late, unless they are a result."""
        from penstock.engine.account import late_items

        warn_late(self.plan.tree, late_items(self))

    def result(self) -> Result:
        """All results and, with `trace=True`, every signal with the place where it was handed to a node."""
        tables = self.tables()
        return Result(tables, tuple(self.trace.deliveries), tuple(first_of_each(self.memory.letters)))

    def batches(self) -> Iterator[tuple[pa.RecordBatch, ...]]:
        """The results as they come: each time a batch for every result."""
        scheduler = self.scheduler()
        started = self.options.clock()
        for _, output in scheduler.run():
            if output.deliveries:
                self.trace.deliveries += output.deliveries
            if output.batches:
                for found in _in_turn(output.batches):
                    yield tuple(found[leaf] if leaf in found else _nothing(leaf) for leaf in self.plan.tree.leaves)
        self.trace.seconds = self.options.clock() - started
        if self.letters_to is not None:
            self.letters_to(self.dead_letters())

    @property
    def skipped(self) -> int:
        """How many letters there are so far."""
        return len(first_of_each(self.memory.letters))

    def dead_letters(self) -> pa.Table:
        """The items that were skipped with `on_error="skip"`, so far: one row for each, in the order of the source.

        >>> import penstock as ps
        >>> run = ps.from_items([{"v": v} for v in (2, 0, 4)]).map(w=lambda v: 8 // v).prepare(on_error="skip")
        >>> run.collect()["w"].to_pylist()
        [4, 2]
        >>> run.dead_letters().select(["index", "node", "message", "fields"]).to_pylist()
        [{'index': 1, 'node': "map 'w'", 'message': 'ZeroDivisionError: ...', 'fields': '{"v": 0}'}]
        """
        return table_of(first_of_each(self.memory.letters))

    def steps(self) -> Iterator[str]:
        """Fire one node at a time, to look at the channels in between with `show`; each time the node's name.

        >>> import penstock as ps
        >>> numbers = ps.from_items([{"v": v} for v in range(5)]).filter(lambda v: v > 1).map(w=lambda v: -v)
        >>> run = numbers.prepare(fuse=False, width=4, compile=False)
        >>> next(run.steps())
        'filter'
        >>> print(run.show())
        filter → map 'w'
          items   2 of 256  2 3
          marks   0 of 256
          credit  0
        """
        for node, output in self.scheduler().run():
            self.trace.deliveries += output.deliveries
            yield node.name

    def show(self) -> str:
        """What lies in the channels: items, marks with the credit that each carries, and the receiver's credit."""
        from penstock.engine.account import show_channels

        return show_channels(self)

    # The running parts

    def scheduler(self) -> Runner:
        """All nodes with their channels, ready to be fired. For a run, once."""
        if self.has_begun:
            raise GraphError("run: a run can be run once; prepare another")
        self.has_begun, tree = True, self.plan.tree
        skipped = Skipped(self.memory.letters, tree.number) if tree.is_guarded else None
        given = self.batches_in or self._batches()
        ends_early = not self.is_open and may_end_early(tree, has_signals=bool(self.plan.signals))
        enough = has_enough(tree, self.memory) if ends_early else None
        feeder = Feeder(given, self.plan.signals, is_open=self.is_open, skipped=skipped, has_enough=enough)
        self.parts, runner = build(self.plan, self.options, self.memory, self.trace, feeder, is_open=self.is_open)
        return runner

    def _batches(self) -> Iterator[Batch]:
        """What the source gives, with the signals from outside at their places."""
        planned, source = self.plan, self.plan.tree.source
        most = items_at_a_time(planned.tree, planned.sizes.source_items)
        given = (source, resolve_indices(self.control, source), most, planned.columns)
        return batches(*given, is_tolerant=planned.tree.is_guarded)

    # What was planned, and seen

    def explain(self) -> str:
        """The graph and its plan as text: loops and channels, with what was chosen for each so far, and why.

        >>> import penstock as ps
        >>> blobs = ps.from_items([{"values": [1, 2]}], name="blobs")
        >>> run = blobs.enumerate("values", as_="v").aggregate(total=ps.sum("v")).prepare(fuse=False, capacity=8)
        >>> print(run.explain().splitlines()[-3])
        channel loop 1 → loop 2: holds 8 items, 131,072 signals and boundaries; one item sends at most 1 and 1
        """
        from penstock.engine.account import explain_run

        return explain_run(self)

    def statistics(self) -> Statistics:
        """What was counted, so far."""
        from penstock.engine.account import statistics

        return statistics(self)


def request_of(leaves: tuple[n.GraphNode, ...], options: Options, places: Places | None = None) -> PlanRequest:
    """What options ask of a plan. Nodes are measured here, where that is to choose which of them is flexible."""
    named = {each.name for each in fields(PlanRequest)}
    given = {name: value for name, value in vars(options).items() if name in named}
    mapping, profile, measured = options.mapping, None, None
    if isinstance(mapping, Statistics):
        nodes = mapping.nodes
        mapping, measured = None, Measured(tuple(each.name for each in nodes), tuple(each.seconds for each in nodes))
    elif isinstance(mapping, Profile):
        mapping, profile = None, mapping
    if options.flexible == "auto" and options.cores > 1 and profile is None:
        from penstock.engine.node_timing import measure_sample

        how = {"compile": options.compile, "on_error": options.on_error}
        profile = measure_sample(leaves, SAMPLE, options.width or BLOCK, SAMPLE_BYTES, **how)
    is_guarded = options.on_error == "skip"
    given |= {"mapping": mapping, "profile": profile, "measured": measured, "places": places}
    return PlanRequest(**given, is_guarded=is_guarded)


def _in_turn(
    batches: list[tuple[n.GraphNode, pa.RecordBatch]],
) -> Iterator[dict[n.GraphNode, pa.RecordBatch]]:
    """Groups with at most one batch of each result, in order."""
    found: dict[n.GraphNode, pa.RecordBatch] = {}
    for leaf, batch in batches:
        if leaf in found:
            yield found
            found = {}
        found[leaf] = batch
    yield found


def _schema(leaf: n.GraphNode) -> pa.Schema:
    return pa.schema(list(leaf.shape.fields.items()))


def _nothing(leaf: n.GraphNode) -> pa.RecordBatch:
    schema = _schema(leaf)
    return pa.RecordBatch.from_arrays([pa.array([], t) for t in schema.types], schema=schema)
