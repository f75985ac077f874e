"""Blocks in any order of arrival come out in the order of the stream, in bounded memory."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import InternalError
from penstock.graph import nodes as n
from penstock.plan.stages import Exchange
from penstock.spark.wire import Block, decode, messages
from penstock.spark.worker import block_writer
from penstock.spark.worker.block_columns import arrival, schema_of
from penstock.spark.worker.block_writer import BlockWriter
from penstock.spark.worker.inbox import Inbox, chain_senders, merge_senders


class Mark(ps.Signal):
    number: int


def exchange(*, has_places: bool = False) -> Exchange:
    source = ps.from_items([], schema={"k": int, "s": str, "v": float}).node
    return Exchange("key", n.Send(source, ("k", "s", "v"), False, (Mark,)), "", ("k",), has_places, has_places)


def rows(start: int, stop: int) -> pa.RecordBatch:
    numbers = range(start, stop)
    columns = [[i % 5 for i in numbers], [f"é{i}" for i in numbers], [i / 2 for i in numbers]]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=["k", "s", "v"])


def sent(monkeypatch: pytest.MonkeyPatch, senders: int, *, has_places: bool = False) -> list[Block]:
    """The blocks of one target, of senders with 40 items each and a signal after every tenth."""
    monkeypatch.setattr(block_writer, "BLOCK_ITEMS", 3)
    made = []
    for sender in range(senders):
        writer = BlockWriter(exchange(has_places=has_places), 1, (0, 1), sender, senders)
        for start in range(0, 40, 10):
            made += writer.send(rows(40 * sender + start, 40 * sender + start + 10))
            made += [] if has_places else writer.signal(Mark(start))
        made += writer.finish()
    return [each.decode() for each in messages(made) if each.target == 1]


@pytest.mark.parametrize("held", [0, 200, 1 << 20])
def test_any_order_of_arrival(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    arrived = sent(monkeypatch, 3)
    random.Random(held).shuffle(arrived)
    inbox = Inbox(iter(arrived), held)
    found = list(chain_senders(inbox, [0, 1, 2], schema_of(exchange()), (Mark,)))
    values = [value for each in found for value in each.rows.column("v").to_pylist()]
    assert values == sorted(values) and len(values) in (24, 48, 72)
    assert [signal.number for each in found for _, signal in each.signals] == [0, 10, 20, 30] * 3
    assert all(
        text == f"é{int(2 * v)}"
        for e in found
        for text, v in zip(*map(list, (e.rows["s"].to_pylist(), e.rows["v"].to_pylist())), strict=True)
    )
    assert (inbox.file is not None) == (held < 1 << 20)


def test_signals_stand_between_the_items_that_they_stood_between(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    for each in chain_senders(Inbox(iter(sent(monkeypatch, 1))), [0], schema_of(exchange()), (Mark,)):
        values = each.rows.column("v").to_pylist()
        for at in range(len(values) + 1):
            seen += [signal.number for offset, signal in each.signals if offset == at]
            seen += [int(2 * values[at])] if at < len(values) else []
    marks = {10: 0, 20: 10, 30: 20, 40: 30}
    for bound, mark in marks.items():
        at = max(i for i, value in enumerate(seen) if value == mark and (i == 0 or seen[i - 1] < bound))
        assert all(value < bound for value in seen[:at]) and all(
            value >= bound or value in marks.values() for value in seen[at:]
        )


def test_merging_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    source = exchange(has_places=True)
    made = []
    for sender in range(3):  # places go up in each, and interleave
        writer = BlockWriter(source, 1, (0,), sender, 1)
        given = rows(0, 30).append_column(n.PLACE, pa.array([3 * at + sender for at in range(30)]))
        made += [*writer.send(given), *writer.finish()]
    arrived = list(decode(messages(made), Block))
    random.Random(1).shuffle(arrived)
    places = [p for each in merge_senders(Inbox(iter(arrived)), [0, 1, 2], schema_of(source), ()) for p in each.places]
    assert places == list(range(90))


def test_a_lost_block_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = sent(monkeypatch, 2)[:-1]
    with pytest.raises(InternalError, match="never arrived"):
        list(chain_senders(Inbox(iter(arrived)), [0, 1], schema_of(exchange()), (Mark,)))


def test_integers_are_packed_narrow_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    source = exchange()
    for base in (0, 2**40, -(2**63), 2**63 - 300):
        given = rows(0, 250).set_column(0, "k", pa.array([base + at for at in range(250)]))
        (made,) = [*BlockWriter(source, 1, (0,), 0, 1).send(given)] or [None]
        assert made is None  # all fit into one block, which is the last
        writer = BlockWriter(source, 1, (0,), 0, 1)
        assert not list(writer.send(given))
        (last,) = writer.finish()
        (found,) = decode(messages([last]), Block)
        assert found.columns[0].dtype == "|u1"
        assert arrival(found, schema_of(source), ()).rows.column("k").to_pylist() == given["k"].to_pylist()
