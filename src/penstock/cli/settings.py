"""`--set name=value`: the settings that a function takes by keyword, and texts as values of their types."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from penstock.errors import GraphError, quoted

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: the types it may have, none where nothing is known of them, and its default, if it has one."""

    name: str
    types: tuple[Any, ...]
    default: Any

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def __str__(self) -> str:
        default = "" if self.is_required else "none" if self.default is None else _text(self.default)
        return f"{self.name}={default}"

    def value(self, text: str) -> Any:
        """A text as the first of the types that it is a value of."""
        if not self.types:
            return _guess(text)
        for kind in self.types:
            try:
                return _CONVERTED[kind](text)
            except (KeyError, ValueError):
                continue
        must = " or ".join(_NAMES[kind] for kind in self.types if kind in _NAMES)
        raise GraphError(f"run: --set {self.name} must be {must}; got {text!r}")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bool(text: str) -> bool:
    return _WORDS[text.lower()]


def _none(text: str) -> None:
    if text.lower() != "none":
        raise ValueError(text)


def _guess(text: str) -> Any:
    try:
        return _WORDS[text.lower()] if text.lower() in _WORDS else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


_CONVERTED: dict[Any, Callable[[str], Any]] = {
    bool: _bool,
    types.NoneType: _none,
    int: int,
    float: float,
    str: str,
    Path: Path,
}
"""In the order in which a text is tried: it is a text only where it can be nothing else."""
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", Path: "a path"}


def settings_of(function: Callable[..., Any], *, only_keywords: bool = True) -> dict[str, Setting]:
    """The settings that a function takes: its parameters that must be given by name, or all that may be."""
    kinds: list[Any] = [inspect.Parameter.KEYWORD_ONLY]
    if not only_keywords:
        kinds.append(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    hints = typing.get_type_hints(function)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return {p.name: Setting(p.name, _types(hints.get(p.name), p.default), p.default) for p in parameters}


def _types(hint: Any, default: Any) -> tuple[Any, ...]:
    if hint is None:
        known = default is not inspect.Parameter.empty and default is not None
        return (type(default),) if known and type(default) in _CONVERTED else ()
    given = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    return tuple(kind for kind in _CONVERTED if kind in given)


def parse_settings(given: Iterable[str], known: Mapping[str, Setting], what: str) -> dict[str, Any]:
    """The values of texts such as `window=10`, by name. `what` has the settings, for messages."""
    values: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise GraphError(f"run: --set takes name=value; got {each!r}")
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {quoted(known)}"
            raise GraphError(f"run: {what} has no setting {name!r}; {hint}")
        values[name] = known[name].value(text)
    missing = [name for name, setting in known.items() if setting.is_required and name not in values]
    if missing:
        raise GraphError(f"run: {what} must be given {quoted(missing)}; say --set {missing[0]}=value")
    return values
