"""`penstock apps` and `penstock run`: the applications, on data that is given or made."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

import penstock as ps
from penstock.apps import region_sum, taxi
from penstock.errors import DataError

ROWS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class App:
    """An application: its module, how much data is made unless said otherwise, and what it tells beside its result."""

    module: ModuleType
    size: int
    unit: str
    run: Callable[[ps.Stream], tuple[pa.Table, str]]

    @property
    def about(self) -> str:
        """The first line of the module's docstring, without its name."""
        first = str(self.module.__doc__).partition("\n")[0]
        return first.partition(": ")[2].removesuffix(".")


def _region_sum(source: ps.Stream) -> tuple[pa.Table, str]:
    return region_sum.build(source).collect(), ""


def _taxi(source: ps.Stream) -> tuple[pa.Table, str]:
    found = taxi.brackets(source)
    pairs, dropped = ps.run(taxi.pairs(found), taxi.malformed(found))
    return pairs, malformed_text(dropped)


def malformed_text(dropped: pa.Table) -> str:
    count = sum(dropped.column("malformed").to_pylist())
    return f"{count:,} malformed pairs in {dropped.num_rows:,} lines were dropped"


APPS = {
    "region-sum": App(region_sum, 10_000_000, "elements", _region_sum),
    "taxi": App(taxi, 20_000, "lines", _taxi),
}


def show() -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, app in APPS.items():
        table.add_row(f"[bold]{name}[/]", app.about)
    Console().print(table)


def run(name: str, path: Path | None, size: int | None, seed: int, output: Path | None) -> None:
    app, console = APPS[name], Console()
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            size = app.size if size is None else size
            with console.status(f"making {size:,} {app.unit}"):
                app.module.generate(folder, size, seed)
        start = time.perf_counter()
        result, note = app.run(app.module.read(path or folder))
        seconds = time.perf_counter() - start
    if output is not None:
        _write(result, output)
    else:
        console.print(rows(result))
    read = f"{size:,} {app.unit}" if path is None else str(path)
    console.print(f"[bold]{name}[/]: {read} → {result.num_rows:,} rows in {seconds:.2f} s", highlight=False)
    for line in (note, f"written to {output}" if output else ""):
        if line:
            console.print(line, highlight=False)


def _write(result: pa.Table, output: Path) -> None:
    try:
        pq.write_table(result, output)
    except OSError as error:
        raise DataError(f"run: the result cannot be written to {str(output)!r}: {error}") from None


def rows(table: pa.Table, count: int = ROWS_SHOWN) -> Table:
    """The first rows of a result, for people."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for field in table.schema:
        shown.add_column(field.name, justify="right" if pa.types.is_primitive(field.type) else "left")
    for row in table.slice(0, count).to_pylist():
        shown.add_row(*(_text(value) for value in row.values()))
    if table.num_rows > count:
        shown.add_row(*("…" for _ in table.schema), style="dim")
    return shown


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
