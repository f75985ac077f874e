"""Guards: calls of functions that report whether they raised, where it is not to end the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba


def again(records: Any, slot: int, saved: Any) -> None:
    """Put a record back that a call has changed which is made once more."""
    records[slot] = saved[0]


def returning(function: Any, parameters: int, casts: Sequence[str], is_tuple: bool, scope: dict[str, Any]) -> Any:
    """A compiled function that calls another and gives whether it returned, and then its scalar results."""
    given = ", ".join(f"a{at}" for at in range(parameters))
    results = [f"r{at}" for at in range(len(casts))]
    first = [f"    {result} = {cast}({_ZERO[cast]})" for result, cast in zip(results, casts, strict=True)]
    parts = [f"found[{at}]" if is_tuple else "found" for at in range(len(casts))]
    taken = [f"        {result} = {cast}({part})" for result, cast, part in zip(results, casts, parts, strict=True)]
    lines = [
        f"def guard({given}):",
        "    well = False",
        *first,
        "    try:",
        f"        found = call({given})",
        *taken,
        "        well = True",
        "    except Exception:",
        "        well = False",
        f"    return {', '.join(['well', *results])}",
    ]
    return _compile(lines, scope | {"call": function})


def trying(function: Any, parameters: int, checks: Sequence[str], most: int | None, scope: dict[str, Any]) -> Any:
    """A compiled function that calls another only to see how it ends; of a generator, how many it yields, or -1.

    `checks` are expressions that must be true of the result `found`. A generator is stopped behind `most`.
    """
    given = ", ".join(f"a{at}" for at in range(parameters))
    well = " and ".join(checks) or "True"
    if most is None:
        lines = [f"def inner({given}):", f"    found = call({given})", f"    return {well}"]
        nothing = "False"
    else:
        # A loop of its own: Numba does not catch what a generator raises in the function that loops over it.
        lines = [
            f"def inner({given}):",
            "    count = 0",
            f"    for found in call({given}):",
            f"        if not ({well}):",
            "            return -1",
            "        count += 1",
            f"        if count > {most}:",
            "            return count",
            "    return count",
        ]
        nothing = "-1"
    inner = _compile(lines, scope | {"call": function}, "inner")
    outer = [
        f"def guard({given}):",
        f"    result = {nothing}",
        "    try:",
        f"        result = inner({given})",
        "    except Exception:",
        f"        result = {nothing}",
        "    return result",
    ]
    return _compile(outer, {"inner": inner})


_ZERO = {"as_int": "0", "as_float": "0.0", "as_bool": "0"}


def _compile(lines: Sequence[str], scope: dict[str, Any], name: str = "guard") -> Any:
    module = dict(scope)
    exec(compile("\n".join(lines) + "\n", "<penstock guard>", "exec"), module)
    return numba.njit(module[name])


def plain_returning(function: Callable[..., Any], casts: Sequence[Any], is_tuple: bool, caught: Any) -> Any:
    """The same as plain Python. What was raised is kept in `caught`."""

    def guard(*arguments: Any) -> Any:
        try:
            result = function(*arguments)
        except Exception as error:
            caught.append(error)
            return (False, *([0] * len(casts))) if casts else False
        if not casts:
            return True
        return (True, *(cast(each) for cast, each in zip(casts, result if is_tuple else (result,), strict=True)))

    return guard


class PlainTrial:
    """A trial call as plain Python. It is made once: the second call gives what the first has given."""

    def __init__(self, function: Callable[..., Any], most: int | None, caught: Any) -> None:
        self.function, self.most, self.caught = function, most, caught
        self.found: Any = None

    def attempt(self, *arguments: Any) -> Any:
        try:
            if self.most is None:
                self.found = self.function(*arguments)
                return True
            self.found = []
            for each in self.function(*arguments):
                self.found.append(each)
                if len(self.found) > self.most:
                    break
            return len(self.found)
        except Exception as error:
            self.caught.append(error)
            return False if self.most is None else -1

    def give(self, *arguments: Any) -> Any:
        return self.found
