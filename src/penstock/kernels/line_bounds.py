"""Where the lines of a text begin and end, eight bytes at a time."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

NEWLINE, RETURN = 10, 13
ONES, HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
NEWLINES = np.uint64(0x0A0A0A0A0A0A0A0A)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _mark(data: Any, at: int, bounds: Any, count: int) -> int:
    bounds[count] = at - 1 if at > 0 and data[at - 1] == RETURN else at
    bounds[count + 1] = at + 1
    return count + 2


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def line_bounds(data: Any, words: Any, bounds: Any) -> int:
    """Where each line begins, where it ends without its line end, where the next begins, and so on; how many of these.

    `words` are the first bytes of `data`, eight as one. `bounds` must have room for two numbers a line and one more. A
    line ends with a newline, or a return and a newline; the last one may also end with the data. Between two lines
    `bounds` holds the line end, so that it is a list of offsets into `data` without a gap.
    """
    bounds[0] = 0
    count = 1
    for place in range(len(words)):
        masked = words[place] ^ NEWLINES
        # A byte of `masked` is zero exactly where a newline is; this finds out whether there is one.
        if (masked - ONES) & ~masked & HIGHS:
            for at in range(8 * place, 8 * place + 8):
                if data[at] == NEWLINE:
                    count = _mark(data, at, bounds, count)
    for at in range(8 * len(words), len(data)):
        if data[at] == NEWLINE:
            count = _mark(data, at, bounds, count)
    if bounds[count - 1] < len(data):
        bounds[count] = len(data)
        bounds[count + 1] = len(data)
        count += 2
    return count
