"""`penstock demo`: the taxi application on data made for it, on Spark, and what is worth seeing of that."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rich.bar import Bar
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import penstock as ps
from penstock.cli import tables
from penstock.cli.progress_bars import Display
from penstock.examples import taxi
from penstock.examples.taxi_by_spark import by_split, digest
from penstock.spark import session

BAR_WIDTH, INDENT = 36, 2
REPEATS = 3
T = TypeVar("T")


def show(lines: int, picture: Path | None) -> None:
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "lines"
        with console.status("making lines of text"):
            taxi.generate(data, lines)
        files = sorted(data.iterdir())
        megabytes = sum(file.stat().st_size for file in files) / 1e6
        console.print(f"\n[bold]Taxi trips[/]  {lines:,} lines, {megabytes:.1f} MB of text, like the Porto taxi set.")
        console.print("Find the coordinate pairs in each line, parse and swap them, mark them with the trip.\n")
        brackets = taxi.brackets(ps.read_text(str(data), name="lines"))
        pairs = taxi.pairs(brackets)
        _section(console, "The graph", Text(pairs.explain(), no_wrap=True, overflow="ellipsis"))
        with console.status("starting Spark"):
            spark = session()
        _run(console, spark, pairs, taxi.malformed(brackets))
        with console.status("comparing with Spark's own functions"):
            speeds = _speeds(spark, pairs, files, Path(folder), megabytes)
        _section(
            console, "The speed", _bars(speeds), "the same lines, the same rows written to Parquet, the same Spark"
        )
    _section(console, "The picture", str(_write_picture(pairs.draw().svg(), picture)))


def _write_picture(text: str, path: Path | None) -> Path:
    """Where a picture was written: where the user wants it, or in a new file for temporary ones."""
    if path is not None:
        path.write_text(text, encoding="utf-8")
        return path
    # A name that others can foresee could be a link of theirs, and be written through it.
    with tempfile.NamedTemporaryFile(
        "w", prefix="penstock-taxi-", suffix=".svg", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    return Path(file.name)


def _run(console: Console, spark: Any, pairs: ps.Stream, malformed: ps.Stream) -> None:
    """Both results in one pass, with the progress while it runs, then the first rows and what was counted."""
    with Display(console) as display:
        run: Any = ps.prepare(pairs, malformed, spark=spark, on_progress=display)
        seconds, (result, bad) = _time(run.tables)
    dropped = f"{sum(bad.column('malformed').to_pylist()):,} malformed pairs in {bad.num_rows:,} lines were dropped"
    note = f"{result.num_rows:,} pairs in {seconds:.1f} s, with all compiling; {dropped}"
    _section(console, "The result", tables.rows(result, result.num_rows), note)
    _section(console, "The statistics", tables.job(run.statistics(), console.width - INDENT))


def _section(console: Console, title: str, content: RenderableType, note: str = "") -> None:
    console.print(f"[bold]{title}[/]\n")
    console.print(Padding(content, (0, 0, 1, INDENT), expand=False), soft_wrap=isinstance(content, str))
    if note:
        console.print(Padding(Text(note, "dim"), (0, 0, 1, INDENT), expand=False))


def _time(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _speeds(spark: Any, pairs: ps.Stream, files: list[Path], folder: Path, megabytes: float) -> dict[str, float]:
    """Megabytes a second of each way, after a look that both write the same rows."""
    ways: Mapping[str, Callable[[], object]] = {
        "Spark's own functions": lambda: by_split(spark, list(map(str, files)), folder / "spark"),
        "Penstock": lambda: pairs.write_parquet(folder / "penstock", spark=spark, mode="overwrite"),
    }
    seconds = [{name: _time(way)[0] for name, way in ways.items()} for _ in range(REPEATS)]
    if not digest(folder / "penstock").equals(digest(folder / "spark")):
        raise ps.InternalError("demo: Spark's own functions and Penstock must give the same rows; they differ")
    return {name: megabytes / min(times[name] for times in seconds) for name in ways}


def _bars(speeds: dict[str, float]) -> Table:
    table = Table("way", "bar", "speed", "times", box=None, show_header=False, pad_edge=False)
    table.columns[2].justify = "right"
    most, first = max(speeds.values()), next(iter(speeds.values()))
    for name, speed in speeds.items():
        times = "" if speed == first else f"[bold]{speed / first:.1f} ×[/]"
        table.add_row(name, Bar(most, 0, speed, width=BAR_WIDTH, color="cyan"), f"{speed:,.0f} MB/s", times)
    return table
