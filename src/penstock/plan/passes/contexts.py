"""How regions travel on a channel: the choice between `sparse`, `dense` and `lane`, by a model of what each costs.

What counts is the number of items in a region at that channel, as measured, and the width of ensembles:

- in `sparse` no ensemble crosses a boundary, so a region costs a firing for every `width` items, and at least one;
- in `dense` ensembles are full, but every item carries a tag, which is written, read and compared;
- in `lane` ensembles are full and nothing is added to the items.

In all three a region costs the marks of its opening and closing. The constants are measured on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.placement import step_of
from penstock.plan.plan import ChannelPlan, Decision, Plan
from penstock.plan.segment import fed_segments

CONTEXTS = ("lane", "sparse", "dense")
"""In the order in which equals are preferred."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What things cost, in seconds: a firing, an item through a channel, a region's two marks, and a tag."""

    firing_s: float
    item_s: float
    region_s: float
    tag_s: float


INTERPRETED = Costs(firing_s=150e-6, item_s=3e-6, region_s=6e-6, tag_s=2e-6)
"""For loops that run as plain Python. These take so long that it is no use to measure them."""


@dataclass(frozen=True, slots=True)
class ContextChoice:
    """What was chosen for a channel, from how many items in a region, and what an item would cost in each context."""

    context: str
    region_items: float
    width: int
    item_s: dict[str, float]

    @property
    def reason(self) -> str:
        each = ", ".join(f"{name} {_time(self.item_s[name])}" for name in CONTEXTS)
        return f"regions of {self.region_items:,.1f} items in ensembles of up to {self.width:,}; an item costs {each}"


def item_s(context: str, region_items: float, width: int, costs: Costs) -> float:
    """What an item costs on a channel whose regions have so many items on average."""
    region_items = max(region_items, 1 / width)
    spent = costs.item_s + costs.region_s / region_items
    if context == "sparse":
        return spent + costs.firing_s * max(ceil(region_items / width), 1) / region_items
    return spent + costs.firing_s / width + (costs.tag_s if context == "dense" else 0.0)


def choose(region_items: float, width: int, costs: Costs) -> ContextChoice:
    """The context in which an item costs least."""
    predicted = {context: item_s(context, region_items, width, costs) for context in CONTEXTS}
    return ContextChoice(min(CONTEXTS, key=lambda context: predicted[context]), region_items, width, predicted)


def contexts(plan: Plan) -> Plan:
    """Choose how regions travel on each channel.

    Requires channels.
    Ensures a context for each, with its reason: as asked for where that is possible, "auto" where the run is to choose;
    and whether a loop that reads the source may take items from both sides of a signal.
    """
    asked = _asked(plan)
    channels = {
        fed: replace(each, context=_decide(plan, each, asked[each.sink.node])) for fed, each in plan.channels.items()
    }
    loops = {
        segment: replace(loop, spans=segment.feeder is not None or asked[segment.edge] != "sparse")
        for segment, loop in plan.loops.items()
    }
    return replace(plan, channels=channels, loops=loops)


def _asked(plan: Plan) -> dict[n.GraphNode, str]:
    """The context that was asked for on the channels behind each node; "auto" where none was."""
    given = plan.request.context
    edges = {segment.edge for segment in (*plan.segments, *fed_segments(plan.segments))}
    if isinstance(given, str):
        return dict.fromkeys(edges, given)
    found = dict.fromkeys(edges, "auto")
    for stream, context in given.items():
        named = isinstance(stream, str)
        node = step_of("context", stream, plan.tree.nodes) if named else getattr(stream, "node", None)
        if not isinstance(node, n.GraphNode):
            raise GraphError(f"run: context= takes a dict from streams to contexts; got the key {stream!r}")
        if node not in edges:
            fused = " run with fuse=False to have one on every edge" if plan.request.fuse else " is it a result?"
            raise GraphError(f"run: context= names {node.label}, which no channel of this run leaves;{fused}")
        found[node] = context
    return found


def _decide(plan: Plan, channel: ChannelPlan, wanted: str) -> Decision[str]:
    sink = channel.sink
    return decide(wanted, has_regions=bool(sink.parents), has_places=bool(sink.clocks), cores=plan.request.cores)


def decide(wanted: str, *, has_regions: bool, has_places: bool, cores: int) -> Decision[str]:
    """The context of a channel, from what was asked for.

    Where marks have places of their own, because streams meet by them, or may pass to another core, regions travel by
    their marks. Then `dense` is not possible, and there is nothing to choose.
    """
    if not has_regions:
        return Decision("sparse" if wanted == "sparse" else "lane", "no region is open here")
    if wanted not in ("auto", "dense") or not (has_places or cores > 1):
        return Decision(wanted, "auto" if wanted == "auto" else "asked for")
    reason = "streams meet by their marks" if has_places else "on several cores regions travel by their marks"
    return Decision(
        "lane", f"{reason}, so that dense, which was asked for, is not possible" if wanted == "dense" else reason
    )


def _time(seconds: float) -> str:
    return f"{1e9 * seconds:,.1f} ns" if seconds < 1e-6 else f"{1e6 * seconds:,.1f} µs"
