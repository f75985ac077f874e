"""Make a failing case small: take away what it fails without, until nothing more can go.

Hypothesis shrinks what it drew itself; this is for a case that came from a seed. It works on the text of the program,
so it finds programs that the generator would never have made.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.graph.placed import flexible
from tests.property.data import Column, Items
from tests.property.graphs import Case, source_table
from tests.property.library import SCOPE

import penstock as ps

Fails = Callable[[Case], bool]


def shrink(case: Case, fails: Fails) -> Case:
    """The smallest case found for which `fails` still holds."""
    while True:
        smaller = next((found for found in _smaller(case) if fails(found)), None)
        if smaller is None:
            return case
        case = smaller


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with a little less, those with much less first."""
    for leaf in case.leaf_names if len(case.leaf_names) > 1 else ():
        yield from _rebuilt(case, leaf_names=(leaf,))
    for at in reversed(range(1, len(case.lines))):
        yield from _without_line(case, at)
    for at in range(1, len(case.lines)):
        for line in _shorter(case.lines[at]):
            yield from _rebuilt(case, lines=(*case.lines[:at], line, *case.lines[at + 1 :]))
    for batch in case.batches if len(case.batches) > 1 else ():
        yield replace(case, batches=(batch,))
    if case.room is not None:
        yield replace(case, room=None)
    for setting in case.setting.simpler():
        yield replace(case, setting=setting)
    for at in range(len(case.control_text)):
        yield from _rebuilt(case, control_text=_without(case.control_text, at))
    size = case.items.rows
    while size > 0:
        for start in range(0, case.items.rows, size):
            yield from _rebuilt(case, items=_without_rows(case.items, start, start + size))
        size //= 2
    for at in range(len(case.items.columns)):
        yield from _rebuilt(case, items=replace(case.items, columns=_without(case.items.columns, at)))
    if case.items.cuts or case.items.encoded:
        yield from _rebuilt(case, items=replace(case.items, cuts=(), encoded=()))


def _without(given: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    return given[:at] + given[at + 1 :]


def _without_line(case: Case, at: int) -> Iterator[Case]:
    """Without one step: whoever used the stream after it uses the stream before it, or one of those that met."""
    made, *before = _streams(case.lines[at])
    whole = next((line for line in case.lines if "[" in case.lines[at] and line.startswith(f"{before[0]} = ")), "")
    for name in dict.fromkeys([*(_streams(whole)[1:] if ".split(" in whole else before)]):
        lines = [re.sub(rf"{_NAME.replace(_ANY, made)}", name, line) for line in _without(case.lines, at)]
        leaves = tuple(name if leaf == made else leaf for leaf in case.leaf_names)
        yield from _rebuilt(case, lines=tuple(lines), leaf_names=tuple(dict.fromkeys(leaves)))


_ANY = r"s\d+"
_NAME = rf"(?<![\w'\"])\b{_ANY}\b(?!['\"=])"
"""A stream in the text of a program; not a field in quotes, nor the name of an argument."""


def _streams(line: str) -> list[str]:
    """The streams that a line names, that which it makes first."""
    return re.findall(_NAME, line)


def _shorter(line: str) -> Iterator[str]:
    """The line without one of its arguments, or without one of several calls."""
    calls = [node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call)]
    for number, call in enumerate(calls):
        for at in range(len(call.keywords)):
            tree = ast.parse(line)
            del [node for node in ast.walk(tree) if isinstance(node, ast.Call)][number].keywords[at]
            yield ast.unparse(tree)
    value = ast.parse(line).body[0].value  # type: ignore[attr-defined]
    called = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):  # flexible(stream, copies)
        yield f"{line.split(' = ')[0]} = {ast.unparse(value.args[0])}"
    if isinstance(called, ast.Call):
        yield f"{line.split(' = ')[0]} = {ast.unparse(called)}"


def _without_rows(items: Items, start: int, stop: int) -> Items:
    columns = tuple(Column(c.name, c.type_text, c.values[:start] + c.values[stop:]) for c in items.columns)
    rows = items.rows - (min(stop, items.rows) - start)
    return replace(items, columns=columns, rows=rows, cuts=tuple(min(cut, rows) for cut in items.cuts))


def _rebuilt(case: Case, **changes: Any) -> Iterator[Case]:
    """The changed case with its graph made again, or none where it cannot be made. Lines that no leaf needs go."""
    changed = replace(case, seed=None, **changes)
    needed, lines = set(changed.leaf_names), []
    for line in reversed(changed.lines):
        made, *names = _streams(line)
        if made in needed:
            needed |= set(names)
            lines.append(line)
    scope: dict[str, Any] = {"table": source_table(changed.items), "flexible": flexible}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.InterpretedWarning)
            for line in reversed(lines):
                exec(line, SCOPE, scope)
        leaves = tuple(scope[name].node for name in changed.leaf_names)
        control = tuple(eval(text, SCOPE) for text in changed.control_text)
    except Exception:
        return
    yield replace(changed, lines=tuple(reversed(lines)), leaves=leaves, control=control)
