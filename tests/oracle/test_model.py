"""The oracle itself: cases worked by hand from the definitions, and windows that are never late against DuckDB."""

from __future__ import annotations

import duckdb
import pandas as pd
import pytest
from tests.oracle.draw import draw
from tests.oracle.model import run
from tests.oracle.steps import Align, Filter, Graph, KeyBy, Map, Running, Spread, Window

FIELDS = ("k", "t", "v")


def items(*rows: tuple[int, int, int]) -> list[dict[str, int]]:
    return [dict(zip(FIELDS, row, strict=True)) for row in rows]


def test_a_window_closes_before_the_item_that_moves_the_watermark_to_its_end_though_of_another_key() -> None:
    graph = Graph(FIELDS, (KeyBy(("k",)), Window("t", 10, 10, 0, "v", ("k",)), Running("at", "n")))
    found = run(graph, items((1, 3, 7), (2, 4, 8), (1, 10, 9)), is_open=True)
    assert [(row["k"], row["start"], row["total"]) for row in found.rows] == [(1, 0, 7), (2, 0, 8)]


def test_an_item_is_late_by_the_times_of_all_keys_and_of_items_that_were_filtered_out() -> None:
    graph = Graph(FIELDS, (Filter("v", 100, 0), KeyBy(("k",)), Window("t", 10, 10, 5, "v", ("k",))))
    found = run(graph, items((1, 3, 7), (2, 14, 8), (1, 4, 1), (2, 15, 100), (1, 5, 2)))
    assert [row["v"] for row in found.late[2]] == [2]
    assert [(row["k"], row["start"], row["n"]) for row in found.rows] == [(1, 0, 2), (2, 10, 1)]


def test_without_late_windows_close_at_the_end_by_end_start_and_first_item_of_the_key() -> None:
    graph = Graph(FIELDS, (KeyBy(("k",)), Window("t", 10, 10, None, "v", ("k",))))
    found = run(graph, items((2, 25, 1), (1, 3, 1), (2, 4, 1), (1, 27, 1)))
    assert [(row["k"], row["start"]) for row in found.rows] == [(2, 0), (1, 0), (2, 20), (1, 20)]


def test_windows_of_windows_on_ordered_items_lose_nothing() -> None:
    hourly, daily = Window("t", 5, 5, 0, "v", ("k", "v")), Window("start", 20, 20, 0, "n", ("k",))
    graph = Graph(FIELDS, (KeyBy(("k", "v")), hourly, KeyBy(("k",)), daily))
    found = run(graph, items(*((at % 3, at, at % 2) for at in range(100))))
    assert not found.late[1] and not found.late[3]
    assert sum(row["total"] for row in found.rows) == 100


def test_a_step_that_raises_leaves_neither_state_nor_items_behind() -> None:
    graph = Graph(FIELDS, (KeyBy(("k",)), Running("x", "v", raises=7), Spread("y", "v", 3, ("x",), raises=3)))
    found = run(graph, items((1, 0, 2), (1, 0, 5), (1, 0, 3), (1, 0, 2)))
    # 2 + 5 is a multiple of 7, so the next total is 2 + 3; 3 is a multiple of 3, so its items are gone
    assert [row["x"] for row in found.rows] == [1002, 1002]
    assert found.letters == [(1, 1), (2, 2), (3, 1)]


def test_sides_with_a_key_of_their_own_each_are_one_keyed_stream() -> None:
    sides = Align(((101, Map("p", "v", 1, 0)),), ((102, Filter("v", 5, 0)),), ("k",))
    found = run(Graph(FIELDS, (sides, Running("x", "v"))), items((1, 0, 1), (2, 0, 1), (1, 0, 5), (1, 0, 1)))
    assert [row["x"] for row in found.rows] == [1001, 1001, 2002]


@pytest.mark.parametrize("seed", range(20))
def test_windows_that_are_never_late_are_groups_of_a_database(seed: int) -> None:
    frame = pd.DataFrame(draw(seed).items, columns=["k", "g", "t", "v"])
    length, every = ((10, 10), (10, 5), (5, 10), (30, 7))[seed % 4]
    graph = Graph(("k", "g", "t", "v"), (KeyBy(("k",)), Window("t", length, every, None, "v", ("k",))))
    query = f"""
        with starts as (select unnest(range(-210, 4200, {every})) as start)
        select k, start, start + {length} as "end", count(*) as n, sum(v)::bigint as total
        from frame join starts on t >= start and t < start + {length} group by all
    """
    wanted = duckdb.sql(query).fetchall() if len(frame) else []
    found = [tuple(row.values()) for row in run(graph, frame.to_dict("records")).rows]
    assert sorted(found) == sorted(wanted)
