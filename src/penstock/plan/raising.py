"""Intervals as large as they go: each raised by itself, and then one lowered where that lets others rise by more.

Rounding potentials down to intervals (see `plan.heartbeat`) leaves room here and there. Each interval is raised in
turn, as far as a shortest path in whole numbers shows that all others allow. After one turn none can be raised by
itself: raising one never gives room to another. Which of them got the room depends on the order. So on small graphs,
where one more or less is a large share of the sum, two orders are tried, and then exchanges.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.kernels.potentials import raise_intervals
from penstock.plan.cycles import Integers
from penstock.plan.doubled import Doubled, around, settled

Aim = npt.NDArray[np.float64]
"""What an interval of each edge counts."""

COMPILED_FROM = 200
"""From so many edges on compiled code raises intervals; below, the plain way is done before that is loaded."""
EXCHANGED_TO = 64
"""Up to so many edges intervals are exchanged."""


def raised(graph: Doubled, potentials: Integers, least: int, aim: Aim) -> tuple[Integers, Integers]:
    """The intervals that potentials allow, none below `least`, raised, those that count most first; and potentials."""
    found = (graph.drops(potentials) - 1) // graph.scale
    order = np.argsort(-aim, kind="stable")
    if len(order) >= COMPILED_FROM:
        return by_compiled_code(graph, found, potentials, order)
    results = [one_by_one(graph, found, order)]
    if len(order) <= EXCHANGED_TO:
        results.append(one_by_one(graph, found, order[::-1]))
        results = [exchanged(graph, result, least, aim) for result in results]
    best = max(results, key=lambda result: float(aim @ result))
    return best, settled(graph, best, potentials)[0]


def by_compiled_code(
    graph: Doubled, found: Integers, potentials: Integers, order: Integers
) -> tuple[Integers, Integers]:
    found, potentials = found.copy(), potentials.copy()
    ends = np.concatenate([graph.senders, graph.receivers])
    by_node = np.argsort(ends, kind="stable")
    starts = np.searchsorted(ends[by_node], np.arange(graph.count + 1))
    channels = graph.senders, graph.receivers, graph.capacities
    raise_intervals(order, *channels, starts, by_node % len(order), graph.scale, found, potentials)
    return found, potentials


def one_by_one(graph: Doubled, found: Integers, order: Integers) -> Integers:
    """The same in Python: each of these edges in turn."""
    found = found.copy()
    for edge in order:
        found[edge], _ = around(graph, found, edge)
    return found


def exchanged(graph: Doubled, found: Integers, least: int, aim: Aim) -> Integers:
    """Lower one interval by 1 and raise others, as long as that counts more; each time it does, begin anew.

    No interval can be raised by itself before or after. What rises has its limit on a cycle along the lowered edge, so
    only such edges are tried. At most as many exchanges as edges, which bounds the time.
    """
    for _ in range(len(found)):
        better = _exchange(graph, found, least, aim)
        if better is None:
            break
        found = better
    return found


def _exchange(graph: Doubled, found: Integers, least: int, aim: Aim) -> Integers | None:
    limiting = [set(around(graph, found, edge)[1].along) for edge in range(len(found))]
    for lowered in np.flatnonzero(found > least).tolist():
        waiting = [edge for edge in np.argsort(-aim, kind="stable") if edge != lowered and lowered in limiting[edge]]
        if aim[waiting].sum() > aim[lowered]:
            tried = found.copy()
            tried[lowered] -= 1
            tried = one_by_one(graph, tried, np.array([*waiting, lowered]))
            if aim @ (tried - found) > 1e-9 * aim.max():
                return one_by_one(graph, tried, np.argsort(-aim, kind="stable"))
    return None
