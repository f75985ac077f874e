"""The protocol of joins by index as a small machine: the diamond u -> v -> x, u -> w -> x, one step at a time.

A token is its index, a state is 72 bytes, and `successors` gives every state that one step of one node can lead to.
What is a free choice in a real run (which outputs drop an index, where the source places its control messages) is a
choice of the machine. Nothing here is shared with the engine. All functions are compiled by Numba.

**The protocol.** An edge has a data queue and a control queue, both bounded. A message in the control queue carries
the *credits* for the tokens sent since the message before it, and an *index* m: every token up to m has been sent. It
is a user's message, whose place is behind index m, or a *heartbeat* (a dummy if it has no credits, a credit flush
otherwise). After its computation at index i a node, on each output, sends the token unless it drops it, then the user's
messages behind i, and then a heartbeat if i - told > interval, where `told` is the index of the last message.

**What differs from algorithm 4 of the paper** (Li, Agrawal, Buhler, Chamberlain: *Streaming Computations with Precise
Control*). Each point says more to the receiver, or demands more of the sender:

- Every message tells the index i of the computation behind which it is sent, also a credit flush and a user's message.
  There a flush tells the index of the last token sent, and a user's message tells nothing of dropped indices.
- One rule after the user's messages; the paper has one for dummies before them, and one for flushes among them.
- Of two heartbeats in a row at the end of the control queue one is made: credits added, the later index.
- A node begins nothing unless all that may come of it has room in all its outputs (`blocking=0`). In the paper each
  emission waits by itself, in the middle of a computation, edge after edge (`blocking=1`).
- A user's message from before the split, *common* to all sides, is acted upon by the join once, when all sides have it;
  one that was born on a side for the next node only, *aside*, when all sides are known up to its place. The paper does
  not bring control messages of several edges together.
- The end of a stream is a flag that needs no place; the last credits go with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

UV, VX, UW, WX = range(4)
EDGES = ("uv", "vx", "uw", "wx")

HEARTBEAT, COMMON, ASIDE = 1, 2, 3
"""The kinds of messages. Common: from u, on all edges, handed on by all. Aside: for the receiver of one edge."""

NONE, NO_DUMMY, NO_FLUSH, DROP_MISSING, NO_WAIT, FIRST_SIDE, EARLY_ACTION, NO_ROOM = range(8)
"""The faults that can be planted."""

RULE, THRESHOLD, SILENT = range(3)
"""When a sender speaks unasked: by the heartbeat rule; when its queue is full of tokens without credit; never."""

WHEN_FULL, ALWAYS, NEVER = range(3)
"""When a heartbeat is merged with the one before it."""


class Model(NamedTuple):
    """One case. Four numbers stand for the edges uv, vx, uw, wx."""

    data: tuple[int, int, int, int]
    control: tuple[int, int, int, int]
    interval: tuple[int, int, int, int]
    indices: int
    commons: int = 0
    asides: int = 0
    """How many messages for v alone are born at u, at free places, as those in common are."""
    bursts: tuple[int, int, int, int] = (0, 0, 0, 0)
    """How many messages aside follow every computation of the user's on each edge."""
    blocking: int = 0
    order: int = UV
    """The edge that u serves first. It matters only where emissions block one by one."""
    eager: int = 1
    """Whether a receiver may look at the next message while it still has credits."""
    merge: int = WHEN_FULL
    speech: int = RULE
    fault: int = NONE


# An edge's part of a state. Queues end with the first zero; a token is an index from 1, a message has a kind from 1.
DATA, CONTROL, UNTOLD, TOLD, CREDIT, KNOWN, ENDED, WIDTH = 0, 3, 8, 9, 10, 11, 12, 13
DATA_MOST, CONTROL_MOST = CONTROL - DATA, UNTOLD - CONTROL
# The source: the index to be computed, the messages due behind it, whether its tokens are out, all messages ever due.
INDEX, DUE_KIND, DUE, COMPUTED, BORN, BORN_ASIDE = range(4 * WIDTH, 4 * WIDTH + 6)
# How far each node is. What was seen: the places of the common messages, how many each node has acted upon, the indices
# under way to x, what was wrong. What each sender is in the middle of, if emissions block.
AT_V, AT_W, AT_X, PLACES, ACTED, UNDER_WAY, WRONG = range(4 * WIDTH + 6, 4 * WIDTH + 13)
STAGE, WORK = 4 * WIDTH + 13, 4 * WIDTH + 16
SIZE = 72

END = 7  # more than any index
RIGHT, COMPUTED_LATE, ACTED_LATE, OTHER_PLACE, OVERFULL, LOST, STUCK = range(7)
VERDICTS = (
    "right",
    "a token is computed after its index, or after a control message behind it",
    "a control message is acted upon after a later token",
    "a control message is not at the place where it was born",
    "a channel is above its capacity",
    "something did not arrive",
    "deadlock",
)

State = Any
"""An array of SIZE whole numbers from 0 to 255; wide ones, so that Numba compiles every function for one type only."""
compiled = njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)
"""For functions that only compiled ones call: they compile in two thirds of the time."""


# --- queues ----------------------------------------------------------------------------------------------------------


@compiled
def length(s: State, start: int, most: int) -> int:
    n = 0
    while n < most and s[start + n] != 0:
        n += 1
    return n


@compiled
def pop(s: State, start: int, most: int) -> int:
    head = s[start]
    for k in range(start, start + most - 1):
        s[k] = s[k + 1]
    s[start + most - 1] = 0
    return head


@compiled
def append(s: State, start: int, most: int, capacity: int, value: int) -> None:
    n = length(s, start, most)
    if n >= capacity:
        s[WRONG] = OVERFULL
    else:
        s[start + n] = value


@compiled
def message(kind: int, credits: int, index: int) -> int:
    return kind | credits << 2 | index << 5


@compiled
def kind_of(code: int) -> int:
    return code & 3


@compiled
def credits_of(code: int) -> int:
    return code >> 2 & 7


@compiled
def index_of(code: int) -> int:
    return code >> 5


@compiled
def head_of(s: State, e: int) -> int:
    """The message at the head of an edge's control queue, or 0."""
    return s[e * WIDTH + CONTROL]


@compiled
def controls(s: State, e: int) -> int:
    return length(s, e * WIDTH + CONTROL, CONTROL_MOST)


# --- the sender of an edge -------------------------------------------------------------------------------------------


@compiled
def send_token(m: Model, s: State, e: int, i: int) -> None:
    append(s, e * WIDTH + DATA, DATA_MOST, m.data[e], i)
    s[e * WIDTH + UNTOLD] += 1
    if e in (VX, WX):
        s[UNDER_WAY] |= 1 << i


@compiled
def send_message(m: Model, s: State, e: int, kind: int, i: int) -> None:
    """Any message: it takes all credits with it, and tells how far the sender is."""
    at = e * WIDTH
    n = controls(s, e)
    if merges(m, s, e, kind):
        last = s[at + CONTROL + n - 1]
        s[at + CONTROL + n - 1] = message(HEARTBEAT, credits_of(last) + s[at + UNTOLD], i)
    else:
        append(s, at + CONTROL, CONTROL_MOST, m.control[e], message(kind, s[at + UNTOLD], i))
    s[at + UNTOLD] = 0
    s[at + TOLD] = i


@compiled
def merges(m: Model, s: State, e: int, kind: int) -> bool:
    n = controls(s, e)
    if kind != HEARTBEAT or n == 0 or kind_of(s[e * WIDTH + CONTROL + n - 1]) != HEARTBEAT:
        return False
    return m.merge == ALWAYS or (m.merge == WHEN_FULL and n == m.control[e])


@compiled
def heartbeat_is_due(m: Model, s: State, e: int, i: int, untold: int) -> bool:
    if m.speech == SILENT or (m.fault == NO_DUMMY and untold == 0) or (m.fault == NO_FLUSH and untold > 0):
        return False
    if m.speech == THRESHOLD:
        return untold >= m.data[e]
    return i > s[e * WIDTH + TOLD] + m.interval[e]


@compiled
def has_room(m: Model, s: State, e: int, i: int, is_user: int, kind: int) -> bool:
    """Whether all that may come of one piece of work on one edge has room. What may come is known beforehand: a token
    if the work is a computation of the user's, its messages, and a heartbeat if there are no messages."""
    untold = s[e * WIDTH + UNTOLD]
    if is_user and length(s, e * WIDTH + DATA, DATA_MOST) >= m.data[e]:
        return False
    if m.fault == NO_ROOM:
        return True
    wanted = (m.bursts[e] if is_user else 0) + (1 if concerns(kind, e) else 0)
    if wanted > 0:
        return controls(s, e) + wanted <= m.control[e]
    if heartbeat_is_due(m, s, e, i, untold) or (is_user and heartbeat_is_due(m, s, e, i, untold + 1)):
        return controls(s, e) < m.control[e] or merges(m, s, e, HEARTBEAT)
    return True


@compiled
def concerns(kind: int, e: int) -> bool:
    """Whether a message that a node has to send goes on this edge. Of those born aside, only v's receiver gets one."""
    return kind == COMMON or (kind == ASIDE and e == UV)


@compiled
def send_one(m: Model, s: State, e: int, stage: int, i: int, work: int) -> bool:
    """One emission of a piece of work on one edge: the token, a message aside, the message, the heartbeat. False, with
    nothing done, if it has no room."""
    is_user, token, kind = work & 1, work >> 1 & 1, work >> 2 & 3
    if stage == 0:
        if token and length(s, e * WIDTH + DATA, DATA_MOST) >= m.data[e]:
            return False
        if token:
            send_token(m, s, e, i)
        return True
    if stage <= m.bursts[e]:
        speaks, kind = is_user == 1, ASIDE
    elif stage == m.bursts[e] + 1:
        speaks = concerns(kind, e)
    else:
        speaks, kind = heartbeat_is_due(m, s, e, i, s[e * WIDTH + UNTOLD]), HEARTBEAT
    if speaks and controls(s, e) >= m.control[e] and not merges(m, s, e, kind):
        return False
    if speaks:
        send_message(m, s, e, kind, i)
    return True


@compiled
def stages(m: Model, e: int) -> int:
    return m.bursts[e] + 3


@compiled
def send_all(m: Model, s: State, e: int, i: int, work: int) -> None:
    """A whole piece of work on one edge, which has room for it."""
    for stage in range(stages(m, e)):
        if not send_one(m, s, e, stage, i, work):
            s[WRONG] = OVERFULL


# --- the receiver of an edge -----------------------------------------------------------------------------------------


@compiled
def can_look(m: Model, s: State, e: int) -> bool:
    """Whether the control queue, or the flag at its end, has news."""
    at, code = e * WIDTH, head_of(s, e)
    if not m.eager and s[at + CREDIT] > 0:
        return False
    if code == 0:
        return s[at + ENDED] == 1
    return kind_of(code) == HEARTBEAT or credits_of(code) > 0 or index_of(code) > s[at + KNOWN]


@compiled
def look(m: Model, s: State, e: int) -> None:
    """Take credits and index from the head of the control queue. A heartbeat is no more; a user's message stays."""
    at, code = e * WIDTH, head_of(s, e)
    if code == 0:
        s[at + CREDIT] += s[at + UNTOLD]
        s[at + UNTOLD], s[at + KNOWN], s[at + ENDED] = 0, END, 2
        return
    s[at + CREDIT] += credits_of(code)
    s[at + KNOWN] = index_of(code)
    if kind_of(code) == HEARTBEAT:
        pop(s, at + CONTROL, CONTROL_MOST)
    else:
        s[at + CONTROL] = message(kind_of(code), 0, index_of(code))


@compiled
def can_act(m: Model, s: State, e: int) -> bool:
    """Whether a user's message is at the head, was looked at, and all tokens before it are consumed."""
    at, code = e * WIDTH, head_of(s, e)
    is_seen = kind_of(code) > HEARTBEAT and credits_of(code) == 0 and index_of(code) <= s[at + KNOWN]
    return is_seen and (s[at + CREDIT] == 0 or m.fault == EARLY_ACTION)


@compiled
def take_token(s: State, e: int) -> int:
    s[e * WIDTH + CREDIT] -= 1
    return pop(s, e * WIDTH + DATA, DATA_MOST)


@compiled
def has_ended(s: State, e: int) -> bool:
    return s[e * WIDTH + ENDED] == 2 and s[e * WIDTH + CREDIT] == 0


# --- what is right ---------------------------------------------------------------------------------------------------


@compiled
def note_computation(s: State, node: int, i: int) -> None:
    """Indices go up, and none is computed after a control message behind it or behind a later one."""
    if i <= s[node]:
        s[WRONG] = COMPUTED_LATE
    s[node] = i


@compiled
def note_action(s: State, node: int, counter: int, code: int) -> None:
    """A control message is acted upon before every later token; one in common also where it was born."""
    if index_of(code) < s[node]:
        s[WRONG] = ACTED_LATE
    if kind_of(code) == COMMON:
        nth = s[ACTED] >> 2 * counter & 3
        if s[PLACES] >> 3 * nth & 7 != index_of(code):
            s[WRONG] = OTHER_PLACE
        s[ACTED] += 1 << 2 * counter
    s[node] = max(s[node], index_of(code))


@compiled
def is_final(s: State) -> bool:
    return s[AT_X] == END


@compiled
def note_end(s: State) -> None:
    """At the end nothing is left anywhere, and every node has acted upon every common message."""
    for e in range(4):
        if s[e * WIDTH + DATA] != 0 or s[e * WIDTH + CONTROL] != 0 or s[e * WIDTH + UNTOLD] != 0:
            s[WRONG] = LOST
    if s[UNDER_WAY] != 0 or s[ACTED] != s[BORN] * 0b01010101:
        s[WRONG] = LOST
