"""The applications: what `penstock apps` lists, and the streams of each for `penstock run`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import penstock as ps
from penstock.cli import own
from penstock.cli.commands import APP_NAMES
from penstock.cli.settings import Setting, parse_settings, settings_of
from penstock.errors import GraphError

PARTS = ("build", "generate", "read", "USUAL_SIZE", "SIZE_UNIT")
"""What the module of an application must have."""


@dataclass(frozen=True, slots=True)
class App:
    """An application: its name, and its module, which has `PARTS`.

    The module may have `results`, which gives the stream of `build` and others beside it, of what was dropped; then
    `note` tells in words what their tables hold.

    One that makes one file of another also has `save`, which writes the result, and `OPTIONS`, with which it is best
    run; and what is set goes to whichever of `read`, `build` and `save` take it.
    """

    name: str
    module: ModuleType

    @property
    def makes_file(self) -> bool:
        return hasattr(self.module, "OPTIONS")

    @property
    def size(self) -> int:
        """How much data is made by default."""
        return int(self.module.USUAL_SIZE)

    @property
    def unit(self) -> str:
        return str(self.module.SIZE_UNIT)

    @property
    def about(self) -> str:
        """The first line of the module's docstring, without its name."""
        first = str(self.module.__doc__).partition("\n")[0]
        return first.partition(": ")[2].removesuffix(".")

    @property
    def settings(self) -> dict[str, Setting]:
        """What may be set of how it works."""
        return {**(settings_of(self.module.read) if self.makes_file else {}), **settings_of(self.module.build)}

    @property
    def data_settings(self) -> dict[str, Setting]:
        """What may be set of the data that is made."""
        return settings_of(self.module.generate)

    def choose_settings(self, given: Sequence[str], *, makes_data: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings that are given: of how it works, and of the data, if any is made."""
        own, data = self.settings, self.data_settings
        values = parse_settings(given, own | data, self.name)
        of_data = {name: value for name, value in values.items() if name not in own}
        if of_data and not makes_data:
            name = next(iter(of_data))
            raise GraphError(f"run: {name!r} is a setting of data that is made; leave it out with --input or --stream")
        return {name: value for name, value in values.items() if name in own}, of_data

    def streams(self, path: str | Path, settings: dict[str, Any]) -> tuple[ps.Stream, ...]:
        """The result, and what stands beside it."""
        source = self.module.read(path)
        if hasattr(self.module, "results"):
            return tuple(self.module.results(source, **settings))
        return (self.module.build(source, **settings),)

    def stream(self, path: str | Path, settings: dict[str, Any]) -> ps.Stream:
        """The result alone, for a stream that runs, or for a file."""
        if self.makes_file:
            source = self.module.read(path, **_own_settings(self.module.read, settings))
            settings = _own_settings(self.module.build, settings)
        else:
            source = self.module.read(path)
        stream: ps.Stream = self.module.build(source, **settings)
        return stream

    def save(self, file: BinaryIO, batches: Iterator[Any], settings: dict[str, Any]) -> None:
        """Write the result as the file that it is."""
        self.module.save(file, batches, **_own_settings(self.module.save, settings))

    def options(self, given: dict[str, Any]) -> dict[str, Any]:
        """The options of a run: those that are given, and else its own."""
        return {**self.module.OPTIONS, **{name: value for name, value in given.items() if value is not None}}

    def note(self, others: Sequence[Any]) -> str:
        return str(self.module.note(*others)) if others else ""


def _own_settings(function: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that a function takes."""
    return {name: value for name, value in settings.items() if name in settings_of(function)}


def app_of(name: str) -> App:
    """The application of this name: one that comes with Penstock, or a module, such as `examples.cfar` of a clone."""
    if name in APP_NAMES:
        return App(name, importlib.import_module(f"penstock.examples.{name.replace('-', '_')}"))
    module = own.import_module(name)
    missing = [part for part in PARTS if not hasattr(module, part)]
    if missing:
        raise GraphError(
            f"run: {name!r} must have {', '.join(PARTS)} to be an application; it lacks {', '.join(missing)}; for a "
            f"stream of it, say {name}:stream"
        )
    return App(name, module)


def show() -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for app in map(app_of, APP_NAMES):
        table.add_row(Text(app.name, "bold"), app.about)
        for what, settings in (("", app.settings), ("data made: ", app.data_settings)):
            if settings:
                table.add_row("", Text(what + ", ".join(map(str, settings.values())), "dim"))
    console = Console()
    console.print(table)
    clone = "In a clone of Penstock, examples.NAME are applications too."
    console.print(f"\nSet a value with --set name=value. {clone}", highlight=False)
