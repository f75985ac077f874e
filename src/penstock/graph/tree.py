"""A graph as seen from its results: the nodes that they need, each once, and who follows whom."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import SupportsIndex

from penstock.errors import ControlError, GraphError, quoted
from penstock.graph.nodes import Emit, GraphNode, Source, Stateful
from penstock.graph.record import Signal


@dataclass(frozen=True, slots=True)
class At:
    """A signal with its place: before the item of this index, after the one before it."""

    index: int
    signal: Signal


def at(index: int, signal: Signal) -> At:
    """Place a signal from outside: after `index` items of the source, before the next.

    >>> import penstock as ps
    >>> class Level(ps.State):
    ...     level: float = 2.0
    >>> class Threshold(ps.Signal):
    ...     level: float
    >>> def above(v, state):
    ...     return v > state.level
    >>> readings = ps.from_items([{"v": v} for v in (1.0, 3.0, 1.0, 3.0)])
    >>> over = readings.filter(above, state=Level).on(Threshold, level=lambda signal: signal.level)
    >>> over.collect(control=[ps.at(2, Threshold(0.5))]).to_pydict()
    {'v': [3.0, 1.0, 3.0]}
    """
    if not isinstance(index, SupportsIndex) or isinstance(index, bool) or operator.index(index) < 0:
        raise GraphError(f"at: the index must be a whole number of at least 0; got {index!r}")
    if not isinstance(signal, Signal):
        raise GraphError(f"at: must place an instance of a class derived from ps.Signal; got {signal!r}")
    return At(operator.index(index), signal)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A signal handed to a node: which node, after how many of the items that it received, and the signal."""

    node: int
    place: int
    signal: Signal


@dataclass(frozen=True, eq=False)
class Tree:
    """The nodes that some results need, in the order of the stream, numbered from the source.

    Invariant: `nodes[0]` is the only source; a node stands behind the node before it.
    """

    leaves: tuple[GraphNode, ...]
    nodes: tuple[GraphNode, ...] = field(init=False)
    number: dict[GraphNode, int] = field(init=False)
    children: dict[GraphNode, tuple[GraphNode, ...]] = field(init=False)

    def __post_init__(self) -> None:
        nodes = list(dict.fromkeys(node for leaf in self.leaves for node in _path(leaf)))
        sources = [node for node in nodes if isinstance(node, Source)]
        if len(sources) != 1:
            raise GraphError(
                f"run: results that run together must come from one source; got {quoted(s.name for s in sources)}"
            )
        children: dict[GraphNode, tuple[GraphNode, ...]] = dict.fromkeys(nodes, ())
        for node in nodes[1:]:
            (before,) = node.inputs
            children[before] += (node,)
        object.__setattr__(self, "nodes", tuple(nodes))
        object.__setattr__(self, "number", {node: at for at, node in enumerate(nodes)})
        object.__setattr__(self, "children", children)

    @property
    def source(self) -> Source:
        return self.nodes[0]  # type: ignore[return-value]

    def below(self, node: GraphNode) -> Iterator[GraphNode]:
        """All nodes behind this one."""
        for child in self.children[node]:
            yield child
            yield from self.below(child)


def _path(leaf: GraphNode) -> list[GraphNode]:
    path = [leaf]
    while path[-1].inputs:
        path.append(path[-1].inputs[0])
    return path[::-1]


def handled(nodes: Iterable[GraphNode]) -> set[type[Signal]]:
    return {handler.signal for node in nodes if isinstance(node, Stateful) for handler in node.handlers}


def check_signals(tree: Tree, control: Sequence[At]) -> tuple[At, ...]:
    """The signals from outside in the order of their places, after checking that every signal finds a handler."""
    known = handled(tree.nodes)
    if not isinstance(control, Sequence):
        raise GraphError(f"control: must be a list of signals placed by ps.at(index, signal); got {control!r}")
    for given in control:
        if not isinstance(given, At):
            raise GraphError(f"control: must hold signals placed by ps.at(index, signal); got {given!r}")
        if type(given.signal) not in known:
            raise _nobody("control", type(given.signal), known)
    for node in tree.nodes:
        if isinstance(node, Emit):
            below = handled(tree.below(node))
            if node.signal not in below:
                raise _nobody(node.label, node.signal, below)
    return tuple(sorted(control, key=lambda given: given.index))


def _nobody(where: str, signal: type[Signal], known: set[type[Signal]]) -> ControlError:
    return ControlError(
        f"{where}: a signal must be handled by a node behind it; nobody handles {signal.__name__!r}, and handled are "
        f"{quoted(sorted(s.__name__ for s in known))}; add .on({signal.__name__}, function) after a node with state="
    )


def never_reached(given: At, count: int) -> ControlError:
    return ControlError(
        f"control: a signal's index must be at most the number of items; {given.signal!r} stands at {given.index}, and "
        f"the source ended after {count} items"
    )
