"""One bad item does not end a stream: what `on_error="skip"` leaves out, on every engine of one process."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.errors import plain
from tests.errors.letters import letters_of
from tests.oracle import draw, model
from tests.oracle import steps as s

import penstock as ps
from penstock.graph import reference
from penstock.graph.letters import table_of

ENGINES: dict[str, dict[str, Any]] = {
    "fused": {},
    "interpreted": {"compile": False},
    "channels": {"fuse": False, "compile": False, "width": 3},
    "threads": {"cores": 2, "fuse": False, "compile": False},
}


def source(rows: list[dict[str, Any]]) -> ps.Stream:
    return ps.from_items(rows, schema=plain.SCHEMA)


@pytest.mark.filterwarnings("ignore::penstock.InterpretedWarning")
@pytest.mark.parametrize("case", plain.CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("engine", ["reference", *ENGINES])
def test_an_item_that_fails_is_as_if_it_were_filtered_out_at_that_step(case: plain.Case, engine: str) -> None:
    for seed in (1, 2) if engine != "reference" else range(20):
        found = plain.items(seed, 60)
        rows, letters = plain.expected(case, found)
        stream = case.build(source(found))
        if engine == "reference":
            result = reference.run((stream.node,), on_error="skip")
            table, told = result.tables[0], table_of(result.letters)
        else:
            run = stream.prepare(on_error="skip", **ENGINES[engine])
            table, told = run.collect(), run.dead_letters()
            assert run.statistics().skipped == told.num_rows
        assert table.to_pylist() == rows
        assert plain.told(told) == letters
        assert told["index"].to_pylist() == sorted(told["index"].to_pylist())


@pytest.mark.filterwarnings("ignore::penstock.InterpretedWarning")
@pytest.mark.parametrize("case", plain.CASES, ids=lambda case: case.name)
def test_letters_say_the_same_on_every_engine(case: plain.Case) -> None:
    stream = case.build(source(plain.items(3, 40)))
    told = list(reference.run((stream.node,), on_error="skip").letters)
    for options in ENGINES.values():
        run = stream.prepare(on_error="skip", **options)
        run.collect()
        assert letters_of(run.dead_letters()) == told


def _is_plain(graph: s.Graph) -> bool:
    return not any(isinstance(step, s.Window) or (isinstance(step, s.Align) and step.key) for step in graph.steps)


def _letters(table: pa.Table) -> list[tuple[int, int]]:
    pattern = re.compile(r"step_(\d+) ")
    return sorted((row["index"], int(pattern.match(row["function"])[1])) for row in table.to_pylist())  # type: ignore[index]


@pytest.mark.parametrize("options", [{"compile": False}, {"fuse": False, "compile": False, "width": 3}], ids=str)
def test_random_graphs_that_raise_give_what_the_plain_model_gives(options: dict[str, Any]) -> None:
    compared = 0
    for seed in range(160):
        drawn = draw.draw(seed)
        if not drawn.items or not _is_plain(drawn.graph):
            continue
        wanted = model.run(drawn.graph, drawn.items)
        stream = draw.build(drawn.graph, ps.from_items(drawn.items)).result
        told = reference.run((stream.node,), on_error="skip")
        assert told.tables[0].to_pylist() == wanted.rows, drawn
        run = stream.prepare(on_error="skip", **options)
        assert run.collect().to_pylist() == wanted.rows, drawn
        assert _letters(run.dead_letters()) == sorted(wanted.letters), drawn
        assert letters_of(run.dead_letters()) == list(told.letters), drawn
        compared += len(wanted.letters) > 0
    assert compared > 10


def test_a_null_that_a_step_needs_is_skipped_at_the_source_and_one_that_nothing_needs_is_not_seen() -> None:
    rows = [{"v": 1, "w": None}, {"v": None, "w": 2}, {"v": 3, "w": 3}]
    stream = ps.from_items(rows).filter(lambda v: v > 0).select("v")
    for options in ENGINES.values():
        run = stream.prepare(on_error="skip", **options)
        assert run.collect().to_pydict() == {"v": [1, 3]}
        (told,) = run.dead_letters().to_pylist()
        assert (told["index"], told["node"], told["message"]) == (1, "source 'items'", "'v' is null")
        assert told["fields"] == '{"v": null}'


def test_a_time_that_windows_have_no_bounds_for_is_skipped_and_does_not_begin_its_key() -> None:
    times = [("b", math.nan), ("a", 1.0), ("b", 2.0), ("b", math.inf), ("a", 31.0)]
    windows = ps.from_items([{"k": k, "t": t} for k, t in times]).key_by("k").window("t", length=10.0, late=0.0)
    counts = windows.aggregate(n=ps.count())
    wanted = [("a", 0.0, 1), ("b", 0.0, 1), ("a", 30.0, 1)]  # "a" has the first item that counts
    result = reference.run((counts.node,), on_error="skip")
    assert [(row["k"], row["start"], row["n"]) for row in result.tables[0].to_pylist()] == wanted
    for options in ENGINES.values():
        run = ps.prepare(counts, windows.late, on_error="skip", **options)
        table, late = run.tables()
        assert [(row["k"], row["start"], row["n"]) for row in table.to_pylist()] == wanted
        assert late.num_rows == 0
        letters = [row for row in run.dead_letters().to_pylist() if row["node"].startswith("aggregate")]
        assert [row["index"] for row in letters] == [0, 3]
        assert letters[0]["message"] == "'t' is no time that windows have bounds for"
        with pytest.raises(ps.DataError):
            counts.collect(**options)


def test_an_integer_that_overflows_in_compiled_code_is_skipped() -> None:
    stream = ps.from_items([{"v": v} for v in (1, 1 << 62, 3)]).map(w=lambda v: v * 4)
    for options in ({}, {"compile": False}):
        run = stream.prepare(on_error="skip", **options)
        assert run.collect()["w"].to_pylist() == [4, 12]
        assert run.dead_letters()["index"].to_pylist() == [1]


def test_errors_in_folds_and_in_handlers_of_signals_stop_the_run_nevertheless() -> None:
    class Worst(ps.Fold):
        n: int

        def run(self, v: int) -> None:
            self.n = 6 // v

        def end(self) -> int:
            return self.n

    whole = ps.from_items([{"a": [1, 0]}]).enumerate("a", as_="v").aggregate(worst=Worst)
    stream = (
        ps.from_items([{"v": 0}])
        .map(n=plain.counted, state=plain.Total)
        .on(plain.Reset, n=lambda signal: 1 // signal.to)
    )
    for options in ({}, {"compile": False}):
        with pytest.raises(ps.FunctionError, match="run raised ZeroDivisionError"):
            whole.collect(on_error="skip", **options)
        with pytest.raises(ps.FunctionError, match="raised ZeroDivisionError"):
            stream.collect(on_error="skip", control=[ps.at(0, plain.Reset(0))], **options)


def test_collect_warns_of_skipped_items_and_stop_is_the_default() -> None:
    stream = ps.from_items([{"v": v} for v in (1, 0)]).map(w=lambda v: 1 // v)
    with pytest.raises(ps.FunctionError):
        stream.collect()
    with pytest.warns(ps.SkippedWarning, match="1 item.*dead_letter="):
        assert stream.collect(on_error="skip").num_rows == 1
    with pytest.warns(ps.SkippedWarning):
        assert sum(batch.num_rows for batch in stream.batches(on_error="skip")) == 1
    with pytest.raises(ps.GraphError, match="on_error must be one of 'stop', 'skip'; got 'ignore'"):
        stream.collect(on_error="ignore")


def test_dead_letters_are_written_to_a_folder_of_their_own(tmp_path: Path) -> None:
    stream = ps.from_items([{"v": v} for v in (1, 0, 2)]).map(w=lambda v: 4 // v)
    stream.write_parquet(tmp_path / "out", dead_letter=tmp_path / "dead", spark=False)
    assert pq.read_table(tmp_path / "out")["w"].to_pylist() == [4, 2]
    (told,) = pq.read_table(tmp_path / "dead").to_pylist()
    assert (told["index"], told["node"], told["count"], told["fields"]) == (1, "map 'w'", 1, '{"v": 0}')
    assert stream.collect(dead_letter=tmp_path / "more").num_rows == 2
    assert pq.read_table(tmp_path / "more").num_rows == 1
    with pytest.raises(ps.OutputError, match="must not be there yet"):
        stream.collect(dead_letter=tmp_path / "more")
    with pytest.raises(ps.GraphError, match="dead_letter= implies on_error='skip'"):
        stream.collect(dead_letter=tmp_path / "again", on_error="stop")
    with pytest.raises(ps.GraphError, match="must be another folder"):
        stream.write_parquet(tmp_path / "same", dead_letter=tmp_path / "same", spark=False)
