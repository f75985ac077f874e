"""JPEG: encode a picture as a greyscale JPEG file, block by block.

A baseline encoder in seven filters over blocks of 8 × 8 pixels: `cut` makes blocks of strips, `transform` shifts their
level and finds their frequencies (DCT), `quantise` and `zigzag` prepare them, `predict` takes from each block's first
value that of the block before, `code` finds run lengths and Huffman's codes, and `write` puts the codes together to
bytes. Only `predict` and `write` hold a state, and they are cheap. The result is one row a block, `bytes`; one after
the other they are the file. Where the sides are no multiples of 8, the last pixels are repeated.

The picture is a PGM file, or any that Pillow opens; what is not greyscale is converted, and a note tells it. Tables
stand in `jpeg_tables`, pictures are read and made in `jpeg_picture`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

import penstock as ps
from examples.jpeg_picture import ConvertedWarning, generate, load
from examples.jpeg_tables import (
    BITS,
    CELLS,
    COSINES,
    END_OF_BLOCK,
    FIRST_CODES,
    FIRST_SIZES,
    HEADS,
    OTHER_CODES,
    OTHER_SIZES,
    QUANTISERS,
    SIDE,
    SIXTEEN_ZEROS,
    SIZE_PLACE,
    ZIGZAG,
)
from penstock.examples import whole_file

__all__ = ["ConvertedWarning", "build", "filters", "generate", "load", "read", "reference", "save"]

USUAL_SIZE, SIZE_UNIT = 1 << 20, "pixels"
QUALITY = 75
LEVELS = pa.list_(pa.int16(), CELLS)
SIZES = ("width", "height", "quality")
OPTIONS = {"width": 1 << 12}
MOST_BYTES = 256
"""More than a block's codes have: 20 bits for the first value, and 26 for each of the others."""


def build(source: ps.Stream) -> ps.Stream:
    """The parts of the file, `bytes`, of a stream of strips."""
    return filters(source)["write"]


def filters(source: ps.Stream) -> dict[str, ps.Stream]:
    """The stream behind each of the seven filters, by the filter's name."""
    cut = source.flat_map(blocks, to="pixels", keep=SIZES, at_most=(1 << 16) // SIDE)
    transform = cut.map(frequencies=ps.returns(ps.array(float, CELLS), transformed))
    quantise = transform.map(quantised=ps.returns(LEVELS, quantised))
    zigzag = quantise.map(levels=ps.returns(LEVELS, zigzagged))
    predict = zigzag.map(difference=difference, state=Last)
    code = predict.map(coded, to=("codes", "bits"))
    write = code.flat_map(written, to="bytes", at_most=2, state=Open, end=closing)
    return {
        "cut": cut,
        "transform": transform,
        "quantise": quantise,
        "zigzag": zigzag,
        "predict": predict,
        "code": code,
        "write": write,
    }


def read(path: str | Path, *, quality: int = QUALITY) -> ps.Stream:
    """A picture as a stream of strips: eight rows of pixels, the picture's size, and the quality, from 1 to 100.

    Each strip tells the last two, so that no filter depends on them.
    """
    if not isinstance(quality, int) or not 1 <= quality <= 100:
        raise ps.GraphError(f"jpeg: quality must be a whole number from 1 to 100; got {quality!r}")
    pixels = load(path)
    height, width = pixels.shape
    padded = np.pad(pixels, ((0, -height % SIDE), (0, -width % SIDE)), "edge")
    strips = [padded[top : top + SIDE].tobytes() for top in range(0, height, SIDE)]
    constant = {"width": width, "height": height, "quality": quality}
    columns = {name: np.full(len(strips), value) for name, value in constant.items()}
    return ps.from_arrow(pa.table({"strip": pa.array(strips, pa.binary()), **columns}), name="strips")


def save(file: BinaryIO, batches: Iterator[pa.RecordBatch]) -> None:
    """Write the parts of the file, one after the other."""
    file.writelines(whole_file.column(batches, "bytes"))


# The filters


def blocks(strip: Any) -> Iterator[bytes]:
    """The blocks of a strip, from left to right."""
    width = len(strip) // SIDE
    for left in range(0, width, SIDE):
        block: Any = np.empty(CELLS, np.uint8)
        for y in range(SIDE):
            for x in range(SIDE):
                block[SIDE * y + x] = strip[width * y + left + x]
        yield block


def transformed(pixels: Any) -> Any:
    """The frequencies of a block: a transform of each row, and then of each column of what comes of it."""
    rows, found = np.empty(CELLS), np.empty(CELLS)
    for y in range(SIDE):
        for v in range(SIDE):
            total = 0.0
            for x in range(SIDE):
                total += COSINES[v, x] * (pixels[SIDE * y + x] - 128.0)
            rows[SIDE * y + v] = total
    for u in range(SIDE):
        for v in range(SIDE):
            total = 0.0
            for y in range(SIDE):
                total += COSINES[u, y] * rows[SIDE * y + v]
            found[SIDE * u + v] = total
    return found


def quantised(frequencies: Any, quality: int) -> Any:
    found = np.empty(CELLS, np.int16)
    for at in range(CELLS):
        found[at] = math.floor(frequencies[at] / QUANTISERS[quality, at] + 0.5)
    return found


def zigzagged(quantised: Any) -> Any:
    found = np.empty(CELLS, np.int16)
    for at in range(CELLS):
        found[at] = quantised[ZIGZAG[at]]
    return found


class Last(ps.State):
    """The first value of the block before."""

    value: int


def difference(levels: Any, state: Any) -> int:
    before, value = state.value, int(levels[0])
    state.value = value
    return value - before  # type: ignore[no-any-return]


def coded(levels: Any, difference: int) -> tuple[bytes, int]:
    """The codes of a block as bytes, the last filled up with zeros, and how many bits they have."""
    made: Any = np.empty(MOST_BYTES, np.uint8)
    at, zeros = 0, 0
    size = BITS[abs(difference)]
    held, count = FIRST_CODES[size] << size | magnitude(difference, size), FIRST_SIZES[size] + size
    for place in range(1, CELLS):
        level = int(levels[place])
        if level == 0:
            zeros += 1
            continue
        while zeros > 15:
            held, count, at = put(made, at, held << OTHER_SIZES[SIXTEEN_ZEROS] | OTHER_CODES[SIXTEEN_ZEROS], count + 11)
            zeros -= 16
        size = BITS[abs(level)]
        symbol = zeros << 4 | size
        bits = OTHER_CODES[symbol] << size | magnitude(level, size)
        held, count, at = put(made, at, held << OTHER_SIZES[symbol] + size | bits, count + OTHER_SIZES[symbol] + size)
        zeros = 0
    if zeros > 0:
        symbol = END_OF_BLOCK
        held, count, at = put(made, at, held << OTHER_SIZES[symbol] | OTHER_CODES[symbol], count + OTHER_SIZES[symbol])
    held, count, at = put(made, at, held, count)
    bits = 8 * at + count
    if count > 0:
        made[at] = held << 8 - count
        at += 1
    return made[:at], bits


def magnitude(value: int, size: int) -> int:
    """The bits behind the code of a size: those of a negative value are those of one less."""
    return value if value >= 0 else value - 1 + (1 << size)


def put(made: Any, at: int, held: int, count: int) -> tuple[int, int, int]:
    """Write whole bytes of the bits that are held; what is left of them, how many these are, and where one is."""
    while count >= 8:
        count -= 8
        made[at] = held >> count
        held &= (1 << count) - 1
        at += 1
    return held, count, at


class Open(ps.State):
    """The bits that do not fill a byte yet, and whether the head is written."""

    held: int
    count: int
    begun: bool


def written(codes: Any, bits: int, width: int, height: int, quality: int, state: Any) -> Iterator[bytes]:
    """The bytes that a block's codes fill, before the first the head; behind a byte of ones a zero, as in no marker."""
    if not state.begun:
        state.begun = True
        head: Any = HEADS[quality].copy()
        head[SIZE_PLACE], head[SIZE_PLACE + 1] = height >> 8, height & 255
        head[SIZE_PLACE + 2], head[SIZE_PLACE + 3] = width >> 8, width & 255
        yield head
    made: Any = np.empty(2 * len(codes) + 2, np.uint8)
    at, held, count = 0, state.held, state.count
    for number in range(len(codes)):
        taken = min(8, bits - 8 * number)
        held, count = held << taken | codes[number] >> 8 - taken, count + taken
        if count >= 8:
            count -= 8
            made[at] = held >> count
            held &= (1 << count) - 1
            at += 1
            if made[at - 1] == 255:
                made[at] = 0
                at += 1
    state.held, state.count = held, count
    if at > 0:
        yield made[:at]


def closing(state: Any) -> Iterator[bytes]:
    """The last byte, filled up with ones, and the marker of the end."""
    made: Any = np.empty(4, np.uint8)
    at = 0
    if state.count > 0:
        made[0] = (state.held + 1 << 8 - state.count) - 1
        at = 1
        if made[0] == 255:
            made[1], at = 0, 2
    made[at], made[at + 1] = 0xFF, 0xD9
    yield made[: at + 2]


# The answer by the plainest Python.


def reference(path: str | Path, *, quality: int = QUALITY) -> bytes:
    """The file, by the plainest Python: the same additions in the same order, so the same roundings."""
    pixels = load(path)
    height, width = pixels.shape
    text, before = [], 0
    for top in range(0, height, SIDE):
        for left in range(0, width, SIDE):
            rows = [[int(pixels[min(y, height - 1), min(x, width - 1)]) - 128.0 for x in range(left, left + SIDE)]
                    for y in range(top, top + SIDE)]  # fmt: skip
            levels = _reference_levels(rows, quality)
            text.append(_reference_codes(levels, before))
            before = levels[0]
    bits = "".join(text)
    bits += "1" * (-len(bits) % 8)
    data = int("1" + bits, 2).to_bytes(len(bits) // 8 + 1, "big")[1:].replace(b"\xff", b"\xff\0")
    head = bytearray(HEADS[quality].tobytes())
    head[SIZE_PLACE : SIZE_PLACE + 4] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return bytes(head) + data + b"\xff\xd9"


def _reference_levels(rows: list[list[float]], quality: int) -> list[int]:
    cosines, steps = COSINES.tolist(), QUANTISERS[quality].tolist()
    half = [[_dot(cosines[v], row) for v in range(SIDE)] for row in rows]
    found = [_dot(cosines[u], [row[v] for row in half]) for u in range(SIDE) for v in range(SIDE)]
    return [math.floor(found[at] / steps[at] + 0.5) for at in ZIGZAG.tolist()]


def _dot(a: list[float], b: list[float]) -> float:
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def _reference_codes(levels: list[int], before: int) -> str:
    def of(table: tuple[np.ndarray, np.ndarray], symbol: int, value: int) -> str:
        size = abs(value).bit_length()
        magnitude = f"{value if value > 0 else value + (1 << size) - 1:0{size}b}" if size else ""
        return f"{table[0][symbol]:0{table[1][symbol]}b}" + magnitude

    value = levels[0] - before
    text, zeros = of((FIRST_CODES, FIRST_SIZES), abs(value).bit_length(), value), 0
    others = OTHER_CODES, OTHER_SIZES
    for level in levels[1:]:
        zeros += 1
        if level:
            text += (zeros - 1) // 16 * of(others, SIXTEEN_ZEROS, 0)
            text += of(others, (zeros - 1) % 16 << 4 | abs(level).bit_length(), level)
            zeros = 0
    return text + (of(others, END_OF_BLOCK, 0) if zeros else "")
