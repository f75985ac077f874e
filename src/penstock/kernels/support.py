"""What generated loops call: conversions, heaps of values of varying length, comparisons. All as plain Python too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from penstock.kernels.guard import again
from penstock.kernels.record_reference import by_reference
from penstock.kernels.text_types import as_bytes, as_text
from penstock.kernels.window_cells import cell_place, free_cell, heap_pop, heap_push


class Fault(Exception):
    """Raised by a loop that found something wrong; which, and at which row, stands in its array `w`."""


def grown(array: Any, used: int, needed: int) -> Any:
    """A larger copy of an array of which `used` elements count."""
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


def put(offsets: Any, elements: Any, count: int, value: Any) -> Any:
    """Append a value to a heap of `count`; the arrays come back, larger where they had to grow."""
    used = offsets[count]
    if used + len(value) > len(elements):
        elements = grown(elements, used, used + len(value))
    if count + 2 > len(offsets):
        offsets = grown(offsets, count + 1, count + 2)
    for at in range(len(value)):
        elements[used + at] = value[at]
    offsets[count + 1] = used + len(value)
    return offsets, elements


def ended(offsets: Any, count: int, used: int) -> Any:
    """Close the value that was collected at the end of a heap."""
    if count + 2 > len(offsets):
        offsets = grown(offsets, count + 1, count + 2)
    offsets[count + 1] = used
    return offsets


def bits(number: int) -> int:
    """How many binary digits a number has; none for 0."""
    count = 0
    while number > 0:
        number >>= 1
        count += 1
    return count


def same(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same elements."""
    if len(a) != len(b):
        return False
    for at in range(len(a)):  # noqa: SIM110 - a loop, for Numba
        if a[at] != b[at]:
            return False
    return True


def is_utf8(text: Any) -> bool:
    """Whether bytes are valid UTF-8: no stray or missing continuation, no overlong form, no surrogate."""
    at, end = 0, len(text)
    while at < end:
        lead = int(text[at])
        at += 1
        if lead < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            low = 0xA0 if lead == 0xE0 else 0x80
            high = 0x9F if lead == 0xED else 0xBF
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            low = 0x90 if lead == 0xF0 else 0x80
            high = 0x8F if lead == 0xF4 else 0xBF
        else:
            return False
        if at + more > end:
            return False
        for step in range(more):
            byte = int(text[at + step])
            if byte < low or byte > high:
                return False
            low, high = 0x80, 0xBF
        at += more
    return True


def last_window(time: Any, every: Any) -> Any:
    """The number of the last window that begins at or before a time: they begin at the multiples of `every`."""
    return time // every


def first_window(time: Any, every: Any, length: Any, late: Any) -> Any:
    """The number of the first window that ends, with `late` added, behind a time."""
    return (time - length - late) // every + 1


def last_float_window(time: Any, every: Any) -> Any:
    """The same for floats: the division is rounded, so the bounds themselves decide."""
    number = int(time // every)
    while (number + 1) * every <= time:
        number += 1
    while number * every > time:
        number -= 1
    return number


def first_float_window(time: Any, every: Any, length: Any, late: Any) -> Any:
    number = int((time - length - late) // every)
    while number * every + length + late <= time:
        number += 1
    while (number - 1) * every + length + late > time:
        number -= 1
    return number


def _as_int(value: Any) -> Any:
    return np.int64(value)


def _as_float(value: Any) -> Any:
    return np.float64(value)


def _as_bool(value: Any) -> Any:
    return value != 0


def _unsigned(value: Any) -> Any:
    return np.uint64(value)


def _after(index: Any) -> Any:
    return np.uint64(index) + np.uint64(1)


def _times(index: Any, size: Any) -> Any:
    return np.uint64(index) * np.uint64(size)


@intrinsic  # type: ignore[untyped-decorator]
def borrowed(typing: Any, array: Any) -> Any:
    """The same array without an owner: for one that outlives all that is made of it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held = make_array(array)(context, builder, value=arguments[0])
        held.meminfo = cgutils.get_null_value(held.meminfo.type)
        held.parent = cgutils.get_null_value(held.parent.type)
        return held._getvalue()

    return array(array), generate


_CONSTANTS: dict[str, Any] = {"inf": float("inf"), "nan": float("nan"), "Fault": Fault}
_HELPERS: dict[str, Callable[..., Any]] = {"grown": grown, "put": put, "ended": ended, "same": same}
_HELPERS |= {"is_utf8": is_utf8, "bits": bits, "last_window": last_window, "first_window": first_window}
_HELPERS |= {"cell_place": cell_place, "heap_push": heap_push, "heap_pop": heap_pop, "free_cell": free_cell}
_HELPERS |= {"again": again}
_HELPERS |= {"last_float_window": last_float_window, "first_float_window": first_float_window}

PLAIN: dict[str, Any] = {**_CONSTANTS, **_HELPERS, "as_int": int, "as_float": float, "as_bool": bool}
PLAIN |= {"again": lambda records, slot, saved: None}  # a trial call is made once there, and is no trial
PLAIN |= {"by_reference": lambda record: record, "borrowed": lambda array: array, "unsigned": int}
PLAIN |= {"as_text": lambda array: array, "as_bytes": lambda array: array}
PLAIN |= {"after": lambda index: index + 1, "times": lambda index, size: index * size}
"""The scope of a loop that runs as plain Python."""


def compiled_scope() -> dict[str, Any]:
    """The scope of a loop that is compiled."""
    grown_ = numba.njit(grown)
    scope = {name: numba.njit(_with_grown(function, grown_)) for name, function in _HELPERS.items() if name != "grown"}
    plain: dict[str, Callable[..., Any]] = {"as_int": _as_int, "as_float": _as_float, "as_bool": _as_bool}
    plain |= {"unsigned": _unsigned, "after": _after, "times": _times}
    scope |= {name: numba.njit(function) for name, function in plain.items()}
    scope |= {"grown": grown_, "by_reference": by_reference, "borrowed": borrowed}
    return {**_CONSTANTS, **scope, "as_text": as_text, "as_bytes": as_bytes}


def _with_grown(function: Any, grown_: Any) -> Any:
    scope = {"np": np, "grown": grown_, "__builtins__": __builtins__, "__name__": __name__}
    return type(function)(function.__code__, scope, function.__name__)
