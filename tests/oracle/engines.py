"""Run a graph of the oracle on an engine, and compare with the plain model.

`python -m tests.oracle.engines --engine channels --first 0 --count 500` tries many graphs.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count, islice, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.oracle import draw as d
from tests.oracle import model
from tests.oracle import steps as s

import penstock as ps
from penstock.graph import reference
from penstock.graph.letters import table_of

MANY = int(os.environ.get("PENSTOCK_LONG_GRAPHS", "2000")) // 10
SCHEMA = dict.fromkeys(d.FIELDS, int)
STEP = re.compile(r"step_(\d+) ")


@dataclass(frozen=True)
class Found:
    """What an engine has given: rows, late items by step, letters. None is what an engine cannot tell."""

    rows: list[model.Row]
    late: dict[int, list[model.Row]] | None = None
    letters: Counter[tuple[int | None, int]] | None = None


def check(engine: str, seeds: Iterable[int], **places: Any) -> None:
    """Compare an engine with the model on the graphs of seeds."""
    is_stream = engine == "stream"
    for seed in seeds:
        drawn = d.draw(seed, late=True if is_stream else None)
        wanted = model.run(drawn.graph, drawn.items, is_open=is_stream)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ENGINES[engine](drawn, **places)
        assert found.rows == wanted.rows, f"{engine}: rows\n{found.rows}\nwanted\n{wanted.rows}\n{drawn}"
        if found.late is not None:
            late = {number: rows for number, rows in wanted.late.items() if number in found.late}
            assert found.late == late, f"{engine}: late items\n{found.late}\nwanted\n{late}\n{drawn}"
        if found.letters is not None:
            letters = Counter(wanted.letters)
            assert found.letters == letters, f"{engine}: letters\n{found.letters}\nwanted\n{letters}\n{drawn}"


def _letters(table: pa.Table) -> Counter[tuple[int | None, int]]:
    """Letters by index and step; how many there are of each, where there is no index."""
    found: Counter[tuple[int | None, int]] = Counter()
    for row in table.to_pylist():
        step = STEP.match(row["function"])
        assert step is not None
        found[row["index"], int(step[1])] += 1 if row["index"] is not None else row["count"]
    return found


def _found(built: d.Built, tables: Iterable[pa.Table], letters: pa.Table | None) -> Found:
    rows, *late = (table.to_pylist() for table in tables)
    by_step = dict(zip(built.late, late, strict=True))
    return Found(rows, by_step, None if letters is None else _letters(letters))


def _in_memory(drawn: d.Drawn) -> d.Built:
    return d.build(drawn.graph, ps.from_items(drawn.items, schema=SCHEMA))


def _by_reference(drawn: d.Drawn) -> Found:
    built = _in_memory(drawn)
    result = reference.run(built.leaves, on_error="skip")
    return _found(built, result.tables, table_of(result.letters))


def _here(**options: Any) -> Callable[[d.Drawn], Found]:
    def run(drawn: d.Drawn) -> Found:
        built = _in_memory(drawn)
        made = ps.prepare(built.result, *built.late.values(), spark=False, on_error="skip", **options)
        return _found(built, made.tables(), made.dead_letters())

    return run


def _channels(drawn: d.Drawn) -> Found:
    width = Random(drawn.seed).choice((1, 2, 3, 64))
    return _here(fuse=False, compile=False, width=width)(drawn)


# On Spark, over files


def _write(drawn: d.Drawn, folder: Path) -> list[Path]:
    """The items in files, cut at random places; their names and times are in order."""
    chance = Random(drawn.seed)
    table = pa.Table.from_pylist(drawn.items, pa.schema([(name, pa.int64()) for name in d.FIELDS]))
    ends = sorted(chance.randint(0, table.num_rows) for _ in range(chance.choice((1, 2, 5))))
    folder.mkdir(parents=True)
    files = []
    for at, (start, stop) in enumerate(pairwise((0, *ends, table.num_rows))):
        files.append(folder / f"{at:03}.parquet")
        pq.write_table(table.slice(start, stop - start), files[-1])
        os.utime(files[-1], (1_700_000_000 + at, 1_700_000_000 + at))
    return files


def _on_spark(drawn: d.Drawn, spark: Any, folder: Path) -> Found:
    _write(drawn, folder / str(drawn.seed))
    built = d.build(drawn.graph, ps.read_parquet(folder / str(drawn.seed)))
    options = {"ordered": True, "compile": False, "buckets": 3, "on_error": "skip"}
    made = ps.prepare(built.result, *built.late.values(), spark=spark, **options)
    return _found(built, made.tables(), made.dead_letters())


def _as_a_stream(drawn: d.Drawn, spark: Any, folder: Path) -> Found:
    """Started with some of the files, stopped, and started again with the others."""
    folder = folder / str(drawn.seed)
    files = _write(drawn, folder / "in")
    later = files[Random(drawn.seed).randint(1, len(files)) :]
    for file in later:
        file.rename(folder / file.name)
    _start(drawn, spark, folder)
    for file in later:
        (folder / file.name).rename(file)
    _start(drawn, spark, folder)
    parts = sorted((folder / "out").glob("*.parquet"))
    return Found([row for part in parts for row in pq.read_table(part).to_pylist()])


def _start(drawn: d.Drawn, spark: Any, folder: Path) -> None:
    stream = d.build(drawn.graph, ps.read_parquet(folder / "in")).result
    options = {"ordered": True, "compile": False, "buckets": 3, "dead_letter": folder / "dead", "files_per_batch": 2}
    stream.start(
        folder / "out", checkpoint=folder / "ck", trigger="available", spark=spark, **options
    ).await_termination()


ENGINES: dict[str, Callable[..., Found]] = {
    "reference": _by_reference,
    "interpreted": _here(compile=False),
    "compiled": _here(),
    "channels": _channels,
    "threads": _here(cores=2, fuse=False, compile=False),
    "spark": _on_spark,
    "stream": _as_a_stream,
}


# Which graphs


def with_windows(number: int, *, late: bool | None = None) -> list[int]:
    """The first seeds whose graphs have windows and items enough."""
    return list(islice((seed for seed in count() if _has_windows(d.draw(seed, late=late))), number))


def _has_windows(drawn: d.Drawn) -> bool:
    return len(drawn.items) >= 20 and any(isinstance(step, s.Window) for step in drawn.graph.steps)


def smallest_with_windows(number: int) -> list[int]:
    """Of the first seeds those with windows and the fewest steps: to compile a large graph takes seconds."""
    return sorted(sorted(with_windows(10 * number), key=lambda seed: len(d.draw(seed).graph.steps))[:number])


def situations(seeds: Iterable[int]) -> Counter[str]:
    """How often each thing is met that these graphs are for."""
    found: Counter[str] = Counter(dict.fromkeys(("late items", "windows of windows", "letters", "keyed sides"), 0))
    for seed in seeds:
        drawn = d.draw(seed)
        outcome = model.run(drawn.graph, drawn.items)
        found["late items"] += any(outcome.late.values())
        found["windows of windows"] += sum(isinstance(step, s.Window) for step in drawn.graph.steps) > 1
        found["letters"] += bool(outcome.letters)
        found["keyed sides"] += any(isinstance(step, s.Align) and bool(step.key) for step in drawn.graph.steps)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare an engine with the plain model on many graphs.")
    parser.add_argument(
        "--engine", choices=["reference", "interpreted", "compiled", "channels", "threads"], required=True
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    check(given.engine, range(given.first, given.first + given.count))
    print(f"{given.count} graphs: {given.engine} gives what the model gives")


if __name__ == "__main__":
    main()
