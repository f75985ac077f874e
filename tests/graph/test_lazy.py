"""Nothing runs while a graph is built: not even a function whose type only a call can show."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

import penstock as ps

pytestmark = pytest.mark.filterwarnings("ignore::penstock.errors.InterpretedWarning")
ITEMS = ps.from_items([{"name": "ada", "n": 1}, {"name": "bob", "n": 2}, {"name": "cy", "n": 3}])
CALLS: list[str] = []
ASKS = r"does not compile.*seen only when a run starts.*declare it.*ps.returns\(float, function\)"


def loud(name: str):  # type: ignore[no-untyped-def]
    CALLS.append(name)
    return name.upper()


def spelled(loud: str):  # type: ignore[no-untyped-def]
    CALLS.append(loud)
    yield from loud.lower()


def is_short(loud: str):  # type: ignore[no-untyped-def]
    CALLS.append(loud)
    return len(loud.strip()) < 3


def test_no_function_is_called_while_a_graph_is_built() -> None:
    CALLS.clear()
    named = ITEMS.map(loud=loud)
    mapped = named.map(size=lambda loud, n: len(loud) + n).filter(is_short).select("size", "loud")
    pushed = named.flat_map(spelled, to="letter", at_most=9).key_by("letter").map(k=lambda letter: letter + "!")
    assert repr(mapped) == "<stream of fields that a run will show after select 'size', 'loud'>"
    assert CALLS == []
    assert mapped.collect(spark=False).to_pylist() == [{"size": 5, "loud": "CY"}]
    assert CALLS != []
    assert pushed.collect(spark=False)["k"].to_pylist() == [f"{c}!" for c in "adabobcy"]
    assert mapped.schema == pa.schema([("size", pa.int64()), ("loud", pa.string())])


def test_what_needs_a_type_before_a_run_asks_for_its_declaration() -> None:
    CALLS.clear()
    named = ITEMS.map(loud=loud)
    for stream in (named, named.filter(lambda n: n > 1), named.map(size=lambda loud: len(loud))):
        with pytest.raises(ps.GraphError, match=ASKS):
            _ = stream.schema
    with pytest.raises(ps.GraphError, match=ASKS):
        ps.align(named.select("loud"), named.select("n"))
    for stream in (named, ITEMS.map(loud=ps.returns(str, loud)).filter(is_short)):
        with pytest.raises(ps.GraphError, match=ASKS):
            stream.to_spark()
    assert CALLS == []
    assert ITEMS.map(loud=ps.returns(str, loud)).schema.names == ["name", "n", "loud"]


def test_a_filter_of_unknown_type_does_not_hide_the_schema() -> None:
    kept = ITEMS.filter(lambda name: name.startswith("b"))
    assert kept.map(m=lambda n: n + 1).schema.names == ["name", "n", "m"]
    assert kept.collect(spark=False)["n"].to_pylist() == [2]


def test_what_is_wrong_is_found_while_building_where_types_are_known_and_else_when_a_run_starts() -> None:
    with pytest.raises(ps.GraphError, match="'nam'"):
        ITEMS.map(loud=lambda nam: nam.upper())
    with pytest.raises(ps.GraphError, match="must be decided by a boolean"):
        ITEMS.map(loud=ps.returns(str, loud)).filter(lambda loud: loud)
    wrong = ITEMS.map(loud=loud).map(x=lambda lowd: lowd)
    with pytest.raises(ps.GraphError, match=r"map 'x'.*got 'lowd'; did you mean 'loud'"):
        wrong.collect(spark=False)


def test_a_function_that_does_not_compile_warns_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stream = ITEMS.map(loud=loud).filter(lambda n: n > 0)
        assert len(caught) == 1
        stream.collect(spark=False)
    assert len([w for w in caught if w.category is ps.InterpretedWarning]) == 1
