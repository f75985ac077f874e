"""`penstock apps` and `penstock run`: the applications, on data that is given or made."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import penstock as ps
from penstock.apps import region_sum, taxi
from penstock.engine.run import Run
from penstock.errors import DataError

ROWS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class App:
    """An application: its module, how much data is made unless said otherwise, and its streams.

    The first stream is the result; `note` tells in words what the others gave.
    """

    module: ModuleType
    size: int
    unit: str
    streams: Callable[[ps.Stream], tuple[ps.Stream, ...]]
    note: Callable[..., str]

    @property
    def about(self) -> str:
        """The first line of the module's docstring, without its name."""
        first = str(self.module.__doc__).partition("\n")[0]
        return first.partition(": ")[2].removesuffix(".")


def _taxi(source: ps.Stream) -> tuple[ps.Stream, ...]:
    found = taxi.brackets(source)
    return taxi.pairs(found), taxi.malformed(found)


def malformed_text(dropped: pa.Table) -> str:
    count = sum(dropped.column("malformed").to_pylist())
    return f"{count:,} malformed pairs in {dropped.num_rows:,} lines were dropped"


APPS = {
    "region-sum": App(region_sum, 10_000_000, "elements", lambda source: (region_sum.build(source),), lambda: ""),
    "taxi": App(taxi, 20_000, "lines", _taxi, malformed_text),
}


def show() -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, app in APPS.items():
        table.add_row(f"[bold]{name}[/]", app.about)
    Console().print(table)


def run(
    name: str,
    path: Path | None,
    size: int | None,
    seed: int,
    output: Path | None,
    options: dict[str, Any],
    shows_statistics: bool,
) -> None:
    app, console = APPS[name], Console(highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            size = app.size if size is None else size
            with console.status(f"making {size:,} {app.unit}"):
                app.module.generate(folder, size, seed)
        streams = app.streams(app.module.read(path or folder))
        planned = ps.prepare(*streams, **options)
        start = time.perf_counter()
        head, count, others = _stream(streams, planned, output)
        seconds = time.perf_counter() - start
    if output is None:
        console.print(rows(head, count), "")
    read = f"{size:,} {app.unit}" if path is None else str(path)
    console.print(f"[bold]{name}[/]  {read} → {count:,} rows in {seconds:.2f} s", soft_wrap=True)
    for line in (app.note(*others), f"written to {output}" if output else ""):
        if line:
            console.print(line, soft_wrap=True)
    if shows_statistics:
        console.print("", str(planned.statistics()), sep="\n", soft_wrap=True, markup=False)


def _stream(streams: tuple[ps.Stream, ...], planned: Run, output: Path | None) -> tuple[pa.Table, int, list[pa.Table]]:
    """Run the streams together: of the first the first rows and how many there are, the others whole.

    The rows of the first go to the file as they come, so that they need never be in memory together.
    """
    head: list[pa.RecordBatch] = []
    count = 0
    others: list[list[pa.RecordBatch]] = [[] for _ in streams[1:]]
    with _file(output, streams[0].schema) as write:
        for first, *rest in planned.batches():
            if count < ROWS_SHOWN:
                head.append(first.slice(0, ROWS_SHOWN))
            count += first.num_rows
            write(first)
            for kept, batch in zip(others, rest, strict=True):
                kept.append(batch)
    schemas = [stream.schema for stream in streams]
    tables = [pa.Table.from_batches(kept, schema) for kept, schema in zip([head, *others], schemas, strict=True)]
    return tables[0], count, tables[1:]


@contextlib.contextmanager
def _file(path: Path | None, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], object]]:
    """A function that writes batches to a Parquet file, which appears when all are written; or that does nothing."""
    if path is None:
        yield lambda batch: None
        return
    draft = path.with_name(f".{path.name}.draft")
    try:
        writer = pq.ParquetWriter(draft, schema)
    except OSError as error:
        raise DataError(f"run: the result cannot be written to {str(path)!r}: {error}") from None
    try:
        with writer:
            yield writer.write_batch
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def rows(table: pa.Table, count: int) -> Table:
    """The first rows of a result of so many, for people."""
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for field in table.schema:
        shown.add_column(field.name, justify="right" if pa.types.is_primitive(field.type) else "left")
    for row in table.slice(0, ROWS_SHOWN).to_pylist():
        shown.add_row(*(_text(value) for value in row.values()))
    if count > ROWS_SHOWN:
        shown.add_row(*("…" for _ in table.schema), style="dim")
    return shown


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
