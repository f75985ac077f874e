"""The plan of a batch: what is decided about it from the graph alone, before Spark is asked for anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.graph import nodes as n
from penstock.graph.files.pushdown import bounds_of
from penstock.graph.needs import needs
from penstock.graph.signal_indices import fields_of
from penstock.graph.split import Bound
from penstock.graph.tree import At, Tree
from penstock.plan.beginnings import alignable, begins_with
from penstock.plan.cut import cut
from penstock.plan.stages import Cut
from penstock.spark.dataframe import FrameItems, refuse_unordered


@dataclass(frozen=True)
class BatchPlan:
    """The stages of some results, and what is read of their source. Made once for a job, by `plan_batch`.

    Invariant: `cut`, `columns` and `bounds` are those of `tree`.
    """

    tree: Tree
    control: tuple[At, ...]
    cut: Cut
    columns: frozenset[str]
    """The fields of the source that are used."""
    bounds: tuple[Bound, ...]
    """What items must fulfil to be used, as far as splits may leave others out."""
    regions: n.Regions | None
    """Splits begin where one of these begins."""
    is_guarded: bool
    """Whether items on which a step fails are skipped."""

    @property
    def leaves(self) -> tuple[n.GraphNode, ...]:
        return self.tree.leaves

    @property
    def is_frame(self) -> bool:
        return isinstance(self.tree.source.items, FrameItems)

    @property
    def control_fields(self) -> tuple[str, ...]:
        """The fields by which signals are placed."""
        return fields_of(self.control)


def plan_batch(
    tree: Tree, control: Sequence[At], *, is_ordered: bool, is_collected: bool, is_guarded: bool = False
) -> BatchPlan:
    """Plan some results. What is collected in order is put in order by the driver.

    Requires: `control` is checked against the graph. Raises where a DataFrame has no order and needs one.
    """
    # Where regions begin is looked for in a pass of its own, in which no item may fail.
    regions = None if is_guarded else alignable(tree)
    stages = _cut(tree, control, regions, is_ordered=is_ordered, is_collected=is_collected, is_guarded=is_guarded)
    regions = None if stages.is_whole else regions
    are_all_read = bool(control) or regions is not None or is_guarded
    return BatchPlan(
        tree,
        tuple(control),
        stages,
        frozenset(needs(tree)[tree.source]),
        () if are_all_read else _bounds(tree),
        regions,
        is_guarded,
    )


def _cut(
    tree: Tree,
    control: Sequence[At],
    regions: n.Regions | None,
    *,
    is_ordered: bool,
    is_collected: bool,
    is_guarded: bool,
) -> Cut:
    items = tree.source.items
    is_frame = isinstance(items, FrameItems)
    order = items.order_by if isinstance(items, FrameItems) else ()
    if is_frame:
        aligned = [each for each in tree.nodes if isinstance(each, n.Regions) and order and begins_with(each, order[0])]
    else:
        aligned = [] if regions is None else [regions]
    stages = cut(
        tree.leaves,
        [type(at.signal) for at in control],
        places=is_ordered and is_collected,
        is_ordered=is_ordered and not is_collected,
        aligned=aligned,
        is_gathered_at_source=not is_frame,
        meets_by_place=True,
        is_guarded=is_guarded,
    )
    if is_frame and not order:
        refuse_unordered(tree.source, stages, control, is_ordered)
    return stages


def _bounds(tree: Tree) -> tuple[Bound, ...]:
    """What items must fulfil to pass the first node, where that is a filter of plain columns."""
    following = tree.children[tree.source]
    first = following[0] if len(following) == 1 and tree.source not in tree.leaves else None
    if not isinstance(first, n.Filter) or first.state is not None:
        return ()
    return bounds_of(first.predicate)
