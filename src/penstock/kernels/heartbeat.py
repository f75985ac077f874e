"""Intervals raised one after the other, as far as potentials follow: the loop of `plan/heartbeat/potentials.py`.

Each edge from u to v is an arc from u to v of weight `-scale * interval - 1` and one back of weight `scale * capacity -
1`. Potentials show that no cycle is negative: along every arc from x to y, P(y) ≤ P(x) + weight. The *slack* of an arc
is what is missing to equality. It is never negative, so that Dijkstra finds the shortest ways by slack.
"""

from __future__ import annotations

import heapq
from typing import Any

import numba
import numpy as np

FAR = np.int64(1 << 62)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def raise_intervals(
    order: Any,
    senders: Any,
    receivers: Any,
    capacities: Any,
    starts: Any,
    places: Any,
    scale: int,
    intervals: Any,
    potentials: Any,
) -> None:
    """Raise the interval of each edge in this order to the most that all others allow; potentials follow.

    `places[starts[x]:starts[x + 1]]` are the edges at node x. The intervals and the potentials given must fit each
    other, and so do those that it leaves in their places.
    """
    ends = senders, receivers, starts, places
    slacks = np.empty((2, len(senders)), np.int64)  # of the arcs along the edges, and of those against them
    slacks[0] = potentials[senders] - potentials[receivers] - scale * intervals - 1
    slacks[1] = potentials[receivers] - potentials[senders] + scale * capacities - 1
    distances = np.full((2, len(starts) - 1), FAR, np.int64)
    for edge in order:
        more = _more(edge, capacities[edge] - 1 - intervals[edge], scale, ends, slacks, distances)
        if more:
            intervals[edge] += more
            slacks[0, edge] -= scale * more
        if slacks[0, edge] < 0:
            _lower(edge, ends, slacks, distances[0], potentials)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _more(edge: Any, most: Any, scale: int, ends: Any, slacks: Any, distances: Any) -> Any:
    """By how much the interval of an edge can be raised, at most by `most`: mostly by none, rarely by two or more."""
    fits, too_many = 0, 1
    while too_many <= most and not _is_shorter(edge, ends, slacks, distances, scale * too_many - slacks[0, edge]):
        fits, too_many = too_many, 2 * too_many
    too_many = min(too_many, most + 1)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if _is_shorter(edge, ends, slacks, distances, scale * middle - slacks[0, edge]):
            too_many = middle
        else:
            fits = middle
    return fits


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _is_shorter(edge: Any, ends: Any, slacks: Any, distances: Any, missing: Any) -> Any:
    """Whether a way from the edge's receiver to its sender is shorter than this: searched from both ends."""
    senders, receivers = ends[0], ends[1]
    heaps = [(np.int64(0), receivers[edge])], [(np.int64(0), senders[edge])]
    reached = [receivers[edge], senders[edge]]
    distances[0, receivers[edge]] = distances[1, senders[edge]] = 0
    is_met = False
    while not is_met and len(heaps[0]) and len(heaps[1]) and heaps[0][0][0] + heaps[1][0][0] < missing:
        side = 0 if len(heaps[0]) <= len(heaps[1]) else 1
        heap = heaps[0] if side == 0 else heaps[1]
        is_met = _expand(side, heap, ends, slacks, distances, reached, missing)
    for node in reached:
        distances[0, node] = distances[1, node] = FAR
    return is_met


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _expand(side: Any, heap: Any, ends: Any, slacks: Any, distances: Any, reached: Any, missing: Any) -> Any:
    """Go on from the nearest node of a side: side 0 along arcs, side 1 against them. Whether the sides have met."""
    senders, receivers, starts, places = ends
    distance, node = heapq.heappop(heap)
    if distance > distances[side, node]:
        return False
    for at in range(starts[node], starts[node + 1]):
        edge = places[at]
        is_sender = senders[edge] == node
        other = receivers[edge] if is_sender else senders[edge]
        beyond = distance + slacks[side if is_sender else 1 - side, edge]
        if beyond < missing and beyond < distances[side, other]:
            if distances[1 - side, other] < missing - beyond:
                return True
            distances[side, other] = beyond
            reached.append(other)
            heapq.heappush(heap, (beyond, other))
    return False


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _lower(edge: Any, ends: Any, slacks: Any, distances: Any, potentials: Any) -> None:
    """Lower potentials until the slack along this edge, which alone is negative, is 0, and no other is negative.

    Its receiver must be lowered by what is missing, and every node by what it lies nearer to that one.
    """
    senders, receivers, starts, places = ends
    missing = -slacks[0, edge]
    heap = [(np.int64(0), receivers[edge])]
    reached = [receivers[edge]]
    distances[receivers[edge]] = 0
    while len(heap):
        distance, node = heapq.heappop(heap)
        if distance > distances[node]:
            continue
        for at in range(starts[node], starts[node + 1]):
            over = places[at]
            is_sender = senders[over] == node
            other = receivers[over] if is_sender else senders[over]
            beyond = distance + slacks[0 if is_sender else 1, over]
            if beyond < missing and beyond < distances[other]:
                if distances[other] == FAR:
                    reached.append(other)
                distances[other] = beyond
                heapq.heappush(heap, (beyond, other))
    for node in reached:
        lower = missing - distances[node]
        distances[node] = FAR
        potentials[node] -= lower
        for at in range(starts[node], starts[node + 1]):
            along = -lower if senders[places[at]] == node else lower
            slacks[0, places[at]] += along
            slacks[1, places[at]] -= along
