"""`penstock send`: a signal for a stream that runs in another process."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import click

from penstock.cli.settings import Setting
from penstock.errors import ControlError, GraphError
from penstock.spark.streaming.checkpoint import Checkpoint

WAITS = 3
"""The exit code where the signal was sent, and nobody has placed it in time."""

_TYPES = {"bool": bool, "int": int, "float": float}


def send(path: str, signal: str, given: Sequence[str], timeout_s: float) -> None:
    checkpoint = Checkpoint(path, "send")
    fields, texts = checkpoint.signals().get(signal, {}), dict(_pair(each) for each in given)
    name = checkpoint.write_signal(
        signal, {field: _value(fields.get(field, ""), text) for field, text in texts.items()}
    )
    try:
        place = checkpoint.wait_placed(name, timeout_s)
    except ControlError as error:
        click.echo(str(error), err=True)
        raise SystemExit(WAITS) from None
    click.echo(f"{signal} stands {place}")


def _pair(given: str) -> tuple[str, str]:
    name, equals, text = given.partition("=")
    if not equals:
        raise GraphError(f"send: a field must be given as name=value; got {given!r}")
    return name.strip(), text


def _value(kind: str, text: str) -> Any:
    """A text as a value of what a field holds; the text itself where it is none, so that it is refused with the rest.

    >>> _value("float", "0.05"), _value("bool", "yes"), _value("array of 2 int", "[1, 2]"), _value("int", "one")
    (0.05, True, [1, 2], 'one')
    """
    if kind.startswith("array of "):
        texts = text.strip().removeprefix("[").removesuffix("]").split(",")
        return [_value(kind.rpartition(" ")[2], each) for each in texts]
    try:
        return Setting("", (_TYPES[kind],), inspect.Parameter.empty).value(text.strip())
    except (KeyError, GraphError):
        return text
