"""Compare the engine with the reference on random graphs.

`python -m tests.property.check --seed 7 --batch 3 --compile` repeats one, `--count 20000` tries many, `--seconds 600`
as many as the time allows. With `--channels` they run with the setting of channels that the seed chooses, or with the
one that is given: `--channels "context='lane', width=2, spare=0"`. With `--joins` streams meet in all of them, with
`--flexible` nodes have copies on other cores.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import count, islice
from typing import Any
from unittest import mock

import pyarrow as pa
from tests.property.flexible import from_flexible_seed
from tests.property.graphs import Case, from_seed
from tests.property.joins import from_joined_seed
from tests.property.settings import Setting, parse
from tests.property.shrink import shrink
from tests.property.stepped import stepped

import penstock as ps
from penstock.engine import sinks
from penstock.engine.run import Run
from penstock.graph import reference
from penstock.graph.reference import Result
from penstock.graph.source import to_plain
from penstock.graph.tree import Delivery

Outcome = Result | ps.PenstockError


class Mismatch(AssertionError):
    """The engine and the reference differ. The text says where, and how to repeat it."""


def expected(case: Case) -> Outcome:
    return outcome(lambda: reference.run(case.leaves, case.control))


def actual(
    case: Case, *, compile: bool, batch_items: int | None, trace: bool = True, setting: Setting | None = None
) -> Outcome:
    """What the engine gives. Without `trace` its loops do not note the signals, and there are none to compare."""

    def run() -> Result:
        given = options(case, setting)
        made = Run(case.leaves, case.control, compile=compile, batch_items=batch_items, trace=trace, **given)
        return made.result() if trace else Result(made.tables(), ())

    steps = None if setting is None else setting.steps
    with mock.patch.object(sinks, "ROOM", case.room or sinks.ROOM), nullcontext() if steps is None else stepped(steps):
        return outcome(run)


def options(case: Case, setting: Setting | None) -> dict[str, Any]:
    """The options that a setting means for the graph of a case; none are the usual ones, with one loop if possible."""
    return {} if setting is None else setting.options(case.leaves, case.control)


def outcome(run: Callable[[], Result]) -> Outcome:
    """What a run gives: its result, or the error that the user would get."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.InterpretedWarning)
            return run()
    except ps.InternalError:
        raise
    except ps.PenstockError as error:
        return error


def check(case: Case, *, compile: bool = False) -> None:
    """Compare on each size of batches that the case names: the first with its signals traced, the second without.

    To compile takes long, and the two are different loops, so compiled it is either the one or the other.
    """
    wanted = expected(case)
    for number, batch_items in enumerate(case.batches):
        compare(case, wanted, compile, batch_items, trace=case.is_traced if compile else number == 0)


def check_channels(case: Case, *, compile: bool = False) -> None:
    """Compare with the setting of channels that the case names: the results, and the places of all signals."""
    compare(case, expected(case), compile, case.batches[0], trace=True, setting=case.setting)


def compare(
    case: Case, wanted: Outcome, compile: bool, batch_items: int | None, trace: bool, setting: Setting | None = None
) -> None:
    """Raise a `Mismatch` where the engine gives anything else than what is wanted."""
    if not trace and isinstance(wanted, Result):
        wanted = replace(wanted, signals=())
    try:
        found = actual(case, compile=compile, batch_items=batch_items, trace=trace, setting=setting)
        differs = difference(wanted, found)
    except Exception:
        differs = f"the engine failed:\n{traceback.format_exc()}"
    if differs is not None:
        raise Mismatch(f"{differs}\n\n{repeat(case, compile, batch_items, trace, setting)}\n\n{case!r}")


def repeat(case: Case, compile: bool, batch_items: int | None, trace: bool, setting: Setting | None = None) -> str:
    """How to see it again."""
    given = {"compile": compile, "batch_items": batch_items, **({"trace": True} if trace else {})}
    with suppress(Exception):  # where the graph cannot even be planned
        given |= options(case, setting)
    room = "" if case.room is None else f"penstock.engine.sinks.ROOM = {case.room}; "
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    run = f"{room}Run(leaves, control, {arguments}).{'result' if trace else 'tables'}()"
    if case.seed is None:
        return f"to repeat it, append to the program below: {run}"
    kind = " --joins" if case.is_joined else " --flexible" if case.is_flexible else ""
    command = f"python -m tests.property.check{kind} --seed {case.seed}"
    command += "" if batch_items is None else f" --batch {batch_items}"
    command += " --compile" if compile else ""
    command += "" if setting is None else f' --channels "{setting}"'
    return f"to repeat it: {command}\nor append to the program below: {run}"


# Differences, each as a text, or None


def difference(wanted: Outcome, found: Outcome) -> str | None:
    if isinstance(wanted, Exception) or isinstance(found, Exception):
        return _error_difference(wanted, found)
    if len(wanted.tables) != len(found.tables):
        return f"{len(wanted.tables)} tables are wanted; got {len(found.tables)}"
    for number, (a, b) in enumerate(zip(wanted.tables, found.tables, strict=True)):
        difference = _table_difference(a, b)
        if difference is not None:
            return f"leaf {number}: {difference}"
    return _signal_difference(wanted.signals, found.signals)


def _error_difference(wanted: Outcome, found: Outcome) -> str | None:
    """Both must raise the same class, and name the same node: what stands before the first colon."""
    names = [f"{type(o).__name__}: {o}" if isinstance(o, Exception) else "a result" for o in (wanted, found)]
    same = type(wanted) is type(found) and str(wanted).split(": ")[0] == str(found).split(": ")[0]
    return None if same else f"wanted is {names[0]}\nbut got {names[1]}"


def _table_difference(wanted: pa.Table, found: pa.Table) -> str | None:
    if not wanted.schema.equals(found.schema, check_metadata=False):
        return f"the schema must be\n{wanted.schema}\nbut is\n{found.schema}"
    for name in wanted.column_names:
        a, b = plain(wanted, name), plain(found, name)
        if repr(a) != repr(b):  # NaN is NaN, and 0.0 is not -0.0
            return _column_difference(name, a, b)
    return None


def plain(table: pa.Table, name: str) -> list[object]:
    """A column as plain values: times as integers, which have no range to leave."""
    return [value for chunk in table.column(name).chunks for value in to_plain(chunk)]


def _column_difference(name: str, wanted: list[object], found: list[object]) -> str:
    rows = (at for at, (a, b) in enumerate(zip(wanted, found, strict=False)) if repr(a) != repr(b))
    at = next(rows, min(len(wanted), len(found)))
    lines = [f"column {name!r} differs from row {at} on; {len(wanted)} rows are wanted, and there are {len(found)}"]
    lines += [f"  wanted {wanted[at : at + 8]!r}", f"  got    {found[at : at + 8]!r}"]
    return "\n".join(lines)


def _signal_difference(wanted: Iterable[Delivery], found: Iterable[Delivery]) -> str | None:
    a, b = _by_node(wanted), _by_node(found)
    for node in sorted(a.keys() | b.keys()):
        if a.get(node) != b.get(node):
            return f"the signals at node {node} must be\n  {a.get(node)}\nbut are\n  {b.get(node)}"
    return None


def _by_node(deliveries: Iterable[Delivery]) -> dict[int, list[str]]:
    """The deliveries of each node in their order, as texts, in which NaN is NaN."""
    grouped: dict[int, list[str]] = {}
    for delivery in deliveries:
        grouped.setdefault(delivery.node, []).append(f"{delivery.signal!r} after {delivery.place}")
    return grouped


# The command line


Check = Callable[..., None]


def try_many(
    seeds: Iterable[int],
    *,
    compile: bool,
    seconds: float | None = None,
    say: Callable[[str], None] = print,
    check: Check = check,
    make: Callable[[int], Case] = from_seed,
) -> int:
    """Check the graphs of seeds until they or the time end; how many were checked. The first mismatch is raised."""
    started, done = time.monotonic(), 0
    for seed in seeds:
        if seconds is not None and time.monotonic() - started > seconds:
            break
        try:
            check(make(seed), compile=compile)
        except Mismatch:
            raise
        except Exception as error:
            raise Mismatch(f"seed {seed} cannot even be built or run by the reference") from error
        done += 1
        if done % 1000 == 0:
            say(f"{done} graphs agree, up to seed {seed}, after {time.monotonic() - started:.0f} s")
    return done


def shrunk(case: Case, compile: bool, check: Check = check) -> Case:
    """The smallest case that fails in the same way, or this one where it does not fail."""

    def failure(tried: Case) -> str | None:
        try:
            check(tried, compile=compile)
        except Mismatch as mismatch:
            differs = str(mismatch).split("\n\nto repeat it")[0].strip().splitlines()
            telling = differs[-1] if differs[0].startswith("the engine failed") else " ".join(differs[:2])
            return re.sub(r"\d+|'[^']*'", "", telling)[:60]
        return None

    wanted = failure(case)
    return case if wanted is None else shrink(case, lambda tried: failure(tried) == wanted)


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    make = from_joined_seed if given.joins else from_flexible_seed if given.flexible else from_seed
    if given.show:
        print(make(given.seed).text())
        return 0
    chosen = check if given.channels is None else check_channels
    try:
        if given.count is None and given.seconds is None:
            case = make(given.seed)
            case = replace(case, batches=(given.batch, given.batch)) if given.batch else case
            case = replace(case, setting=parse(given.channels)) if given.channels else case
            chosen(shrunk(case, given.compile, chosen) if given.shrink else case, compile=given.compile)
            done = 1
        else:
            seeds = islice(count(given.seed), given.count)
            done = try_many(seeds, compile=given.compile, seconds=given.seconds, check=chosen, make=make)
    except Mismatch as mismatch:
        print(mismatch, file=sys.stderr)
        return 1
    print(f"{done} graphs: the engine and the reference agree")
    return 0


def _parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m tests.property.check", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--seed", type=int, default=0, help="the seed of the graph, or of the first of many")
    add("--batch", type=int, help="batches of so many items; without it, the sizes that the seed chooses")
    add("--compile", action="store_true", help="compile the loops; without it they run as plain Python")
    add("--channels", nargs="?", const="", metavar="SETTING", help="with channels: as the seed chooses, or as given")
    add("--joins", action="store_true", help="graphs in which streams part and meet again")
    add("--flexible", action="store_true", help="graphs with flexible nodes, on several cores")
    add("--count", type=int, help="how many graphs to try")
    add("--seconds", type=float, help="how long to try graphs")
    add("--shrink", action="store_true", help="make the case of the seed as small as it still fails")
    add("--show", action="store_true", help="print the graph of the seed as a program, and run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
