"""What channels do on arrays, compiled or as plain Python."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numba

from penstock.kernels import context, credit, meet


@cache
def protocol(compile: bool) -> SimpleNamespace:
    """The functions of `credit`, `context` and `meet` by their names."""
    functions = (*credit.FUNCTIONS, *context.FUNCTIONS, *meet.FUNCTIONS)
    return SimpleNamespace(**{f.__name__: numba.njit(cache=True, nogil=True)(f) if compile else f for f in functions})
