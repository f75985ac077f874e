"""A hash of integers and of bytes that depends on a seed, so that nobody can choose keys that collide.

It is built of one step, after wyhash: multiply two words into 128 bits, and fold the halves together. One of the two is
always hidden by a word that comes of the seed. Every bit of the result depends on every bit of the value and of the
seed; both ends of it may be used. With the same seed it is the same in every process and on every machine.

The seed is an argument of every kernel, never a constant: compiled code is kept on disk and shared by all jobs.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_GOLDEN, _A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)


@intrinsic  # type: ignore[untyped-decorator]
def fold(typing: Any, one: Any, other: Any) -> Any:
    """The exclusive or of the two halves of the product of two words."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(each, wide) for each in arguments))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return builder.xor(upper, builder.trunc(product, word))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def word_at(typing: Any, data: Any, at: Any) -> Any:
    """Eight bytes of an array of bytes, from a place on, as one number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        word = ir.IntType(64)
        loaded = builder.load(builder.bitcast(address, word.as_pointer()))
        loaded.align = 1
        return loaded

    return types.uint64(data, types.int64), generate


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _draw(state: Any) -> Any:
    """The number that a state of the generator splitmix64 gives."""
    state = (state ^ (state >> np.uint64(30))) * _A
    state = (state ^ (state >> np.uint64(27))) * _B
    return state ^ (state >> np.uint64(31))


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def secrets_of(seed: Any, use: int) -> tuple[Any, Any, Any]:
    """Three words that come of a seed, others for each use. The multipliers are odd, and so never 0."""
    state = _draw(np.uint64(seed)) + np.uint64(use)
    first = _draw(state * _GOLDEN)
    second, third = _draw(first + _GOLDEN), _draw(first + _GOLDEN + _GOLDEN)
    return first, second | _ONE, third | _ONE


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def hash_integer(value: Any, hidden: tuple[Any, Any, Any]) -> Any:
    """A hash of a word. The second step is what linear probing needs: after one, keys in equal steps still cluster."""
    first, second, third = hidden
    return fold(fold(value ^ first, second) ^ first, third)


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def hash_bytes(data: Any, start: int, stop: int, hidden: tuple[Any, Any, Any]) -> Any:
    """A hash of some bytes, by words."""
    first, second, third = hidden
    state, at = first ^ np.uint64(stop - start), start
    while at + 8 <= stop:
        state = fold(state ^ word_at(data, at), second)
        at += 8
    last, shift = np.uint64(0), np.uint64(0)
    while at < stop:
        last |= np.uint64(data[at]) << shift
        shift += np.uint64(8)
        at += 1
    return fold(fold(state ^ last, second) ^ first, third)
