"""On which core each loop and each copy runs, and which channels lead from one core to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.plan.balance import pieces
from penstock.plan.plan import Decision, Plan
from penstock.plan.segment import Segment, fed_segments, inside
from penstock.text import distinct


def crossings(plan: Plan) -> Plan:
    """Place loops and copies on cores.

    Requires loops with their nodes on cores, as far as some are asked for, and how flexible joins are shared out.
    Ensures that every loop has a core and every copy another one, and every channel the cores of both its ends: before
    copies it is read where their feeder is, and behind them written where what they give is put in order.
    """
    cores = _cores(plan)
    plan = replace(plan, loops={each: replace(loop, core=cores[each]) for each, loop in plan.loops.items()})
    loops = {each: replace(loop, copies=_cores_of_copies(plan, each)) for each, loop in plan.loops.items()}
    channels = {
        fed: replace(channel, sender_core=sender_core(plan, fed), receiver_core=receiver_core(plan, fed))
        for fed, channel in plan.channels.items()
    }
    return replace(plan, loops=loops, channels=channels)


def sender_core(plan: Plan, fed: Segment) -> int:
    """Where a channel is written: downstream of copies, where what they give is put in order."""
    assert fed.feeder is not None
    return receiver_core(plan, fed) if fed.feeder.copies else plan.loops[fed.feeder].core.value


def receiver_core(plan: Plan, fed: Segment) -> int:
    """Where a channel is read: upstream of copies, where their feeder is.

    Of a join whose sides are shared out together, it is that of the first side.
    """
    taker = plan.receiver(fed)
    if not taker.copies:
        return plan.loops[taker].core.value
    fed = taker.sides[0] if taker in plan.sharings and plan.sharings[taker].is_central else fed
    assert fed.feeder is not None
    return plan.loops[fed.feeder].core.value


def _cores(plan: Plan) -> dict[Segment, Decision[int]]:
    """The core of each loop, and why."""
    asked, segments = plan.request, plan.segments
    if asked.cores == 1:
        return dict.fromkeys(segments, Decision(0, "there is one core"))
    if asked.measured is None:
        return cores_of_loops(segments, asked.cores, plan.tree.places.cores)
    names = list(asked.measured.names)
    if names != distinct(segment.name for segment in segments):
        raise GraphError(
            f"run: mapping= must be the statistics of a run of the same graph; got those of {', '.join(names)}"
        )
    return cores_of_loops(segments, asked.cores, {}, asked.measured.seconds)


def cores_of_loops(
    segments: Sequence[Segment], cores: int, asked: Mapping[n.GraphNode, int], costs: Sequence[float] | None = None
) -> dict[Segment, Decision[int]]:
    """The core of each loop: that of its nodes, and else that of the loop before it.

    Where nothing is asked for, cores have pieces of loops that follow each other, of about one cost. What reads the
    source stays together.
    """
    found: dict[Segment, Decision[int]] = {}
    if not asked:
        shares = pieces(segments, cores, costs or [1.0] * len(segments))
        reason = "loops that follow each other are shared out evenly" + (", by what they took" if costs else "")
        found = {segment: Decision(core, reason) for segment, core in shares.items()}
    for segment in segments if asked else ():
        own = next((asked[node] for node in inside(segment) if node in asked), None)
        before = segment.sides[0].feeder if segment.sides else segment.feeder
        if own is not None:
            found[segment] = Decision(own, "its nodes are placed there")
        else:
            found[segment] = Decision(0 if before is None else found[before].value, "that of the loop before")
    readers = [segment for segment in segments if segment.feeder is None and not segment.sides]
    for segment in readers[1:]:
        found[segment] = Decision(found[readers[0]].value, "what reads the source stays together")
    return found


def _cores_of_copies(plan: Plan, segment: Segment) -> tuple[int, ...]:
    """The cores of the copies of a loop: where it is fed, then where it feeds others, and then any.

    The copies of a join with functions go with those of the loop that calls these.
    """
    if not segment.copies or segment.has_functions:
        return ()
    first = segment.joint or segment
    own, into = plan.loops[segment].core.value, first.sides[0] if first.sides else first
    near = [into, *(fed for fed in fed_segments(plan.segments) if fed.feeder is segment)]
    wanted = [*(receiver_core(plan, fed) for fed in near), *range(plan.request.cores)]
    others = [core for core in dict.fromkeys(wanted) if core != own]
    if len(others) < segment.copies:
        raise GraphError(
            f"run: {segment.name} is to have {segment.copies} copies beside its own, each on another core; there are "
            f"{plan.request.cores} cores; raise cores=, or have fewer copies"
        )
    return tuple(others[: segment.copies])
