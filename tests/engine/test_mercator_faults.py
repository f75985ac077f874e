"""The faults of MERCATOR's own code, each with a test: they must not be ours.

Every graph runs on the reference, on the loop as plain Python and on the compiled loop, in batches of several sizes.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as ps
from penstock.graph import reference


def same_everywhere(*streams: ps.Stream) -> list[pa.Table]:
    expected = reference.run([stream.node for stream in streams]).tables
    for compile in (False, True):
        for batch_items in (1, 2, 7, None):
            assert ps.run(*streams, compile=compile, batch_items=batch_items) == expected
    return list(expected)


def blobs(*lists: list[int]) -> ps.Stream:
    return ps.from_items(
        [{"id": at, "values": values} for at, values in enumerate(lists)], schema={"id": int, "values": list[int]}
    )


def test_the_output_of_the_last_parent_s_end_is_not_lost() -> None:
    (table,) = same_everywhere(blobs([1, 2], [3]).enumerate("values", as_="v").aggregate(total=ps.sum("v")))
    assert table.column("total").to_pylist() == [3, 3]


class Echo(ps.Operator):
    """Pushes in `run` and in `end`, as many as it may in both."""

    n: int

    def run(self, v):  # type: ignore[no-untyped-def]
        for _ in range(3):
            yield v
        self.n += 1

    def end(self):  # type: ignore[no-untyped-def]
        for _ in range(3):
            yield -self.n


def test_a_node_that_pushes_in_run_and_in_end_never_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    echoed = blobs([1, 2], [], [3]).enumerate("values", as_="v").process(Echo, to="w", at_most=3).close("id")
    monkeypatch.setattr("penstock.engine.sinks.ROOM", 1)  # the smallest room: a row's worth must still fit
    (table,) = same_everywhere(echoed)
    assert table.column("w").to_pylist() == [1, 1, 1, 2, 2, 2, -2, -2, -2, 0, 0, 0, 3, 3, 3, -1, -1, -1]


@pytest.mark.parametrize("room", [1, 1 << 20])
def test_hundreds_of_empty_parents_in_a_row(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.sinks.ROOM", room)
    many = blobs(*[[]] * 700, [1], *[[]] * 300)
    opened = many.enumerate("values", as_="v")
    cut = opened.map_columns(lambda v: v, to={"w": int})  # a cut, so that every boundary is a mark on it
    tables = same_everywhere(opened.aggregate(n=ps.count()), cut.aggregate(total=ps.sum("w")))
    assert [table.num_rows for table in tables] == [1001, 1001]
    assert tables[0].column("n").to_pylist() == [0] * 700 + [1] + [0] * 300


def test_a_region_left_open_at_the_end_of_the_input() -> None:
    items = ps.from_items([{"at": at, "v": v} for at, v in ((1, 1), (1, 2), (2, 3), (2, 4))])
    by, start = items.regions(by="at"), items.regions(start=lambda v: v == 3)
    tables = same_everywhere(by.aggregate(total=ps.sum("v")), start.aggregate(total=ps.sum("v")), start.process(Echo, to="w", at_most=3))  # fmt: skip
    assert tables[0].column("total").to_pylist() == [3, 7]
    assert tables[1].column("total").to_pylist() == [3, 7]
    assert tables[2].column("w").to_pylist()[-3:] == [-2, -2, -2]


def test_more_outputs_than_declared_is_an_error_that_names_the_node_and_the_item() -> None:
    echoed = blobs([], [7]).enumerate("values", as_="v").process(Echo, to="w", at_most=2)
    for compile in (False, True):
        with pytest.raises(ps.DataError, match=r"process 'Echo': may push at most 2 .* it pushed more on item 0"):
            echoed.collect(compile=compile)
    with pytest.raises(ps.DataError, match=r"process 'Echo': may push at most 2 .* it pushed more on item 0"):
        reference.run([echoed.node])


def test_regions_within_regions_and_a_branch_with_an_aggregate_on_each_side() -> None:
    docs = ps.from_items(
        [{"doc": 1, "words": ["ab", "", "c"]}, {"doc": 2, "words": []}], schema={"doc": int, "words": list[str]}
    )
    letters = docs.enumerate("words", as_="word").enumerate("word", as_="letter")
    per_word = letters.aggregate(n=ps.count(), keep="word")
    tables = same_everywhere(
        per_word.aggregate(longest=ps.max("n", default=0)), per_word.aggregate(letters=ps.sum("n"))
    )
    assert [table.to_pylist() for table in tables] == [
        [{"doc": 1, "longest": 2}, {"doc": 2, "longest": 0}],
        [{"doc": 1, "letters": 3}, {"doc": 2, "letters": 0}],
    ]
