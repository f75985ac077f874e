"""Records that were kept with other fields than those of today."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.engine.packed import packed, unpacked
from penstock.engine.upgrade import upgraded, upgraded_states
from penstock.errors import CheckpointError, FunctionError, GraphError


class Average(ps.State):
    flag: bool
    mean: float
    n: int
    ring: ps.array(int, 2)


class Sum(ps.State):
    """The same, as of today."""

    total: float
    n: int
    ring: ps.array(int, 3) = -1
    fresh: int = 5

    @classmethod
    def upgrade(cls, old: Any) -> dict[str, Any]:
        assert type(old.n) is int and type(old.mean) is float and type(old.ring) is np.ndarray
        return {"total": old.n * old.mean, "n": old.n, "ring": [*old.ring, 0]}


def averages() -> np.ndarray:
    made = np.repeat(Average.layout.new(), 3)
    made["mean"], made["n"], made["ring"] = [1.5, 2.5, 0.0], [2, 4, 0], [[1, 2], [3, 4], [5, 6]]
    return made


def record_of(**parts: np.ndarray) -> np.ndarray:
    """Records of keys, with these parts."""
    made = np.zeros(
        len(next(iter(parts.values()))), [(name, part.dtype, part.shape[1:]) for name, part in parts.items()]
    )
    for name, part in parts.items():
        made[name] = part
    return made


CELLS = np.zeros((3, 2), [("n", "i8"), ("x", "f8")])
SEEN = np.array([True, False, True])


def test_nothing_is_done_where_nothing_differs() -> None:
    records = record_of(state3=averages(), seen3=SEEN)
    assert upgraded(records, records.dtype, {"state3": Average}) is records
    held = averages()
    assert upgraded_states(held, Average) is held


def test_nothing_differs_after_the_way_through_bytes() -> None:
    """Aligned records have gaps, which must not be taken for a difference."""
    records = record_of(state3=averages(), seen3=SEEN)
    back = unpacked(packed({"records": records}))["records"]
    assert upgraded(back, records.dtype, {"state3": Average}) is back


def test_records_are_upgraded_one_by_one_and_other_parts_stay() -> None:
    cells = CELLS.copy()
    cells["n"] = np.arange(6).reshape(3, 2)
    held = record_of(state3=averages(), seen3=SEEN, cells5=cells)
    wanted = record_of(state3=np.repeat(Sum.layout.new(), 3), seen3=SEEN, cells5=cells).dtype
    made = upgraded(held, wanted, {"state3": Sum})
    assert made.dtype == wanted
    assert made["state3"]["total"].tolist() == [3.0, 10.0, 0.0]
    assert made["state3"]["n"].tolist() == [2, 4, 0]
    assert made["state3"]["ring"].tolist() == [[1, 2, 0], [3, 4, 0], [5, 6, 0]]
    assert made["state3"]["fresh"].tolist() == [5, 5, 5], "what upgrade leaves out has its first value"
    assert made["seen3"].tolist() == SEEN.tolist()
    assert made["cells5"]["n"].tolist() == cells["n"].tolist()
    assert upgraded(held[:0], wanted, {"state3": Sum}).dtype == wanted


def test_another_order_of_fields_is_read_by_name() -> None:
    other = type(
        "Average", (ps.State,), {"__annotations__": {"n": int, "ring": ps.array(int, 2), "mean": float, "flag": bool}}
    )
    held = averages()
    made = upgraded_states(held, other)
    assert made.dtype == other.layout.dtype != held.dtype
    for name in held.dtype.names or ():
        assert made[name].tolist() == held[name].tolist()
    cells = np.ones((3, 2), [("n", "i8"), ("x", "f8")])
    turned = record_of(cells5=np.zeros((3, 2), [("x", "f8"), ("n", "i8")])).dtype
    assert upgraded(record_of(cells5=cells), turned, {})["cells5"]["n"].tolist() == [[1, 1]] * 3


def test_a_state_without_fields_may_get_some() -> None:
    class Empty(ps.State):
        pass

    class Filled(ps.State):
        n: int = 3

        @classmethod
        def upgrade(cls, old: Any) -> dict[str, Any]:
            assert vars(old) == {}
            return {}

    assert upgraded_states(np.repeat(Empty.layout.new(), 2), Filled)["n"].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("fields", "differ"),
    [
        ({"flag": bool, "mean": float, "n": float, "ring": ps.array(int, 2)}, "the field 'n' was int64, is float64"),
        ({"flag": bool, "mean": float, "n": int}, "it has lost 'ring'"),
        (
            {"flag": bool, "mean": float, "n": int, "ring": ps.array(int, 9)},
            r"the field 'ring' was int64\[2\], is int64\[9\]",
        ),
        ({"flag": bool, "mean": float, "n": int, "ring": ps.array(int, 2), "x": int}, "it has the new field 'x'"),
    ],
)
def test_a_state_that_does_not_upgrade_is_refused(fields: dict[str, Any], differ: str) -> None:
    state = type("Average", (ps.State,), {"__annotations__": fields})
    wanted = np.dtype([("state3", state.layout.dtype)])
    with pytest.raises(
        CheckpointError, match=f"the state Average must have the fields .*; {differ}; give Average a class"
    ):
        upgraded(record_of(state3=averages()), wanted, {"state3": state})


@pytest.mark.parametrize(
    ("part", "now", "message"),
    [
        ("cells5", np.zeros((3, 4), CELLS.dtype), r"the part 'cells5' .* it was record\[2\], is record\[4\]"),
        (
            "cells5",
            np.zeros((3, 2), [("n", "i8")]),
            "the part 'cells5' of a key must be as it was kept; it has lost 'x'",
        ),
        ("cells5", np.zeros((3, 2), [("n", "f8"), ("x", "f8")]), "the field 'n' was int64, is float64"),
        ("cells6", CELLS, "must have the parts 'cells6', 'seen3'; it has 'cells5', 'seen3'"),
    ],
)
def test_other_parts_are_refused(part: str, now: np.ndarray, message: str) -> None:
    wanted = record_of(**{part: now, "seen3": SEEN}).dtype
    with pytest.raises(CheckpointError, match=message):
        upgraded(record_of(cells5=CELLS, seen3=SEEN), wanted, {})


def state_that(upgrade: Any) -> type:
    return type("New", (ps.State,), {"__annotations__": {"n": int}, "upgrade": classmethod(upgrade)})


def raising(cls: Any, old: Any) -> dict[str, Any]:
    raise ZeroDivisionError("by none")


@pytest.mark.parametrize(
    ("upgrade", "error", "message"),
    [
        (raising, FunctionError, "the state New: upgrade raised ZeroDivisionError: by none; the record was OldRecord"),
        (
            lambda cls, old: {"n": old.count},
            FunctionError,
            "AttributeError: the older record has the fields 'flag', 'mean', 'n', 'ring'; got 'count'",
        ),
        (lambda cls, old: {"m": 1}, CheckpointError, "can hold; New has the fields 'n'; got 'm'"),
        (lambda cls, old: {"n": 1.5}, CheckpointError, "can hold; New.n must be int; got 1.5"),
        (lambda cls, old: 7, CheckpointError, "upgrade must return a dict of fields and values; got 7"),
    ],
)
def test_an_upgrade_that_goes_wrong(upgrade: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        upgraded_states(averages(), state_that(upgrade))


def test_upgrade_must_be_a_classmethod_and_no_field() -> None:
    with pytest.raises(
        GraphError, match=r"Plain\.upgrade: must be a classmethod of an older record; got a plain function"
    ):

        class Plain(ps.State):
            n: int

            def upgrade(self, old: Any) -> dict[str, Any]:
                return {}

    with pytest.raises(GraphError, match=r"Field\.upgrade: a field may not have this name"):
        type("Field", (ps.State,), {"__annotations__": {"upgrade": int}})


def test_a_state_that_upgrades_runs_as_any_other() -> None:
    def add(v, state):  # type: ignore[no-untyped-def]
        state.total += v
        return state.total

    items = ps.from_items([{"v": 1.0}, {"v": 2.0}])
    assert items.map(t=add, state=Sum).collect()["t"].to_pylist() == [1.0, 3.0]
