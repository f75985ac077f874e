"""The applications: what `penstock apps` lists, and the streams of each for `penstock run`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import penstock as ps
from penstock.cli.settings import Setting, chosen, settings_of
from penstock.errors import GraphError


@dataclass(frozen=True, slots=True)
class App:
    """An application: its name, and how much data is made unless said otherwise.

    Its module has `generate`, `read` and `build`. It may have `results`, which gives the stream of `build` and others
    beside it, of what was dropped; then `note` tells in words what their tables hold.
    """

    name: str
    size: int
    unit: str

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(f"penstock.apps.{self.name.replace('-', '_')}")

    @property
    def about(self) -> str:
        """The first line of the module's docstring, without its name."""
        first = str(self.module.__doc__).partition("\n")[0]
        return first.partition(": ")[2].removesuffix(".")

    @property
    def settings(self) -> dict[str, Setting]:
        """What may be set of how it works."""
        return settings_of(self.module.build)

    @property
    def data_settings(self) -> dict[str, Setting]:
        """What may be set of the data that is made."""
        return settings_of(self.module.generate)

    def chosen(self, given: Sequence[str], *, makes_data: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings that are given: of how it works, and of the data, if any is made."""
        own, data = self.settings, self.data_settings
        found = chosen(given, own | data, self.name)
        of_data = {name: value for name, value in found.items() if name not in own}
        if of_data and not makes_data:
            name = next(iter(of_data))
            raise GraphError(f"run: {name!r} is a setting of data that is made; leave it out with --input or --stream")
        return {name: value for name, value in found.items() if name in own}, of_data

    def streams(self, path: str | Path, settings: dict[str, Any]) -> tuple[ps.Stream, ...]:
        """The result, and what stands beside it."""
        source = self.module.read(path)
        if hasattr(self.module, "results"):
            return tuple(self.module.results(source, **settings))
        return (self.module.build(source, **settings),)

    def stream(self, path: str | Path, settings: dict[str, Any]) -> ps.Stream:
        """The result alone, for a stream that runs."""
        found: ps.Stream = self.module.build(self.module.read(path), **settings)
        return found

    def note(self, others: Sequence[Any]) -> str:
        return str(self.module.note(*others)) if others else ""


APPS = {
    app.name: app
    for app in (
        App("region-sum", 10_000_000, "elements"),
        App("taxi", 20_000, "lines"),
        App("spike-detection", 1_000_000, "readings"),
        App("fraud-detection", 1_000_000, "transactions"),
    )
}


def show() -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for name, app in APPS.items():
        table.add_row(Text(name, "bold"), app.about)
        for what, settings in (("", app.settings), ("data made: ", app.data_settings)):
            if settings:
                table.add_row("", Text(what + ", ".join(map(str, settings.values())), "dim"))
    console = Console()
    console.print(table)
    console.print("\nSet a value with --set name=value.", highlight=False)
