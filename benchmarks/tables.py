"""A benchmark's report as tables for people."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks.benchmark import Benchmark, Report
from benchmarks.records import FIRST, Run

TIME = "time, min..max"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="dim", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        is_word = column in ("case", "what", "ratio", "speed")
        is_whole = is_word or column == TIME
        widest = max(map(len, column.split()), default=0)
        table.add_column(column, justify="left" if is_word else "right", no_wrap=is_whole, min_width=widest)
    return table


def times(benchmark: Benchmark, report: Report) -> Table:
    """The time of each, best and spread, its speed, and what else the fastest run saw.

    The case stands with the first of its rows.
    """
    facts = list(dict.fromkeys(name for run in report.runs for name in run.facts))
    names = [name.replace("_", " ") for name in facts]
    cores = "one core" if benchmark.cores == 1 else f"{benchmark.cores} cores"
    table = _table(f"scale {report.scale}, {cores}", "case", "what", TIME, benchmark.unit, *names)
    shown = None
    for (case, what), runs in _grouped(report.runs).items():
        if shown not in (None, case):
            table.add_section()
        seconds = [run.seconds for run in runs]
        best = max(runs, key=lambda run: run.speed)
        speed = "" if case == FIRST or not benchmark.unit else _figure(best.speed / 1e6)
        seen = [_figure(best.facts[name]) if name in best.facts else "" for name in facts]
        style = "bold" if what == "penstock" else ""
        row = (case if case != shown else "", what, _spread(min(seconds), max(seconds)), speed, *seen)
        table.add_row(*row, style=style)
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
            table.add_row(name, _figure(ratio), f"≥ {least:.2g}", _met(ratio, least))
    return table


def speeds(benchmark: Benchmark, report: Report) -> Table:
    """The speeds at which something is aimed."""
    table = _table(f"speeds aimed at, {benchmark.unit}", "speed", "is", "target", "")
    for name, speed in report.speeds.items():
        least = benchmark.target(name) or 0.0
        table.add_row(name, _figure(speed / 1e6), f"≥ {_figure(least / 1e6)}", _met(speed, least))
    return table


def _met(value: float, least: float) -> Text:
    return Text("✓", "bold green") if value >= least else Text("✗", "bold red")


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
