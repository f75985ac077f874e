"""Random numbers by counter: Philox 4 × 32, of ten rounds (Salmon and others, 2011). Its products fit 64 bits.

A number is a function of its counter and a key, so that any part of a sequence can be made without the others. For
simulations only: it is no cipher.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDS = 10
FIRST, SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def keys(seed: int) -> np.ndarray:
    """The keys of the rounds, one pair after another."""
    words = (seed & 0xFFFFFFFF, seed >> 32)
    return np.array(
        [(word + at * WEYL[of]) % 2**32 for at in range(ROUNDS) for of, word in enumerate(words)], np.uint64
    )


def philox(a: Any, b: Any, c: Any, d: Any, keys: Any) -> tuple[Any, Any, Any, Any]:
    """Four random numbers of 32 bits for a counter of four."""
    for at in range(ROUNDS):
        first, second = a * FIRST, c * SECOND
        a, b = (second >> HALF) ^ b ^ keys[2 * at], second & LOW
        c, d = (first >> HALF) ^ d ^ keys[2 * at + 1], first & LOW
    return a, b, c, d
