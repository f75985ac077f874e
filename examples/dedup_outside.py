"""What dedup does to chunks, for a whole column in one call, and that outside of Python's lock.

A call of `hashlib` or `zlib` is outside of the lock too, but only for a chunk, some microseconds: two threads that make
such calls spend their time handing the lock to each other. So compiled loops call the same libraries by address: libz
and libcrypto as Python's own modules have loaded them, or as the system has them. Where one is not found, Python goes
over the chunks. The bytes are the same either way; which way it is, is found once in a process.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import hashlib
import importlib
import sys
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numba
import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from examples.dedup_archive import CRC, KNOWN, NEW, RECORD, record

DIGEST = hashlib.sha256().digest_size
STATE = 256
"""Bytes for libcrypto's SHA256_CTX, which has 112."""
HEAD, TAIL = RECORD.size, CRC.size
Z_OK, Z_STREAM_END, Z_FINISH = 0, 1, 4
STREAM_WORDS = 14
"""How many words of 64 bits libz's z_stream has; among the first six are where it reads and writes, and how much."""
MOST_OUT = 0xFFFF_FFFF
NEXT_IN, AVAIL_IN, NEXT_OUT, AVAIL_OUT, TOTAL_OUT = 0, 1, 3, 4, 5


class Packing(NamedTuple):
    """Where functions of libz lie in memory."""

    deflateInit_: int
    deflateReset: int
    deflate: int
    deflateEnd: int
    compressBound: int
    crc32: int


class Hashing(NamedTuple):
    """Where functions of libcrypto lie. SHA256 itself looks up the method for each chunk, under a lock of its own."""

    SHA256_Init: int
    SHA256_Update: int
    SHA256_Final: int


@functools.cache
def libz() -> Packing | None:
    """The functions of the libz that Python's `zlib` uses, or of one of its version: another may pack otherwise.

    None where the words of its z_stream would lie otherwise.
    """
    if sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8 or ctypes.sizeof(ctypes.c_ulong) != 8:
        return None
    for library in _libraries("zlib", "z"):
        found = _addresses(library, Packing._fields)
        if found is not None and _version(library) == zlib.ZLIB_RUNTIME_VERSION:
            return Packing(*found)
    return None


@functools.cache
def libcrypto() -> Hashing | None:
    """The functions of a libcrypto; all of them have the same digests."""
    every = (_addresses(library, Hashing._fields) for library in _libraries("_hashlib", "crypto"))
    return next((Hashing(*found) for found in every if found is not None), None)


def _libraries(module: str, name: str) -> Iterator[ctypes.CDLL]:
    """What a module of Python's was linked with, then the system's library of a name; symbols may be missing."""
    with contextlib.suppress(ImportError, OSError):
        # A symbol is looked for in all that the module was linked with; a module within the program has no file.
        yield ctypes.CDLL(getattr(importlib.import_module(module), "__file__", None))
    with contextlib.suppress(OSError):
        if (file := ctypes.util.find_library(name)) is not None:
            yield ctypes.CDLL(file)


def _addresses(library: ctypes.CDLL, names: tuple[str, ...]) -> list[int] | None:
    if not all(hasattr(library, name) for name in names):
        return None
    return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]


def _version(library: ctypes.CDLL) -> str:
    ask = library.zlibVersion
    ask.restype = ctypes.c_char_p
    return bytes(ask()).decode()


# Columns of bytes


def _bytes_of(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a column without nulls, read-only, and where in them each value begins, and the last one ends."""
    dtype = np.dtype(np.int64 if pt.is_large_binary(column.type) else np.int32)
    _, offsets, data = column.buffers()
    if len(column) == 0 or offsets is None:
        return _fixed(np.empty(0, np.uint8)), np.zeros(1, np.int64)
    held = np.frombuffer(offsets, dtype, len(column) + 1, column.offset * dtype.itemsize)
    return _fixed(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)), held.astype(np.int64)


def _fixed(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False  # whoever owns the bytes, so that a loop is compiled once
    return array


def _column(data: pa.Buffer, offsets: np.ndarray) -> pa.Array:
    """Bytes as a column; one that is too large for the offsets of `binary` has larger ones."""
    is_large = offsets[-1] > np.iinfo(np.int32).max
    held = pa.py_buffer(offsets if is_large else offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.large_binary() if is_large else pa.binary(), len(offsets) - 1, [None, held, data])


# The three filters


def digests(chunk: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The SHA-256 digest and the size of each chunk."""
    data, offsets = _bytes_of(chunk)
    size = pa.array(np.diff(offsets))
    if (own := libcrypto()) is None:
        return pa.array([hashlib.sha256(each.as_buffer()).digest() for each in chunk], pa.binary()), size
    made = np.empty(DIGEST * len(chunk), np.uint8)
    if not _hash(data, offsets, made, np.empty(STATE, np.uint8), *own):
        raise RuntimeError("libcrypto refused to find a digest")
    return _column(pa.py_buffer(made), np.arange(0, len(made) + 1, DIGEST)), size


def packed(level: int, chunk: pa.Array, is_new: pa.Array) -> pa.Array:
    """Each chunk by zlib where it is new, and else nothing."""
    flags = is_new.to_numpy(zero_copy_only=False)
    if (own := libz()) is None:
        made = [zlib.compress(each.as_buffer(), level) if new else b"" for each, new in zip(chunk, flags, strict=True)]
        return pa.array(made, pa.binary())
    data, offsets = _bytes_of(chunk)
    wanted = np.array(flags, np.bool_)
    room, ends = _most(offsets, wanted, own.compressBound), np.zeros(len(chunk) + 1, np.int64)
    buffer = pa.allocate_buffer(room, resizable=True)
    stream, version = (
        np.zeros(STREAM_WORDS, np.int64),
        np.frombuffer(zlib.ZLIB_RUNTIME_VERSION.encode() + b"\0", np.uint8),
    )
    if not _pack(data, offsets, wanted, np.int32(level), buffer.address, room, ends, stream, version, *own[:4]):
        raise MemoryError("zlib has no memory to pack a chunk")
    buffer.resize(int(ends[-1]), shrink_to_fit=True)
    return _column(buffer, ends)


def records(size: pa.Array, digest: pa.Array, packed: pa.Array) -> pa.Array:
    """The record of each chunk, as `dedup_archive.record` makes it."""
    if (own := libz()) is None:
        made = map(record, size.to_pylist(), digest.to_pylist(), packed.to_pylist())
        return pa.array(list(made), pa.binary())
    known, known_offsets = _bytes_of(digest)
    if np.any(np.diff(known_offsets) != DIGEST):
        raise ValueError(f"a digest must have {DIGEST} bytes")
    payloads, payload_offsets = _bytes_of(packed)
    offsets = np.zeros(len(size) + 1, np.int64)
    np.cumsum(np.diff(payload_offsets) + (HEAD + TAIL), out=offsets[1:])
    buffer = pa.allocate_buffer(int(offsets[-1]))
    written = np.frombuffer(buffer, np.uint8)
    sizes = np.array(size.to_numpy(), np.int64)
    _write(sizes, known, known_offsets, payloads, payload_offsets, written, offsets, own.crc32)
    return _column(buffer, offsets)


# The loops. Addresses are arguments and no constants, so that compiled loops can be kept on disk.

_outside = numba.njit(cache=True, nogil=True, _nrt=False)
_within = numba.njit(_nrt=False)  # parts of loops, which are kept with them


def _calling(returned: Any) -> Any:
    """How a loop calls what lies at an address: with a tuple of whole numbers, each as wide as the function has it."""

    @intrinsic  # type: ignore[untyped-decorator]
    def call(typing: Any, address: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            values = cgutils.unpack_tuple(builder, given[1])
            function = ir.FunctionType(context.get_value_type(returned), [value.type for value in values])
            return builder.call(builder.inttoptr(given[0], function.as_pointer()), values)

        return returned(address, arguments), generate

    return call


_int_of, _long_of = _calling(types.int32), _calling(types.int64)


@_within  # type: ignore[untyped-decorator]
def _at(array: Any) -> Any:
    """Where an array lies. Its caller must hold it until the call is over."""
    return np.int64(array.ctypes.data)


@_outside  # type: ignore[untyped-decorator]
def _hash(data: Any, offsets: Any, made: Any, state: Any, init: int, update: int, final: int) -> bool:
    """Write the digests of all chunks behind each other; False if libcrypto refuses one."""
    good = True
    for row in range(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        good &= _int_of(init, (_at(state),)) == 1
        good &= _int_of(update, (_at(state), _at(data) + start, stop - start)) == 1
        good &= _int_of(final, (_at(made) + DIGEST * row, _at(state))) == 1
    return good


@_outside  # type: ignore[untyped-decorator]
def _most(offsets: Any, wanted: Any, bound: int) -> int:
    """How many bytes the chunks that are wanted may have when they are packed."""
    most = 0
    for row in range(len(wanted)):
        if wanted[row]:
            most += _long_of(bound, (offsets[row + 1] - offsets[row],))
    return most


@_outside  # type: ignore[untyped-decorator]
def _pack(
    data: Any,
    offsets: Any,
    wanted: Any,
    level: Any,
    made: int,
    room: int,
    ends: Any,
    stream: Any,
    version: Any,
    init: int,
    reset: int,
    deflate: int,
    end: int,
) -> bool:
    """Pack the chunks that are wanted behind each other, from the address `made` on; False if memory is short.

    One z_stream serves them all: its 270 KB of memory take longer to get than a chunk to pack.
    """
    if _int_of(init, (_at(stream), level, _at(version), np.int32(8 * STREAM_WORDS))) != Z_OK:
        return False
    good = True
    for row in range(len(wanted)):
        ends[row + 1] = ends[row]
        if wanted[row] and good:
            good = _int_of(reset, (_at(stream),)) == Z_OK
            stream[NEXT_IN], stream[AVAIL_IN] = _at(data) + offsets[row], offsets[row + 1] - offsets[row]
            stream[NEXT_OUT], stream[AVAIL_OUT] = made + ends[row], min(room - ends[row], MOST_OUT)
            good = good and _int_of(deflate, (_at(stream), np.int32(Z_FINISH))) == Z_STREAM_END
            ends[row + 1] += stream[TOTAL_OUT]
    _int_of(end, (_at(stream),))
    return good


@_outside  # type: ignore[untyped-decorator]
def _write(
    sizes: Any, digests: Any, digest_at: Any, payloads: Any, payload_at: Any, made: Any, offsets: Any, crc: int
) -> None:
    """Write the records of all chunks behind each other."""
    for row in range(len(sizes)):
        at, stop = offsets[row], offsets[row + 1] - TAIL
        length = stop - at - HEAD
        made[at] = NEW if length else KNOWN
        _put(made, at + 1, sizes[row])
        _put(made, at + 5, length)
        _copy(made, at + HEAD - DIGEST, digests, digest_at[row], DIGEST)
        _copy(made, at + HEAD, payloads, payload_at[row], length)
        _put(made, stop, _long_of(crc, (np.int64(0), _at(made) + at, np.uint32(stop - at))))


@_within  # type: ignore[untyped-decorator]
def _put(made: Any, at: int, value: int) -> None:
    """Write a number in four bytes, the highest first."""
    for place in range(4):
        made[at + place] = (value >> (24 - 8 * place)) & 255


@_within  # type: ignore[untyped-decorator]
def _copy(made: Any, at: int, given: Any, start: int, count: int) -> None:
    # An index without a sign cannot mean a place counted from the end: only then is this a copy of whole blocks.
    to, since = np.uint64(at), np.uint64(start)
    for place in range(np.uint64(count)):
        made[to + place] = given[since + place]
