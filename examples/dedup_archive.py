"""The archive of dedup: its form, and the way back to the file that it was made of.

    head     magic (8 bytes), version (2)
    record   kind (1 byte: new, known or end), size of the chunk (4), size of what follows the digest (4),
             digest of the chunk (32, SHA-256), the chunk by zlib where it is new, CRC-32 of all of this (4)
    end      a record whose digest is zeros; behind it the number of chunks (8) and of bytes (8) of the file

All numbers are big-endian. Every byte is one of the head's fixed values or under a CRC, and the last record says how
much there must have been, so that an archive that was cut short or changed is told from a good one.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

import penstock as ps
from penstock.examples import whole_file

MAGIC = b"\x89PSDD\r\n\x1a"  # no text begins so, and a transfer that changes line ends shows at once
VERSION = 1
HEAD = struct.Struct(">8sH")
RECORD = struct.Struct(">BII32s")
TOTAL = struct.Struct(">QQ")
CRC = struct.Struct(">I")
NEW, KNOWN, END = 1, 2, 3
NO_DIGEST = bytes(32)


def record(size: int, digest: bytes, packed: bytes) -> bytes:
    """The record of a chunk: of one that is known, where there is nothing packed."""
    return _record(NEW if packed else KNOWN, size, digest, packed)


def _record(kind: int, size: int, digest: bytes, payload: bytes) -> bytes:
    made = RECORD.pack(kind, size, len(payload), digest) + payload
    return made + CRC.pack(zlib.crc32(made))


def save(file: BinaryIO, batches: Iterable[pa.RecordBatch]) -> None:
    """Write an archive of the records and sizes of a result."""
    file.write(HEAD.pack(MAGIC, VERSION))
    count = total = 0
    for batch in batches:
        count += batch.num_rows
        total += sum(batch.column("size").to_pylist())
        file.writelines(whole_file.column([batch], "record"))
    file.write(_record(END, 0, NO_DIGEST, TOTAL.pack(count, total)))


# The way back


@dataclass
class Found:
    """An archive that is being read: where in it one is, and where in the output each chunk was written first."""

    name: str
    file: BinaryIO
    at: int = 0
    places: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def take(self, size: int, what: str) -> bytes:
        """The next bytes, all of them there."""
        taken = self.file.read(size)
        if len(taken) < size:
            raise self.fail(f"{what} must have {size} bytes; the file ends after {len(taken)}: it was cut short")
        self.at += size
        return taken

    def fail(self, what: str) -> ps.DataError:
        return ps.DataError(f"dedup: archive {self.name!r}, byte {self.at:,}: {what}; make the archive again")


def restore(path: str | Path, output: str | Path, *, overwrite: bool = False) -> int:
    """Write the file that an archive was made of, whole or not at all, and tell how many bytes it has."""
    archive, made = whole_file.one_file("dedup", path), Path(output)
    if made.exists() and not overwrite:
        raise ps.OutputError(f"dedup: {str(output)!r} must not be there yet; it is; overwrite it, or name another")
    with whole_file.opened("dedup", archive) as file, whole_file.replacing(made) as out:
        return restored(str(path), file, out)


def restored(name: str, archive: BinaryIO, output: BinaryIO) -> int:
    """The same for open files; the output is also read, where a chunk is known."""
    found = Found(name, archive)
    _check_head(found)
    count = total = 0
    for kind, size, digest, payload in _records(found):
        if kind == END:
            _check_end(found, TOTAL.unpack(payload), (count, total))
            return total
        chunk = _unpack(found, size, digest, payload) if kind == NEW else _known(found, size, digest, output)
        if kind == NEW:
            found.places.setdefault(digest, (total, size))
        output.write(chunk)
        count, total = count + 1, total + size
    raise found.fail("the record of the end must be there; the file ends before it: it was cut short")


def _check_head(found: Found) -> None:
    magic, version = HEAD.unpack(found.take(HEAD.size, "the head"))
    if magic != MAGIC:
        raise ps.DataError(f"dedup: {found.name!r} must be an archive of dedup; it begins with {magic!r}; name another")
    if version != VERSION:
        raise ps.DataError(
            f"dedup: archive {found.name!r} must have the version {VERSION}; it has {version}; restore it with the "
            f"Penstock that made it"
        )


def _records(found: Found) -> Iterator[tuple[int, int, bytes, bytes]]:
    while True:
        start = found.at
        head = found.take(RECORD.size, "a record")
        kind, size, length, digest = RECORD.unpack(head)
        payload = found.take(length, "the contents of a record")
        (crc,) = CRC.unpack(found.take(CRC.size, "the check of a record"))
        if crc != zlib.crc32(payload, zlib.crc32(head)) or kind not in (NEW, KNOWN, END):
            found.at = start
            raise found.fail("a record must have the check sum that stands behind it; it has another: it is damaged")
        yield kind, size, digest, payload


def _unpack(found: Found, size: int, digest: bytes, payload: bytes) -> bytes:
    try:
        chunk = zlib.decompress(payload, bufsize=max(size, 1))
    except zlib.error as error:
        raise found.fail(f"a chunk must unpack; {error}") from None
    if len(chunk) != size or hashlib.sha256(chunk).digest() != digest:
        raise found.fail("a chunk must have the size and the digest of its record; it has others: it is damaged")
    return chunk


def _known(found: Found, size: int, digest: bytes, output: BinaryIO) -> bytes:
    place, length = found.places.get(digest, (0, -1))
    if length != size:
        raise found.fail("a known chunk must stand before its record, with the same size; it does not: it is damaged")
    output.seek(place)
    chunk = output.read(size)
    output.seek(0, os.SEEK_END)
    return chunk


def _check_end(found: Found, said: tuple[int, ...], had: tuple[int, int]) -> None:
    if said != had:
        raise found.fail(f"the archive must have {said[0]:,} chunks of {said[1]:,} bytes; got {had[0]:,} of {had[1]:,}")
    if found.file.read(1):
        raise found.fail("the file must end with the record of the end; it goes on: something was added")
