"""`penstock demo`: the taxi application on data made for it, and what is worth seeing of that."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from rich.bar import Bar
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import penstock as ps
from penstock.apps import taxi
from penstock.bench.taxi_local import by_python
from penstock.cli.apps import malformed_text, rows

BAR_WIDTH = 32
REPEATS = 3


def show(lines: int, picture: Path | None) -> None:
    console = Console(highlight=False)
    with console.status("making lines of text"):
        table = pa.Table.from_batches(taxi.pieces(lines)).combine_chunks()
    size = sum(map(len, table.column("line").to_pylist()))
    console.print(f"\n[bold]Taxi trips[/]: {lines:,} lines, {size / 1e6:.1f} MB of text like the Porto taxi set.")
    console.print("Find the coordinate pairs in every line, parse them, swap them, mark each with its line's trip.\n")
    found = taxi.brackets(ps.from_arrow(table, name="lines"))
    pairs, dropped = taxi.pairs(found), taxi.malformed(found)
    _section(console, "The graph", Text(pairs.explain()))
    with console.status("compiling and running"):
        compiling, (result, bad) = _timed(lambda: ps.run(pairs, dropped))
    _section(console, "The result", rows(result))
    console.print(f"  {result.num_rows:,} pairs; {malformed_text(bad)}\n")
    with console.status("comparing with plain Python"):
        speeds = _speeds(table, lambda: ps.run(pairs, dropped)[0], size)
    _section(console, "The speed, on one core", _bars(speeds))
    console.print(f"  [dim]the first run took {compiling:.1f} s with compiling, which the next process finds done[/]\n")
    path = picture or Path(tempfile.gettempdir()) / "penstock-taxi.svg"
    path.write_text(pairs.show().svg(), encoding="utf-8")
    console.print(f"[bold]The picture[/]  {path}\n")


def _section(console: Console, title: str, content: RenderableType) -> None:
    console.print(f"[bold]{title}[/]")
    console.print(Padding(content, (0, 0, 1, 2)))


def _timed(work: Callable[[], tuple[pa.Table, ...]]) -> tuple[float, tuple[pa.Table, ...]]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _speeds(table: pa.Table, by_penstock: Callable[[], pa.Table], size: int) -> dict[str, float]:
    """Megabytes a second of each on the same lines, after a look that both give the same rows."""
    texts = table.column("line").to_pylist()
    ways = {"plain Python": lambda: by_python(texts), "Penstock": by_penstock}
    answers = [way() for way in ways.values()]
    if not answers[0].equals(answers[1]):
        raise ps.InternalError("demo: plain Python and Penstock must give the same rows; they differ")
    best: dict[str, float] = {}
    for _ in range(REPEATS):
        for name, way in ways.items():
            seconds, _ = _timed(lambda way=way: (way(),))  # type: ignore[misc]
            best[name] = max(best.get(name, 0.0), size / seconds / 1e6)
    return best


def _bars(speeds: dict[str, float]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    most, first = max(speeds.values()), next(iter(speeds.values()))
    for name, speed in speeds.items():
        times = "" if speed == first else f"[bold]{speed / first:.0f} ×[/]"
        table.add_row(name, Bar(most, 0, speed, width=BAR_WIDTH, color="cyan"), f"{speed:,.0f} MB/s", times)
    return table
