"""Bad input ends in an error that says where, what must be, what was and what to do; on every backend the same."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.graph import reference

ITEMS = ps.from_items([{"id": 1, "v": 2.0, "name": "ada", "values": [1, 2]}], name="readings")


class Count(ps.State):
    n: int


class Reset(ps.Signal):
    level: float


def runs(*streams: ps.Stream, control: tuple[object, ...] = ()) -> list[object]:
    """The three ways to run a graph, to be called one by one."""
    nodes = tuple(stream.node for stream in streams)
    return [
        lambda: reference.run(nodes, control),  # type: ignore[arg-type]
        lambda: ps.run(*streams, control=control, compile=False),  # type: ignore[arg-type]
        lambda: ps.run(*streams, control=control),  # type: ignore[arg-type]
        lambda: ps.run(*streams, control=control, batch_items=1),  # type: ignore[arg-type]
    ]


def fails(error: type[Exception], pattern: str, *streams: ps.Stream, control: tuple[object, ...] = ()) -> None:
    for run in runs(*streams, control=control):
        with pytest.raises(error, match=pattern):
            run()  # type: ignore[operator]


# While building


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ITEMS.select("idd"), r"select 'idd': 'idd' must be a field of the item; there are .*did you mean 'id'\?"),
        (lambda: ITEMS.enumerate("id", as_="x"), r"enumerate 'id': 'id' must be a list.*got int64"),
        (lambda: ITEMS.enumerate("values", as_="v"), r"enumerate 'values': .*name of a parent's field; got 'v'"),
        (lambda: ITEMS.map(x=lambda w: w), r"map 'x': <lambda>: every parameter must be a field of the item or of a parent \('id', 'v', .*got 'w'; at <lambda>"),
        (lambda: ITEMS.map(x=lambda *v: v), r"a function must name its fields; got '\*v'"),
        (lambda: ITEMS.map(x=3), r"map 'x': must be a function.*got 3"),
        (lambda: ITEMS.map(), r"must set at least one field"),
        (lambda: ITEMS.filter(lambda v: v * 2.0), r"filter: must be decided by a boolean; .* gives double"),
        (lambda: ITEMS.flat_map(lambda v: [v], to="x", at_most=2), r"flat_map 'x': must be a generator"),
        (lambda: ITEMS.flat_map(_pushes, to="x", at_most=0), r"at_most= must be .* from 1 to 2147483647; got 0"),
        (lambda: ITEMS.flat_map(_pushes, to=(), at_most=1), r"must name the fields of the new items"),
        (lambda: ITEMS.close(), r"close: there must be an open region to close.*closed before\?"),
        (lambda: ITEMS.enumerate("values", as_="x").close().close(), r"close: there must be an open region"),
        (lambda: ITEMS.enumerate("values", as_="x").close("nme"), r"'nme' must be a field of the parent.*did you mean 'name'"),
        (lambda: ITEMS.enumerate("values", as_="x").aggregate(), r"must give at least one result"),
        (lambda: ITEMS.enumerate("values", as_="x").aggregate(s=ps.sum("y")), r"sum must name a field.*got 'y'"),
        (lambda: ITEMS.enumerate("values", as_="x").aggregate(s=ps.sum("name")), r"sum cannot take 'name', a string; it takes numbers"),
        (lambda: ITEMS.enumerate("values", as_="x").aggregate(s=sum), r"'s' must be an aggregate such as ps.sum"),
        (lambda: ITEMS.enumerate("values", as_="x").aggregate(s=ps.min("x", default="a")), r"the default of min\(x\) must be int64; got 'a'"),
        (lambda: ITEMS.regions(), r"regions: give start=predicate or by=field, and not both"),
        (lambda: ITEMS.regions(by="values"), r"by= takes numbers.*'values' is list"),
        (lambda: ITEMS.key_by(), r"must name at least one field"),
        (lambda: ITEMS.key_by("values"), r"a key must be numbers.*'values' is list"),
        (lambda: ITEMS.key_by("id").regions(by="v").collect(), r"the regions of a key must be closed by aggregate right"),
        (lambda: ITEMS.map(x=lambda v: v, state=int), r"state= must be a class derived from ps.State; got <class 'int'>"),
        (lambda: ITEMS.map(x=lambda v: v).on(Reset, lambda state, signal: None), r"only a node with state= can handle a signal"),
        (lambda: ITEMS.emit(Count, when=lambda v: v > 0), r"must be a class derived from ps.Signal"),
        (lambda: ITEMS.emit(Reset, when=lambda v: v > 0, lvl=lambda v: v), r"'lvl' must be a field of the signal; there are 'level'"),
        (lambda: ITEMS.filter(lambda v: v > 0).drop_nulls(), r"drop_nulls: must stand right after the source"),
        (lambda: ITEMS.fill_null(v="x"), r"fill_null: the value for 'v' must be double; got 'x'"),
        (lambda: ITEMS.map_columns(lambda v: v, to={}), r"takes a function and the fields it sets"),
        (lambda: ITEMS.map(x=ps.returns(int, lambda v: v * 0.5)), r"declared as int64 but gives double"),
        (lambda: ps.from_items([]), r"there must be an item to read the fields from, or schema="),
        (lambda: ps.from_items([{"a": 1}, 2]), r"every item must be a dict with names for keys; item 1 is 2"),
        (lambda: ps.from_items([{"a": 1}, {"a": "x"}]), r"the values of 'a' must have one type"),
        (lambda: ps.from_items([{"a": None}]), r"the type of 'a' cannot be read from nulls alone; give schema="),
        (lambda: ps.from_arrow(3), r"must be an Arrow table, record batch or dataset; got int"),
        (lambda: ps.from_arrow(pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})), r"'m' is map"),
        (lambda: ps.from_numpy({"a": np.zeros((2, 2, 2))}), r"'a' must have one dimension, or two"),
        (lambda: ps.from_numpy({"a": np.zeros(2), "b": np.zeros(3)}), r"the arrays must have one length"),
        (lambda: ps.at(-1, Reset(1.0)), r"at: the index must be a whole number of at least 0; got -1"),
        (lambda: ps.at(0, Reset), r"at: must place an instance"),
        (lambda: ITEMS.collect(batch_items=0), r"batch_items must be a whole number of at least 1; got 0"),
        (lambda: ps.run(), r"run: takes at least one stream"),
        (lambda: ps.run(ITEMS, ps.from_items([{"z": 1}], name="others")), r"must come from one source; got 'readings', 'others'"),
    ],
)  # fmt: skip
def test_what_is_refused_while_building(build: object, message: str) -> None:
    with pytest.raises(ps.GraphError, match=message):
        build()  # type: ignore[operator]


def _pushes(v: float):  # type: ignore[no-untyped-def]
    yield v


def test_a_state_with_a_field_of_a_wrong_type() -> None:
    with pytest.raises(
        ps.GraphError, match=r"Bad.name: a field of a state or a signal must be int, float, bool or ps.array"
    ):

        class Bad(ps.State):
            name: str


def test_a_signal_with_an_unknown_field() -> None:
    with pytest.raises(ps.GraphError, match=r"Reset: has the fields 'level'; got 'lvl'"):
        Reset(lvl=1.0)


# While running


def broken(v: float) -> float:
    if v > 1:
        raise ValueError("too large for me")
    return v


def test_a_function_that_raises_names_the_node_the_function_its_line_and_the_item() -> None:
    items = ps.from_items([{"v": 0.0}, {"v": 1.0}, {"v": 5.0}])
    fails(ps.FunctionError, r"map 'w': broken raised ValueError: too large for me; on item 2 \(v=5.0\); at .*test_bad_input.py:\d+", items.map(w=broken))  # fmt: skip


def test_a_division_by_zero_in_a_region() -> None:
    blobs = ps.from_items([{"id": 7, "v": [1, 2]}, {"id": 8, "v": [1, 0]}]).enumerate("v", as_="x")
    fails(ps.FunctionError, r"map 'y': <lambda> raised ZeroDivisionError.*on item 1", blobs.map(y=lambda x: 1 // x))


def test_an_index_out_of_bounds() -> None:
    fails(ps.FunctionError, r"raised IndexError.*on item 0", ITEMS.map(x=lambda values: values[5]))


def test_an_integer_beyond_64_bits_in_a_function() -> None:
    items = ps.from_items([{"v": 1}, {"v": 2**62}])
    fails(ps.FunctionError, r"map 'w': <lambda> raised OverflowError.*on item 1", items.map(w=lambda v: v * 4))


def test_more_outputs_than_declared_even_without_end() -> None:
    def endless(v):  # type: ignore[no-untyped-def]
        while True:
            yield v

    fails(ps.DataError, r"flat_map 'x': may push at most 3 outputs.*it pushed more on item 0; declare a larger at_most=", ITEMS.flat_map(endless, to="x", at_most=3))  # fmt: skip


def test_a_signal_that_nobody_handles() -> None:
    counted = ITEMS.map(n=lambda state: state.n, state=Count)
    fails(ps.ControlError, r"control: a signal must be handled.*nobody handles 'Reset', and handled are none; add .on\(Reset", counted, control=(ps.at(0, Reset(1.0)),))  # fmt: skip
    fails(ps.ControlError, r"emit 'Reset': .*nobody handles 'Reset'", ITEMS.emit(Reset, when=lambda v: v > 0))


def test_a_signal_whose_place_is_never_reached() -> None:
    class Level(ps.State):
        level: float

    handled = ITEMS.map(x=lambda v, state: v * state.level, state=Level).on(Reset, level=lambda signal: signal.level)
    fails(ps.ControlError, r"Reset\(level=1.0\) stands at 5, and the source ended after 1 items", handled, control=(ps.at(5, Reset(1.0)),))  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"a": 1, "b": [1]}, {"a": None, "b": [1]}], r"'a' is null in item 1; say .drop_nulls\('a'\) or .fill_null\(a=value\)"),
        ([{"a": 1, "b": [1]}, {"a": 1, "b": [1, None]}], r"an element of 'b' is null in item 1"),
        ([{"a": 1, "b": None}, {"a": None, "b": [2]}], r"'b' is null in item 0"),
    ],
)  # fmt: skip
def test_a_null_is_refused_with_the_field_and_the_place(rows: list[dict[str, object]], message: str) -> None:
    source = ps.from_items(rows, schema={"a": int, "b": list[int]})
    fails(ps.DataError, message, source)
    fails(ps.DataError, message, source.select("a", "b"))


def test_an_overflow_in_a_sum() -> None:
    blobs = ps.from_items([{"id": 1, "v": [2**62, 2**62 - 1]}, {"id": 2, "v": [2**62, 2**62]}])
    total = blobs.enumerate("v", as_="x").aggregate(total=ps.sum("x"))
    fails(ps.DataError, r"aggregate 'total': sum\(x\) must fit 64 bits; it does not in the region that ends at item 1; convert the field to float", total)  # fmt: skip


def test_a_sum_that_leaves_64_bits_and_comes_back_is_right() -> None:
    blobs = ps.from_items([{"id": 1, "v": [2**62, 2**62, -(2**62), -(2**62), 5]}])
    for compile in (False, True):
        table = blobs.enumerate("v", as_="x").aggregate(total=ps.sum("x")).collect(compile=compile)
        assert table.column("total").to_pylist() == [5]


def test_an_empty_region_without_a_default() -> None:
    blobs = ps.from_items([{"id": 1, "v": [1]}, {"id": 2, "v": []}], schema={"id": int, "v": list[int]})
    low = blobs.enumerate("v", as_="x").aggregate(low=ps.min("x"))
    fails(ps.DataError, r"aggregate 'low': min\(x\) needs an item, and the region that ends at item 1 has none; give a default=", low)  # fmt: skip


def test_nan_in_a_key() -> None:
    items = ps.from_items([{"k": 1.0}, {"k": math.nan}])
    keyed = items.key_by("k").map(n=lambda state: state.n, state=Count)
    fails(ps.DataError, r"key_by 'k': a key may not be NaN.*'k' is NaN in item 1; filter such items before", keyed)


def test_nan_in_a_key_that_was_filtered_out_before_is_no_fault() -> None:
    items = ps.from_items([{"k": 1.0}, {"k": math.nan}]).filter(lambda k: k == k)
    keyed = items.key_by("k").map(n=lambda state: state.n, state=Count)
    assert keyed.collect().to_pylist() == [{"k": 1.0, "n": 0}]


def test_an_unsigned_integer_that_no_signed_one_holds() -> None:
    items = ps.from_arrow(pa.table({"v": pa.array([1, 2**63], pa.uint64())}))
    with pytest.raises(ps.DataError, match=r"must fit 64 bits with a sign; 'v' does not in item 1"):
        items.map(w=lambda v: v).collect()


def test_a_text_that_is_not_utf8() -> None:
    items = ps.from_items([{"b": b"ok"}, {"b": b"\xff\xfe"}])
    fails(ps.FunctionError, r"map 't'.*(UTF-8|utf-8).* item 1", items.map(t=ps.returns(str, lambda b: b[0:])))


def test_a_string_of_100_megabytes() -> None:
    text = "ab" * 50_000_000
    items = ps.from_items([{"id": 1, "text": text}, {"id": 2, "text": "b"}])
    counted = items.enumerate("text", as_="c").filter(lambda c: c == 98).aggregate(n=ps.count(), keep="id")
    assert counted.collect().to_pylist() == [{"id": 1, "n": 50_000_000}, {"id": 2, "n": 1}]
    with pytest.raises(ps.FunctionError, match=r"on item 0 \(id=1, text='abab.*100,000,000 long\)") as caught:
        items.map(x=lambda text: text.encode()[len(text.encode())]).collect()
    assert len(str(caught.value)) < 1000


def test_columns_that_depend_on_other_rows_are_refused() -> None:
    import pyarrow.compute as pc

    items = ps.from_items([{"v": 1.0}, {"v": 3.0}])
    centred = items.map_columns(lambda v: pc.subtract(v, pc.mean(v)), to={"w": float})
    with pytest.raises(ps.DataError, match=r"map_columns 'w': a row of 'w' may depend on that row alone"):
        centred.collect()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda v: v[:0], r"must have a value for each of 2 rows; got 0"),
        (lambda v: pa.array([1.0, None]), r"may hold no null"),
        (lambda v: pa.array(["a", "b"]), r"the column 'w' must be double"),
        (lambda v: 1 / 0, r"raised ZeroDivisionError"),
    ],
)
def test_columns_of_the_wrong_form(function: object, message: str) -> None:
    items = ps.from_items([{"v": 1.0}, {"v": 3.0}])
    with pytest.raises(ps.PenstockError, match=message):
        items.map_columns(function, to={"w": float}).collect()  # type: ignore[arg-type]


# What does not compile


def shout(name: str) -> str:
    return name.upper() + "!"


def test_a_function_that_does_not_compile_runs_interpreted_with_a_warning() -> None:
    with pytest.warns(
        ps.InterpretedWarning,
        match=r"map 'loud': shout does not compile.*the reason: .*upper.*at shout \(.*test_bad_input.py",
    ):
        stream = ITEMS.map(loud=shout)
    assert stream.select("loud").collect().to_pylist() == [{"loud": "ADA!"}]
    assert "interpreted" in stream.explain()


@pytest.mark.filterwarnings("ignore::penstock.errors.InterpretedWarning")
def test_a_result_type_that_nobody_declared_is_read_from_the_first_item_when_a_run_starts() -> None:
    stream = ITEMS.map(loud=lambda name: name.upper())
    with pytest.raises(ps.GraphError, match=r"seen only when a run starts, and is asked for before; declare it"):
        _ = stream.schema
    assert stream.collect().schema.field("loud").type == pa.string()
    assert stream.schema.field("loud").type == pa.string()
    empty = ps.from_items([], schema={"name": str}).map(loud=lambda name: name.upper())
    with pytest.raises(ps.GraphError, match=r"the type of its result must be declared.*ps.returns\(float, function\)"):
        empty.collect()


def test_an_integer_state_refuses_a_float() -> None:
    def cut(v, state):  # type: ignore[no-untyped-def]
        state.n = v
        return state.n

    with pytest.warns(ps.InterpretedWarning, match=r"the field 'n' holds int64, and would cut the float64"):
        stream = ITEMS.map(x=ps.returns(int, cut), state=Count)
    with pytest.raises(ps.FunctionError, match=r"Count.n must be int; got 2.0, a float"):
        stream.collect()
