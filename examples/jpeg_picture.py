"""Pictures for the JPEG encoder: read from files, and made.

The picture files of PGM's binary form (`P5`) are read here. For all others there is Pillow, if it is installed.
"""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.examples import whole_file

LARGEST = 65535
"""The most pixels that a side may have in a JPEG file."""
_PGM = re.compile(rb"P5(?:\s+(?:#[^\n]*\n\s*)*(\d+)){3}\s")


class ConvertedWarning(UserWarning):
    """A picture was not greyscale and was made so."""


def load(path: str | Path) -> np.ndarray:
    """The pixels of a picture file, or of the only file in a folder, by row and column, 0 to 255."""
    file = whole_file.one_file("jpeg", path)
    pixels = _pgm(file) if _begins(file) == b"P5" else _by_pillow(file)
    height, width = pixels.shape
    if not (1 <= width <= LARGEST and 1 <= height <= LARGEST):
        raise ps.DataError(
            f"jpeg: file {str(file)!r}: the sides of a picture must have 1 to {LARGEST} pixels; got {width} × {height}"
        )
    return pixels


def _begins(file: Path) -> bytes:
    return next(whole_file.read_bytes("jpeg", file, 2), b"")


def _pgm(file: Path) -> np.ndarray:
    with whole_file.opened("jpeg", file) as opened:
        data = opened.read()
    head = _PGM.match(data)
    if head is None:
        raise ps.DataError(
            f"jpeg: file {str(file)!r} must be a picture; it begins as PGM, but its head is no such head"
        )
    width, height, white = (int(number) for number in re.findall(rb"\d+", re.sub(rb"#[^\n]*", b"", head[0][2:])))
    if white != 255:
        raise ps.DataError(f"jpeg: file {str(file)!r}: white must be 255 in a PGM file; it is {white}")
    held = data[head.end() : head.end() + width * height]
    if len(held) < width * height:
        raise ps.DataError(
            f"jpeg: file {str(file)!r} must hold {width * height:,} pixels; it holds {len(held):,}: it was cut short"
        )
    return np.frombuffer(held, np.uint8).reshape(height, width)


def _by_pillow(file: Path) -> np.ndarray:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ps.GraphError(
            f"jpeg: file {str(file)!r} is no PGM file, and others need the package pillow, which is not installed; "
            f"pip install pillow"
        ) from None
    try:
        with Image.open(file) as image:
            return _grey(file, image)
    except UnidentifiedImageError:
        raise ps.DataError(
            f"jpeg: file {str(file)!r} must be a picture; Pillow finds none in it; name another"
        ) from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ps.DataError(f"jpeg: the picture {str(file)!r} cannot be read; {error}; is it damaged?") from None


def _grey(file: Path, image: Any) -> np.ndarray:
    """The first picture of a file, made grey where it is not."""
    if image.mode == "L":
        return np.asarray(image)
    warnings.warn(
        f"jpeg: the picture {str(file)!r} is not greyscale of 8 bits (its mode is {image.mode}); it was converted",
        ConvertedWarning,
        stacklevel=2,
    )
    if image.mode.startswith("I"):  # 16 bits, of which Pillow would keep the wrong ones
        return np.asarray(np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255), np.uint8)
    return np.asarray(image.convert("L"))


# Pictures that are made


def generate(path: str | Path, size: int, seed: int = 0, *, noise: float = 4.0) -> None:
    """Write a picture of about `size` pixels as a PGM file in a folder: smooth parts, edges, and some `noise`."""
    if size < 1 or not 0 <= noise <= 255:
        raise ps.DataError(f"jpeg: size must be at least 1, and noise from 0 to 255; got {size}, {noise}")
    width = max(1, math.isqrt(size))
    whole_file.write_one(path, "picture.pgm", [pgm(drawn(width, max(1, size // width), seed, noise))])


def pgm(pixels: np.ndarray) -> bytes:
    """The file of a picture."""
    height, width = pixels.shape
    return b"P5\n%d %d\n255\n" % (width, height) + np.ascontiguousarray(pixels, np.uint8).tobytes()


def drawn(width: int, height: int, seed: int, noise: float = 4.0) -> np.ndarray:
    """A gradient with a few discs on it, some of them striped, and noise over all."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    made = 60 + 100 * (x / width + y / height) / 2
    for _ in range(12):
        radius = random.uniform(0.03, 0.25) * max(width, height)
        away = np.hypot(x - random.uniform(0, width), y - random.uniform(0, height))
        stripes = random.uniform(0, 40) * np.sin(x * random.uniform(0.05, 1.5))
        made = np.where(away < radius, random.uniform(0, 255) + stripes, made)
    made = made + random.normal(0, 1, made.shape) * noise
    return np.asarray(np.clip(np.rint(made), 0, 255), np.uint8)
