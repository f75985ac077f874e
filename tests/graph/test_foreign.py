"""Names of others, and wrong ones: each is refused with ours."""

from __future__ import annotations

import re
from typing import Any

import pytest

import penstock as ps
from penstock.graph.foreign import FUNCTIONS, METHODS
from penstock.graph.run_options import KNOWN, MEANT

ITEMS: Any = ps.from_items([{"v": 1}], name="numbers")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("groupBy", r"a stream has no 'groupBy'; write key_by\(\.\.\.\) with aggregate"),
        ("withColumn", r"write map\(field=function\)"),
        ("toPandas", r"write to_pandas\(\)"),
        ("union", r"write ps\.merge"),
        ("filtr", "did you mean 'filter'\\?"),
        ("repartition", "a stream has no 'repartition'; it is spread by splits of the source and by key"),
        ("xyzzy", "a stream has no 'xyzzy'$"),
    ],
)
def test_a_stream_names_our_word(name: str, word: str) -> None:
    with pytest.raises(AttributeError, match=word):
        getattr(ITEMS, name)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("col", "module 'penstock' has no 'col'; write the parameters of a function"),
        ("from_panda", "did you mean 'from_pandas'"),
        ("join", r"write ps\.align"),
        ("xyzzy", "module 'penstock' has no 'xyzzy'$"),
    ],
)
def test_the_module_names_our_word(name: str, word: str) -> None:
    with pytest.raises(AttributeError, match=word):
        getattr(ps, name)


def test_our_words_exist() -> None:
    assert not set(METHODS) & set(dir(ps.Stream))
    assert not set(FUNCTIONS) & set(ps.__all__)
    for text in (*METHODS.values(), *FUNCTIONS.values()):
        assert all(hasattr(ps, name) for name in re.findall(r"(?<!import )\bps\.(\w+)", text)), text
    for text in METHODS.values():
        first = re.match(r"(\w+)\(", text)
        assert first is None or hasattr(ps.Stream, first[1]), text


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"order": True}, "run: 'order' is no option here; write ordered=True"),
        ({"overwrite": True}, 'write mode="overwrite"'),
        ({"batch_item": 5}, "did you mean 'batch_items'"),
        ({"format": "csv"}, "run: 'format' is no option here; it is one of another call"),
        ({"xyzzy": 1}, "is no option here; there are batch_items, block_items"),
    ],
)
def test_a_wrong_option_names_the_right_one(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ps.GraphError, match=word):
        ITEMS.collect(**options)
    assert not set(MEANT) & KNOWN


def test_a_planned_run_tells_what_it_is() -> None:
    run = ITEMS.filter(lambda v: v > 0).prepare(compile=False)
    assert isinstance(run, ps.PreparedRun)
    assert repr(run) == "<run in this process: filter of source 'numbers'>"
    assert run.collect().num_rows == 1
    assert repr(run) == "<run in this process: filter of source 'numbers', has begun>"
    with pytest.raises(ps.GraphError, match=r"frame\(\) is of a run on Spark; write prepare\(spark=True\)"):
        run.frame()


def test_fields_of_a_state_may_be_called_as_hooks_are() -> None:
    class Trip(ps.State):
        begin: int
        run: int
        end: int

    def note(v: int, state: Any) -> int:
        state.end = state.begin + v
        state.run += 1
        return state.end + state.run

    assert ITEMS.map(w=note, state=Trip).collect(compile=False)["w"].to_pylist() == [2]
    assert ITEMS.map(w=note, state=Trip).collect()["w"].to_pylist() == [2]
    with pytest.raises(ps.GraphError, match=r"Own\.end: a field may not have this name"):
        type("Own", (ps.Fold,), {"__annotations__": {"end": int}})
