"""By which time keys go idle, and what is refused about it. A clear error, or the documented silence."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import GraphError
from penstock.graph.tree import Tree
from penstock.plan.cut import cut
from penstock.plan.idle import Idle, Wanted
from penstock.spark.stream.endings import refuse_idle


class Count(ps.State):
    n: int


def counted(state):
    state.n += 1
    return state.n


def source() -> ps.Stream:
    fields = {"k": str, "t": int, "u": int, "f": float, "at": pa.timestamp("us")}
    return ps.from_items([], schema=fields)


def idle(stream: ps.Stream, **wanted: Any) -> list[Idle | None]:
    made = cut([stream.node], idle=Wanted(**wanted))
    refuse_idle(Tree((stream.node,)), made, Wanted(**wanted))
    return [exchange.idle for exchange in made.exchanges]


def windows(stream: ps.Stream | None = None, time: str = "t", **given: Any) -> ps.Stream:
    keyed = source().key_by("k") if stream is None else stream
    return keyed.window(time, **({"length": 10} | given)).aggregate(n=ps.count())


def test_the_time_of_windows_is_the_time() -> None:
    assert idle(windows()) == [Idle("t", close_after=20)]
    assert idle(windows(every=5, late=3), expire_after=99) == [Idle("t", expire_after=99, close_after=23)]
    assert idle(windows(time="f", length=1.5, every=0.5)) == [Idle("f", True, close_after=3.5)]
    renamed = source().key_by("k").filter(lambda u: u > 0).map(t=lambda t: -t).select("k", second="u")
    assert idle(windows(renamed, "second")) == [Idle("u", close_after=20)]


def test_a_batch_has_no_idle_keys() -> None:
    assert [exchange.idle for exchange in cut([windows().node]).exchanges] == [None]


def test_units() -> None:
    keyed = source().key_by("k").map(n=counted, state=Count)
    second = datetime.timedelta(seconds=1)
    assert idle(keyed, expire_after=1.5) == idle(keyed, expire_after=1.5 * second) == [Idle(None, expire_after=1500)]
    assert idle(keyed, time="at", expire_after=second) == [Idle("at", expire_after=1_000_000)]
    assert idle(keyed, time="t", expire_after=7) == [Idle("t", expire_after=7)]


def test_the_time_is_sent_though_nobody_else_uses_it() -> None:
    keyed = source().key_by("k").map(n=counted, state=Count).select("n")
    (exchange,) = cut([keyed.node], idle=Wanted("u", 5)).exchanges
    assert exchange.names == ("k", "u")


def test_where_windows_wait_for_their_own_key() -> None:
    assert idle(windows(source().key_by("k").map(w=lambda t: t), "w")) == [None]  # made behind key_by
    assert idle(windows(windows(start="since"), "since")) == [None]  # of windows
    assert idle(windows(), time="u", expire_after=5) == [Idle("u", expire_after=5)]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"time": "tt", "expire_after": 5}, "start: time= must be a field of the items at key_by 'k'; .* 't'"),
        ({"time": "k", "expire_after": 5}, "the time must be an integer, a float, a timestamp"),
        ({"time": "t", "expire_after": datetime.timedelta(1)}, "expire_after= must be an int, because 't' is int64"),
        ({"time": "t", "expire_after": 0}, "expire_after= must be more than 0"),
        ({"expire_after": "1h"}, "expire_after= must be more than 0 seconds, or a timedelta"),
        ({"expire_after": -1}, "expire_after= must be more than 0 seconds"),
        ({"time": "t"}, "time='t' must be of use"),
    ],
)
def test_what_makes_no_sense(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        idle(source().key_by("k").map(n=counted, state=Count), **wanted)


def test_windows_by_several_times_must_be_told_one() -> None:
    both = windows(source().key_by("k").map(w=lambda t: t), "w")
    with pytest.raises(GraphError, match="name it: time="):
        idle(both, expire_after=5)


def test_keys_that_cannot_end() -> None:
    with pytest.raises(GraphError, match="no node of this graph remembers anything of a key"):
        idle(source().filter(lambda t: t > 0), expire_after=5)
    gathered = source().map(n=counted, state=Count).key_by("k").map(m=counted, state=Count)
    with pytest.raises(GraphError, match="map 'm' runs in one task, because the state of map 'n' has no key"):
        idle(gathered, expire_after=5)
    whole = source().key_by("k").aggregate(n=ps.count())
    with pytest.raises(GraphError, match="gives its rows when the stream ends"):
        idle(whole)
    assert idle(whole, expire_after=5) == [Idle(None, expire_after=5000)]
