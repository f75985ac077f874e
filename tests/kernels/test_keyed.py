"""Numbers of keys against a dict: the first key is 0, every new one the next."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.keys import KeyIndex

INTEGERS = st.integers(-3, 80) | st.integers(-(2**63), 2**63 - 1) | st.integers(65_530, 65_540)

TUPLES = st.tuples(INTEGERS, st.text(max_size=2), st.booleans())


def twin(batches: list[list[object]]) -> list[list[int]]:
    numbers: dict[object, int] = {}
    return [[numbers.setdefault(key, len(numbers)) for key in batch] for batch in batches]


def numbered(types: list[pa.DataType], batches: list[list[tuple[object, ...]]]) -> list[list[int]]:
    index = KeyIndex(types)
    found = []
    for batch in batches:
        columns = [pa.array([key[at] for key in batch], t) for at, t in enumerate(types)]
        found.append(index.number(columns).tolist())
    assert index.count == len({key for batch in batches for key in batch})
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(INTEGERS, min_size=1, max_size=100), min_size=1, max_size=4))
def test_integers(batches: list[list[int]]) -> None:
    assert numbered([pa.int64()], [[(key,) for key in batch] for batch in batches]) == twin(batches)  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.text(max_size=5) | st.text(max_size=300), min_size=1, max_size=60), min_size=1, max_size=4))
def test_texts(batches: list[list[str]]) -> None:
    assert numbered([pa.string()], [[(key,) for key in batch] for batch in batches]) == twin(batches)  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(TUPLES, min_size=1, max_size=60), min_size=1, max_size=3))
def test_several_fields(batches: list[list[tuple[int, str, bool]]]) -> None:
    assert numbered([pa.int64(), pa.string(), pa.bool_()], batches) == twin(batches)  # type: ignore[arg-type]


def test_many_keys_grow_the_index() -> None:
    keys = np.random.default_rng(1).permutation(300_000) * 7 - 1_000_000
    index = KeyIndex([pa.int64()])
    assert index.number([pa.array(keys)]).tolist() == list(range(len(keys)))
    assert index.number([pa.array(keys[::-1])]).tolist() == list(range(len(keys)))[::-1]
    texts = [f"device-{key}" for key in keys[:50_000]]
    named = KeyIndex([pa.string()])
    assert named.number([pa.array(texts)]).tolist() == list(range(len(texts)))


def test_zero_and_minus_zero_are_one_key_and_nan_is_none() -> None:
    index = KeyIndex([pa.float64()])
    assert index.number([pa.array([0.0, -0.0, 1.5, float("nan"), 1.5])]).tolist() == [0, 0, 1, -1, 1]
