"""`penstock run` for the applications that make one file of another."""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.text import Text

from penstock.cli.run_command import RunRequest
from penstock.errors import GraphError, OutputError
from penstock.examples import whole_file


def run(request: RunRequest) -> None:
    """Make the output of the input, in this process, whole or not at all; without an output, only tell its size."""
    console, app = Console(highlight=False), request.app
    _check(request)
    settings, of_data = app.choose_settings(request.settings, makes_data=request.path is None)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        path, source = request.path or folder, request.path
        if source is None:
            size = app.size if request.size is None else request.size
            source = f"{size:,} {app.unit}"
            app.module.generate(folder, size, request.seed, **of_data)
        planned: Any = app.stream(path, settings).prepare(spark=False, **app.options(request.options))
        started = time.perf_counter()
        with _output(request) as file:
            app.save(file, (first for (first,) in planned.batches()), settings)
            written = file.tell()
        seconds = time.perf_counter() - started
    told = f"  {source} → {written:,} bytes in {seconds:.2f} s"
    console.print(Text.assemble((request.target, "bold"), told), soft_wrap=True)
    told_too = [str(note.message) for note in notes if issubclass(note.category, UserWarning)]
    for text in (*told_too, f"written to {request.output}" if request.output else ""):
        if text:
            console.print(text, soft_wrap=True, markup=False)
    if request.shows_statistics:
        console.print("", str(planned.statistics()), sep="\n", soft_wrap=True, markup=False)


def _check(request: RunRequest) -> None:
    if request.spark is not None:
        raise GraphError(f"run: {request.target} makes one file in order, and does so here; leave out --spark")
    if request.format is not None:
        raise GraphError(f"run: {request.target} makes a file of its own form; leave out --format")
    if request.output is not None:
        _check_output(Path(request.output), may_replace=request.mode == "overwrite")


def _check_output(path: Path, *, may_replace: bool) -> None:
    if path.is_dir():
        raise OutputError(f"run: the output must be a file; {str(path)!r} is a folder; name a file in it")
    if path.exists() and not may_replace:
        raise OutputError(f"run: {str(path)!r} must not be there yet; it is; say --overwrite, or name another")


@contextlib.contextmanager
def _output(request: RunRequest) -> Iterator[BinaryIO]:
    if request.output is None:
        with tempfile.TemporaryFile() as file:
            yield file
    else:
        with whole_file.replacing(Path(request.output)) as file:
            yield file
