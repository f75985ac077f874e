"""DES: encrypt a file, block by block, in eighteen filters: a permutation, sixteen rounds, a permutation.

A cipher of 1977, here as a benchmark only: its key of 56 bits is found by trying, and blocks that are alike stay alike
(there is no chaining). Protect nothing with it.

A block is 64 bits, `block: int64`. The file is cut into blocks of eight bytes, the first of them the highest; the last
block is filled up with as many bytes as are missing, each of which tells how many these are, a whole block of them
where none is (PKCS #7). With `decrypt=true` the way back. A key is sixteen hexadecimal digits; the lowest bit of each
of its bytes has no meaning.

Each block carries the key, and every round turns it a little, so that no filter holds a state or depends on the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

import penstock as ps
from examples import des_tables as tables
from examples.des_tables import PICKED, SPREAD
from penstock.examples import whole_file

USUAL_SIZE, SIZE_UNIT = 8_000_000, "bytes"
SCHEMA = pa.schema([("block", pa.int64()), ("key", pa.int64())])
KEY = "133457799BBCDFF1"
BLOCK = 8
ROUNDS = len(tables.SHIFTS)
PIECE_BYTES = 1 << 19
"""How much is read at a time."""
OPTIONS = {"width": 1 << 14}
HALF_KEY = (1 << 28) - 1
HALF = (1 << 32) - 1
SIGN = 1 << 31


def build(source: ps.Stream, *, decrypt: bool = False) -> ps.Stream:
    """The other text, `block`, from a stream of `block` and `key`, the 56 bits of a key."""
    return filters(source, decrypt=decrypt)["final permutation"].select("block")


def filters(source: ps.Stream, *, decrypt: bool = False) -> dict[str, ps.Stream]:
    """The stream behind each of the eighteen filters, by the filter's name."""
    at = source.map(initial_permutation, to=("left", "right"))
    found = {"initial permutation": at}
    for number, turn in enumerate(_turns(decrypt), 1):
        at = found[f"round {number}"] = at.map(_ROUNDS[turn], to=("left", "right", "key"))
    found["final permutation"] = at.map(block=final_permutation)
    return found


def read(path: str | Path, *, key: str = KEY, decrypt: bool = False) -> ps.Stream:
    """A file, or a folder with one, as a stream of blocks and the key."""
    file, bits = whole_file.one_file("des", path), key_bits(key)
    size = file.stat().st_size
    if decrypt and (size == 0 or size % BLOCK):
        raise ps.DataError(
            f"des: file {str(file)!r} must hold whole blocks of {BLOCK} bytes to be decrypted; it has {size:,} bytes; "
            f"was it cut short?"
        )
    return ps.from_arrow(whole_file.Batches(SCHEMA, partial(_batches, file, bits, not decrypt)), name="blocks")


def save(file: BinaryIO, batches: Iterator[pa.RecordBatch], *, decrypt: bool = False) -> None:
    """Write the blocks of a result; of a text that was decrypted, without what had filled up the last one."""
    held = b""
    for batch in batches:
        if batch.num_rows:
            file.write(held)
            held = batch.column("block").to_numpy().astype(">i8").tobytes()
    if decrypt:
        filling = held[-1] if held else 0
        if not 1 <= filling <= BLOCK or held[-filling:] != filling * held[-1:]:
            raise ps.DataError(
                "des: the last block must end in bytes that tell how many they are; it does not; the key is another, "
                "or the file is damaged"
            )
        held = held[:-filling]
    file.write(held)


def key_bits(key: str) -> int:
    """The 56 bits of a key that is given as sixteen hexadecimal digits, in the order in which the rounds turn them."""
    try:
        if len(key) != 2 * BLOCK:
            raise ValueError
        return tables.permute(int(key, 16), 64, tables.KEY_BITS)
    except ValueError:
        raise ps.GraphError(f"des: key must be 16 hexadecimal digits; got {key!r}") from None


def _batches(file: Path, key: int, is_filled: bool) -> Iterator[pa.RecordBatch]:
    left = file.stat().st_size
    for piece in whole_file.read_bytes("des", file, PIECE_BYTES):
        left -= len(piece)
        is_last = left <= 0
        yield _batch(pad(piece) if is_last and is_filled else piece, key)
    if is_filled and file.stat().st_size == 0:
        yield _batch(pad(b""), key)


def _batch(text: bytes, key: int) -> pa.RecordBatch:
    blocks = np.frombuffer(text, ">i8").astype(np.int64)
    return pa.record_batch([pa.array(blocks), pa.array(np.full(len(blocks), key))], schema=SCHEMA)


def pad(text: bytes) -> bytes:
    """A text made up to whole blocks, by bytes that tell how many they are."""
    missing = BLOCK - len(text) % BLOCK
    return text + missing * bytes([missing])


def generate(path: str | Path, size: int, seed: int = 0) -> None:
    """Write a file of `size` random bytes, in a folder."""
    if size < 0:
        raise ps.DataError(f"des: size must be at least 0; got {size}")
    random = np.random.default_rng(seed)
    sizes = (min(PIECE_BYTES, size - start) for start in range(0, size, PIECE_BYTES))
    whole_file.write_one(path, "text.bin", (random.bytes(each) for each in sizes))


# The filters


def initial_permutation(block: int) -> tuple[int, int]:
    """The halves of a block, permuted: five exchanges of groups of bits do what the printed table says."""
    left, right = block >> 32 & HALF, block & HALF
    swap = (left >> 4 ^ right) & 0x0F0F0F0F
    left, right = left ^ swap << 4, right ^ swap
    swap = (left >> 16 ^ right) & 0x0000FFFF
    left, right = left ^ swap << 16, right ^ swap
    swap = (right >> 2 ^ left) & 0x33333333
    left, right = left ^ swap, right ^ swap << 2
    swap = (right >> 8 ^ left) & 0x00FF00FF
    left, right = left ^ swap, right ^ swap << 8
    swap = (left >> 1 ^ right) & 0x55555555
    return left ^ swap << 1, right ^ swap


def final_permutation(left: int, right: int) -> int:
    """The block of two halves, which the last round need not have exchanged: the first permutation undone."""
    left, right = right, left
    swap = (left >> 1 ^ right) & 0x55555555
    left, right = left ^ swap << 1, right ^ swap
    swap = (right >> 8 ^ left) & 0x00FF00FF
    left, right = left ^ swap, right ^ swap << 8
    swap = (right >> 2 ^ left) & 0x33333333
    left, right = left ^ swap, right ^ swap << 2
    swap = (left >> 16 ^ right) & 0x0000FFFF
    left, right = left ^ swap << 16, right ^ swap
    swap = (left >> 4 ^ right) & 0x0F0F0F0F
    left, right = left ^ swap << 4, right ^ swap
    signed = left - 2 * SIGN if left >= SIGN else left  # so that the shift stays within 64 bits
    return signed << 32 | right


def _round(turn: int) -> Callable[[int, int, int], tuple[int, int, int]]:
    """A round before which the halves of the key are rotated by `turn` bits to the left."""

    def round(left: int, right: int, key: int) -> tuple[int, int, int]:
        high, low = key >> 28, key & HALF_KEY
        high, low = (high << turn | high >> 28 - turn) & HALF_KEY, (low << turn | low >> 28 - turn) & HALF_KEY
        return right, left ^ _mix(right, high, low), high << 28 | low

    return round


def _mix(right: int, high: int, low: int) -> int:
    """The right half, mixed with the halves of the key. All rounds call it, so that its tables are there once."""
    bits = PICKED[0, high >> 21] | PICKED[1, high >> 14 & 127] | PICKED[2, high >> 7 & 127] | PICKED[3, high & 127]
    bits |= PICKED[4, low >> 21] | PICKED[5, low >> 14 & 127] | PICKED[6, low >> 7 & 127] | PICKED[7, low & 127]
    made = SPREAD[0, ((right << 5 | right >> 27) ^ bits >> 42) & 63]
    made ^= SPREAD[1, (right >> 23 ^ bits >> 36) & 63]
    made ^= SPREAD[2, (right >> 19 ^ bits >> 30) & 63]
    made ^= SPREAD[3, (right >> 15 ^ bits >> 24) & 63]
    made ^= SPREAD[4, (right >> 11 ^ bits >> 18) & 63]
    made ^= SPREAD[5, (right >> 7 ^ bits >> 12) & 63]
    made ^= SPREAD[6, (right >> 3 ^ bits >> 6) & 63]
    made ^= SPREAD[7, ((right << 1 | right >> 31) ^ bits) & 63]
    return made  # type: ignore[no-any-return]


def _turns(decrypt: bool) -> list[int]:
    """How far the key is turned before each round. All turns come full circle, so that the way back begins there."""
    return [0, *(28 - turn for turn in tables.SHIFTS[:0:-1])] if decrypt else tables.SHIFTS


_ROUNDS = {turn: _round(turn) for turn in (0, 1, 2, 26, 27)}
"""One function for all rounds that turn the key alike, so that each is compiled once."""


# The answer by the plainest Python.


def reference(path: str | Path, *, key: str = KEY) -> list[dict[str, int]]:
    """The rows of the result, bit by bit as the standard says."""
    text = pad(whole_file.one_file("des", path).read_bytes())
    bits, blocks = f"{int(key, 16):064b}", [f"{block:064b}" for block in np.frombuffer(text, ">u8").tolist()]
    found = [int(_encrypt(block, _reference_keys(bits)), 2) for block in blocks]
    return [{"block": block - (1 << 64) if block >> 63 else block} for block in found]


def _reference_keys(key: str) -> list[str]:
    kept = [key[bit - 1] for bit in tables.KEY_BITS]
    high, low, found = kept[:28], kept[28:], []
    for shift in tables.SHIFTS:
        high, low = high[shift:] + high[:shift], low[shift:] + low[:shift]
        found.append("".join((high + low)[bit - 1] for bit in tables.ROUND_KEY_BITS))
    return found


def _encrypt(block: str, keys: list[str]) -> str:
    mixed = "".join(block[bit - 1] for bit in tables.INITIAL)
    left, right = mixed[:32], mixed[32:]
    for key in keys:
        wide = int("".join(right[bit - 1] for bit in tables.EXPANSION), 2) ^ int(key, 2)
        sixes = [f"{wide:048b}"[6 * box : 6 * box + 6] for box in range(8)]
        given = "".join(f"{tables.substitute(box, int(six, 2)):04b}" for box, six in enumerate(sixes))
        made = int("".join(given[bit - 1] for bit in tables.PERMUTATION), 2) ^ int(left, 2)
        left, right = right, f"{made:032b}"
    return "".join((right + left)[bit - 1] for bit in tables.FINAL)
