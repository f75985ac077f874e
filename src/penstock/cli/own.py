"""A user's own stream: `module:stream`, of a module on the path, or `path/to/file.py:stream`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import penstock as ps
from penstock.cli.settings import parse_settings, settings_of
from penstock.errors import GraphError, PenstockError, quoted


def load(target: str, settings: Sequence[str], folder: str | None = None) -> ps.Stream:
    """The stream that a target names, or that the function it names returns, called with the settings.

    A folder that is given is the first argument of the function.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise GraphError(f"run: must be an application, module:stream or path/to/file.py:stream; got {target!r}")
    module = _file(Path(place)) if place.endswith(".py") else import_module(place)
    member = _member(module, place, name)
    if callable(member) and not isinstance(member, type):
        member = _call(target, member, settings, folder)
    elif folder is not None:
        raise GraphError(
            f"run: {target!r} must be a function of a folder, to be given one; it is {member!r}; leave out "
            f"--stream to run it on its own source"
        )
    elif settings:
        raise GraphError(f"run: {target!r} is no function, so it takes no settings; got --set {settings[0]}")
    if not isinstance(member, ps.Stream):
        raise GraphError(f"run: {target!r} must be a stream or a function that returns one; got {member!r}")
    return member


def _call(target: str, function: Any, settings: Sequence[str], folder: str | None) -> Any:
    known, given = settings_of(function, only_keywords=False), {}
    if folder is not None:
        if not known:
            raise GraphError(f"run: {target!r} must be a function of a folder, to be given one; it takes nothing")
        first = next(iter(known))
        given[first] = Path(folder) if Path in known.pop(first).types else folder
    given |= parse_settings(settings, known, repr(target))
    try:
        return function(**given)
    except PenstockError:
        raise
    except Exception as error:
        raise GraphError(f"run: {target!r} raised {type(error).__name__}: {error}") from error


def import_module(name: str) -> ModuleType:
    """A module that can be imported, from here too; and by tasks of Spark on this machine."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, *paths)))
    try:
        return importlib.import_module(name)
    except PenstockError:
        raise
    except Exception as error:
        raise GraphError(f"run: the module {name!r} cannot be imported; {type(error).__name__}: {error}") from error


def _file(path: Path) -> ModuleType:
    """The module in a file, under a name that nobody can import: so its functions travel to tasks with their code."""
    spec = importlib.util.spec_from_file_location(f"penstock_run_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise GraphError(f"run: {str(path)!r} must be a file of Python; there is none")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except PenstockError:
        raise
    except Exception as error:
        raise GraphError(f"run: {str(path)!r} cannot be run; {type(error).__name__}: {error}") from error
    finally:
        del sys.modules[spec.name]
    return module


def _member(module: ModuleType, place: str, name: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    streams = [key for key, value in vars(module).items() if isinstance(value, ps.Stream)]
    close = get_close_matches(name, vars(module), 1)
    hint = f"did you mean {close[0]!r}?" if close else f"its streams are {quoted(streams)}"
    raise GraphError(f"run: {place!r} has no {name!r}; {hint}")
