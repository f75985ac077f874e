"""Data for dedup: a file of text, numbers and noise, of which a share stands in it already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import penstock as ps
from penstock.examples import whole_file

STRETCH = (1 << 14, 1 << 17)
"""The least and the most bytes that are made, or repeated, at a time."""
KEPT = 64
"""How many stretches are kept, to repeat one of them."""
WORDS = 4096


def generate(path: str | Path, size: int, seed: int = 0, *, duplicates: float = 0.5) -> None:
    """Write a file of `size` bytes in a folder; a share of `duplicates` of it repeats what stands before."""
    if size < 0 or not 0 <= duplicates < 1:
        raise ps.DataError(
            f"dedup: size must be at least 0, and duplicates at least 0 and below 1; got {size}, {duplicates}"
        )
    whole_file.write_one(path, "data.bin", stretches(size, seed, duplicates))


def stretches(size: int, seed: int, duplicates: float) -> Iterator[bytes]:
    """The file that `generate` writes, stretch by stretch; the share is held as it grows, and not only hoped for."""
    random = np.random.default_rng(seed)
    words = _words(random)
    kept: list[bytes] = []
    made = repeated = 0
    while made < size:
        if kept and repeated < duplicates * made:
            stretch = kept[int(random.integers(len(kept)))][: size - made]
            repeated += len(stretch)
        else:
            stretch = _new(random, words, min(int(random.integers(*STRETCH)), size - made))
            kept = [*kept, stretch][-KEPT:]
        made += len(stretch)
        yield stretch


def _words(random: np.random.Generator) -> list[bytes]:
    letters = random.integers(ord("a"), ord("z") + 1, (WORDS, 10), np.uint8)
    return [bytes(row[:length]) for row, length in zip(letters, random.integers(2, 11, WORDS), strict=True)]


def _new(random: np.random.Generator, words: list[bytes], size: int) -> bytes:
    """Text most of the time, whose words are as unlike in frequency as those of a language; else numbers, or noise."""
    kind = int(random.integers(4))
    if kind == 0:
        return random.bytes(size)
    if kind == 1:
        values = random.normal(1000, 50, size // 7 + 1).round(2)
        return b"\n".join(b"%.2f" % value for value in values)[:size]
    places = np.minimum(random.zipf(1.2, size // 3 + 1) - 1, WORDS - 1)
    return b" ".join([words[place] for place in places])[:size]
