"""Loops that are given their arrays by address: one argument instead of dozens, each of which takes time to hand over.

The arrays of a loop that takes its items from a channel stay the same from call to call. Their addresses and lengths
are put into one array, once, and the loop makes its arrays from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array


@cache
def _view(dtype: np.dtype, is_readonly: bool) -> Any:
    """What makes, in compiled code, an array without an owner from an address and a length."""
    made = types.Array(numba.from_dtype(dtype), 1, "C", readonly=is_readonly)

    @intrinsic  # type: ignore[untyped-decorator]
    def view(typing: Any, address: Any, length: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = make_array(made)(context, builder)
            itemsize = context.get_constant(types.intp, dtype.itemsize)
            populate_array(
                array,
                data=builder.inttoptr(arguments[0], array.data.type),
                shape=[arguments[1]],
                strides=[itemsize],
                itemsize=itemsize,
                meminfo=None,
            )
            return array._getvalue()

        return made(types.int64, types.int64), generate

    return view


def can_address(arrays: Sequence[Any]) -> bool:
    """Whether all are one-dimensional arrays without gaps."""
    return all(isinstance(a, np.ndarray) and a.ndim == 1 and a.flags.c_contiguous for a in arrays)


def address_source(
    source: str, scalars: Sequence[str], names: Sequence[str], arrays: Sequence[np.ndarray]
) -> tuple[str, dict[str, Any]]:
    """The source of a loop that takes the arrays of these names by address, before its scalars; and what it calls.

    The first line, which names all arguments, is written anew.
    """
    kinds = [(array.dtype, not array.flags.writeable) for array in arrays]
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    lines = [f"def kernel(addresses, {', '.join(scalars)}):"]
    for at, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        lines.append(f"    {name} = view{numbers[kind]}(addresses[{2 * at}], addresses[{2 * at + 1}])  # {kind}")
    scope = {f"view{number}": _view(*kind) for kind, number in numbers.items()}
    return "\n".join([*lines, source.partition("\n")[2]]), scope


def addresses(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Where the arrays lie, and how long they are. They must outlive its use."""
    return np.array([part for a in arrays for part in (a.__array_interface__["data"][0], len(a))], np.int64)
