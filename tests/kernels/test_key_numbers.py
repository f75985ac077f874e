"""Numbers of keys against a dict: the first key is 0, every new one the next."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.keys import KeyIndex

INTEGERS = st.integers(-3, 80) | st.integers(-(2**63), 2**63 - 1) | st.integers(65_530, 65_540)

SEED = 20260101
TUPLES = st.tuples(INTEGERS, st.text(max_size=2), st.booleans())


def twin(batches: list[list[object]]) -> list[list[int]]:
    numbers: dict[object, int] = {}
    return [[numbers.setdefault(key, len(numbers)) for key in batch] for batch in batches]


def numbered(types: list[pa.DataType], batches: list[list[tuple[object, ...]]]) -> list[list[int]]:
    index = KeyIndex(types, SEED)
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
    index = KeyIndex([pa.int64()], SEED)
    assert index.number([pa.array(keys)]).tolist() == list(range(len(keys)))
    assert index.number([pa.array(keys[::-1])]).tolist() == list(range(len(keys)))[::-1]
    texts = [f"device-{key}" for key in keys[:50_000]]
    named = KeyIndex([pa.string()], SEED)
    assert named.number([pa.array(texts)]).tolist() == list(range(len(texts)))


def test_zero_and_minus_zero_are_one_key_and_nan_is_none() -> None:
    index = KeyIndex([pa.float64()], SEED)
    assert index.number([pa.array([0.0, -0.0, 1.5, float("nan"), 1.5])]).tolist() == [0, 0, 1, -1, 1]


# Keys that somebody has chosen so that they collide

MANY = 100_000
WORD = 1 << 64
CHOSEN = {
    # With a multiplier that everybody knows, these are 0, 1, 2 and so on, and share the upper half of their hash.
    "inverses of the golden ratio": [at * pow(0x9E3779B97F4A7C15, -1, WORD) % WORD for at in range(MANY)],
    "inverses, by the fixed mix": [at * pow(0xBF58476D1CE4E5B9, -1, WORD) % WORD for at in range(MANY)],
    "upper bits alone": [at << 47 for at in range(MANY)],
    "middle bits alone": [at << 24 for at in range(MANY)],
    "in steps": [1_000_003 * at for at in range(MANY)],
}


def longest_run(table: np.ndarray) -> int:
    """The most places of an index in a row that are taken: nobody ever looks at more of them for a key."""
    (free,) = np.nonzero(table < 0)
    return int(np.diff(np.append(free, free[0] + len(table))).max()) - 1


@pytest.mark.parametrize("seed", [0, 1, 20260101, 2**63 - 1])
@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_integers_do_not_crowd_an_index(name: str, seed: int) -> None:
    index = KeyIndex([pa.int64()], seed)
    keys = np.array(CHOSEN[name], np.uint64).view(np.int64)
    assert index.number([pa.array(keys)]).tolist() == list(range(MANY))
    assert longest_run(index.parts[0].table) < 300  # at random about 60; all 100,000 where they collide


def colliding_texts(count: int) -> list[bytes]:
    """Texts of two words with one hash, if that is computed with constants that everybody knows."""
    found = []
    for first in range(count):
        state = 16 * 0x9E3779B97F4A7C15 % WORD
        state = (state ^ first) * 0x100000001B3 % WORD
        state ^= state >> 32
        found.append(first.to_bytes(8, "little") + state.to_bytes(8, "little"))
    return found


@pytest.mark.parametrize("seed", [0, 1, 20260101])
def test_chosen_texts_do_not_crowd_an_index(seed: int) -> None:
    index = KeyIndex([pa.binary()], seed)
    keys = colliding_texts(10_000)
    assert index.number([pa.array(keys)]).tolist() == list(range(len(keys)))
    assert longest_run(index.parts[0].table) < 300
    assert len(set(index.parts[0].hashes[: len(keys)].tolist())) == len(keys)


@settings(max_examples=50, deadline=None)
@given(st.lists(TUPLES, min_size=1, max_size=60), st.integers(0, 2**63 - 1))
def test_numbers_do_not_depend_on_the_seed(keys: list[tuple[int, str, bool]], seed: int) -> None:
    kinds = [pa.int64(), pa.string(), pa.bool_()]
    columns = [pa.array([key[at] for key in keys], t) for at, t in enumerate(kinds)]
    assert KeyIndex(kinds, seed).number(columns).tolist() == KeyIndex(kinds, 0).number(columns).tolist()
