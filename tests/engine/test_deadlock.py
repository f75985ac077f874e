"""The two deadlocks of the paper on precise control: found at once where heartbeats are left out, and none with them."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.engine.run import Run
from penstock.graph import reference

CORES = pytest.mark.parametrize("cores", [1, 2])


class Alarm(ps.Signal):
    at: int


class Heard(ps.State):
    last: int


def note(state: Any, signal: Any) -> None:
    state.last = signal.at


def diamond(items: int) -> ps.Stream:
    """The four nodes u, v, w and x of figure 3: w drops 46 of 64 items, and no other node drops any."""
    u = ps.from_items([{"i": i} for i in range(items)]).map(u=lambda i: i + 1)
    v, w = u.map(v=lambda i: 2 * i), u.filter(lambda i: i % 32 < 9)
    return ps.align(v, w)


def alarms(items: int) -> ps.Stream:
    """Section 4.3: v sends a signal behind every item, and w drops all items, so that x hears nothing of it."""
    u = ps.from_items([{"i": i} for i in range(items)]).map(u=lambda i: i + 1)
    v, w = u.emit(Alarm, when=lambda i: i >= 0, at=lambda i: i), u.filter(lambda i: i < 0)
    return ps.merge(v, w).map(heard=lambda state: state.last, state=Heard).on(Alarm, note)


def run(stream: ps.Stream, **given: Any) -> Run:
    return Run((stream.node,), fuse=False, compile=False, check=True, trace=True, **given)


def told(stream: ps.Stream, **given: Any) -> str:
    """The error with which a run stops."""
    with pytest.raises(ps.DeadlockError) as error:
        run(stream, **given).tables()
    return str(error.value)


def waits(message: str) -> list[str]:
    """Who waits for whom, in the order of the circle, without how much."""
    circle = message.split("these wait for each other: ")[1].split("; leave ")[0]
    return circle.split("; ")


def assert_right(stream: ps.Stream, **given: Any) -> None:
    wanted, found = reference.run((stream.node,)), run(stream, **given).result()
    assert found.tables == wanted.tables
    assert found.signals == wanted.signals


FIGURE_3 = {"credit": "balance", "capacity": 32, "threshold": 31}


@CORES
def test_figure_3_stops_without_heartbeats_and_names_the_circle(cores: int) -> None:
    found = waits(told(diamond(100), heartbeat="never", cores=cores, **FIGURE_3))
    assert len(found) == 4
    assert any(part.startswith("map 'u' waits for room (32 of 32 items") and part.endswith("map 'v'") for part in found)
    assert any(part.startswith("map 'v' waits for room (32 of 32 items") for part in found)
    assert "filter waits for items, or word of how far it has come, from map 'u'" in found
    assert any("waits for credit (for 18 items that are there) from filter" in part for part in found)


@CORES
def test_figure_3_ends_with_heartbeats(cores: int) -> None:
    assert_right(diamond(100), cores=cores, **FIGURE_3)
    assert_right(diamond(100), heartbeat=0, cores=cores, **FIGURE_3)


def test_the_message_says_what_to_do() -> None:
    message = told(diamond(100), heartbeat="never", **FIGURE_3)
    assert message.startswith("run: all nodes must be able to go on until the stream ends; these wait for each other: ")
    assert message.endswith("leave heartbeat= to the plan, or make capacity= and capacity_signals= larger")


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_it_is_the_capacity_that_decides(capacity: int) -> None:
    """Where the channels hold all items, nothing has to wait."""
    assert len(waits(told(diamond(40), heartbeat="never", capacity=capacity))) == 4
    assert_right(diamond(40), heartbeat="never", capacity=40)


def test_an_interval_by_hand_that_is_safe_and_one_that_is_not() -> None:
    """Inequality (3): on one half of the diamond two intervals must stay below what two channels of 4 hold."""
    items = ps.from_items([{"i": i} for i in range(50)]).map(u=lambda i: i)
    stream = ps.align(items.map(v=lambda i: i), items.filter(lambda i: i < 0))
    assert_right(stream, heartbeat=3, capacity=4)
    assert len(waits(told(stream, heartbeat=9, capacity=4))) == 4


def test_signals_of_one_region_that_do_not_fit_a_channel() -> None:
    """Sides hand on what they emit within a region side by side, so that it waits until the region ends on all."""
    inside = ps.from_items([{"i": i} for i in range(9)]).regions(start=lambda i: i == 0)
    one = inside.emit(Alarm, when=lambda i: i >= 0, at=lambda i: i).aggregate(a=ps.count())
    other = inside.filter(lambda i: i > 3).aggregate(b=ps.count())
    joined = ps.align(other, one).map(heard=lambda state: state.last, state=Heard).on(Alarm, note)
    assert_right(joined, capacity=1)
    assert_right(joined, capacity=1, capacity_signals=10)
    message = told(joined, capacity=1, capacity_signals=2)
    assert message.endswith(
        "make capacity_signals= larger: a channel must hold the signals of one list, or of one region"
    )


@CORES
def test_full_control_channels_stop_without_heartbeats(cores: int) -> None:
    found = waits(told(alarms(50), heartbeat="never", capacity=8, capacity_signals=2, cores=cores))
    assert any(part.startswith("emit 'Alarm' waits for room (2 of 2 signals") for part in found)
    assert any(part.startswith("map 'u' waits for room (8 of 8 items") for part in found)
    assert len(found) == 4


@CORES
@pytest.mark.parametrize("capacity", [1, 2, 8, 100])
@pytest.mark.parametrize("signals", [2, 3, 7])
@pytest.mark.parametrize("credit", ["queued", "balance"])
def test_full_control_channels_do_not_stop_with_heartbeats(
    cores: int, capacity: int, signals: int, credit: str
) -> None:
    assert_right(alarms(50), capacity=capacity, capacity_signals=signals, credit=credit, cores=cores)


def test_what_we_have_chosen_ourselves_is_our_own_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.actor.Beat.tell", lambda self, node: None)
    monkeypatch.setattr("penstock.engine.actor.Beat.is_due", lambda self, node: False)
    with pytest.raises(ps.InternalError, match=r"no node can fire: .* waits for .*; .* waits for "):
        run(diamond(100), **FIGURE_3).tables()
