"""The cycles of a graph of channels, passed along and against its edges, and all of them listed, for study.

Nodes are numbers from 0 on; edges are known by their places in a list. `proof.py` says what cycles are for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from a sender to a receiver, whose data channel holds so many items."""

    sender: int
    receiver: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """A closed way over edges, in the order of passing, and of each whether it is passed from sender to receiver.

    The way over one edge and back is the cycle of its own capacity.
    """

    edges: tuple[int, ...]
    is_along: tuple[bool, ...]

    @property
    def along(self) -> tuple[int, ...]:
        """The edges passed from sender to receiver: their intervals count."""
        return tuple(edge for edge, is_along in zip(self.edges, self.is_along, strict=True) if is_along)

    @property
    def against(self) -> tuple[int, ...]:
        """The edges passed from receiver to sender: their capacities count."""
        return tuple(edge for edge, is_along in zip(self.edges, self.is_along, strict=True) if not is_along)

    @property
    def is_capacity(self) -> bool:
        """Whether it is one edge and back."""
        return len(self.edges) == 2 and self.edges[0] == self.edges[1]

    def reversed(self) -> Cycle:
        """The same way, the other way round."""
        return Cycle(self.edges[::-1], tuple(not is_along for is_along in self.is_along[::-1]))

    def room(self, edges: Sequence[Edge], intervals: Sequence[int]) -> int:
        """The capacities against it less the intervals along it: safe from 1 on."""
        return sum(edges[edge].capacity for edge in self.against) - sum(intervals[edge] for edge in self.along)


Step = tuple[int, int, bool]
"""The node where one comes to, the edge, and whether it is passed along."""


def undirected_cycles(edges: Sequence[Edge]) -> Iterator[Cycle]:
    """All cycles without regard to direction, each once, and so that it passes its first edge along it.

    There may be more of them than anything can list: as a graph grows, their number grows faster than any power of it.

    >>> triangle = [Edge(0, 1, 8), Edge(1, 2, 8), Edge(0, 2, 8)]
    >>> [(cycle.along, cycle.against) for cycle in undirected_cycles(triangle)]
    [((0, 1), (2,))]
    """
    count = 1 + max((max(edge.sender, edge.receiver) for edge in edges), default=-1)
    steps: list[list[Step]] = [[] for _ in range(count)]
    for number in range(len(edges) - 1, -1, -1):  # each cycle is found at that of its edges with the lowest number
        edge = edges[number]
        for way in _ways(steps, edge.receiver, edge.sender):
            yield Cycle((number, *(step[1] for step in way)), (True, *(step[2] for step in way)))
        steps[edge.sender].append((edge.receiver, number, True))
        steps[edge.receiver].append((edge.sender, number, False))


@dataclass(frozen=True, slots=True)
class Inequalities:
    """Those of all cycles, both ways around, and of all capacities.

    For each k, the intervals of `edges[starts[k]:starts[k + 1]]` together must stay below `rooms[k]`.
    """

    edges: Integers
    starts: Integers
    rooms: Integers

    def hold(self, intervals: Sequence[int]) -> bool:
        totals = np.concatenate([[0], np.cumsum(np.array(intervals, np.int64)[self.edges])])
        return bool((np.diff(totals[self.starts]) < self.rooms).all())


def inequalities(edges: Sequence[Edge], most: int) -> Inequalities | None:
    """All inequalities, one by one; None where there are more than so many edges in all cycles together."""
    silent, starts, rooms = array("q"), array("q", [0]), array("q")

    def add(along: Sequence[int], against: Sequence[int]) -> None:
        silent.extend(along)
        starts.append(len(silent))
        rooms.append(sum(edges[edge].capacity for edge in against))

    for edge in range(len(edges)):
        add([edge], [edge])
    for cycle in undirected_cycles(edges):
        add(cycle.along, cycle.against)
        add(cycle.against, cycle.along)
        if len(silent) - len(edges) > most:
            return None
    return Inequalities(*(np.frombuffer(values, np.int64) for values in (silent, starts, rooms)))


def _ways(steps: Sequence[Sequence[Step]], start: int, end: int) -> Iterator[list[Step]]:
    """All ways between two nodes that come to no node twice.

    Johnson's search: a node from which the end was not reached stays barred until a node that it leads to is free
    again, so that no dead end is searched twice for nothing. Invariant: `ahead`, `nodes` and `is_found` are as long as
    the way from the start to where the search is, and `way` is one shorter.
    """
    way: list[Step] = []
    nodes, is_found, ahead = [start], [False], [iter(steps[start])]
    barred, waiting = {start}, [set[int]() for _ in steps]
    while nodes:
        for step in ahead[-1]:
            if step[0] == end:
                is_found[-1] = True
                yield [*way, step]
            elif step[0] not in barred:
                way.append(step)
                nodes.append(step[0])
                is_found.append(False)
                ahead.append(iter(steps[step[0]]))
                barred.add(step[0])
                break
        else:
            ahead.pop()
            del way[-1:]
            node = nodes.pop()
            if is_found.pop():
                _free(node, barred, waiting)
                if nodes:
                    is_found[-1] = True
            else:
                for step in steps[node]:
                    waiting[step[0]].add(node)


def _free(node: int, barred: set[int], waiting: Sequence[set[int]]) -> None:
    """Let the search come to a node again, and to all that waited for it."""
    freed = [node]
    while freed:
        node = freed.pop()
        if node in barred:
            barred.remove(node)
            freed += waiting[node]
            waiting[node].clear()
