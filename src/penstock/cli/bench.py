"""`penstock bench`: a benchmark's report as JSON, or as tables for people."""

from __future__ import annotations

import json
import os

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.bench import load
from penstock.bench.measure import FIRST, Benchmark, Report, Run


def show(name: str, scale: str, repeats: int, as_json: bool) -> None:
    benchmark = load(name)
    if as_json:
        click.echo(json.dumps(benchmark.run(scale, repeats).as_dict()))
        return
    console = Console()
    console.print(f"\n[bold]{name}[/]: {benchmark.about}\n")
    with console.status(f"measuring at scale {scale}, {repeats} repeats"):
        report = benchmark.run(scale, repeats)
    console.print(times(benchmark, report), ratios(benchmark, report))
    busy, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if busy > cores:
        console.print(
            f"[yellow]The machine is busy[/] (load {busy:.1f} on {cores} cores): measure again when it is not."
        )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="dim", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in ("case", "what", "ratio") else "right")
    return table


def times(benchmark: Benchmark, report: Report) -> Table:
    """The time of each, best and spread, and its speed; the case stands with the first of its rows."""
    table = _table(f"scale {report.scale}, one core", "case", "what", "time, min..max", benchmark.unit)
    shown = None
    for (case, what), runs in _grouped(report.runs).items():
        if shown not in (None, case):
            table.add_section()
        seconds = [run.seconds for run in runs]
        speed = "" if case == FIRST else _figure(max(run.speed for run in runs) / 1e6)
        style = "bold" if what == "penstock" else ""
        table.add_row(case if case != shown else "", what, _spread(min(seconds), max(seconds)), speed, style=style)
        shown = case
    return table


def ratios(benchmark: Benchmark, report: Report) -> Table:
    """The ratios of speeds, with a tick or a cross where something is aimed at."""
    table = _table("ratios of speed, more is better", "ratio", "is", "target", "")
    for name, ratio in report.ratios.items():
        least = benchmark.target(name)
        if least is None:
            table.add_row(name, _figure(ratio), "", "", style="dim")
        else:
            met = Text("✓", "bold green") if ratio >= least else Text("✗", "bold red")
            table.add_row(name, _figure(ratio), f"≥ {least:.2g}", met)
    return table


def _grouped(runs: tuple[Run, ...]) -> dict[tuple[str, str], list[Run]]:
    grouped: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        grouped.setdefault((run.case, run.what), []).append(run)
    return grouped


def _spread(least: float, most: float) -> str:
    if most >= 1:
        return f"{least:.2f}..{most:.2f} s"
    return f"{1e3 * least:.3g}..{1e3 * most:.3g} ms"


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
