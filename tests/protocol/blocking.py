"""A state in words, and who waits for whom in one that cannot go on. In plain Python, from the state alone."""

from __future__ import annotations

from dataclasses import dataclass

from tests.protocol.model import (
    AT_V,
    AT_W,
    AT_X,
    CONTROL,
    CONTROL_MOST,
    CREDIT,
    DATA,
    DATA_MOST,
    DUE,
    EDGES,
    END,
    ENDED,
    HEARTBEAT,
    INDEX,
    KNOWN,
    STAGE,
    TOLD,
    UNTOLD,
    WIDTH,
    Model,
    State,
)

KINDS = "-hca"


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge of a state: its tokens, its messages as (kind, credits, index), what its sender and receiver know."""

    name: str
    tokens: tuple[int, ...]
    messages: tuple[tuple[int, int, int], ...]
    untold: int
    told: int
    credit: int
    known: int
    ended: int

    def __str__(self) -> str:
        tokens = " ".join(map(str, self.tokens))
        messages = " ".join(f"{KINDS[kind]}{credits}@{index}" for kind, credits, index in self.messages)
        ends = f"untold {self.untold} told {self.told} credit {self.credit} known {self.known}"
        return f"{self.name} [{tokens}] [{messages}] {ends}{' ended' if self.ended else ''}"

    @property
    def can_act(self) -> bool:
        """Whether a user's message is at the head with nothing before it."""
        return self.credit == 0 and any(kind != HEARTBEAT and not credits for kind, credits, _ in self.messages[:1])


def edge_of(s: State, e: int) -> Edge:
    part = [int(value) for value in s[e * WIDTH : (e + 1) * WIDTH]]
    tokens = tuple(i for i in part[DATA : DATA + DATA_MOST] if i)
    codes = [code for code in part[CONTROL : CONTROL + CONTROL_MOST] if code]
    messages = tuple((code & 3, code >> 2 & 7, code >> 5) for code in codes)
    return Edge(EDGES[e], tokens, messages, *(part[k] for k in (UNTOLD, TOLD, CREDIT, KNOWN, ENDED)))


def describe(s: State) -> str:
    """One line: how far each node is, and what is on each edge."""
    nodes = f"u {s[INDEX]}+{s[DUE]} v {s[AT_V]} w {s[AT_W]} x {s[AT_X]}"
    return " | ".join([nodes, *(str(edge_of(s, e)) for e in range(4))])


def is_full(m: Model, s: State, e: int) -> bool:
    """Whether an edge has no room for a token, or none for the next messages."""
    edge = edge_of(s, e)
    merges = bool(edge.messages) and edge.messages[-1][0] == HEARTBEAT and m.bursts[e] == 0
    no_message = len(edge.messages) + max(1, m.bursts[e]) > m.control[e] and not merges
    return len(edge.tokens) >= m.data[e] or no_message


def waits(m: Model, s: State) -> dict[str, set[str]]:
    """For each node, those that block it: they leave no room in its outputs, or it lacks their word."""
    source = {EDGES[e][1] for e in (0, 2) if is_full(m, s, e) and s[INDEX] <= m.indices}
    return {"u": source, "v": _inner(s, AT_V), "w": _inner(s, AT_W), "x": _join(s)}


def _inner(s: State, node: int) -> set[str]:
    edge = edge_of(s, 0 if node == AT_V else 2)
    if s[node] == END:
        return set()
    has_work = edge.credit > 0 or edge.can_act or s[node] < edge.known or s[STAGE + 1 + node - AT_V] > 0
    return {"x"} if has_work else {"u"}


def _join(s: State) -> set[str]:
    edges = [edge_of(s, e) for e in (1, 3)]
    least = min((edge.tokens[0] for edge in edges if edge.credit), default=None)
    if least is not None:
        return {edge.name[0] for edge in edges if not edge.credit and edge.known < least}
    return {edge.name[0] for edge in edges if not edge.can_act and edge.ended < 2}


def blocking_cycle(m: Model, s: State) -> tuple[str, ...]:
    """Nodes of which each is blocked by the next and the last by the first, from the first in the alphabet; or none."""
    blocked_by = waits(m, s)
    ways = [(start,) for start in sorted(blocked_by)]
    while ways:
        way = ways.pop(0)
        for node in sorted(blocked_by[way[-1]]):
            if node == way[0]:
                return way
            if node not in way:
                ways.append((*way, node))
    return ()
