"""What each node of the diamond can do next: all states that one step leads to."""

from __future__ import annotations

import numpy as np
from tests.protocol.model import (
    ACTED,
    ASIDE,
    AT_V,
    AT_W,
    AT_X,
    BORN,
    BORN_ASIDE,
    COMMON,
    COMPUTED,
    CONTROL,
    CONTROL_MOST,
    CREDIT,
    DATA,
    DROP_MISSING,
    DUE,
    DUE_KIND,
    END,
    ENDED,
    FIRST_SIDE,
    INDEX,
    KNOWN,
    NO_WAIT,
    PLACES,
    SIZE,
    STAGE,
    UNDER_WAY,
    UV,
    UW,
    VX,
    WIDTH,
    WORK,
    WX,
    Model,
    State,
    can_act,
    can_look,
    compiled,
    has_ended,
    has_room,
    head_of,
    index_of,
    is_final,
    kind_of,
    look,
    note_action,
    note_computation,
    note_end,
    pop,
    send_all,
    send_one,
    stages,
    take_token,
)

MOST_CHOICES = 256
"""More than the steps out of any state."""


@compiled
def push(out: State, n: int, s: State) -> int:
    """One more successor: a copy of `s`."""
    for k in range(SIZE):
        out[n, k] = s[k]
    return n + 1


@compiled
def copy(s: State, t: State) -> None:
    for k in range(SIZE):
        t[k] = s[k]


# --- the source ------------------------------------------------------------------------------------------------------


@compiled
def push_choices(m: Model, out: State, n: int, s: State) -> int:
    """The source comes to an index, and to every number of messages that may be due behind it."""
    s[COMPUTED], s[DUE_KIND], s[DUE] = 0, 0, 0
    n = push(out, n, s)
    if s[INDEX] > m.indices:
        return n
    for more in range(1, m.commons - s[BORN] + 1):
        n = push(out, n, s)
        out[n - 1, DUE_KIND], out[n - 1, DUE] = COMMON, more
        for k in range(more):
            out[n - 1, PLACES] |= s[INDEX] << 3 * (s[BORN] + k)
        out[n - 1, BORN] += more
    for more in range(1, m.asides - s[BORN_ASIDE] + 1):
        n = push(out, n, s)
        out[n - 1, DUE_KIND], out[n - 1, DUE] = ASIDE, more
        out[n - 1, BORN_ASIDE] += more
    return n


@compiled
def push_after_work(m: Model, out: State, n: int, s: State) -> int:
    """The source has sent all of one piece of work: on to what else is due behind this index, or to the next one."""
    s[COMPUTED] = 1
    if s[DUE] > 0:
        return push(out, n, s)
    s[INDEX] += 1
    return push_choices(m, out, n, s)


@compiled
def source_work(s: State, mask: int) -> int:
    """Two bits of `mask` say which outputs get the token; the two edges' pieces of work lie side by side."""
    is_user = 1 if s[COMPUTED] == 0 and s[INDEX] > 0 else 0
    kind = s[DUE_KIND] if s[DUE] > 0 else 0
    common = is_user | kind << 2
    return (common | (mask & 1) << 1) | (common | (mask >> 1) << 1) << 4


@compiled
def source_steps(m: Model, out: State, n: int, s: State, t: State) -> int:
    """Compute the next index, or send the next message behind this one, or end."""
    i = s[INDEX]
    if i > m.indices:
        if i == m.indices + 1:
            copy(s, t)
            t[INDEX] += 1
            t[UV * WIDTH + ENDED] = t[UW * WIDTH + ENDED] = 1
            n = push(out, n, t)
        return n
    is_user = source_work(s, 0) & 1
    for mask in range(4 if is_user else 1):
        work = source_work(s, mask)
        copy(s, t)
        if t[DUE] > 0:
            t[DUE] -= 1
        if m.blocking:
            t[STAGE], t[WORK] = 1, work
            n = push(out, n, t)
        elif has_room(m, s, UV, i, is_user, work >> 2 & 3) and has_room(m, s, UW, i, is_user, work >> 2 & 3):
            send_all(m, t, UV, i, work & 15)
            send_all(m, t, UW, i, work >> 4)
            n = push_after_work(m, out, n, t)
    return n


@compiled
def source_emission(m: Model, out: State, n: int, s: State, t: State) -> int:
    """The next emission of what the source is in the middle of."""
    stage = s[STAGE] - 1
    first, second = (UV, UW) if m.order == UV else (UW, UV)
    e, own = (first, stage) if stage < stages(m, first) else (second, stage - stages(m, first))
    work = s[WORK] & 15 if e == UV else s[WORK] >> 4
    copy(s, t)
    if not send_one(m, t, e, own, s[INDEX], work):
        return n
    t[STAGE] += 1
    if stage + 1 < stages(m, UV) + stages(m, UW):
        return push(out, n, t)
    t[STAGE] = t[WORK] = 0
    return push_after_work(m, out, n, t)


# --- a node with one input -------------------------------------------------------------------------------------------


@compiled
def begin(m: Model, out: State, n: int, t: State, node: int, work: int) -> int:
    """A piece of work of v or w at the index it has come to; dropped if it must have room and has not."""
    e = VX if node == AT_V else WX
    if m.blocking:
        t[STAGE + 1 + node - AT_V], t[WORK + 1 + node - AT_V] = 1, work
        return push(out, n, t)
    if has_room(m, t, e, t[node], work & 1, work >> 2 & 3):
        send_all(m, t, e, t[node], work)
        return push(out, n, t)
    return n


@compiled
def emission(m: Model, out: State, n: int, s: State, t: State, node: int) -> int:
    """The next emission of what v or w is in the middle of."""
    e, at = VX if node == AT_V else WX, node - AT_V + 1
    copy(s, t)
    if not send_one(m, t, e, s[STAGE + at] - 1, s[node], s[WORK + at]):
        return n
    t[STAGE + at] += 1
    if s[STAGE + at] == stages(m, e):
        t[STAGE + at] = t[WORK + at] = 0
    return push(out, n, t)


@compiled
def node_steps(m: Model, out: State, n: int, s: State, t: State, node: int) -> int:
    """Look, compute a token (with it and without it on the output), act upon a message, follow the index that is
    known, or end."""
    e = UV if node == AT_V else UW
    at = e * WIDTH
    if can_look(m, s, e):
        copy(s, t)
        look(m, t, e)
        n = push(out, n, t)
    for token in range(2 if s[at + CREDIT] > 0 else 0):
        copy(s, t)
        note_computation(t, node, take_token(t, e))
        n = begin(m, out, n, t, node, 1 | token << 1)
    if can_act(m, s, e):
        copy(s, t)
        code = pop(t, at + CONTROL, CONTROL_MOST)
        note_action(t, node, node - AT_V, code)
        n = begin(m, out, n, t, node, COMMON << 2 if kind_of(code) == COMMON else 0)
    if s[at + CREDIT] == 0 and s[node] < s[at + KNOWN] < END:
        copy(s, t)
        t[node] = s[at + KNOWN]
        n = begin(m, out, n, t, node, 0)
    if has_ended(s, e) and s[node] < END:
        copy(s, t)
        t[node] = END
        t[(VX if node == AT_V else WX) * WIDTH + ENDED] = 1
        n = push(out, n, t)
    return n


# --- the join --------------------------------------------------------------------------------------------------------


@compiled
def least_token(s: State) -> int:
    """The least index among the tokens with credit at the heads, or END."""
    least = END
    for e in (VX, WX):
        if s[e * WIDTH + CREDIT] > 0:
            least = min(least, s[e * WIDTH + DATA])
    return least


@compiled
def is_told(s: State, e: int, i: int) -> bool:
    """Whether the join knows which token of index i, if any, this edge will bring."""
    return s[e * WIDTH + CREDIT] > 0 or s[e * WIDTH + KNOWN] >= i


@compiled
def push_computation(m: Model, out: State, n: int, s: State, t: State) -> int:
    """Compute the least index, once no side can bring it any more without having it at its head."""
    i = least_token(s)
    if i == END or not (m.fault == NO_WAIT or (is_told(s, VX, i) and is_told(s, WX, i))):
        return n
    copy(s, t)
    sides = 0
    for e in (VX, WX):
        if s[e * WIDTH + CREDIT] > 0 and s[e * WIDTH + DATA] == i:
            take_token(t, e)
            sides += 1
    if sides == 2 or m.fault != DROP_MISSING:
        note_computation(t, AT_X, i)
        t[UNDER_WAY] &= ~(1 << i)
    return push(out, n, t)


@compiled
def push_common(m: Model, out: State, n: int, s: State, t: State) -> int:
    """Act upon a common message once, when all sides have it."""
    has_v = can_act(m, s, VX) and kind_of(head_of(s, VX)) == COMMON
    has_w = can_act(m, s, WX) and kind_of(head_of(s, WX)) == COMMON
    if has_v and has_w:
        copy(s, t)
        code = pop(t, VX * WIDTH + CONTROL, CONTROL_MOST)
        pop(t, WX * WIDTH + CONTROL, CONTROL_MOST)
        note_action(t, AT_X, 2, code)
        t[ACTED] += 1 << 6
        return push(out, n, t)
    if m.fault == FIRST_SIDE and (has_v or has_w):
        copy(s, t)
        own, other = (2, 3) if has_v else (3, 2)
        code = pop(t, (VX if has_v else WX) * WIDTH + CONTROL, CONTROL_MOST)
        if s[ACTED] >> 2 * own & 3 >= s[ACTED] >> 2 * other & 3:
            note_action(t, AT_X, own, code)
        else:
            t[ACTED] += 1 << 2 * own
        return push(out, n, t)
    return n


@compiled
def push_aside(m: Model, out: State, n: int, s: State, t: State, e: int, other: int) -> int:
    """Act upon a message of one side, when the other side is known up to its place and has no token left there."""
    code = head_of(s, e)
    if not can_act(m, s, e) or kind_of(code) != ASIDE:
        return n
    at, place = other * WIDTH, index_of(code)
    if s[at + DATA] <= place if s[at + CREDIT] > 0 else s[at + KNOWN] < place:
        return n
    copy(s, t)
    pop(t, e * WIDTH + CONTROL, CONTROL_MOST)
    note_action(t, AT_X, 0, code)
    return push(out, n, t)


@compiled
def join_steps(m: Model, out: State, n: int, s: State, t: State) -> int:
    for e in (VX, WX):
        if can_look(m, s, e):
            copy(s, t)
            look(m, t, e)
            n = push(out, n, t)
    n = push_computation(m, out, n, s, t)
    n = push_common(m, out, n, s, t)
    n = push_aside(m, out, n, s, t, VX, WX)
    n = push_aside(m, out, n, s, t, WX, VX)
    if has_ended(s, VX) and has_ended(s, WX) and not is_final(s):
        copy(s, t)
        t[AT_X] = END
        note_end(t)
        n = push(out, n, t)
    return n


@compiled
def successors(m: Model, s: State, out: State) -> int:
    """Fill `out` with all states that one step from `s` leads to, and say how many."""
    t = np.empty(SIZE, np.int64)
    n = source_emission(m, out, 0, s, t) if s[STAGE] > 0 else source_steps(m, out, 0, s, t)
    for node in (AT_V, AT_W):
        is_busy = s[STAGE + node - AT_V + 1] > 0
        n = emission(m, out, n, s, t, node) if is_busy else node_steps(m, out, n, s, t, node)
    return join_steps(m, out, n, s, t)


@compiled
def starts(m: Model, out: State) -> int:
    """The states before the first index."""
    return push_choices(m, out, 0, np.zeros(SIZE, np.int64))
