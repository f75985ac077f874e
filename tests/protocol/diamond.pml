/* The protocol of joins by index on the diamond u -> v -> x, u -> w -> x, for the model checker spin.
 *
 * The same protocol as tests/protocol/model.py (its docstring says how it differs from the paper's algorithm 4), written
 * a second time in another language, so that an error in the one is not an error in the other. Differences in form:
 *
 * - The heartbeat at the tail of a control queue lies beside the channel, because a channel of spin cannot be changed at
 *   its tail. Two heartbeats in a row are always merged.
 * - A user's message that was looked at and waits for its tokens lies beside the channel too. Both still take a place.
 * - There are no messages for one side only.
 *
 * spin explores every interleaving and every choice. It finds a deadlock as an invalid end state, and what is not
 * precise as an assertion violated. A step is atomic, and its guard asks for room for all that it may send, so nothing
 * blocks within it. Faults that can be planted: RAISE_UV, RAISE_VX (added to the interval), NO_DUMMY, NO_FLUSH,
 * NO_WAIT, FIRST_SIDE. Capacities are given for all four edges or for none, and so are intervals.
 */

#ifndef INDICES
#define INDICES 3
#endif
#ifndef COMMONS
#define COMMONS 1
#endif

/* Capacities of the data queues and of the control queues, and intervals that inequalities (3) to (5) allow. */
#ifndef Q_UV
#define Q_UV 2
#define Q_VX 2
#define Q_UW 2
#define Q_WX 2
#endif
#ifndef CONTROL
#define CONTROL 2
#endif
#ifndef H_UV
#define H_UV 1
#define H_VX 1
#define H_UW 1
#define H_WX 1
#endif

#ifndef RAISE_UV
#define RAISE_UV 0
#endif
#ifndef RAISE_VX
#define RAISE_VX 0
#endif
#define I_UV (H_UV + RAISE_UV)
#define I_VX (H_VX + RAISE_VX)
#define I_UW H_UW
#define I_WX H_WX

#define UV 0
#define VX 1
#define UW 2
#define WX 3
#define END 100

mtype = { heartbeat, common };

typedef Edge {
    /* the sender's: tokens sent without credit; the index of the last message; whether it has ended */
    byte untold;
    byte told;
    bool closed;
    /* the heartbeat at the tail */
    bool beats;
    byte beat_credits;
    byte beat_index;
    /* the receiver's: credits, the index it knows, the first token it has credit for, a message looked at */
    byte credit;
    byte known;
    byte head;
    bool waiting;
    byte place;
}

Edge edge[4];
chan tokens_uv = [Q_UV] of { byte };
chan tokens_vx = [Q_VX] of { byte };
chan tokens_uw = [Q_UW] of { byte };
chan tokens_wx = [Q_WX] of { byte };
chan messages_uv = [CONTROL] of { mtype, byte, byte };
chan messages_vx = [CONTROL] of { mtype, byte, byte };
chan messages_uw = [CONTROL] of { mtype, byte, byte };
chan messages_wx = [CONTROL] of { mtype, byte, byte };

/* What is right: where each common message was born. */
byte born;
byte birth[COMMONS + 1];

/* --- the sender of an edge: e is its number, q its data channel, c its control channel ---------------------------- */

#define TAKEN(e, c)      (len(c) + edge[e].beats + edge[e].waiting)
#define DUE(e, h, i)     ((i) > edge[e].told + (h))
#define MAY_BEAT(e, c, h, i) (!DUE(e, h, i) || edge[e].beats || TAKEN(e, c) < CONTROL)
#define MAY_SAY(e, c)    (TAKEN(e, c) < CONTROL)

inline send_token(e, q, i) {
    q!i;
    edge[e].untold++
}

inline say(e, c, i) {
    if
    :: edge[e].beats ->
        c!heartbeat(edge[e].beat_credits, edge[e].beat_index);
        edge[e].beats = false; edge[e].beat_credits = 0; edge[e].beat_index = 0
    :: else
    fi;
    assert(TAKEN(e, c) < CONTROL);
    c!common(edge[e].untold, i);
    edge[e].untold = 0;
    edge[e].told = i
}

#ifdef NO_DUMMY
#define SPEAKS(e) (edge[e].untold > 0)
#else
#ifdef NO_FLUSH
#define SPEAKS(e) (edge[e].untold == 0)
#else
#define SPEAKS(e) true
#endif
#endif

inline beat(e, c, h, i) {
    if
    :: DUE(e, h, i) && SPEAKS(e) ->
        assert(edge[e].beats || TAKEN(e, c) < CONTROL);
        edge[e].beats = true;
        edge[e].beat_credits = edge[e].beat_credits + edge[e].untold;
        edge[e].beat_index = i;
        edge[e].untold = 0;
        edge[e].told = i
    :: else
    fi
}

/* --- the receiver of an edge -------------------------------------------------------------------------------------- */

#define NEWS(e, c) (!edge[e].waiting && (len(c) > 0 || edge[e].beats || (edge[e].closed && edge[e].known != END)))

inline look(e, q, c) {
    if
    :: len(c) > 0 ->
        c?kind, credits, index;
        edge[e].credit = edge[e].credit + credits;
        edge[e].known = index;
        if
        :: kind == common -> edge[e].waiting = true; edge[e].place = index
        :: else
        fi
    :: len(c) == 0 && edge[e].beats ->
        edge[e].credit = edge[e].credit + edge[e].beat_credits;
        edge[e].known = edge[e].beat_index;
        edge[e].beats = false; edge[e].beat_credits = 0; edge[e].beat_index = 0
    :: len(c) == 0 && !edge[e].beats ->
        edge[e].credit = edge[e].credit + edge[e].untold;
        edge[e].untold = 0;
        edge[e].known = END
    fi;
    kind = 0; credits = 0; index = 0; /* what is over must not tell states apart */
    see_head(e, q)
}

/* A token with credit is always there: it was sent before its credit. */
inline see_head(e, q) {
    if
    :: edge[e].credit > 0 -> assert(len(q) > 0); q?<edge[e].head>
    :: else -> edge[e].head = 0
    fi
}

inline take(e, q) {
    q?_;
    edge[e].credit--;
    see_head(e, q)
}

#define CAN_ACT(e) (edge[e].waiting && edge[e].credit == 0)
#define HAS_ENDED(e) (edge[e].known == END && edge[e].credit == 0)

/* A common message: before it no later index, and it stands where it was born. */
inline act(e) {
    assert(edge[e].place >= at);
    assert(edge[e].place == birth[acted]);
    acted++;
    at = edge[e].place;
    edge[e].waiting = false;
    edge[e].place = 0
}

/* --- the nodes ---------------------------------------------------------------------------------------------------- */

/* The source comes to an index, and chooses how many messages will be due behind it. */
inline choose_due() {
    computed = false;
    do
    :: i <= INDICES && born < COMMONS -> birth[born] = i; born++; due++
    :: break
    od
}

inline go_on() {
    if
    :: due > 0 -> computed = true
    :: else -> i++; choose_due()
    fi
}

inline say_both() {
    say(UV, messages_uv, i);
    say(UW, messages_uw, i);
    due--
}

#define BOTH_MAY_SAY (MAY_SAY(UV, messages_uv) && MAY_SAY(UW, messages_uw))
#define BOTH_MAY_BEAT (MAY_BEAT(UV, messages_uv, I_UV, i) && MAY_BEAT(UW, messages_uw, I_UW, i))

proctype u() {
    byte i, due;
    bool computed;
    atomic { choose_due() };
    do
    :: atomic {
           i <= INDICES && !computed && (i == 0 || (len(tokens_uv) < Q_UV && len(tokens_uw) < Q_UW)) &&
           (due == 0 || BOTH_MAY_SAY) && (due > 0 || BOTH_MAY_BEAT) ->
           if
           :: i > 0 -> send_token(UV, tokens_uv, i)
           :: true
           fi;
           if
           :: i > 0 -> send_token(UW, tokens_uw, i)
           :: true
           fi;
           if
           :: due > 0 -> say_both()
           :: else -> beat(UV, messages_uv, I_UV, i); beat(UW, messages_uw, I_UW, i)
           fi;
           go_on()
       }
    :: atomic { computed && BOTH_MAY_SAY -> say_both(); go_on() }
    :: atomic { i > INDICES -> edge[UV].closed = true; edge[UW].closed = true; break }
    od
}

/* v and w: from edge a with the channels p and c to edge b with the channels q and d, of this capacity and interval. */
proctype inner(byte a; chan p; chan c; byte b; chan q; chan d; byte capacity; byte h) {
    byte at, acted, credits, index;
    mtype kind;
    do
    :: atomic { NEWS(a, c) -> look(a, p, c) }
    :: atomic {
           edge[a].head > 0 && len(q) < capacity && MAY_BEAT(b, d, h, edge[a].head) ->
           assert(edge[a].head > at);
           at = edge[a].head;
           take(a, p);
           if
           :: send_token(b, q, at)
           :: true
           fi;
           beat(b, d, h, at)
       }
    :: atomic { CAN_ACT(a) && MAY_SAY(b, d) -> act(a); say(b, d, at) }
    :: atomic {
           edge[a].credit == 0 && edge[a].known > at && edge[a].known < END && MAY_BEAT(b, d, h, edge[a].known) ->
           at = edge[a].known;
           beat(b, d, h, at)
       }
    :: atomic { HAS_ENDED(a) -> assert(acted == born); edge[b].closed = true; break }
    od
}

#ifdef NO_WAIT
#define LATER(e, i) (edge[e].head == 0 || edge[e].head > (i))
#else
#define LATER(e, i) (edge[e].head > (i) || (edge[e].head == 0 && edge[e].known >= (i)))
#endif

inline compute(i) {
    assert(i > at);
    at = i
}

proctype x() {
    byte at, acted, credits, index;
    mtype kind;
    do
    :: atomic { NEWS(VX, messages_vx) -> look(VX, tokens_vx, messages_vx) }
    :: atomic { NEWS(WX, messages_wx) -> look(WX, tokens_wx, messages_wx) }
    :: atomic { edge[VX].head > 0 && LATER(WX, edge[VX].head) -> compute(edge[VX].head); take(VX, tokens_vx) }
    :: atomic { edge[WX].head > 0 && LATER(VX, edge[WX].head) -> compute(edge[WX].head); take(WX, tokens_wx) }
    :: atomic {
           edge[VX].head > 0 && edge[VX].head == edge[WX].head ->
           compute(edge[VX].head);
           take(VX, tokens_vx);
           take(WX, tokens_wx)
       }
#ifdef FIRST_SIDE
    :: atomic {
           CAN_ACT(VX) -> act(VX)
       }
    :: atomic { CAN_ACT(WX) -> edge[WX].waiting = false; edge[WX].place = 0 }
#else
    :: atomic {
           CAN_ACT(VX) && CAN_ACT(WX) ->
           assert(edge[VX].place == edge[WX].place);
           act(VX);
           edge[WX].waiting = false;
           edge[WX].place = 0
       }
#endif
    :: atomic { HAS_ENDED(VX) && HAS_ENDED(WX) -> break }
    od;
    assert(acted == born);
    assert(len(tokens_uv) + len(tokens_vx) + len(tokens_uw) + len(tokens_wx) == 0)
}

init {
    atomic {
        run u();
        run inner(UV, tokens_uv, messages_uv, VX, tokens_vx, messages_vx, Q_VX, I_VX);
        run inner(UW, tokens_uw, messages_uw, WX, tokens_wx, messages_wx, Q_WX, I_WX);
        run x()
    }
}
