"""`penstock trace`: what each core did when, while it ran an application."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

import penstock as ps
from penstock import tune
from penstock.cli.apps import app_of
from penstock.errors import GraphError, OutputError
from penstock.plan.balance import choose, dearest, loops_of
from penstock.report import timeline

FIRINGS, SAMPLE = 100, 100_000
"""How often a node should fire for a timeline to show something, and on how many items it is seen what each costs."""


def trace(
    target: str,
    *,
    path: str | None = None,
    size: int | None = None,
    seed: int = 0,
    settings: tuple[str, ...] = (),
    cores: int = 2,
    width: int | None = None,
    flexible: bool = False,
    output: str | None = None,
) -> None:
    """Run an application on so many cores, and write the timeline of the run to a file."""
    drawn = Path(output or f"{target}.html")
    if drawn.suffix not in (".html", ".svg"):
        raise GraphError(f"trace: the output must end in .html or .svg; got {str(drawn)!r}")
    if path is not None and size is not None:
        raise GraphError("trace: --size is for data that is made; leave it out with --input")
    console, app = Console(highlight=False), app_of(target)
    own, of_data = app.choose_settings(settings, makes_data=path is None)
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            app.module.generate(folder, app.size if size is None else size, seed, **of_data)
        with console.status(f"running {target}"):
            statistics = trace_run(app.stream(path or folder, own), cores, width, flexible)
    if not statistics.firings:
        raise GraphError(f"trace: {target} had nothing to do; give it data")
    _write(statistics, drawn, f"{target} on {cores} cores{', with a flexible node' if flexible else ''}")
    for lane in timeline.lanes(statistics):
        nodes = ", ".join(dict.fromkeys(block.node for block in lane.blocks))
        console.print(f"core {lane.core}: {lane.busy:.0%} busy with {nodes}", soft_wrap=True, markup=False)
    console.print(f"drawn to {drawn}", soft_wrap=True, markup=False)


def trace_run(
    stream: ps.Stream, cores: int, width: int | None = None, is_flexible: bool = False, **options: Any
) -> Any:
    """The statistics of a traced run on so many cores, with its nodes shared out by what they cost on one.

    Flexible is the node that gains the most by it, or, where none gains much, the dearest that can have copies. Unless
    a width is given, the busiest node fires about `FIRINGS` times. The first run is for the compiler.
    """
    options |= {"spark": False, "fuse": False, "trace": True}
    first = _run(stream, **options)
    width = width or max(1, max(node.items for node in first.nodes) // FIRINGS)
    profile = tune.profile(stream, SAMPLE, width=width)
    if is_flexible and cores > 1:
        loops = loops_of((stream.node,))
        node = choose(loops, profile, cores).flexible or dearest(loops, profile)
        if node is None:
            raise GraphError("trace: --flexible needs a node that remembers nothing; every node here has a state")
        options["flexible"] = {ps.Stream(node): 1}
    given = {"width": width, "cores": cores, "mapping": profile} | options
    _run(stream, **given)
    return _run(stream, **given)


def _run(stream: ps.Stream, **options: Any) -> Any:
    run: Any = stream.prepare(**options)
    for _ in run.batches():
        pass
    return run.statistics()


def _write(statistics: Any, path: Path, title: str) -> None:
    try:
        timeline.write(statistics, path, title)
    except OSError as error:
        raise OutputError(f"trace: {str(path)!r} must be a file that can be written; {error.strerror}") from None
