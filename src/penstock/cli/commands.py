"""The commands. Each imports what it needs when it is called, so that the others start fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from penstock import __version__
from penstock.errors import PenstockError

APP_NAMES = ("region-sum", "taxi", "spike-detection")


class Commands(click.Group):
    """A group in which an error of Penstock's own is one message and the exit code 1."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except PenstockError as error:
            if context.params["traceback"]:
                raise
            raise click.ClickException(str(error)) from None


class Target(click.ParamType[str]):
    """What to run: an application of `APP_NAMES`, a module with one, or, where streams may be given, a stream."""

    name = "APP"

    def __init__(self, *, may_be_stream: bool = False) -> None:
        self.may_be_stream = may_be_stream

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        is_module = "." in value and all(part.isidentifier() for part in value.split("."))
        if value in APP_NAMES or is_module or (self.may_be_stream and ":" in value):
            return str(value)
        stream = ", or module:stream for one of your own" if self.may_be_stream else ""
        names = f"{', '.join(APP_NAMES)}, or a module such as examples.cfar{stream}"
        self.fail(f"must be one of {names}; got {value!r}", param, ctx)


class Trigger(click.ParamType[float | str]):
    """When a stream takes what is new: `available`, or every so many seconds."""

    name = "SECONDS|available"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if value == "available":
            return "available"
        try:
            seconds = float(value)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < 1e9:
            self.fail(f"must be a number of seconds above 0, or 'available'; got {value!r}", param, ctx)
        return seconds


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="penstock")
@click.option("--traceback", is_flag=True, help="Show where an error came from.")
def commands(traceback: bool) -> None:
    """Irregular, stateful streams with precise control."""


@commands.command()
@click.option(
    "--lines", default=40_000, show_default=True, type=click.IntRange(min=100), help="How many lines to make."
)
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the picture (SVG).")
def demo(lines: int, picture: Path | None) -> None:
    """See Penstock at work, in a few seconds."""
    from penstock.cli.demo import show

    show(lines, picture)


@commands.command()
def apps() -> None:
    """List the applications, with what can be set of each."""
    from penstock.cli.apps import show

    show()


@commands.command()
@click.argument("target", metavar="APP", type=Target(may_be_stream=True))
@click.argument("data", metavar="[INPUT]", required=False)
@click.option("--input", "path", metavar="PATH", help="A file or folder of data, as INPUT is; else some is made.")
@click.option("--size", type=click.IntRange(min=0), help="How much data to make: elements, lines and the like.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="What to make it from.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; `penstock apps` lists them.")
@click.option(
    *("--output", "-o"),
    metavar="PATH",
    help="A folder for the result, whose name may end in the format; for an application that makes a file, a file.",
)
@click.option("--format", type=click.Choice(("parquet", "csv", "json")), help="The format of the result.")
@click.option("--overwrite", is_flag=True, help="Replace an output that is there already.")
@click.option("--ordered", is_flag=True, help="The rows of the result in the order of the stream.")
@click.option("--spark", metavar="URL", help="The Spark to run on, such as spark://host:7077; else an embedded one.")
@click.option("--here", is_flag=True, help="Run in this process, without Spark.")
@click.option("--unfused", is_flag=True, help="Run every node by itself, with a channel on every edge.")
@click.option("--width", type=int, help="The most items that a node fires on.")
@click.option("--context", default="auto", show_default=True, help="How regions travel: sparse, dense, lane or auto.")
@click.option(
    "--on-error", type=click.Choice(("stop", "skip")), help="What an item that fails does: end the run, or not."
)
@click.option("--dead-letter", metavar="FOLDER", help="Skip items that fail, and write what they were to this folder.")
@click.option("--statistics", is_flag=True, help="Show what every node and channel did.")
@click.option("--checkpoint", metavar="FOLDER", help="Run as a stream, which goes on from what this folder holds.")
@click.option("--stream", metavar="FOLDER", help="Where the files of such a stream come.")
@click.option(
    "--trigger",
    type=Trigger(),
    metavar="SECONDS|available",
    help="When to take what is new: every so many seconds; or what is available, and then end. Else at once.",
)
@click.option("--files-per-batch", type=click.IntRange(min=1), help="The most files that a batch takes.")
@click.option("--restart", is_flag=True, help="Start a stream again after a failure that may pass: a full disk.")
def run(target: str, overwrite: bool, ordered: bool, here: bool, statistics: bool, unfused: bool, **given: Any) -> None:
    """Run an application, or a stream of your own.

    APP is one of those that `penstock apps` lists, or a module with an application, such as examples.cfar of a clone,
    on given data or on data made for it; or a stream of yours, module:stream or path/to/file.py:stream, where `stream`
    may be a function that takes the settings and returns one.

    With --checkpoint it runs as a stream, over files that come into the folder --stream, until Ctrl-C; started again
    with the same checkpoint, it goes on where it was. A function of yours gets the folder as its first argument.
    """
    from penstock.cli.run_command import RunRequest, run

    given["path"] = _one_input(given.pop("data"), given["path"])
    folder = given.pop("stream")
    if folder is not None or given["checkpoint"] is not None:
        _refuse_of_batch(overwrite=overwrite, here=here, statistics=statistics, input=given["path"], size=given["size"])
        if given["checkpoint"] is None:
            raise click.UsageError("--stream needs a --checkpoint: a folder for what must survive")
        from penstock.cli.stream_command import run

        given["path"] = folder
    elif given["trigger"] is not None or given["files_per_batch"] is not None or given["restart"]:
        raise click.UsageError(
            "--trigger, --files-per-batch and --restart are for a stream; say --stream and --checkpoint too"
        )
    if given["path"] is not None and given["size"] is not None:
        raise click.UsageError("--size is for data that is made; leave it out with --input")
    if here and given["spark"] is not None:
        raise click.UsageError("--here is without Spark; leave out --spark")
    options = {"fuse": not unfused, "width": given.pop("width"), "context": given.pop("context")}
    failing = {name: given.pop(name) for name in ("on_error", "dead_letter")}
    options |= {name: value for name, value in failing.items() if value is not None}
    mode = "overwrite" if overwrite else "error"
    run(
        RunRequest(
            target, **given, mode=mode, is_ordered=ordered, is_here=here, options=options, shows_statistics=statistics
        )
    )


def _one_input(argument: str | None, option: str | None) -> str | None:
    if argument is not None and option is not None:
        raise click.UsageError(f"INPUT and --input are the same; got {argument!r} and {option!r}; leave out one")
    return option if argument is None else argument


def _refuse_of_batch(**given: object) -> None:
    for name, value in given.items():
        if value is not None and value is not False:
            raise click.UsageError(f"--{name} is not for a stream; leave it out with --checkpoint")


@commands.command()
@click.argument("target", metavar="APP", type=Target())
@click.option("--input", "path", metavar="PATH", help="A file or folder of data; else some is made.")
@click.option("--size", type=click.IntRange(min=0), help="How much data to make: elements, lines and the like.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="What to make it from.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; `penstock apps` lists them.")
@click.option("--cores", default=2, show_default=True, type=click.IntRange(min=1), help="On how many cores to run.")
@click.option("--width", type=click.IntRange(min=1), help="The most items that a node fires on.")
@click.option("--flexible", is_flag=True, help="Let another core help the node that gains the most by it.")
@click.option(
    *("--output", "-o"), metavar="FILE", help="Where to draw: a page (.html) or a picture (.svg); else APP.html here."
)
def trace(target: str, **given: Any) -> None:
    """Draw what each core did when, while it ran an application.

    Every node is by itself. The application runs to be compiled, to see what each node costs, and then with its nodes
    shared out by that over the cores. On the page the wheel zooms and a drag moves.
    """
    from penstock.cli.trace import trace

    trace(target, **given)


@commands.command()
@click.argument("target", metavar="APP", type=Target())
@click.option("--input", "path", metavar="PATH", help="A file or folder of data; else some is made.")
@click.option("--size", type=click.IntRange(min=0), help="How much data to make: elements, lines and the like.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="What to make it from.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; `penstock apps` lists them.")
@click.option("--cores", default=2, show_default=True, type=click.IntRange(min=1), help="The most cores to run on.")
@click.option("--memory", type=click.IntRange(min=1), metavar="BYTES", help="The most bytes of all channels.")
@click.option(
    "--objective",
    type=click.Choice(("throughput", "latency")),
    default="throughput",
    show_default=True,
    help="What is to be best: items a second, or how long they are under way.",
)
@click.option("--sample", default=100_000, show_default=True, type=click.IntRange(min=1), help="Items to measure.")
def advise(target: str, **given: Any) -> None:
    """Tell how an application is best run on some cores, which need not be there.

    It measures what each node costs on the first items, and looks with a model for where nodes are best at work, which
    of them are to have copies, and how large blocks are. It prints what each step is to gain, and what was rejected.
    """
    from penstock.cli.advise import advise

    advise(target, **given)


@commands.command()
@click.argument("checkpoint")
@click.argument("signal")
@click.argument("values", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option(
    *("--timeout", "timeout_s"),
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait for the answer.",
)
def send(checkpoint: str, signal: str, values: tuple[str, ...], timeout_s: float) -> None:
    """Send a signal to a running stream.

    CHECKPOINT is the folder that the stream was started with, SIGNAL the name of a class that it handles, such as
    Threshold level=0.05; an array is written as 1,2,3. Prints the place that the signal was given in the stream. Where
    none answers in time, the exit code is 3, and the signal waits until the stream runs.
    """
    from penstock.cli.send import send

    send(checkpoint, signal, values, timeout_s)


def main() -> None:
    """The entry point of the command `penstock`."""
    commands()
