"""How a task with several cores shares out the nodes of its stage: as the graph asks, or by what they cost.

What nodes cost is measured on the first items that arrive. They are kept meanwhile, and run with all others afterwards:
nothing is read twice. A stage that would gain nothing runs on one core, in as few loops as can be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from penstock.engine.intake import Batch
from penstock.engine.node_timing import BLOCK, measure_nodes
from penstock.errors import PenstockError
from penstock.graph import nodes as n
from penstock.graph.tree import Places, Tree
from penstock.plan.balance import LEAST_GAIN, PASSING_S, CoreChoice, choose, loops_of
from penstock.plan.node_profile import Profile
from penstock.plan.passes.assign_cores import within
from penstock.plan.segment import inside

ENOUGH_ITEMS, ENOUGH_BYTES = 1 << 18, 1 << 24
"""A task measures only where so much arrives and is not all: the loops that are measured must be compiled first."""
FEW, MOST, MEASURED_S = 64, 1 << 14, 0.1
"""How many items are measured: a few at first, and then as many as take so long, within a bound."""


@dataclass(frozen=True)
class CoreShare:
    """What a stage runs on: all that arrives, where its nodes ask to be, and the options that belong to that."""

    batches: Iterator[Batch]
    places: Places | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def share_cores(
    leaves: tuple[n.GraphNode, ...],
    batches: Iterator[Batch],
    cores: int,
    options: Mapping[str, Any],
    *,
    is_asked: bool = False,
) -> CoreShare:
    """Share out the nodes of a stage over the cores of a task. With `is_asked` however few items arrive."""
    if cores == 1:
        return CoreShare(batches)
    wished = within(leaves, cores)
    if wished.cores or wished.copies:
        return CoreShare(batches, wished, {"cores": cores})
    if not is_asked and not _may_gain(leaves, options):
        return CoreShare(batches)
    head = Head(batches, 1 if is_asked else ENOUGH_ITEMS)
    if not (head.kept if is_asked else head.has_more):
        return CoreShare(head.all())
    try:
        found = gainful(leaves, tuple(head.kept), cores, options)
    except PenstockError:
        found = None  # the run itself meets it, and tells where
    if found is None:
        return CoreShare(head.all())
    return CoreShare(head.all(), None, {"cores": cores, "mapping": found, "flexible": "auto"})


def _may_gain(leaves: tuple[n.GraphNode, ...], options: Mapping[str, Any]) -> bool:
    """Whether there is something to share out, and it is compiled: else Python lets one thread go on at a time."""
    nodes = [node for node in Tree(leaves).nodes if not isinstance(node, (n.Source, *n.STAGE_KINDS))]
    if not options.get("compile", True) or any(f.reason is not None for node in nodes for f in node.functions):
        return False
    return len(nodes) > 1 or any(n.can_have_copies(node) for node in nodes)


class Head:
    """The first batches of what arrives, kept to be looked at, before all of it is run.

    An error on the way is kept too, and raised at its place: what lies before it comes first.
    """

    def __init__(self, batches: Iterator[Batch], items: int) -> None:
        self.kept: deque[Batch] = deque()
        self.rest, self.error = batches, None
        self.has_more, size = False, 0
        try:
            for batch in batches:
                self.kept.append(batch)
                items, size = items - batch.rows.num_rows, size + batch.rows.nbytes
                if items <= 0 or size >= ENOUGH_BYTES:
                    self.has_more = not batch.is_last
                    break
        except Exception as error:
            self.error = error

    def all(self) -> Iterator[Batch]:
        """All that arrives; what was kept is let go as it is taken."""
        while self.kept:
            yield self.kept.popleft()
        if self.error is not None:
            raise self.error
        yield from self.rest


def gainful(
    leaves: tuple[n.GraphNode, ...], kept: Sequence[Batch], cores: int, options: Mapping[str, Any]
) -> Profile | None:
    """What the nodes cost on the first items, to be shared out by that; None where one core is as fast."""

    def costs(count: int, *, fuse: bool = False) -> Profile:
        given = {"compile": options.get("compile", True), "width": options.get("width") or BLOCK, "fuse": fuse}
        return measure_nodes(leaves, lambda: first_of(kept, count), count, **given)

    each = _seconds(costs(FEW)) / FEW
    count = min(MOST, max(FEW, round(MEASURED_S / each))) if each else MOST
    profile, alone = costs(count), costs(count, fuse=True)
    choice = choose(loops_of(leaves), profile, cores)
    if _seconds(alone) < LEAST_GAIN * (choice.shared_s + _crossing_s(leaves, profile, choice)):
        return None
    return profile


def _seconds(profile: Profile) -> float:
    return sum(node.seconds for node in profile.nodes)


def _crossing_s(leaves: tuple[n.GraphNode, ...], profile: Profile, choice: CoreChoice) -> float:
    """What it costs that items pass from core to core where no node is flexible; where one is, that is counted."""
    if choice.flexible is not None:
        return 0.0
    loops = loops_of(leaves)
    homes = {loop: choice.cores[inside(loop)[0]] for loop in loops}
    crossing = [
        node.items
        for loop, node in zip(loops, profile.nodes, strict=True)
        if loop.feeder is not None and homes[loop.feeder] != homes[loop]
    ]
    return PASSING_S * sum(crossing)


def first_of(kept: Sequence[Batch], count: int) -> Iterator[Batch]:
    """The first items of some batches, as if there were no others."""
    taken: list[Batch] = []
    for batch in kept:
        taken.append(_cut(batch, count))
        count -= batch.rows.num_rows
        if count <= 0:
            break
    return chain(taken[:-1], (replace(batch, is_last=True) for batch in taken[-1:]))


def _cut(batch: Batch, count: int) -> Batch:
    """The first items of a batch, with the signals among them."""
    if batch.rows.num_rows <= count:
        return batch
    control = tuple(given for given in batch.control if given.index < batch.base + count)
    places = None if batch.places is None else batch.places[:count]
    end = batch.end if places is None else int(places[-1]) + 1
    return replace(batch, rows=batch.rows.slice(0, count), control=control, places=places, end=end)
