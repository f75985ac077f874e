"""The tables of DES, as the standard (FIPS 46-3) prints them, and the ones that the filters look up.

In the printed tables bits are counted from 1, at the left. `SPREAD` and `PICKED` join several of them, so that a filter
moves several bits with one look.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

INITIAL = [base - 8 * step for base in (58, 60, 62, 64, 57, 59, 61, 63) for step in range(8)]
FINAL = [base - step for step in range(8) for base in (40, 8, 48, 16, 56, 24, 64, 32)]
EXPANSION = [(4 * group + place - 1) % 32 + 1 for group in range(8) for place in range(6)]
PERMUTATION = [
    *(16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10),
    *(2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25),
]
KEY_BITS = [
    *(57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36),
    *(63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4),
]
ROUND_KEY_BITS = [
    *(14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2),
    *(41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32),
]
SHIFTS = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1]
"""By how many bits the halves of the key are rotated to the left before each round."""
_BOXES = """
    e4d12fb83a6c5907 0f74e2d1a6cb9538 41e8d62bfc973a50 fc8249175b3ea06d
    f18e6b34972dc05a 3d47f28ec01a69b5 0e7ba4d158c6932f d8a13f42b67c05e9
    a09e63f51dc7b428 d709346a285ecbf1 d6498f30b12c5ae7 1ad069874fe3b52c
    7de3069a1285bc4f d8b56f03472c1ae9 a690cb7df13e5284 3f06a1d8945bc72e
    2c417ab6853fd0e9 eb2c47d150fa3986 421bad78f9c5630e b8c71e2d6f09a453
    c1af92680d34e75b af427c9561de0b38 9ef528c3704a1db6 432c95fabe17608d
    4b2ef08d3c975a61 d0b7491ae35c2f86 14bdc37eaf680592 6bd814a7950fe23c
    d2846fb1a93e50c7 1fd8a374c56b0e92 7b419ce206adf358 21e74a8dfc90356b
"""
BOXES = [[int(digit, 16) for digit in "".join(_BOXES.split())[64 * box : 64 * box + 64]] for box in range(8)]
"""The eight S-boxes: each has four rows of sixteen values."""


def permute(value: int, size: int, bits: Sequence[int]) -> int:
    """The bits of a value of `size` bits, in the order of a printed table."""
    found = 0
    for bit in bits:
        found = 2 * found + (value >> (size - bit) & 1)
    return found


def substitute(box: int, six: int) -> int:
    """What a box gives for six bits: the outer two are the row, the inner four the column."""
    return BOXES[box][16 * (six >> 4 & 2 | six & 1) + (six >> 1 & 15)]


SPREAD = np.array(
    [[permute(substitute(box, six) << 28 - 4 * box, 32, PERMUTATION) for six in range(64)] for box in range(8)]
)
"""By box and six bits: what the box gives, where the permutation behind the boxes puts it."""
PICKED = np.array(
    [[permute(seven << 49 - 7 * group, 56, ROUND_KEY_BITS) for seven in range(128)] for group in range(8)]
)
"""By a group of seven bits of the rotated key, and their value: the bits of the round's key that they are."""
