"""`python -m benchmarks NAME`: measure, and print the report as tables or as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from benchmarks import NAMES, load
from benchmarks.benchmark import Benchmark, Report
from benchmarks.tables import ratios, speeds, times
from penstock.errors import DataError, PenstockError
from penstock.report.chart import plots

ROOT = Path(__file__).parents[1]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", type=click.Choice(NAMES))
@click.option(
    "--scale",
    type=click.Choice(("tiny", "small", "full", "double")),
    metavar="[small|full|double]",
    help="How much data; by default full on Spark and small elsewhere. Double is for the benchmarks on Spark.",
)
@click.option("--repeats", type=click.IntRange(min=1), help="Runs of each, of which the best counts; mostly 5.")
@click.option("--case", "only", multiple=True, metavar="PATTERN", help="Just the cases of such names, as 'touch-*'.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Draw what was measured, as SVG files in this folder.",
)
def bench(
    name: str, scale: str | None, repeats: int | None, only: tuple[str, ...], as_json: bool, figures: Path | None
) -> None:
    """Measure Penstock and its peers on the same data, on the same cores."""
    try:
        show(load(name), scale, repeats, only, as_json, figures)
    except PenstockError as error:
        raise click.ClickException(str(error)) from None


def show(
    benchmark: Benchmark,
    scale: str | None,
    repeats: int | None,
    only: Sequence[str],
    as_json: bool,
    figures: Path | None,
) -> None:
    if only and figures is not None:
        raise click.UsageError("--figures needs all cases; leave --case out")
    if scale is not None and scale not in benchmark.scales:
        known = " and ".join(each for each in benchmark.scales if each != "tiny")
        raise click.UsageError(f"--scale {scale}: {benchmark.name} has {known}")
    if figures is not None:
        _make_folder(benchmark, figures)
    if as_json:
        report = benchmark.run(scale, repeats, only=only)
        click.echo(json.dumps(report.as_dict()))
    else:
        report = _show_tables(benchmark, scale, repeats, only)
    drawn = benchmark.draw(report, figures) if figures is not None and report.stopped is None else []
    if drawn and not as_json:
        click.echo(f"drawn: {', '.join(map(str, drawn))}")


def _make_folder(benchmark: Benchmark, figures: Path) -> None:
    """Before anything is measured: what cannot be drawn should not cost minutes."""
    if benchmark.figures is None:
        drawing = ", ".join(name for name in NAMES if load(name).figures is not None)
        raise click.UsageError(f"--figures is for {drawing}; {benchmark.name} draws none")
    plots()
    try:
        figures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"bench: the figures cannot be written to {str(figures)!r}: {error}") from None


def _show_tables(benchmark: Benchmark, scale: str | None, repeats: int | None, only: Sequence[str]) -> Report:
    console = Console()
    console.print(f"\n[bold]{benchmark.name}[/]: {benchmark.about}\n")
    with console.status("making the data") as status:
        report = benchmark.run(scale, repeats, lambda text: status.update(escape(f"measuring at {text}")), only)
    if report.stopped is not None:
        console.print(f"[yellow]Stopped[/] at {escape(report.stopped)}: what was measured before.")
    console.print(times(benchmark, report), ratios(benchmark, report))
    if report.speeds:
        console.print(speeds(benchmark, report))
    busy, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if busy > cores + benchmark.cores - 1:  # what was measured just now is busy too
        console.print(
            f"[yellow]The machine is busy[/] (load {busy:.1f} on {cores} cores): measure again when it is not."
        )
    return report


if __name__ == "__main__":
    # Processes that a benchmark starts, Spark's workers among them, import its functions by name.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    bench(prog_name="python -m benchmarks")
