"""Messages are read as they were written, whatever they hold; those of another version are refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import errors
from penstock.errors import DataError, PenstockError, SessionError
from penstock.graph.signal_indices import FieldSummary
from penstock.spark import wire
from penstock.spark.record_head import VERSION, head_of, read_head, read_record
from penstock.spark.wire import (
    ArrivedFile,
    Block,
    Failed,
    Kind,
    Message,
    Packing,
    PlacedSignals,
    SignalMark,
    Survey,
    decode,
    encode,
    messages,
)

NUMBERS = st.integers(-(2**63), 2**64 - 1)
TEXTS = st.text() | st.text(st.characters(codec=None))  # lone surrogates too: a path may hold any bytes
FLOATS = st.floats(allow_nan=False)
SCALARS = st.booleans() | NUMBERS | FLOATS
ERRORS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, PenstockError)]


OF_TYPE: Mapping[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: NUMBERS,
    float: FLOATS,
    bool: st.booleans(),
    bytes: st.binary(),
    type(None): st.none(),
    Any: SCALARS | st.none(),
}
OF_FIELD = {"payload": st.binary(max_size=40), "error_class": st.sampled_from([each.__name__ for each in ERRORS])}


@cache
def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type that the fields of records have."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in OF_TYPE:
        return OF_TYPE[hint]
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{f.name: OF_FIELD.get(f.name, of_type(hints[f.name])) for f in fields(hint)})
    if origin is tuple and args[-1] is ...:
        return st.lists(of_type(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(of_type, args))
    if origin in (Union, UnionType):
        return st.one_of(*map(of_type, args))
    return st.dictionaries(of_type(args[0]), of_type(args[1]), max_size=3)


RECORDS = st.one_of([of_type(each) for each in get_args(wire.Record)])


@given(RECORDS, st.integers(0, 2**31 - 1))
def test_a_record_is_read_as_it_was_written(record: Any, target: int) -> None:
    (found,) = messages([encode(record, target)])
    assert (found.target, found.kind, found.decode()) == (target, record.kind, record)
    assert list(decode([found], type(record))) == [record]


@given(st.lists(RECORDS, max_size=6))
def test_rows_in_one_batch_stay_apart_and_in_order(records: list[Any]) -> None:
    rows = pa.Table.from_batches([encode(record) for record in records], wire.SCHEMA).combine_chunks().to_batches()
    assert [each.decode() for each in messages(rows)] == records
    assert list(decode(messages(rows), Block)) == [each for each in records if isinstance(each, Block)]


@given(RECORDS, st.integers(0, 9))
def test_a_message_is_handed_on_without_reading_it(record: Any, target: int) -> None:
    (found,) = messages([encode(record, 3)])
    (again,) = messages([found.row(target)])
    assert (again.target, again.decode()) == (target, record)


@given(of_type(PlacedSignals))
def test_the_places_of_signals_are_read_as_they_were_written(placed: PlacedSignals) -> None:
    assert read_record(PlacedSignals, head_of(placed)) == placed


def test_every_kind_has_one_record() -> None:
    assert set(wire.CLASSES) == set(Kind) and len(get_args(wire.Record)) == len(Kind)


def test_the_payload_is_not_copied_into_its_row() -> None:
    buffer = pa.py_buffer(np.arange(1000))
    rows = encode(Block(1, 2, 3, 1000, (Packing("<i8"),), payload=buffer))
    assert rows.column("payload").buffers()[2].address == buffer.address


def test_numbers_of_numpy_are_plain_and_what_is_no_number_stays_so() -> None:
    block = Block(0, 0, 0, 1, (), (SignalMark(np.int64(3), 0, (np.float64(0.5), math.inf, -0.0, (1, 2))),))
    (found,) = decode(messages([encode(block)]), Block)
    assert found.marks == (SignalMark(3, 0, (0.5, math.inf, -0.0, (1, 2))),)
    assert math.copysign(1, found.marks[0].values[2]) == -1 and type(found.marks[0].offset) is int
    (survey,) = decode(messages([encode(Survey(0, {"t": FieldSummary(1, math.nan, None)}))]), Survey)
    assert math.isnan(survey.fields["t"].first)


@pytest.mark.parametrize("error_class", ERRORS)
def test_every_error_comes_back(error_class: type[PenstockError]) -> None:
    (failed,) = decode(messages([encode(Failed(0, 0, error_class.__name__, "it's wrong"))]), Failed)
    assert type(failed.error) is error_class and str(failed.error) == "it's wrong"


@pytest.mark.parametrize("head", [bytes([VERSION + 1]) + b"{}", b"", b"\x80\x04pickle"])
def test_another_version_is_refused(head: bytes) -> None:
    with pytest.raises(SessionError, match=r"must run the same version of Penstock.*install the same"):
        Message(0, Kind.BLOCK, head).decode()


def test_a_kind_of_another_version_is_refused() -> None:
    with pytest.raises(SessionError, match="must run the same version of Penstock; one sent a message of kind 99"):
        Message(0, 99, head_of(Failed(0, 0, "DataError", ""))).decode()


def test_what_has_no_plain_form_is_refused() -> None:
    with pytest.raises(errors.InternalError, match="plain values; got a object"):
        encode(Survey(0, {"t": FieldSummary(1, object())}))


def test_spark_makes_the_rows_of_files(spark: Any) -> None:
    """Paths as Spark has them, and the same head as here."""
    table = spark.createDataFrame([('/a/b "c"/é\\n.csv', 12)], "path string, length long")
    rows = table.selectExpr(*wire.sql_of_arrived(ArrivedFile, 7)).toArrow().to_batches()
    (found,) = messages(rows)
    assert found.target == 7 and found.decode() == ArrivedFile('/a/b "c"/é\\n.csv', 12)
    assert read_head(found.head) == read_head(head_of(found.decode()))


def test_a_failure_is_raised_as_what_it_was() -> None:
    failed = replace(Failed(0, 1, "DataError", "item 3: wrong"), split=1, item=3)
    with pytest.raises(DataError, match="item 3"):
        raise failed.error
