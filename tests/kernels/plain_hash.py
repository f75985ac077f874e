"""The hash of keys in plain Python, to compare kernels with."""

from __future__ import annotations

WORD = 1 << 64
GOLDEN = 0x9E3779B97F4A7C15

Hidden = tuple[int, int, int]


def drawn(state: int) -> int:
    state %= WORD
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ state >> 27) * 0x94D049BB133111EB % WORD
    return state ^ state >> 31


def secrets(seed: int, use: int) -> Hidden:
    first = drawn((drawn(seed) + use) * GOLDEN)
    return first, drawn(first + GOLDEN) | 1, drawn(first + 2 * GOLDEN) | 1


def fold(one: int, other: int) -> int:
    product = one * other
    return product >> 64 ^ product % WORD


def hash_integer(value: int, hidden: Hidden) -> int:
    first, second, third = hidden
    return fold(fold(value ^ first, second) ^ first, third)


def hash_bytes(text: bytes, hidden: Hidden) -> int:
    first, second, third = hidden
    state, whole = first ^ len(text), len(text) // 8 * 8
    for at in range(0, whole, 8):
        state = fold(state ^ int.from_bytes(text[at : at + 8], "little"), second)
    return fold(fold(state ^ int.from_bytes(text[whole:], "little"), second) ^ first, third)
