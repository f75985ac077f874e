"""Windows by key: which items of a key belong together, and when that is all of them.

A window has a number, which says where it begins: window q of a key holds its items from the place (or the time)
q · every on, as many (or for as long) as was asked for. What is said here is the whole truth about bounds; the
reference asks it item by item, and the loops compute the same. Regions of a key are windows too, of which one is open
at a time, and whose bounds the items themselves say.
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import GraphError, quoted
from penstock.graph import types
from penstock.graph.function import Function
from penstock.graph.record import Signal

MOST_OPEN = 1 << 16
"""How many windows of a key may be open at a time."""


class Watermark(Signal):
    """The newest time of a stream has come to `at`; `of` is the number of the watermark."""

    of: int
    at: int


class FloatWatermark(Signal):
    """The same where times are floats."""

    of: int
    at: float


WATERMARKS = (Watermark, FloatWatermark)


@dataclass(frozen=True, slots=True)
class WholeWindow:
    """One window for all items of a key; it closes with the stream."""

    open_at_once = 1
    bounds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "for each key"

    def bounds_type(self) -> pa.DataType:
        return pa.int64()


@dataclass(frozen=True, slots=True)
class CountWindow:
    """Windows of `count` items of a key; one begins every `every` items. A window closes with its last item.

    Those that are not full when the stream ends are given too, unless `partial` is false.
    """

    count: int
    every: int
    partial: bool
    bounds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"for each window of {self.count} items"

    @property
    def open_at_once(self) -> int:
        return -(-self.count // self.every)

    def bounds_type(self) -> pa.DataType:
        return pa.int64()

    def windows_of(self, place: int) -> list[int]:
        """The numbers of the windows that the item at a place is in, in order."""
        return list(range(max(0, (place - self.count) // self.every + 1), place // self.every + 1))


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Windows of time: [q · every, q · every + length) for every whole number q, also below 0.

    With `late` they close by the watermark, else when the stream ends. Numbers are in the unit of the time field, whose
    type is `type`. `clock` is the number of the watermark that they close by, and `offset` how far it is behind the
    newest time there: `late`, and what windows upstream take off. Both are known once a graph runs (`watermarks.py`).
    """

    field: str
    length: Any
    every: Any
    late: Any
    on_late: str
    bounds: tuple[str, ...] = ()
    type: pa.DataType = None
    clock: int | None = None
    offset: Any = 0

    def __str__(self) -> str:
        return f"for each window of {self.field!r}"

    @property
    def is_float(self) -> bool:
        return types.is_float(self.type)

    @property
    def closes(self) -> bool:
        """Whether windows close before the end of the stream."""
        return self.clock is not None

    @property
    def signal(self) -> builtins.type[Signal]:
        """The signal that says how far the time has come."""
        return FloatWatermark if self.is_float else Watermark

    @property
    def open_at_once(self) -> int:
        """How many windows of a key may be open at a time, where they close by the watermark."""
        if not self.closes:
            return 1
        if self.is_float:
            held: float = min((self.length + self.offset) / self.every, MOST_OPEN)
            return math.ceil(held) + 1  # one more, because bounds are rounded
        return int(-(-(self.length + self.offset) // self.every))

    @property
    def at_once(self) -> int:
        """How many windows an item is in, at most."""
        if self.is_float:
            held: float = min(self.length / self.every, MOST_OPEN)
            return math.ceil(held) + 1
        return int(-(-self.length // self.every))

    def bounds_type(self) -> pa.DataType:
        if types.is_time(self.type):
            return self.type
        return pa.float64() if self.is_float else pa.int64()

    @property
    def least_time(self) -> Any:
        return -self.greatest_time

    @property
    def greatest_time(self) -> Any:
        """The greatest time whose windows have bounds that can be held, with room for one more on each side."""
        reach = self.length + self.offset + (self.late or 0) + 2 * self.every
        if self.is_float:
            # A number q beyond 2**53 is no float, and its bounds would be rounded away.
            return min(self.every * 2.0**50, sys.float_info.max / 4)
        bits = self.bounds_type().bit_width if types.is_time(self.type) else 64
        return 2 ** (bits - 1) - 1 - reach

    def start(self, number: int) -> Any:
        return number * self.every

    def end(self, number: int) -> Any:
        return number * self.every + self.length

    def windows_of(self, time: Any) -> list[int]:
        """The numbers of the windows that an item of this time is in, in order."""
        number = int(time // self.every)
        while self.start(number + 1) <= time:
            number += 1
        while self.start(number) > time:
            number -= 1
        numbers = []
        while self.end(number) > time:
            numbers.append(number)
            number -= 1
        return numbers[::-1]

    def is_closed(self, number: int, newest: Any) -> bool:
        """Whether a window is closed once the newest time where its watermark begins is `newest`."""
        return bool(self.end(number) + self.offset <= newest)


@dataclass(frozen=True, eq=False)
class RegionWindow:
    """Regions found in the items of a key: one begins with the first, and with each at which `start` or `by` says so.

    That is where `start` holds, or where a field of `by` is not what it was at the beginning of the region. A region
    closes before the item that begins the next of its key is taken up. Of its first item the row has the fields
    `kept`, by their names there; those of `by` come first, under their own.
    """

    start: Function | None
    by: tuple[str, ...]
    kept: Mapping[str, str]
    open_at_once = 1
    bounds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"for each region by {quoted(self.by)}" if self.by else "for each region"


Window = WholeWindow | CountWindow | TimeWindow | RegionWindow


def count_window(count: Any, every: Any, partial: Any, bounds: tuple[str, ...]) -> CountWindow:
    """Windows of a number of items, after checking that they can be."""
    every = count if every is None else every
    for name, value in (("count", count), ("every", every)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise GraphError(f"window: {name}= must be a whole number of at least 1; got {value!r}")
    if not isinstance(partial, bool):
        raise GraphError(f"window: partial= must be True or False; got {partial!r}")
    window = CountWindow(count, every, partial, bounds)
    check_open(window)
    return window


def time_window(given: TimeWindow, where: str, t: pa.DataType) -> TimeWindow:
    """Windows of time with their numbers in the unit of a field of type `t`, after checking that they can be."""
    number = lengths_of(where, given.field, t)
    length, late = number("length", given.length), None if given.late is None else number("late", given.late)
    every = length if given.every is None else number("every", given.every)
    for name, value, least in (("length", length, 1), ("every", every, 1), ("late", late or 0, 0)):
        if value < 0 or (least and value == 0):
            raise GraphError(f"{where}: {name}= must be {'more than' if least else 'at least'} 0; got {value!r}")
    if given.on_late not in ("drop", "error"):
        raise GraphError(f"{where}: on_late= must be 'drop' or 'error'; got {given.on_late!r}")
    if not types.is_float(t) and length + (late or 0) + every > 1 << 60:
        raise GraphError(f"{where}: length=, late= and every= must be less than 2**59; got {(length, late, every)}")
    window = replace(given, length=length, every=every, late=late, type=t)
    check_open(window if late is None else replace(window, clock=0, offset=late))
    return window


def check_open(window: CountWindow | TimeWindow) -> None:
    """Refuse windows of which too many would be open."""
    most = max(window.open_at_once, window.at_once if isinstance(window, TimeWindow) else 0)
    if most > MOST_OPEN:
        raise GraphError(
            f"window: at most {MOST_OPEN:,} windows of a key may be open at a time; here it may be {most:,}; choose a "
            f"larger every="
        )


def lengths_of(where: str, field: str, t: pa.DataType) -> Callable[[str, Any], Any]:
    """What turns a length of time, by its name and as given, into the unit of a field of type `t`."""
    if not (types.is_integer(t) or types.is_float(t) or pt.is_timestamp(t) or pt.is_date32(t) or pt.is_duration(t)):
        raise GraphError(
            f"{where}: the time must be an integer, a float, a timestamp, a date or a duration; {field!r} is {t}"
        )

    def number(name: str, given: Any) -> Any:
        if isinstance(given, timedelta) and types.is_time(t):
            return _in_unit(where, name, given, t)
        if isinstance(given, int) and not isinstance(given, bool):
            return float(given) if types.is_float(t) else given
        if isinstance(given, float) and types.is_float(t) and math.isfinite(given):
            return given
        kinds = "a number" if types.is_float(t) else "an int"
        kinds += ", or a timedelta" if types.is_time(t) else ""
        raise GraphError(f"{where}: {name}= must be {kinds}, because {field!r} is {t}; got {given!r}")

    return number


def _in_unit(where: str, name: str, given: timedelta, t: pa.DataType) -> int:
    unit = 86_400 * 10**9 if pt.is_date32(t) else {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[t.unit]
    number, rest = divmod(given // timedelta(microseconds=1) * 1000, unit)
    if rest:
        raise GraphError(f"{where}: {name}= must be a whole number of the units of {t}; got {given!r}")
    return number
