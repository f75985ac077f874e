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

`proof.py` turns them into one condition, on potentials of the nodes.

**The programme.** Leave out the rounding down: the largest Σ w(e)·(P(u) - P(v)) under these bounds is a linear
programme with n variables, the dual of a flow of least cost. Its matrix is that of differences, which is totally
unimodular, so its corners are whole numbers. What a solver returns is rounded to whole numbers, and then mended by
Bellman and Ford's rounds, which lower potentials until all bounds hold exactly (they end, because the bounds can be
met): no error of floating point can make a result unsafe, only smaller. Rounding down costs each edge up to one, and
raising the intervals one by one (`potentials.py`) wins most of that back. All of this is polynomial.

The largest smallest interval needs no programme: all intervals equal to t are safe up to some t, which is found by
halving; N·t + 1 in place of 1 as the lower bound then gives the largest sum beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from penstock.errors import GraphError, InternalError, quoted
from penstock.plan.heartbeat.cycles import Edge, Inequalities, Integers, inequalities
from penstock.plan.heartbeat.potentials import Aim, fit_potentials, largest_minimum, raise_each
from penstock.plan.heartbeat.proof import Doubled, double, unsafe_cycle

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
    graph = double(count, edges)
    aim = _aim(edges, method, weights)
    if method == "cycles":
        return _by_cycles(count, edges)
    least = largest_minimum(graph) if method == "minimum" else 0
    potentials = fit_potentials(graph, least, aim)
    return _certify(graph, *raise_each(graph, potentials, least, aim))


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


def _certify(graph: Doubled, found: Integers, potentials: Integers) -> list[int]:
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
