"""A graph as seen from its results: the nodes that they need, each once, and who follows whom."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

from penstock.errors import ControlError, GraphError, quoted
from penstock.graph.nodes import Emit, GraphNode, Meet, Send, Source, Stateful, resolve, timed_of
from penstock.graph.record import Signal


@dataclass(frozen=True, slots=True)
class At:
    """A signal with its place: before the item of this index, or before the first whose `field` reaches a value.

    Invariant: where there is a field, the index is not known yet, and -1.
    """

    index: int
    signal: Signal
    field: str | None = None
    value: Any = None


def at(*given: Any, **by: Any) -> At:
    """Place a signal from outside: `at(index, signal)` after so many items of the source, before the next.

    Or `at(signal, field=value)` before the first item whose field is not less than the value, in a source whose items
    are in the order of that field; behind the last, where none is.

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
    >>> sorted_readings = ps.from_items([{"t": t, "v": 1.0} for t in (10, 20, 30)])
    >>> over = sorted_readings.filter(above, state=Level).on(Threshold, level=lambda signal: signal.level)
    >>> over.collect(control=[ps.at(Threshold(0.5), t=15)]).to_pydict()
    {'t': [20, 30], 'v': [1.0, 1.0]}
    """
    if len(given) + len(by) != 2 or len(by) > 1:
        raise GraphError(f"at: write at(index, signal), or at(signal, field=value); got {(*given, *by)}")
    index, signal = (-1, given[0]) if by else given
    if not by and (not isinstance(index, SupportsIndex) or isinstance(index, bool) or operator.index(index) < 0):
        raise GraphError(f"at: the index must be a whole number of at least 0; got {index!r}")
    if not isinstance(signal, Signal):
        raise GraphError(f"at: must place an instance of a class derived from ps.Signal; got {signal!r}")
    field, value = next(iter(by.items())) if by else (None, None)
    return At(operator.index(index), signal, field, value)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A signal handed to a node: which node, after how many of the items that it received, and the signal."""

    node: int
    place: int
    signal: Signal


@dataclass(frozen=True)
class Places:
    """Where nodes are to be at work: the cores of some, and how many copies help some. Nowhere, on one core."""

    cores: Mapping[GraphNode, int] = field(default_factory=dict)
    copies: Mapping[GraphNode, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Tree:
    """The nodes that some results need, in the order of the stream, numbered from the source.

    Invariant: `nodes[0]` is the only source; a node stands behind the nodes before it. Streams may part and meet again:
    then the nodes are no tree, but each that streams meet at has a `fork`, the last node that all of them came through.
    Ensures that all types are known: a tree is made when a run starts, or is explained.
    """

    leaves: tuple[GraphNode, ...]
    places: Places = field(default_factory=lambda: Places())
    is_guarded: bool = False
    """Whether an item that fails at a node is skipped there."""
    nodes: tuple[GraphNode, ...] = field(init=False)
    number: dict[GraphNode, int] = field(init=False)
    children: dict[GraphNode, tuple[GraphNode, ...]] = field(init=False)
    fork: dict[Meet, GraphNode] = field(init=False)

    def __post_init__(self) -> None:
        nodes = list(in_order(self.leaves))
        sources = [node for node in nodes if isinstance(node, Source)]
        if len(sources) != 1:
            raise GraphError(
                f"run: results that run together must come from one source; got {quoted(s.name for s in sources)}"
            )
        resolve(nodes)
        children: dict[GraphNode, tuple[GraphNode, ...]] = dict.fromkeys(nodes, ())
        for node in nodes[1:]:
            for before in dict.fromkeys(node.inputs):
                children[before] += (node,)
        object.__setattr__(self, "nodes", tuple(nodes))
        object.__setattr__(self, "number", {node: at for at, node in enumerate(nodes)})
        object.__setattr__(self, "children", children)
        object.__setattr__(self, "fork", _forks(nodes))

    @property
    def source(self) -> Source:
        return self.nodes[0]  # type: ignore[return-value]

    def copies(self, node: GraphNode) -> int:
        """How many copies help a node."""
        return self.places.copies.get(node, 0)

    def core(self, node: GraphNode) -> int | None:
        """Which core a node is to be at work on; None where that is open."""
        return self.places.cores.get(node)

    def meets_at(self, node: GraphNode) -> list[Meet]:
        """Where the streams meet again that part at a node, in the order of the stream."""
        return [meet for meet, fork in self.fork.items() if fork is node]

    def below(self, node: GraphNode) -> Iterator[GraphNode]:
        """All nodes behind this one."""
        nodes = {node}
        for each in self.nodes[self.number[node] + 1 :]:
            if not nodes.isdisjoint(each.inputs):
                nodes.add(each)
                yield each


def in_order(leaves: Sequence[GraphNode]) -> Iterator[GraphNode]:
    """All nodes, each once, behind those before it."""
    done: set[GraphNode] = set()
    waiting = [(leaf, iter(leaf.inputs)) for leaf in reversed(leaves)]
    while waiting:
        node, inputs = waiting[-1]
        before = next((each for each in inputs if each not in done), None)
        if node in done:
            waiting.pop()
        elif before is not None:
            waiting.append((before, iter(before.inputs)))
        else:
            done.add(node)
            yield node


def _forks(nodes: Sequence[GraphNode]) -> dict[Meet, GraphNode]:
    """For every node that streams meet at, the last one that all of them came through."""
    depth: dict[GraphNode, int] = {}
    last: dict[GraphNode, GraphNode] = {}
    for node in nodes:
        sides = list(dict.fromkeys(node.inputs))
        while len(sides) > 1:
            deepest = max(sides, key=depth.__getitem__)
            sides = list(dict.fromkeys(last[side] if side is deepest else side for side in sides))
        if sides:
            last[node] = sides[0]
        depth[node] = depth[sides[0]] + 1 if sides else 0
    return {node: last[node] for node in nodes if isinstance(node, Meet)}


def above(node: GraphNode) -> set[GraphNode]:
    """All nodes before this one."""
    nodes: set[GraphNode] = set()
    waiting = list(node.inputs)
    while waiting:
        each = waiting.pop()
        if each not in nodes:
            nodes.add(each)
            waiting += each.inputs
    return nodes


def handled_signals(nodes: Iterable[GraphNode]) -> set[type[Signal]]:
    """The signals that some of these nodes handle, or hand on to another stage."""
    return {signal for node in nodes for signal in signals_at(node)}


def signals_at(node: GraphNode) -> tuple[type[Signal], ...]:
    """The signals that a node handles, or hands on to another stage."""
    if isinstance(node, Send):
        return node.signals
    timed = timed_of(node)
    if timed is not None:
        return (timed.signal,) if timed.closes else ()
    return tuple(handler.signal for handler in node.handlers) if isinstance(node, Stateful) else ()


def check_signals(tree: Tree, control: Sequence[At]) -> tuple[At, ...]:
    """The signals from outside, after checking that every signal finds a handler."""
    known = handled_signals(tree.nodes)
    if not isinstance(control, Sequence):
        raise GraphError(f"control: must be a list of signals placed by ps.at(index, signal); got {control!r}")
    for given in control:
        if not isinstance(given, At):
            raise GraphError(f"control: must hold signals placed by ps.at(index, signal); got {given!r}")
        if type(given.signal) not in known:
            raise _nobody("control", type(given.signal), known)
    for node in tree.nodes:
        if isinstance(node, Emit):
            below = handled_signals(tree.below(node))
            if node.signal not in below:
                raise _nobody(node.label, node.signal, below)
    return tuple(control)


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
