"""Heartbeat intervals: how long a sender may be silent on an edge before it must say how far it has come.

**What is asked for.** The nodes of a graph of channels may drop items on each output by themselves, and wait for each
other where branches meet. A cycle of nodes that wait for one another is broken by heartbeats: on edge e with a data
channel of capacity q(e), the sender lets at most h(e) indices go by without a word. The paper on precise control (Li,
Agrawal, Buhler, Chamberlain: *Streaming Computations with Precise Control*) proves that nothing can stop forever if, on
each cycle of the graph taken without regard to direction, with H1 the edges that point one way around and H2 those that
point the other,

    (3)  Σ h over H1 < Σ q over H2        (4)  Σ h over H2 < Σ q over H1        (5)  h(e) < q(e) for every edge

An edge on no cycle has (5) alone, which is right: no ring of waiting nodes passes it but that of its own two ends, and
with h(e) = q(e) - 1 the sender gives credit after q(e) items at the latest, which is when the channel is full. With
h(e) = q(e) it would wait for room, and its receiver for credit. The number of cycles grows exponentially, so these
inequalities cannot be written down for a large graph. They need not be.

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

**The programme.** Leave out the rounding down: the largest Σ w(e)·(P(u) - P(v)) under these bounds is a linear
programme with n variables, the dual of a flow of least cost. Its matrix is that of differences, which is totally
unimodular, so its corners are whole numbers. What a solver returns is rounded to whole numbers, and then mended by
Bellman and Ford's rounds, which lower potentials until all bounds hold exactly (they end, because the bounds can be
met): no error of floating point can make a result unsafe, only smaller. Rounding down costs each edge up to one, and
`plan.raising` wins most of that back. All of this is polynomial.

The largest smallest interval needs no programme: all intervals equal to t are safe up to some t, which is found by
halving; N·t + 1 in place of 1 as the lower bound then gives the largest sum beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from penstock.errors import GraphError, InternalError, quoted
from penstock.plan.cycles import Cycle, Edge, Inequalities, Integers, inequalities
from penstock.plan.doubled import Doubled, doubled, limits, settled, unsafe_cycle
from penstock.plan.raising import Aim, raised

__all__ = ["CYCLE_EDGES_MOST", "Cycle", "Edge", "intervals", "limits", "unsafe_cycle"]

Method = Literal["sum", "minimum", "weighted", "cycles"]

CYCLE_EDGES_MOST = 8_000_000
"""The most edges that all cycles of a graph may have together, to be listed: half a minute of work."""


def intervals(
    count: int, edges: Sequence[Edge], method: Method = "sum", weights: Sequence[float] | None = None
) -> list[int]:
    """Safe heartbeat intervals, one an edge, for a graph of nodes 0 to `count` - 1 without directed cycle.

    No interval can be raised by itself. `sum` aims at the largest sum; `minimum` has the largest smallest interval that
    there is, and beside it aims at the largest sum; `weighted` aims at the largest sum of intervals times `weights`,
    such as the items expected on each edge. `cycles` lists all cycles as the paper does, and has the largest sum that
    there is; it is for study, and refused where the cycles have more than `CYCLE_EDGES_MOST` edges together.

    >>> diamond = [Edge(0, 1, 32), Edge(0, 2, 32), Edge(1, 3, 32), Edge(2, 3, 32)]
    >>> intervals(4, diamond)
    [31, 31, 31, 31]
    >>> shortcut = [Edge(0, 1, 8), Edge(1, 2, 8), Edge(0, 2, 8)]  # the first two must stay below the third's capacity
    >>> sum(intervals(3, shortcut)), sum(intervals(3, shortcut, "cycles"))
    (14, 14)
    >>> min(intervals(3, shortcut, "minimum"))
    3
    """
    graph = doubled(count, edges)
    aim = _aim(edges, method, weights)
    if method == "cycles":
        return _by_cycles(count, edges)
    least = _largest_minimum(graph) if method == "minimum" else 0
    potentials = _potentials(graph, least, aim)
    return _certified(graph, *raised(graph, potentials, least, aim))


def _aim(edges: Sequence[Edge], method: str, weights: Sequence[float] | None) -> Aim:
    """What an interval of each edge counts."""
    if method not in get_args(Method):
        raise GraphError(f"heartbeat: the method must be one of {quoted(get_args(Method))}; got {method!r}")
    if (weights is not None) != (method == "weighted"):
        raise GraphError(
            f"heartbeat: weights must be given with the method 'weighted' and with no other; got "
            f"{'none' if weights is None else 'some'} with {method!r}; {'add' if weights is None else 'drop'} them"
        )
    aim = np.ones(len(edges)) if weights is None else np.asarray(weights, np.float64)
    if aim.shape != (len(edges),) or not np.isfinite(aim).all() or (aim < 0).any():
        raise GraphError(
            f"heartbeat: weights must be {len(edges)} numbers from 0 on, one an edge; got {aim.tolist()}; give the "
            "items expected on each edge, or anything in proportion to them"
        )
    return aim


def _largest_minimum(graph: Doubled) -> int:
    """The largest interval that is safe as that of every edge. Halving: `safe` always is, and `unsafe` never."""
    safe, unsafe = 0, min(graph.capacities.tolist(), default=1)
    while unsafe - safe > 1:
        middle = (safe + unsafe) // 2
        if settled(graph, np.full_like(graph.capacities, middle), np.zeros(graph.count, np.int64))[1] is None:
            safe = middle
        else:
            unsafe = middle
    return safe


def _potentials(graph: Doubled, least: int, aim: Aim) -> Integers:
    """Whole potentials that allow every edge an interval of `least`, and all the largest sum, about."""
    floor = np.full_like(graph.capacities, least)
    solved = _solved(graph, floor, aim) if len(aim) else np.zeros(graph.count)
    potentials, cycle = settled(graph, floor, np.rint(solved).astype(np.int64))
    if cycle is not None:
        raise InternalError(f"heartbeat: intervals of {least} must be safe; they are not on {cycle}")
    return potentials


def _solved(graph: Doubled, floor: Integers, aim: Aim) -> Aim:
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


def _certified(graph: Doubled, found: Integers, potentials: Integers) -> list[int]:
    """The intervals, once the potentials have shown in whole numbers that they are safe."""
    drops = graph.drops(potentials)
    is_safe = (graph.scale * found < drops) & (drops < graph.scale * graph.capacities)
    if not is_safe.all() or (found < 0).any():
        raise InternalError(f"heartbeat: intervals must be safe; edges {np.flatnonzero(~is_safe).tolist()} are not")
    return [int(interval) for interval in found]


def _by_cycles(count: int, edges: Sequence[Edge]) -> list[int]:
    """The largest sum, exactly, from the inequalities of all cycles and a programme in whole numbers."""
    listed = inequalities(edges, CYCLE_EDGES_MOST)
    if listed is None:
        raise GraphError(
            f"heartbeat: the cycles of a graph must have at most {CYCLE_EDGES_MOST:,} edges together to be listed; "
            f"those of this one, with {len(edges)} edges, have more; leave out method='cycles'"
        )
    found = _optimum(len(edges), listed) if edges else []
    unsafe = unsafe_cycle(count, edges, found)
    if unsafe is not None:
        raise InternalError(f"heartbeat: the intervals that all cycles allow must be safe; they are not on {unsafe}")
    return found


def _optimum(size: int, listed: Inequalities) -> list[int]:
    """The whole numbers from 0 on with the largest sum for which all inequalities hold."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_matrix

    rows = csr_matrix((np.ones(len(listed.edges)), listed.edges, listed.starts), shape=(len(listed.rooms), size))
    limited = LinearConstraint(rows, -np.inf, listed.rooms - 1.0)
    whole = np.ones(size)
    result = milp(-whole, integrality=whole, bounds=Bounds(0, np.inf), constraints=limited, options={"mip_rel_gap": 0})
    if result.x is None:
        raise InternalError(f"heartbeat: the programme of all cycles must have a solution; {result.message}")
    return [int(interval) for interval in np.rint(result.x)]
