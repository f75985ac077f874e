"""The exact throughput of a net without choice: its slowest cycle, found without simulating.

A net in which every place has one producer and one consumer, and every time is constant, is a marked graph: along each
cycle the number of tokens never changes, so that no transition on it can fire more often than once for each token in
the time of one round. The largest ratio of time to tokens among the cycles is the time of one firing, and the net
reaches it. Arcs with weights are unfolded first: a transition becomes as many as it fires in one round of the net.

The largest ratio is found in whole numbers: guess the ratio of some cycle, look for a cycle that is slower than the
guess (a positive cycle, where each arc weighs time · denominator - tokens · numerator), and guess again with that one.
Every guess is a ratio that some cycle has, and larger than the one before, so the last is exact.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from penstock.errors import ModelError, quoted
from penstock.tune.model.net import Constant, Net, Place
from penstock.tune.model.wiring import in_ticks

UNFOLDED = 200_000
"""The most transitions that a net with weights may be unfolded into."""


@dataclass(frozen=True, slots=True)
class NetEdge:
    """A place of a marked graph: from its producer to its consumer, with the time of the producer."""

    source: int
    target: int
    time: int
    tokens: int
    place: str


@dataclass(frozen=True, slots=True)
class NetCycle:
    """The slowest cycle of a net: the time of one round, the tokens on it, and the places along it."""

    time: Fraction
    tokens: int
    places: tuple[str, ...]


def cycle_rate(net: Net, transition: str) -> Fraction:
    """How often a transition fires in one unit of time, in the long run; exact.

    >>> from penstock.tune.model.net import Place, Transition
    >>> work = Transition("work", 3, {"idle": 1}, {"idle": 1})
    >>> cycle_rate(Net((Place("idle", 2),), (work,)), "work")
    Fraction(2, 3)
    """
    cycle = slowest_cycle(net, transition)
    if cycle.time == 0:
        raise ModelError(f"net: some cycle behind {transition!r} must take time; none does, so it fires without end")
    return rounds(net)[net.number[transition]] * cycle.tokens / cycle.time


def slowest_cycle(net: Net, transition: str) -> NetCycle:
    """The cycle that holds a transition back the most: the one of the largest ratio of time to tokens behind it.

    Its time and tokens are for one round of the net, in which a transition fires as often as `rounds` says.
    """
    _check(net, transition)
    repeated = rounds(net)
    if sum(repeated) > UNFOLDED:
        raise ModelError(
            f"net: its weights must allow a round of at most {UNFOLDED:,} firings; a round has {sum(repeated):,}; "
            "simulate it instead"
        )
    firsts = [0]
    for count in repeated:
        firsts.append(firsts[-1] + count)
    edges = _behind(_unfold(net, repeated, firsts), firsts[-1], firsts[net.number[transition]])
    cycle = _largest(edges, firsts[-1])
    time = sum(edge.time for edge in cycle)
    return NetCycle(Fraction(time, net.ticks), sum(e.tokens for e in cycle), tuple(edge.place for edge in cycle))


def rounds(net: Net) -> list[int]:
    """How often each transition fires in one round, after which every place holds what it held before.

    Parts of the net that no place connects have rounds of their own.
    """
    ends: list[list[tuple[int, Fraction, str]]] = [[] for _ in net.transitions]
    for place, source, target in _joining(net):
        made = dict(net.transitions[source].gives)[place.name]
        taken = dict(net.transitions[target].takes)[place.name]
        ends[source].append((target, Fraction(made, taken), place.name))
        ends[target].append((source, Fraction(taken, made), place.name))
    rates: list[Fraction | None] = [None] * len(ends)
    counts = [0] * len(ends)
    for start in range(len(ends)):
        if rates[start] is None:
            part = _balance(start, ends, rates)
            scale = math.lcm(*(rate.denominator for rate in part.values()))
            whole = math.gcd(*((rate * scale).numerator for rate in part.values()))
            for member, rate in part.items():
                counts[member] = (rate * scale).numerator // whole
    return counts


def _joining(net: Net) -> Iterator[tuple[Place, int, int]]:
    """The places with their producer and consumer; what nobody takes from holds nobody back."""
    for number, place in enumerate(net.places):
        if net.consumers[number]:
            yield place, net.producers[number][0], net.consumers[number][0]


def _balance(
    start: int, ends: list[list[tuple[int, Fraction, str]]], rates: list[Fraction | None]
) -> dict[int, Fraction]:
    """The rates of all transitions that places connect to the first, which has rate 1."""
    part = {start: Fraction(1)}
    rates[start] = Fraction(1)
    waiting = [start]
    while waiting:
        at = waiting.pop()
        for other, ratio, place in ends[at]:
            rate = part[at] * ratio
            if other not in part:
                part[other] = rates[other] = rate
                waiting.append(other)
            elif part[other] != rate:
                raise ModelError(
                    f"place {place!r}: the weights of a net must balance, or its tokens run out or pile up; around "
                    f"this place they do not: one side fires {rate} times where it must {part[other]} times"
                )
    return part


def _check(net: Net, transition: str) -> None:
    if transition not in {t.name for t in net.transitions}:
        raise ModelError(f"cycle_rate: {transition!r} must be a transition of the net, and is none")
    ends = zip(net.places, net.producers, net.consumers, strict=True)
    many = [place.name for place, giving, taking in ends if taking and (len(giving), len(taking)) != (1, 1)]
    if many:
        raise ModelError(
            "net: for an exact rate each place must have one producer and one consumer, so that nothing is chosen; "
            f"not so {quoted(many[:8])}; simulate the net instead"
        )
    varying = [t.name for t in net.transitions if not isinstance(t.time, Constant)]
    if varying:
        raise ModelError(
            f"net: for an exact rate each time must be constant; not so {quoted(varying[:8])}; simulate it"
        )


def _unfold(net: Net, repeated: Sequence[int], firsts: Sequence[int]) -> list[NetEdge]:
    """The net with a transition for each firing of a round: an edge for each group of tokens that one waits for.

    The n-th firing of a consumer takes up to token `taken · n`; of these the place has `tokens` at first, so that the
    last comes from the producer's firing that makes token `taken · n - tokens`, maybe in a round before.
    """
    edges = []
    for place, source, target in _joining(net):
        made = dict(net.transitions[source].gives)[place.name]
        taken = dict(net.transitions[target].takes)[place.name]
        time = in_ticks(net, net.transitions[source].time.values[0])
        for firing in range(repeated[target]):
            producing = -((place.tokens - taken * (firing + 1)) // made) - 1  # the last that it waits for, from 0
            before, within = divmod(producing, repeated[source])
            edges.append(NetEdge(firsts[source] + within, firsts[target] + firing, time, -before, place.name))
    return edges


def _behind(edges: list[NetEdge], size: int, transition: int) -> list[NetEdge]:
    """The edges from which a way leads to the transition: what else there is does not hold it back."""
    into: list[list[NetEdge]] = [[] for _ in range(size)]
    for edge in edges:
        into[edge.target].append(edge)
    seen, waiting, kept = {transition}, [transition], []
    while waiting:
        for edge in into[waiting.pop()]:
            kept.append(edge)
            if edge.source not in seen:
                seen.add(edge.source)
                waiting.append(edge.source)
    return kept


def _largest(edges: list[NetEdge], size: int) -> list[NetEdge]:
    """The cycle with the largest ratio of time to tokens."""
    weights = [-edge.tokens * (size + 1) + (edge.tokens == 0) for edge in edges]
    if stuck := _positive_cycle(edges, weights, size):
        raise ModelError(
            "net: each cycle must hold a token, or nothing on it can ever fire; these places lack tokens: "
            f"{quoted(dict.fromkeys(edge.place for edge in stuck))}; put tokens on the cycle"
        )
    cycle: list[NetEdge] = []
    time, tokens = 0, 1
    while True:
        weights = [edge.time * tokens - edge.tokens * time for edge in edges]
        slower = _positive_cycle(edges, weights, size)
        if not slower:
            return cycle or _any_cycle(edges, size)
        cycle = slower
        time, tokens = sum(edge.time for edge in cycle), sum(edge.tokens for edge in cycle)


def _any_cycle(edges: list[NetEdge], size: int) -> list[NetEdge]:
    """A cycle, where none takes time: as each transition has a producer behind it, there is one."""
    return _positive_cycle(edges, [1] * len(edges), size)


def _positive_cycle(edges: list[NetEdge], weights: list[int], size: int) -> list[NetEdge]:
    """The edges of a cycle of positive weight, in the order of the flow, or none where there is no such cycle.

    Longest ways by relaxation from all nodes at once; a cycle shows in the edges by which nodes were last reached.
    """
    out: list[list[int]] = [[] for _ in range(size)]
    for at, edge in enumerate(edges):
        out[edge.source].append(at)
    length, last = [0] * size, [-1] * size
    queue, queued = deque(range(size)), [True] * size
    steps = 0
    while queue:
        node = queue.popleft()
        queued[node] = False
        for at in out[node]:
            target = edges[at].target
            if length[node] + weights[at] > length[target]:
                length[target] = length[node] + weights[at]
                last[target] = at
                steps += 1
                if steps % size == 0 and (cycle := _cycle_of(edges, last)):
                    return cycle
                if not queued[target]:
                    queued[target] = True
                    queue.append(target)
    return []


def _cycle_of(edges: list[NetEdge], last: list[int]) -> list[NetEdge]:
    """A cycle among the edges by which nodes were last reached."""
    seen = [0] * len(last)
    for start in range(len(last)):
        node = start
        while last[node] >= 0 and not seen[node]:
            seen[node] = start + 1
            node = edges[last[node]].source
        if last[node] >= 0 and seen[node] == start + 1:
            return _round(edges, last, node)
    return []


def _round(edges: list[NetEdge], last: list[int], node: int) -> list[NetEdge]:
    cycle: list[NetEdge] = []
    at = node
    while not cycle or at != node:
        cycle.append(edges[last[at]])
        at = cycle[-1].source
    return cycle[::-1]
