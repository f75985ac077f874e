"""`penstock run` with a checkpoint: an application or a user's own stream, over a folder that grows."""

from __future__ import annotations

import time

from rich.console import Console
from rich.text import Text

import penstock as ps
from penstock.cli import own, tables
from penstock.cli.run_command import RunRequest, Session, skipped_text
from penstock.cli.watch import LastRows, StreamDisplay, state_text, watch
from penstock.errors import GraphError
from penstock.report.progress import files_text


def run(request: RunRequest) -> None:
    """Run a stream until it ends, which it does by itself only where it takes what is available, or is interrupted."""
    if request.is_of_app and request.app.makes_file:
        raise GraphError(f"run: {request.target} makes one file of another, and no stream; leave out --checkpoint")
    console = Console(highlight=False)
    last_rows = LastRows() if request.output is None else None
    with Session(request) as session:
        stream = _app(request) if request.is_of_app else _own(request)
        with console.status("starting Spark"):
            spark = session.get()
        began = time.perf_counter()
        handle = stream.start(
            last_rows or request.output,
            checkpoint=request.checkpoint,
            trigger=request.trigger,
            spark=spark,
            format=request.writes,
            ordered=request.is_ordered,
            files_per_batch=request.files_per_batch,
            restart=request.restart,
            **request.options,
        )
        with StreamDisplay(console, request.target, last_rows) as display:
            watch(handle, display)
    _show(console, request, display, time.perf_counter() - began)


def _app(request: RunRequest) -> ps.Stream:
    app = request.app
    if request.path is None:
        raise GraphError(f"run: {app.name} must be told where its files come; say --stream FOLDER")
    settings, _ = app.choose_settings(request.settings, makes_data=False)
    return app.stream(request.path, settings)


def _own(request: RunRequest) -> ps.Stream:
    return own.load(request.target, request.settings, request.path)


def _show(console: Console, request: RunRequest, display: StreamDisplay, seconds: float) -> None:
    tally = display.tally
    if display.last_rows is not None and display.last_rows.rows is not None:
        console.print(tables.rows(display.last_rows.rows, display.last_rows.rows.num_rows), "")
    source = "its source" if request.path is None else request.path
    told = f"  {source} → {tally.rows:,} rows in {seconds:.2f} s"
    console.print(Text.assemble((request.target, "bold"), told), soft_wrap=True)
    if tally.last is None:
        console.print("no batch was done: there was nothing new", soft_wrap=True)
        return
    waiting = "" if tally.last.waiting is None else f"; {files_text(tally.last.waiting)}"
    console.print(f"{tally}; {state_text(tally.last)}{waiting}", soft_wrap=True)
    skipped = skipped_text(request, tally.skipped)
    if skipped:
        console.print(skipped, soft_wrap=True, markup=False)
    if request.output is not None:
        console.print(f"written to {request.output}", soft_wrap=True, markup=False)
    console.print("", tables.batch_times(list(tally.kept), tally.first), sep="\n")
