"""`penstock run`: an application or a user's own stream, on Spark or in this process."""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

import penstock as ps
from penstock.cli import own, tables
from penstock.cli.apps import App, app_of
from penstock.errors import GraphError

FORMATS = ("parquet", "csv", "json")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What was asked for. `spark` is the address of a cluster, None for the embedded Spark.

    With a `checkpoint`, which a running stream has, `path` is the folder that grows.
    """

    target: str
    path: str | None = None
    size: int | None = None
    seed: int = 0
    settings: tuple[str, ...] = ()
    output: str | None = None
    format: str | None = None
    mode: str = "error"
    is_ordered: bool = False
    spark: str | None = None
    is_here: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    shows_statistics: bool = False
    checkpoint: str | None = None
    trigger: float | str | None = None
    files_per_batch: int | None = None
    restart: bool = False

    @property
    def is_of_app(self) -> bool:
        """Whether the target is an application, not a stream of the user's own."""
        return ":" not in self.target

    @property
    def app(self) -> App:
        return app_of(self.target)

    @property
    def writes(self) -> str:
        """The format of the output: the one that is named, or that its suffix names, or else Parquet."""
        suffix = Path(self.output or "").suffix.removeprefix(".")
        return self.format or (suffix if suffix in FORMATS else "parquet")


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams to run, the first of which is the result; where their items come from; and what to say of the others."""

    streams: tuple[ps.Stream, ...]
    source: str
    note: Callable[[Sequence[pa.Table]], str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: how many rows, the first of them unless they were written, the other results, and counts."""

    count: int
    head: pa.Table | None
    others: tuple[pa.Table, ...]
    statistics: Any
    seconds: float


def run(request: RunRequest) -> None:
    if request.is_of_app and request.app.makes_file:
        from penstock.cli import file

        return file.run(request)
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as folder, Session(request) as session:
        work = _app(request, folder, console) if request.is_of_app else _own(request)
        if session.is_needed(work):
            with console.status("starting Spark"):
                spark = session.get()
            outcome = _on_spark(request, work, spark, console)
        else:
            outcome = _here(request, work)
    _show(console, request, work, outcome)


# What to run


def _app(request: RunRequest, folder: str, console: Console) -> Workload:
    app = request.app
    settings, of_data = app.choose_settings(request.settings, makes_data=request.path is None)
    if request.path is None:
        size = app.size if request.size is None else request.size
        with console.status(f"making {size:,} {app.unit}"):
            app.module.generate(folder, size, request.seed, **of_data)
        return Workload(app.streams(folder, settings), f"{size:,} {app.unit}", app.note)
    return Workload(app.streams(request.path, settings), request.path, app.note)


def _own(request: RunRequest) -> Workload:
    if request.path is not None or request.size is not None:
        raise GraphError(f"run: --input and --size are for applications; give {request.target!r} a --set name=value")
    stream = own.load(request.target, request.settings)
    return Workload((stream,), "its source", lambda others: "")


# Where to run it


class Session:
    """The session of Spark. For an application it starts while the graph is made; for others once it is needed."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.pool: ThreadPoolExecutor | None = None
        self.started: Future[Any] | None = None

    def __enter__(self) -> Session:
        if self.request.is_of_app and self._may_be_used():
            self._start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=False)

    def _may_be_used(self) -> bool:
        has_spark = self.request.spark is not None or importlib.util.find_spec("pyspark") is not None
        return not self.request.is_here and has_spark

    def is_needed(self, work: Workload) -> bool:
        """As for streams everywhere: what comes from files runs on Spark, if there is one, unless it is to run here."""
        if self.request.spark is not None or self.request.is_of_app:
            return self._may_be_used()
        return self._may_be_used() and not work.streams[0].node.source.items.is_here

    def _start(self) -> Future[Any]:
        from penstock.spark import session

        self.pool = ThreadPoolExecutor(1, "penstock-session")
        self.started = self.pool.submit(session, self.request.spark)
        return self.started

    def get(self) -> Any:
        return (self.started or self._start()).result()


def _on_spark(request: RunRequest, work: Workload, spark: Any, console: Console) -> Outcome:
    from penstock.cli.progress_bars import Display

    started = time.perf_counter()
    how = {"spark": spark, "ordered": request.is_ordered} | request.options
    with Display(console) as display:
        if request.output is None:
            planned = ps.prepare(*work.streams, on_progress=display, **how, **_letter_mode(request))
            first, *others = planned.tables()
            count, head, statistics = first.num_rows, first, planned.statistics()
        else:
            write = getattr(work.streams[0], f"write_{request.writes}")
            written = write(request.output, mode=request.mode, on_progress=display, **how)
            count, head, statistics = written.rows, None, written.statistics
            if "dead_letter" in how:  # what failed has been told of by now
                how = {name: value for name, value in how.items() if name != "dead_letter"} | {"on_error": "skip"}
            others = list(ps.run(*work.streams[1:], **how)) if work.streams[1:] else []
    return Outcome(count, head, tuple(others), statistics, time.perf_counter() - started)


def _letter_mode(request: RunRequest) -> dict[str, Any]:
    """What becomes of a folder of dead letters that is there already."""
    return {"mode": request.mode} if "dead_letter" in request.options else {}


def _here(request: RunRequest, work: Workload) -> Outcome:
    """All streams in one pass. Of the first, rows go to files as they come, or only the first few are kept."""
    planned: Any = ps.prepare(*work.streams, spark=False, **request.options, **_letter_mode(request))
    schemas = [stream.schema for stream in work.streams]
    kept: list[list[pa.RecordBatch]] = [[] for _ in schemas]
    started, count = time.perf_counter(), 0
    with _writer(request, schemas[0]) as write:
        for first, *rest in planned.batches():
            if count < tables.ROWS_SHOWN:
                kept[0].append(first.slice(0, tables.ROWS_SHOWN))
            count += first.num_rows
            write(first)
            for batches, batch in zip(kept[1:], rest, strict=True):
                batches.append(batch)
    seconds = time.perf_counter() - started
    head, *others = (pa.Table.from_batches(batches, schema) for batches, schema in zip(kept, schemas, strict=True))
    return Outcome(count, head if request.output is None else None, tuple(others), planned.statistics(), seconds)


@contextlib.contextmanager
def _writer(request: RunRequest, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], object]]:
    """A function that writes batches to the files of the output, which appear when all are written; or does nothing."""
    if request.output is None:
        yield lambda batch: None
        return
    from penstock.spark.files.format import format_of
    from penstock.spark.files.part import PartWriter
    from penstock.spark.files.result_folder import ResultFolder

    with ResultFolder(request.output, format_of(request.writes, schema), request.mode) as output:
        with PartWriter(output.staging, (0,)) as parts:
            yield parts.write
        output.commit(parts.parts)


# What to say


def skipped_text(request: RunRequest, skipped: int) -> str:
    """How many items failed, and where they are told of."""
    if not skipped:
        return ""
    letters = request.options.get("dead_letter")
    return f"{skipped:,} items failed and were skipped" + (f"; their letters are in {letters}" if letters else "")


def _show(console: Console, request: RunRequest, work: Workload, outcome: Outcome) -> None:
    if outcome.head is not None:
        console.print(tables.rows(outcome.head, outcome.count), "")
    told = f"  {work.source} → {outcome.count:,} rows in {outcome.seconds:.2f} s"
    console.print(Text.assemble((request.target, "bold"), told), soft_wrap=True)
    late = getattr(outcome.statistics, "late", 0)
    left_out = f"{late:,} items came after their windows had closed, and were left out" if late else ""
    written = f"written to {request.output}" if request.output else ""
    skipped = skipped_text(request, outcome.statistics.skipped)
    for text in (work.note(outcome.others), left_out, written, skipped):
        if text:
            console.print(text, soft_wrap=True, markup=False)
    if hasattr(outcome.statistics, "stages"):
        console.print("", tables.job(outcome.statistics, console.width), sep="\n")
    elif request.shows_statistics:
        console.print("", str(outcome.statistics), sep="\n", soft_wrap=True, markup=False)
