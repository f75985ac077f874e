"""`penstock advise`: how to run an application on some cores, and what that is to gain."""

from __future__ import annotations

import tempfile

from rich.console import Console

from penstock import tune
from penstock.cli.apps import app_of
from penstock.errors import GraphError


def advise(
    target: str,
    *,
    path: str | None = None,
    size: int | None = None,
    seed: int = 0,
    settings: tuple[str, ...] = (),
    cores: int = 2,
    memory: int | None = None,
    objective: str = "throughput",
    sample: int = 100_000,
) -> None:
    """Measure what the nodes of an application cost on its first items, and tell how it is best run."""
    if path is not None and size is not None:
        raise GraphError("advise: --size is for data that is made; leave it out with --input")
    console, app = Console(highlight=False, soft_wrap=True, markup=False), app_of(target)
    own, of_data = app.choose_settings(settings, makes_data=path is None)
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            app.module.generate(folder, app.size if size is None else size, seed, **of_data)
        stream = app.stream(path or folder, own)
        with console.status(f"measuring {target}"):
            profile = tune.profile(stream, sample)
        if not any(node.items for node in profile.nodes):
            raise GraphError(f"advise: {target} had nothing to do; give it data")
        with console.status("looking for the best way to run it"):
            advice = tune.advise(stream, cores, memory=memory, objective=objective, profile=profile)
    console.print(f"what the nodes of {target} cost, measured on {profile.sample:,} items at most")
    console.print(f"{profile}\n\n{advice}")
