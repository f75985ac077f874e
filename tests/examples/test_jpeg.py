from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

import penstock as ps
from examples import jpeg, jpeg_picture, jpeg_tables

Image = pytest.importorskip("PIL.Image")

WAYS: dict[str, dict[str, Any]] = {
    "fused": {},
    "unfused": {"fuse": False},
    "two cores": {"fuse": False, "cores": 2, "width": 100},
}
REAL = Path(scipy.__file__).parent / "ndimage" / "tests" / "dots.png"


def encoded(path: Path, quality: int = 75, **options: Any) -> bytes:
    run = jpeg.build(jpeg.read(path, quality=quality)).prepare(**{**jpeg.OPTIONS, **options})
    file = io.BytesIO()
    jpeg.save(file, (first for (first,) in run.batches()))
    return file.getvalue()


def by_pillow(pixels: np.ndarray, quality: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    return file.getvalue()


def decoded(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "JPEG" and image.mode == "L"
        return np.asarray(image).astype(float)


def closeness(found: np.ndarray, wanted: np.ndarray) -> float:
    """In decibels, as the peak ratio of signal to noise."""
    return float(10 * np.log10(255**2 / max(np.mean((found - wanted) ** 2), 1e-9)))


def check(data: bytes, pixels: np.ndarray, quality: int) -> None:
    """That the file is as good as Pillow's own with the same tables, and as small."""
    theirs = by_pillow(pixels, quality)
    ours = decoded(data)
    assert ours.shape == pixels.shape
    assert closeness(ours, pixels) > closeness(decoded(theirs), pixels) - 0.1
    assert len(data) < 1.02 * len(theirs) + 20
    tables = [Image.open(io.BytesIO(each)).quantization for each in (data, theirs)]
    assert tables[0] == tables[1]


# The file


@pytest.mark.parametrize(
    ("width", "height", "quality", "noise"),
    [(256, 256, 75, 4.0), (301, 163, 90, 0.0), (77, 400, 10, 30.0), (128, 64, 100, 60.0), (512, 8, 50, 2.0)],
)
def test_pictures_are_as_good_as_those_of_pillow(
    tmp_path: Path, width: int, height: int, quality: int, noise: float
) -> None:
    pixels = jpeg_picture.drawn(width, height, width, noise)
    (tmp_path / "picture.pgm").write_bytes(jpeg_picture.pgm(pixels))
    check(encoded(tmp_path, quality), pixels, quality)


@pytest.mark.parametrize("way", WAYS)
def test_a_real_picture_in_every_way(way: str) -> None:
    if not REAL.exists():
        pytest.skip("this SciPy comes without its test pictures")
    with pytest.warns(jpeg.ConvertedWarning, match=r"is not greyscale of 8 bits \(its mode is RGB\); it was converted"):
        data = encoded(REAL, **WAYS[way])
    with Image.open(REAL) as image:
        grey = np.asarray(image.convert("L"))
    check(data, grey, 75)
    with pytest.warns(jpeg.ConvertedWarning):
        assert data == encoded(REAL)


@pytest.mark.parametrize("quality", [1, 75, 100])
def test_the_file_is_the_reference(tmp_path: Path, quality: int) -> None:
    jpeg.generate(tmp_path, 1900, quality, noise=20.0)
    assert encoded(tmp_path, quality) == jpeg.reference(tmp_path, quality=quality)


def test_interpreted_it_is_the_same(tmp_path: Path) -> None:
    jpeg.generate(tmp_path, 600, 1)
    assert encoded(tmp_path, compile=False) == encoded(tmp_path)


@pytest.mark.parametrize("value", [0, 127, 255])
def test_the_smallest_picture(tmp_path: Path, value: int) -> None:
    (tmp_path / "picture.pgm").write_bytes(jpeg_picture.pgm(np.full((1, 1), value)))
    assert np.abs(decoded(encoded(tmp_path)) - value).max() <= 1


def test_the_sharpest_picture(tmp_path: Path) -> None:
    """The largest values that a block can have, with nothing quantised away."""
    y, x = np.mgrid[0:64, 0:64]
    pixels = np.where((x + y // 8) % 2 == 0, 0, 255)
    (tmp_path / "picture.pgm").write_bytes(jpeg_picture.pgm(pixels))
    assert np.abs(decoded(encoded(tmp_path, 100)) - pixels).max() <= 3


# The filters


def test_the_tables_are_those_of_pillow() -> None:
    """Its files without optimised codes have those of the standard."""
    data = by_pillow(np.zeros((8, 8), np.uint8), 75)
    for counts, symbols in (
        (jpeg_tables.FIRST_COUNTS, jpeg_tables.FIRST_SYMBOLS),
        (jpeg_tables.OTHER_COUNTS, jpeg_tables.OTHER_SYMBOLS),
    ):
        assert bytes(counts) + symbols in data
    assert jpeg_tables.ZIGZAG[:10].tolist() == [0, 1, 8, 16, 9, 2, 3, 10, 17, 24]
    assert sorted(jpeg_tables.ZIGZAG.tolist()) == list(range(64))


def test_the_transform_is_that_of_scipy() -> None:
    from scipy.fft import dctn

    block = np.random.default_rng(1).integers(0, 256, 64, np.uint8)
    wanted = dctn(block.reshape(8, 8) - 128.0, norm="ortho")
    np.testing.assert_allclose(jpeg.transformed(block).reshape(8, 8), wanted, atol=1e-10)


def test_filters_can_be_put_on_cores(tmp_path: Path) -> None:
    jpeg.generate(tmp_path, 10_000, 2)
    made = jpeg.filters(jpeg.read(tmp_path))
    assert list(made) == ["cut", "transform", "quantise", "zigzag", "predict", "code", "write"]
    run = made["write"].prepare(fuse=False, cores=2, mapping={made["transform"]: 1, made["quantise"]: 0})
    found = b"".join(run.collect()["bytes"].to_pylist())
    assert found == encoded(tmp_path)
    assert [node.items for node in run.statistics().nodes][1:] == 6 * [13 * 13]


# Pictures


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "P", "1", "CMYK", "I;16"])
def test_other_pictures_are_converted(tmp_path: Path, mode: str) -> None:
    grey = jpeg_picture.drawn(40, 24, 5)
    deep = grey.astype(np.uint16) << 8
    image = Image.fromarray(deep) if mode == "I;16" else Image.fromarray(grey).convert(mode)
    path = tmp_path / ("picture.tif" if mode == "CMYK" else "picture.png")
    image.save(path)
    with pytest.warns(jpeg.ConvertedWarning, match="it was converted"):
        found = jpeg.load(path)
    assert found.dtype == np.uint8 and found.shape == (24, 40)
    if mode != "1":
        assert np.abs(found.astype(int) - grey).max() <= 3


def test_a_grey_picture_is_taken_as_it_is(tmp_path: Path) -> None:
    grey = jpeg_picture.drawn(30, 20, 6)
    Image.fromarray(grey).save(tmp_path / "picture.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(jpeg.load(tmp_path), grey)
        assert encoded(tmp_path) == encoded(tmp_path / "picture.png")


def test_a_pgm_file_may_have_comments(tmp_path: Path) -> None:
    (tmp_path / "picture.pgm").write_bytes(b"P5\n# made by hand\n3 1 # three\n255\n\x01\x02\x03")
    assert jpeg.load(tmp_path).tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no picture at all", "must be a picture; Pillow finds none in it"),
        (b"", "must be a picture; Pillow finds none in it"),
        (b"P5 what is this", "must be a picture; it begins as PGM, but its head is no such head"),
        (b"P5 4 4 255\n123", "must hold 16 pixels; it holds 3: it was cut short"),
        (b"P5 1 1 100\n1", "white must be 255 in a PGM file; it is 100"),
        (b"P5 0 4 255\n", "the sides of a picture must have 1 to 65535 pixels; got 0 × 4"),
    ],
)
def test_what_is_no_picture(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "picture").write_bytes(data)
    with pytest.raises(ps.DataError, match=message):
        jpeg.read(tmp_path / "picture")


def test_a_picture_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    Image.fromarray(jpeg_picture.drawn(100, 100, 7)).save(path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ps.DataError, match=r"cannot be read; .*; is it damaged\?"):
        jpeg.read(path)


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    jpeg.generate(tmp_path, 100)
    for quality in (0, 101):
        with pytest.raises(ps.GraphError, match="quality must be a whole number from 1 to 100; got"):
            jpeg.read(tmp_path, quality=quality)
    with pytest.raises(ps.DataError, match="size must be at least 1"):
        jpeg.generate(tmp_path, 0)
    with pytest.raises(ps.DataError, match="there is no such path"):
        jpeg.read(tmp_path / "absent")
