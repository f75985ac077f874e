"""Hidden fields: told from users' fields by their names alone, also when these come back from Arrow or a pickle."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import GraphError
from penstock.graph.hidden import HiddenField, is_hidden


def test_a_name_keeps_its_meaning_through_arrow_and_pickle() -> None:
    name = HiddenField.of("at", 12)
    (through_arrow,) = pa.schema([(name, pa.int64())]).names
    assert all(is_hidden(each, "at") for each in (name, through_arrow, pickle.loads(pickle.dumps(name))))


def test_a_role_is_no_prefix_of_another() -> None:
    assert not is_hidden(HiddenField.of("key"), "k")
    assert is_hidden(HiddenField.of("k", 0), "k")


def test_a_user_cannot_name_a_field_so() -> None:
    with pytest.raises(GraphError, match="does not begin with '#'"):
        ps.from_items([{"v": 1}]).map(**{HiddenField.of("index"): lambda v: v})
