"""Intervals as large as they go: each raised by itself, and then one lowered where that lets others rise by more.

Rounding potentials down to intervals (see `proof.py`) leaves room here and there. Each interval is raised in
turn, as far as a shortest path in whole numbers shows that all others allow. After one turn none can be raised by
itself: raising one never gives room to another. Which of them got the room depends on the order. So on small graphs,
where one more or less is a large share of the sum, two orders are tried, and then exchanges.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.errors import InternalError
from penstock.kernels.heartbeat import raise_intervals
from penstock.plan.heartbeat.cycles import Integers
from penstock.plan.heartbeat.proof import Doubled, around, settle

Aim = npt.NDArray[np.float64]
"""What an interval of each edge counts."""

COMPILED_FROM = 200
"""From so many edges on compiled code raises intervals; below, the plain way is done before that is loaded."""
EXCHANGED_TO = 64
"""Up to so many edges intervals are exchanged."""


def raise_each(graph: Doubled, potentials: Integers, least: int, aim: Aim) -> tuple[Integers, Integers]:
    """The intervals that potentials allow, none below `least`, raised, those that count most first; and potentials."""
    found = (graph.drops(potentials) - 1) // graph.scale
    order = np.argsort(-aim, kind="stable")
    if len(order) >= COMPILED_FROM:
        return by_compiled_code(graph, found, potentials, order)
    results = [one_by_one(graph, found, order)]
    if len(order) <= EXCHANGED_TO:
        results.append(one_by_one(graph, found, order[::-1]))
        results = [exchange_each(graph, result, least, aim) for result in results]
    best = max(results, key=lambda result: float(aim @ result))
    return best, settle(graph, best, potentials)[0]


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


def exchange_each(graph: Doubled, found: Integers, least: int, aim: Aim) -> Integers:
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


def largest_minimum(graph: Doubled) -> int:
    """The largest interval that is safe as that of every edge. Halving: `safe` always is, and `unsafe` never."""
    safe, unsafe = 0, min(graph.capacities.tolist(), default=1)
    while unsafe - safe > 1:
        middle = (safe + unsafe) // 2
        if settle(graph, np.full_like(graph.capacities, middle), np.zeros(graph.count, np.int64))[1] is None:
            safe = middle
        else:
            unsafe = middle
    return safe


def fit_potentials(graph: Doubled, least: int, aim: Aim) -> Integers:
    """Whole potentials that allow every edge an interval of `least`, and all the largest sum, about."""
    floor = np.full_like(graph.capacities, least)
    solved = _solve(graph, floor, aim) if len(aim) else np.zeros(graph.count)
    potentials, cycle = settle(graph, floor, np.rint(solved).astype(np.int64))
    if cycle is not None:
        raise InternalError(f"heartbeat: intervals of {least} must be safe; they are not on {cycle}")
    return potentials


def _solve(graph: Doubled, floor: Integers, aim: Aim) -> Aim:
    """The programme's potentials as the solver has them; all 0 should it fail, which costs nothing but quality."""
    from scipy.optimize import linprog  # takes a while to import, and most graphs need it not at all
    from scipy.sparse import vstack

    drops = _differences(graph)
    bounds = np.concatenate([graph.scale * graph.capacities - 1, -graph.scale * floor - 1]).astype(np.float64)
    gain, rows = drops.T @ (aim / (aim.max() or 1.0)), vstack([drops, -drops]).tocsr()
    for way in ("highs-ipm", "highs-ds"):
        result = linprog(-gain, A_ub=rows, b_ub=bounds, bounds=(None, None), method=way)
        if result.status == 0 and np.abs(result.x).max() < 2**62:
            return np.asarray(result.x, np.float64)
    return np.zeros(graph.count)


def _differences(graph: Doubled):  # type: ignore[no-untyped-def]  # SciPy has no types
    """The matrix by which potentials become drops along the edges."""
    from scipy.sparse import csr_matrix

    edges = np.arange(len(graph.senders))
    places = np.concatenate([edges, edges]), np.concatenate([graph.senders, graph.receivers])
    return csr_matrix((np.repeat([1.0, -1.0], len(edges)), places), shape=(len(edges), graph.count))
