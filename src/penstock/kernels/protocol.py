"""What channels do on arrays, compiled or as plain Python."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numba

from penstock.kernels import align_sides, credit, region_tags


@cache
def protocol(compile: bool) -> SimpleNamespace:
    """The functions of `credit`, `region_tags` and `align_sides` by their names."""
    functions = (*credit.FUNCTIONS, *region_tags.FUNCTIONS, *align_sides.FUNCTIONS)
    return SimpleNamespace(**{f.__name__: numba.njit(cache=True, nogil=True)(f) if compile else f for f in functions})
