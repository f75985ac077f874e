"""The tables of the baseline JPEG encoder, as annex K of the standard (ITU T.81) gives them, and the file's head."""

from __future__ import annotations

import itertools
import math
import struct

import numpy as np

SIDE = 8
CELLS = SIDE * SIDE

COSINES = np.array(
    [
        [math.cos((2 * x + 1) * v * math.pi / 16) * (math.sqrt(0.125) if v == 0 else 0.5) for x in range(SIDE)]
        for v in range(SIDE)
    ]
)
"""The transform of eight values, by frequency and place."""
ZIGZAG = np.array(
    sorted(range(CELLS), key=lambda at: (at // 8 + at % 8, at // 8 if (at // 8 + at % 8) % 2 else at % 8))
)
"""The cells of a block in the order in which they are coded: by diagonals, to and fro."""
LUMINANCE = (
    *(16, 11, 10, 16, 24, 40, 51, 61),
    *(12, 12, 14, 19, 26, 58, 60, 55),
    *(14, 13, 16, 24, 40, 57, 69, 56),
    *(14, 17, 22, 29, 51, 87, 80, 62),
    *(18, 22, 37, 56, 68, 109, 103, 77),
    *(24, 35, 55, 64, 81, 104, 113, 92),
    *(49, 64, 78, 87, 103, 121, 120, 101),
    *(72, 92, 95, 98, 112, 100, 103, 99),
)
"""How coarsely each coefficient is quantised at quality 50."""


def _quantisers(quality: int) -> list[int]:
    """How coarsely each is at a quality from 1 to 100, as the usual library scales it."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return [min(max((step * scale + 50) // 100, 1), 255) for step in LUMINANCE]


QUANTISERS = np.array([[1] * CELLS, *(_quantisers(quality) for quality in range(1, 101))])
"""The same for every quality, so that no filter depends on one; there is no quality 0."""


# Huffman's codes: how many there are of 1 to 16 bits, and the symbols in the order of their codes.

FIRST_COUNTS = (0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0)
FIRST_SYMBOLS = bytes(range(12))
"""For the first cell of a block: the size of its difference from that of the block before."""
OTHER_COUNTS = (0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125)
OTHER_SYMBOLS = bytes.fromhex(
    "0102030004110512213141061351610722711432819 1a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738"
    "393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5"
    "a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa".replace(
        " ", ""
    )
)
"""For the others: how many zeros come before (four bits), and the size of the value (four bits)."""
END_OF_BLOCK, SIXTEEN_ZEROS = 0x00, 0xF0


def codes(counts: tuple[int, ...], symbols: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The code of each symbol, and how many bits it has."""
    values, sizes = np.zeros(256, np.int64), np.zeros(256, np.int64)
    lengths = itertools.chain.from_iterable([size] * count for size, count in enumerate(counts, 1))
    code = last = 0
    for symbol, size in zip(symbols, lengths, strict=True):
        code <<= size - last
        values[symbol], sizes[symbol], last = code, size, size
        code += 1
    return values, sizes


FIRST_CODES, FIRST_SIZES = codes(FIRST_COUNTS, FIRST_SYMBOLS)
OTHER_CODES, OTHER_SIZES = codes(OTHER_COUNTS, OTHER_SYMBOLS)
BITS = np.array([value.bit_length() for value in range(1 << 12)])
"""The size of a value: how many bits its magnitude has."""


# The file


def _segment(marker: int, contents: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(contents) + 2) + contents


def _head(quality: int) -> tuple[bytes, int]:
    """All of the file before the coded blocks, with a size of 0 × 0, and where that stands: height, then width."""
    table = bytes(QUANTISERS[quality][ZIGZAG].astype(np.uint8))
    before = (
        b"\xff\xd8"
        + _segment(0xE0, b"JFIF\0" + struct.pack(">HBHHBB", 0x0101, 0, 1, 1, 0, 0))
        + _segment(0xDB, b"\0" + table)
    )
    behind = (
        _segment(0xC0, struct.pack(">BHHBBBB", 8, 0, 0, 1, 1, 0x11, 0))
        + _segment(0xC4, b"\x00" + bytes(FIRST_COUNTS) + FIRST_SYMBOLS)
        + _segment(0xC4, b"\x10" + bytes(OTHER_COUNTS) + OTHER_SYMBOLS)
        + _segment(0xDA, bytes([1, 1, 0, 0, 63, 0]))
    )
    return before + behind, len(before) + 5


HEADS = np.array([np.frombuffer(_head(quality)[0], np.uint8) for quality in range(101)])
SIZE_PLACE = _head(1)[1]
