"""`penstock demo`: the taxi application on data made for it, and what is worth seeing of that."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from rich.bar import Bar
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import penstock as ps
from penstock.apps import taxi
from penstock.bench.taxi_local import by_python
from penstock.cli.tables import rows

BAR_WIDTH = 40
REPEATS = 5
T = TypeVar("T")


def show(lines: int, picture: Path | None) -> None:
    console = Console(highlight=False)
    with console.status("making lines of text"):
        table = pa.Table.from_batches(taxi.pieces(lines)).combine_chunks()
        texts = table.column("line").to_pylist()
    size = sum(map(len, texts))
    console.print(f"\n[bold]Taxi trips[/]  {lines:,} lines, {size / 1e6:.1f} MB of text, like the Porto taxi set.")
    console.print("Find the coordinate pairs in each line, parse and swap them, mark them with the trip.\n")
    found = taxi.brackets(ps.from_arrow(table, name="lines"))
    pairs, dropped = taxi.pairs(found), taxi.malformed(found)
    _section(console, "The graph", Text(pairs.explain(), no_wrap=True, overflow="ellipsis"))
    with console.status("compiling and running"):
        seconds, (result, bad) = _timed(lambda: ps.run(pairs, dropped))
    note = f"{result.num_rows:,} pairs in {seconds:.1f} s, with all compiling; {taxi.note(bad)}"
    _section(console, "The result", rows(result, result.num_rows), note)
    with console.status("comparing with plain Python"):
        speeds = _speeds({"plain Python": lambda: by_python(texts), "Penstock": pairs.collect}, size)
    _section(console, "The speed", _bars(speeds), "the same rows from the same text in memory, each on one core")
    path = picture or Path(tempfile.gettempdir()) / "penstock-taxi.svg"
    path.write_text(pairs.show().svg(), encoding="utf-8")
    _section(console, "The picture", str(path))


def _section(console: Console, title: str, content: RenderableType, note: str = "") -> None:
    console.print(f"[bold]{title}[/]\n")
    console.print(Padding(content, (0, 0, 1, 2), expand=False), soft_wrap=isinstance(content, str))
    if note:
        console.print(Padding(Text(note, "dim"), (0, 0, 1, 2), expand=False))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _speeds(ways: Mapping[str, Callable[[], pa.Table]], size: int) -> dict[str, float]:
    """Megabytes a second of each, after a look that all give the same rows."""
    first, *others = (way() for way in ways.values())
    if not all(other.equals(first) for other in others):
        raise ps.InternalError("demo: plain Python and Penstock must give the same rows; they differ")
    seconds = [{name: _timed(way)[0] for name, way in ways.items()} for _ in range(REPEATS)]
    return {name: size / min(times[name] for times in seconds) / 1e6 for name in ways}


def _bars(speeds: dict[str, float]) -> Table:
    table = Table("way", "bar", "speed", "times", box=None, show_header=False, pad_edge=False)
    table.columns[2].justify = "right"
    most, first = max(speeds.values()), next(iter(speeds.values()))
    for name, speed in speeds.items():
        times = "" if speed == first else f"[bold]{speed / first:.0f} ×[/]"
        table.add_row(name, Bar(most, 0, speed, width=BAR_WIDTH, color="cyan"), f"{speed:,.0f} MB/s", times)
    return table
