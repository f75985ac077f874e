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
from penstock.plan.idle import Idle, IdleLimit
from penstock.spark.streaming.refusals import refuse_idle


class Count(ps.State):
    n: int


def counted(state):
    state.n += 1
    return state.n


def source() -> ps.Stream:
    fields = {"k": str, "t": int, "u": int, "f": float, "at": pa.timestamp("us")}
    return ps.from_items([], schema=fields)


def idle(stream: ps.Stream, **wanted: Any) -> list[Idle | None]:
    made = cut([stream.node], idle=IdleLimit(**wanted))
    refuse_idle(Tree((stream.node,)), made, IdleLimit(**wanted))
    return [exchange.idle for exchange in made.exchanges]


def windows(stream: ps.Stream | None = None, time: str = "t", **given: Any) -> ps.Stream:
    keyed = source().key_by("k") if stream is None else stream
    return keyed.window(time, **({"length": 10, "late": 0} | given)).aggregate(n=ps.count())


def test_the_time_of_windows_is_the_time() -> None:
    assert idle(windows()) == [None]
    assert idle(windows(every=5, late=3), expire_after=99) == [Idle("t", expire_after=99)]
    assert idle(windows(time="f", length=1.5, every=0.5), expire_after=2.5) == [Idle("f", True, expire_after=2.5)]
    renamed = source().key_by("k").filter(lambda u: u > 0).map(t=lambda t: -t).select("k", second="u")
    assert idle(windows(renamed, "second"), expire_after=20) == [Idle("u", expire_after=20)]


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
    (exchange,) = cut([keyed.node], idle=IdleLimit("u", 5)).exchanges
    assert exchange.names == ("k", "u")


def test_another_time_than_that_of_windows() -> None:
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


def test_keys_do_not_end_where_a_time_that_is_made_downstream_of_them_keeps_all_in_one_task() -> None:
    with pytest.raises(GraphError, match="runs in one task, because watermark of 'w' places signals"):
        idle(windows(source().key_by("k").map(w=lambda t: t), "w"), expire_after=5)


def two_keys() -> ps.Stream:
    """Readings by their key, with the time `t`; then, without it, by how many there were."""
    counts = source().key_by("k").map(n=counted, state=Count).select("n", "f")
    return counts.key_by("n").map(m=counted, state=Count)


def test_a_time_need_not_be_a_field_at_every_key_by() -> None:
    second = datetime.timedelta(seconds=1)
    by_time = source().key_by("k").map(n=counted, state=Count).select("n").key_by("n")
    assert idle(by_time.map(m=counted, state=Count), time="at", expire_after=second) == [
        Idle("at", expire_after=1_000_000),
        Idle(None, expire_after=1000),
    ]
    assert idle(two_keys(), time={"k": "t", "n": "f"}, expire_after={"k": 5, "n": 2.5}) == [
        Idle("t", expire_after=5),
        Idle("f", True, expire_after=2.5),
    ]
    assert idle(two_keys(), time={("n",): "f"}, expire_after={"n": 1.5}) == [None, Idle("f", True, expire_after=1.5)]
    assert idle(two_keys(), expire_after={"k": 3}) == [Idle(None, expire_after=3000), None]


def test_a_key_by_has_the_name_that_it_was_given() -> None:
    again = source().key_by("k").named("first").map(n=counted, state=Count).key_by("k").named("second")
    stream = again.map(m=counted, state=Count)
    assert idle(stream, time={"second": "u"}, expire_after={"second": 9}) == [None, Idle("u", expire_after=9)]
    with pytest.raises(GraphError, match=r"several are called 'k', .* give each a name, with .named"):
        idle(stream, expire_after={"k": 9})


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"time": "t", "expire_after": 5}, "unit of 't' at key_by 'k', and in seconds of the clock at key_by 'n'"),
        ({"time": "x", "expire_after": 5}, "time= must be a field of the items at key_by 'k'"),
        ({"time": {"n": "t"}, "expire_after": 5}, "time= must be a field of the items at key_by 'n'"),
        ({"time": {"m": "t"}, "expire_after": 5}, "none is called 'm', and there are 'k', 'n'"),
        ({"expire_after": {"m": 5}}, "expire_after= must name one key_by"),
    ],
)
def test_times_of_several_key_bys_that_make_no_sense(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        idle(two_keys(), **wanted)


def ended(stream: ps.Stream) -> ps.Stream:
    def take(state):
        state.n += 1

    def end(state):
        yield state.n

    return stream.flat_map(take, to="n", at_most=1, state=Count, end=end)


def test_an_end_that_can_never_be_called_is_refused() -> None:
    by_key = ended(source().key_by("k"))
    with pytest.raises(GraphError, match=r"its end= is called when the stream ends, .* with expire_after="):
        idle(by_key)
    assert idle(by_key, expire_after=5) == [Idle(None, expire_after=5000)]
    with pytest.raises(GraphError, match="put a key_by before it and have keys end"):
        idle(ended(source()))
    # Keys end at one key_by, and the end is of the other.
    both = ended(source().key_by("k").map(m=counted, state=Count).key_by("t"))
    with pytest.raises(GraphError, match="its end= is called when the stream ends"):
        idle(both, expire_after={"k": 5})


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
