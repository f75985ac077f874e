"""The small methods of a stream: its fields, its first items, and what is shown of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import penstock as ps

ITEMS = ps.from_items([{"k": v % 3, "v": v, "s": "ab"} for v in range(30)])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: ITEMS.drop("w"), r"drop: 'w' must be a field of the item; there are 'k', 'v', 's'"),
        (lambda: ITEMS.drop(), "drop: must name at least one field; got none"),
        (lambda: ITEMS.drop("k", "v", "s"), "must keep at least one field; got none"),
        (lambda: ITEMS.rename(w="x"), "rename: 'x' must be a field of the item"),
        (lambda: ITEMS.rename(v="k"), "rename: fields must have different names"),
        (lambda: ITEMS.rename(a="k", b="k"), "rename: fields must have different names"),
        (lambda: ITEMS.limit(-1), "limit: must be a whole number of at least 0; got -1"),
        (lambda: ITEMS.limit(True), "limit: must be a whole number of at least 0; got True"),
        (lambda: ITEMS.head(2.5), "limit: must be a whole number of at least 0; got 2.5"),
        (lambda: ITEMS.show(-1), "limit: must be a whole number of at least 0; got -1"),
        (lambda: ITEMS.enumerate("s", as_="b").limit(2), r"must stand where no region is open.*head\(2\)"),
        (lambda: ps.from_pandas({"v": [1]}), "must be a DataFrame of pandas; got dict"),
        (lambda: ps.from_pandas(pd.DataFrame({0: [1]})), r"must have names that are strings; got \[0\]"),
        (lambda: ps.from_pandas(pd.DataFrame({"a": [object()]})), "a column has no type of Arrow"),
    ],
)
def test_what_cannot_be_is_refused(made: Callable[[], Any], reason: str) -> None:
    with pytest.raises(ps.GraphError, match=reason):
        made()


def test_fields_are_left_out_and_renamed_in_their_order() -> None:
    assert ITEMS.drop("v").schema.names == ["k", "s"]
    assert ITEMS.rename(w="v", v="k").head(1).to_pylist() == [{"v": 0, "w": 0, "s": "ab"}]


def test_a_frame_of_pandas_and_back() -> None:
    frame = pd.DataFrame(
        {"v": [1, 2], "s": ["a", "b"], "t": pd.to_datetime(["2026-01-01", "2026-01-02"])}, index=[7, 8]
    )
    pd.testing.assert_frame_equal(ps.from_pandas(frame).to_pandas(), frame.reset_index(drop=True))
    assert ps.from_pandas(pd.DataFrame({"v": [1.0, None]})).drop_nulls().collect().num_rows == 1


def test_the_first_rows_of_every_kind_of_stream() -> None:
    assert ITEMS.head()["v"].to_pylist() == [0, 1, 2, 3, 4]
    assert ITEMS.head(0).num_rows == 0
    assert ITEMS.head(99).num_rows == 30
    assert ITEMS.enumerate("s", as_="b").head(3)["b"].to_pylist() == [97, 98, 97]
    assert ITEMS.key_by("k").aggregate(n=ps.count()).head(2).to_pylist() == [{"k": 0, "n": 10}, {"k": 1, "n": 10}]
    assert ITEMS.head(0).schema == ITEMS.collect().schema


TABLE = """\
+-----+----------+--------------------+
|    k|         l|                   s|
+-----+----------+--------------------+
|    1|[0.5, 1.0]|              a\\nb|
|10000|        []|xxxxxxxxxxxxxxxxx...|
+-----+----------+--------------------+
"""


def test_rows_are_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"k": [1, 10_000, 3], "l": [[0.5, 1.0], [], [2.0]], "s": ["a\nb", "x" * 21, "c"]})
    stream = ps.from_arrow(table)
    stream.show(2)
    assert capsys.readouterr().out == TABLE.replace(" " * 14 + "a", " " * 16 + "a") + "only the first 2 rows\n"
    stream.filter(lambda k: k < 0).select("k").show()
    assert capsys.readouterr().out == "+-+\n|k|\n+-+\n"


def test_a_notebook_shows_rows_and_the_picture() -> None:
    html = ps.from_items([{"s": "<b>"}] * 21)._repr_html_()
    assert "<td>&lt;b&gt;</td>" in html and "only the first 20 rows" in html and "<svg" in html
    failing = ps.from_items([{"v": 0}]).map(w=lambda v: 1 // v)._repr_html_()
    assert "ZeroDivisionError" in failing and "<svg" in failing
