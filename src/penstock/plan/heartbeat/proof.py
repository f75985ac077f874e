"""Whether intervals are safe, and which cycle says that they are not, in polynomial time.

The inequalities (3), (4) and (5) are those of `intervals.py`: h is the interval of an edge, and q its capacity.

**One condition in place of many.** Draw each edge (u, v) twice: as an arc u → v of weight -h(e), and as an arc v → u of
weight +q(e). Then *(3), (4) and (5) all hold exactly when this doubled graph has no directed cycle of weight 0 or
less.*

- Take a cycle of the doubled graph that passes no node twice. If it has two arcs, they are those of one edge, and its
  weight is q(e) - h(e): positive by (5), and (5) says no more; or they are an arc along one edge and an arc against
  another beside it (two along them would be a cycle of the graph itself, which has none), and then these two edges are
  a cycle of the graph. If it has three arcs or more, it has no edge twice, so its edges are a cycle of the graph, of
  which it passes some along (call them H1) and the others against (H2). Its weight is Σ q over H2 - Σ h over H1:
  positive exactly if (3) holds. The same cycle passed the other way round is (4).
- Conversely each cycle of the graph, passed the one way and the other, is two directed cycles of the doubled graph, and
  each edge is one more. So cycles that pass no node twice and inequalities are the same things.
- A closed way that passes a node twice falls apart into cycles that do not, and its weight is the sum of theirs.

**Potentials.** "No cycle of weight 0 or less" is not yet what shortest paths can tell, which is "no negative cycle".
But all weights are whole numbers, and a cycle that passes no node twice has at most n arcs, where n is the number of
nodes. Take 1 / (n + 1) off every arc: a weight of 1 or more stays positive, because it loses n / (n + 1) at most, and a
weight of 0 or less becomes negative. So the intervals are safe exactly when no cycle is negative after that. And no
cycle is negative exactly when potentials P exist with P(y) ≤ P(x) + weight along every arc x → y: the sum of this
around a cycle is 0 ≤ its weight; and if no cycle is negative, the shortest distances from one more node, with an arc of
weight 0 to each of the others, are such potentials. With everything multiplied by N = n + 1, for every edge (u, v):

    N·h(e) + 1  ≤  P(u) - P(v)  ≤  N·q(e) - 1

So any P with 1 ≤ P(u) - P(v) ≤ N·q(e) - 1 on every edge gives safe intervals h(e) = floor((P(u) - P(v) - 1) / N), which
are the largest that fit it, and all safe intervals are at most those of some such P. One P always exists: h = 0 is
safe, since every cycle passes some edge against it (the graph has no directed one), and capacities are 1 or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import GraphError
from penstock.plan.heartbeat.cycles import Cycle, Edge, Integers

_LARGEST = 1 << 60
_FAR = 1 << 61


@dataclass(frozen=True, slots=True)
class Doubled:
    """Every edge as an arc along it and one against it: arcs 2e and 2e + 1, sorted by the node that they lead to.

    Invariant: `firsts` are the places where the arcs to the next of `reached` begin.
    """

    count: int
    senders: Integers
    receivers: Integers
    capacities: Integers
    arcs: Integers
    tails: Integers
    firsts: Integers
    reached: Integers

    @property
    def scale(self) -> int:
        return self.count + 1

    def weights(self, intervals: Integers, more: int) -> Integers:
        """The weights of the arcs in their order, scaled, and so much more for each."""
        scaled = np.empty(2 * len(self.senders), np.int64)
        scaled[0::2] = more - self.scale * intervals
        scaled[1::2] = more + self.scale * self.capacities
        return scaled[self.arcs]

    def drops(self, potentials: Integers) -> Integers:
        """How far the potential falls along each edge."""
        return potentials[self.senders] - potentials[self.receivers]


def double(count: int, edges: Sequence[Edge]) -> Doubled:
    """The doubled graph of a graph that is checked here."""
    _check(count, edges)
    given = np.array([(edge.sender, edge.receiver, edge.capacity) for edge in edges], np.int64).reshape(-1, 3)
    senders, receivers, capacities = (np.ascontiguousarray(column) for column in given.T)
    tails, heads = (np.stack(ends, axis=1).ravel() for ends in ((senders, receivers), (receivers, senders)))
    arcs = np.argsort(heads, kind="stable")
    reached, firsts = np.unique(heads[arcs], return_index=True)
    return Doubled(count, senders, receivers, capacities, arcs, tails[arcs], firsts, reached)


def _check(count: int, edges: Sequence[Edge]) -> None:
    most = _LARGEST // (count + 1) ** 2  # so that no sum of scaled weights overflows
    for number, edge in enumerate(edges):
        if not (0 <= edge.sender < count and 0 <= edge.receiver < count):
            raise GraphError(f"{_named(number, edge)} must join two of the nodes 0 to {count - 1}; number the nodes so")
        if not 1 <= edge.capacity <= most:
            raise GraphError(
                f"{_named(number, edge)} must have a capacity of 1 to {most:,}, or no interval is safe; got "
                f"{edge.capacity}; choose another capacity"
            )
    looping = _looping(count, edges)
    if looping:
        shown = " → ".join(map(str, looping))
        raise GraphError(f"heartbeat: the graph must have no cycle from senders to receivers; got {shown}; break it")


def _named(number: int, edge: Edge) -> str:
    return f"heartbeat: edge {number} ({edge.sender} → {edge.receiver})"


def _looping(count: int, edges: Sequence[Edge]) -> list[int]:
    """The nodes of a cycle from senders to receivers, the first again at the end; none where there is no such cycle."""
    waiting = [0] * count
    behind: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        waiting[edge.receiver] += 1
        behind[edge.sender].append(edge.receiver)
    ready = [node for node in range(count) if not waiting[node]]
    for node in ready:  # grows while it is read
        for receiver in behind[node]:
            waiting[receiver] -= 1
            if not waiting[receiver]:
                ready.append(receiver)
    if len(ready) == count:
        return []
    ahead = {edge.receiver: edge.sender for edge in edges if waiting[edge.sender] and waiting[edge.receiver]}
    way = [next(iter(ahead))]  # each node that still waits has a sender that waits: go back until one comes again
    while way[-1] not in way[:-1]:
        way.append(ahead[way[-1]])
    return way[way.index(way[-1]) :][::-1]


# Cycles of weight 0 or less


def unsafe_cycle(count: int, edges: Sequence[Edge], intervals: Sequence[int]) -> Cycle | None:
    """A cycle on which the intervals along it reach the capacities against it; None where all intervals are safe.

    >>> diamond = [Edge(0, 1, 4), Edge(0, 2, 4), Edge(1, 3, 4), Edge(2, 3, 4)]
    >>> unsafe_cycle(4, diamond, [3, 3, 3, 3]) is None
    True
    >>> unsafe_cycle(4, [*diamond[:2], Edge(1, 3, 2), diamond[3]], [1, 3, 1, 3])  # 3 + 3 along, 4 + 2 against
    Cycle(edges=(1, 3, 2, 0), is_along=(True, True, False, False))
    """
    graph = double(count, edges)
    return _unsafe(graph, _check_intervals(graph, intervals))


def limits(count: int, edges: Sequence[Edge], intervals: Sequence[int], edge: int) -> Cycle | None:
    """The cycle that would become unsafe if the interval of this edge were one larger; None where none would.

    Of several it is the one with the least room, and of these one with the fewest edges; but where the edge's own
    capacity is among them, it is that. The intervals must be safe.

    >>> shortcut = [Edge(0, 1, 8), Edge(1, 2, 8), Edge(0, 2, 8)]
    >>> limits(3, shortcut, [3, 4, 7], 0)
    Cycle(edges=(0, 1, 2), is_along=(True, True, False))
    >>> limits(3, shortcut, [3, 4, 7], 2).is_capacity
    True
    """
    graph = double(count, edges)
    given = _check_intervals(graph, intervals)
    if not 0 <= edge < len(edges):
        raise GraphError(f"heartbeat: an edge must be one of the {len(edges)} edges 0, 1, ...; got {edge}")
    unsafe = _unsafe(graph, given)
    if unsafe is not None:
        raise GraphError(
            f"heartbeat: intervals must be safe, or none of them has a limit; those on the cycle of the edges "
            f"{', '.join(map(str, unsafe.edges))} are not; lower that of {' or '.join(map(str, unsafe.along))}"
        )
    if given[edge] + 1 == graph.capacities[edge]:
        return Cycle((edge, edge), (True, False))
    most, cycle = around(graph, given, edge)
    return cycle if most == given[edge] else None


def around(graph: Doubled, intervals: Integers, edge: int) -> tuple[int, Cycle]:
    """The largest interval of an edge that is safe beside those of the others, which are, and the cycle that limits it.

    With 1 more for each arc, fewer arcs win where weights are equal; and no cycle is negative where intervals are safe.
    """
    distances = np.full(graph.count, _FAR, np.int64)
    distances[graph.receivers[edge]] = 0
    relaxed = _relax(graph, graph.weights(intervals, 1), distances)
    sender = int(graph.senders[edge])
    most = int(relaxed.distances[sender]) // graph.scale - 1
    return most, _cycle([2 * edge, *_arcs_to(graph, relaxed.over, sender)])


def settle(graph: Doubled, intervals: Integers, potentials: Integers) -> tuple[Integers, Cycle | None]:
    """The largest potentials, none above those given, that fit the intervals; or an unsafe cycle, if there is one."""
    relaxed = _relax(graph, graph.weights(intervals, -1), potentials)
    return relaxed.distances, relaxed.cycle


def _check_intervals(graph: Doubled, intervals: Sequence[int]) -> Integers:
    """The intervals as an array; those far above the capacity, which are unsafe anyway, cut down to it."""
    edges = len(graph.senders)
    if len(intervals) != edges or min(intervals, default=0) < 0:
        raise GraphError(f"heartbeat: intervals must be {edges} numbers from 0 on, one an edge; got {list(intervals)}")
    return np.minimum(np.array([min(interval, _LARGEST) for interval in intervals], np.int64), graph.capacities)


def _unsafe(graph: Doubled, intervals: Integers) -> Cycle | None:
    for edge in np.flatnonzero(intervals >= graph.capacities).tolist():
        return Cycle((edge, edge), (True, False))
    return settle(graph, intervals, np.zeros(graph.count, np.int64))[1]


@dataclass(frozen=True, slots=True)
class Relaxed:
    """Distances, the place of the arc over which each node was last reached, or -1, and a negative cycle if met."""

    distances: Integers
    over: Integers
    cycle: Cycle | None


def _relax(graph: Doubled, weights: Integers, distances: Integers) -> Relaxed:
    """Bellman and Ford's rounds, all arcs at once, until nothing changes or a negative cycle is met.

    The arcs over which nodes were last reached are looked through for a cycle whenever the number of rounds has
    doubled. A cycle among them is negative; and once there were as many rounds as nodes, and still something changed,
    there is one.
    """
    sizes = np.diff(graph.firsts, append=len(weights))
    distances, over = distances.copy(), np.full(graph.count, -1, np.int64)
    rounds, look = 0, 1
    while len(weights):
        offered = distances[graph.tails] + weights
        best = np.minimum.reduceat(offered, graph.firsts)
        is_better = best < distances[graph.reached]
        if not is_better.any():
            break
        taken = np.flatnonzero((offered == np.repeat(best, sizes)) & np.repeat(is_better, sizes))
        distances[graph.reached[is_better]] = best[is_better]
        over[np.repeat(graph.reached, sizes)[taken]] = taken
        rounds += 1
        if rounds == look:
            look = min(2 * look, max(graph.count, look + 1))
            arcs = _circling(graph, over)
            if arcs:
                return Relaxed(distances, over, _cycle(arcs))
    return Relaxed(distances, over, None)


def _circling(graph: Doubled, over: Integers) -> list[int]:
    """The arcs of a cycle among those over which nodes were last reached, if there is one."""
    tails = np.where(over >= 0, graph.tails[over], -1).tolist()
    seen = [-1] * graph.count
    for start in range(graph.count):
        node = start
        while node >= 0 and seen[node] < 0:
            seen[node] = start
            node = tails[node]
        if node >= 0 and seen[node] == start:
            return _arcs_to(graph, over, node)
    return []


def _arcs_to(graph: Doubled, over: Integers, end: int) -> list[int]:
    """The arcs of the way by which a node was reached, in the order of passing: from itself, or from a beginning."""
    arcs: list[int] = []
    node = end
    while over[node] >= 0 and not (arcs and node == end):
        arcs.append(int(graph.arcs[over[node]]))
        node = int(graph.tails[over[node]])
    return arcs[::-1]


def _cycle(arcs: Sequence[int]) -> Cycle:
    return Cycle(tuple(arc >> 1 for arc in arcs), tuple(not arc & 1 for arc in arcs))
