from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import hashlib
import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from examples import dedup, dedup_archive, dedup_outside

WAYS: dict[str, dict[str, Any]] = {
    "fused": {},
    "unfused": {"fuse": False},
    "small ensembles": {"fuse": False, "width": 7},
    "two cores": {"fuse": False, "cores": 2, "width": 32},
}
REAL = Path(argparse.__file__)


def archived(path: Path, *, level: int = 6, sizes: dict[str, int] | None = None, **options: Any) -> bytes:
    """The archive of a file."""
    stream = dedup.build(dedup.read(path, **(sizes or {})), level=level)
    file = io.BytesIO()
    dedup.save(file, (first for (first,) in stream.prepare(**{**dedup.OPTIONS, **options}).batches()))
    return file.getvalue()


def restored(archive: bytes) -> bytes:
    file = io.BytesIO()
    dedup_archive.restored("given", io.BytesIO(archive), file)
    return file.getvalue()


def kinds(path: Path, **sizes: int) -> np.ndarray:
    """For each chunk whether it is new, and its size."""
    table = dedup.build(dedup.read(path, **sizes)).collect(width=256)
    return np.array([(row["record"][0] == dedup_archive.NEW, row["size"]) for row in table.to_pylist()])


# The way there and back


@pytest.mark.parametrize(("size", "seed", "duplicates"), [(1_300_000, 1, 0.5), (2_000_000, 2, 0.9), (700_001, 3, 0.0)])
def test_the_file_comes_back(tmp_path: Path, size: int, seed: int, duplicates: float) -> None:
    dedup.generate(tmp_path, size, seed, duplicates=duplicates)
    file = tmp_path / "data.bin"
    archive = archived(file)
    assert file.stat().st_size == size and restored(archive) == file.read_bytes()
    assert len(archive) < size * (1.05 - 0.9 * duplicates)
    known = kinds(file)
    share = known[known[:, 0] == 0, 1].sum() / size
    assert abs(share - duplicates) < 0.15


@pytest.mark.parametrize("way", WAYS)
def test_a_real_file_in_every_way(tmp_path: Path, way: str) -> None:
    text = REAL.read_bytes()
    (tmp_path / "data").write_bytes(text + b"something else" + text)
    archive = archived(tmp_path / "data", **WAYS[way])
    assert archive == archived(tmp_path / "data")
    assert restored(archive) == (tmp_path / "data").read_bytes()
    assert len(archive) < len(text) / 2


def test_the_result_is_the_reference(tmp_path: Path) -> None:
    dedup.generate(tmp_path, dedup.PIECE + 90_000, 5, duplicates=0.6)
    sizes = {"smallest": 512, "mean": 2000, "largest": 8000}
    stream, expected = dedup.build(dedup.read(tmp_path, **sizes)), dedup.reference(tmp_path, **sizes)
    for way in WAYS.values():
        assert stream.collect(**{**dedup.OPTIONS, **way}).to_pylist() == expected


def test_filters_can_be_put_on_cores(tmp_path: Path) -> None:
    dedup.generate(tmp_path, 400_000, 4)
    made = dedup.filters(dedup.read(tmp_path))
    assert list(made) == ["fragment", "refine", "hash", "look up", "compress", "write"]
    mapping = {made["hash"]: 1, made["look up"]: 0, made["compress"]: 1}
    found = made["write"].collect(fuse=False, cores=2, mapping=mapping)["record"].to_pylist()
    assert found == [row["record"] for row in dedup.reference(tmp_path)]


def test_interpreted_it_is_the_same(tmp_path: Path) -> None:
    dedup.generate(tmp_path, 60_000, 6)
    assert archived(tmp_path, compile=False) == archived(tmp_path)


@pytest.mark.parametrize("text", [b"", b"a", bytes(2_000_000), b"ab" * 300_000], ids=["none", "one", "zeros", "pairs"])
def test_odd_files(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "data").write_bytes(text)
    archive = archived(tmp_path / "data")
    assert restored(archive) == text
    assert len(archive) < 150 + len(text) / 50


# Outside of Python's lock, and in it where a library is missing

found = pytest.mark.skipif(None in (dedup_outside.libz(), dedup_outside.libcrypto()), reason="no libz or libcrypto")


def odd_chunks() -> list[bytes]:
    random = np.random.default_rng(11)
    sizes = [0, 1, 55, 56, 64, 4096, 16_384, 131_072, *random.integers(0, 9000, 20).tolist(), 0]
    kinds = [random.bytes, bytes, lambda size: random.integers(97, 105, size, np.uint8).tobytes()]
    return [kinds[place % 3](size) for place, size in enumerate(sizes)]


def all_columns(level: int, chunk: pa.Array, is_new: pa.Array) -> list[pa.Array]:
    digest, size = dedup_outside.digests(chunk)
    packed = dedup_outside.packed(level, chunk, is_new)
    made = [digest, size, packed, dedup_outside.records(size, digest, packed)]
    for column in made:
        column.validate(full=True)
    return made


def without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup_outside, "libz", lambda: None)
    monkeypatch.setattr(dedup_outside, "libcrypto", lambda: None)


@found
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("level", range(1, 10))
def test_both_ways_make_the_same_columns(monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, level: int) -> None:
    chunks = odd_chunks()
    news = [place % 4 != 1 for place in range(len(chunks))]
    column, is_new = pa.array(chunks, kind), pa.array(news)
    given = [(column, is_new), (column.slice(5, 9), is_new.slice(5, 9)), (column.slice(3, 0), is_new.slice(3, 0))]
    outside = [all_columns(level, *each) for each in given]
    without_libraries(monkeypatch)
    assert outside == [all_columns(level, *each) for each in given]
    digest, size, packed, record = outside[0]
    assert [each.type for each in outside[0]] == [pa.binary(), pa.int64(), pa.binary(), pa.binary()]
    assert digest.to_pylist() == [hashlib.sha256(each).digest() for each in chunks]
    assert size.to_pylist() == [len(each) for each in chunks]
    plain = [zlib.compress(each, level) if new else b"" for each, new in zip(chunks, news, strict=True)]
    assert packed.to_pylist() == plain
    every = zip(size.to_pylist(), digest.to_pylist(), plain, strict=True)
    assert record.to_pylist() == [dedup_archive.record(*each) for each in every]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("chunks", [[], [b""], [b"", b"", b""]], ids=len)
@pytest.mark.parametrize("news", [False, True])
def test_columns_of_nothing(
    monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, chunks: list[bytes], news: bool
) -> None:
    column, is_new = pa.array(chunks, kind), pa.array([news] * len(chunks), pa.bool_())
    made = all_columns(6, column, is_new)
    assert [len(each) for each in made] == [len(chunks)] * 4
    assert made[2].to_pylist() == [zlib.compress(b"") if news else b""] * len(chunks)
    without_libraries(monkeypatch)
    assert made == all_columns(6, column, is_new)


@found
@pytest.mark.parametrize("way", WAYS)
def test_both_ways_make_the_same_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    dedup.generate(tmp_path, 500_000, 12)
    outside = archived(tmp_path, level=3, **WAYS[way])
    without_libraries(monkeypatch)
    assert archived(tmp_path, level=3, **WAYS[way]) == outside


def test_offsets_may_be_large() -> None:
    size, texts = 2**31 + 100, [b"far", b"", b"away from the start"]
    data = np.zeros(size, np.uint8)  # memory that is not touched is not taken
    data[-22:] = np.frombuffer(b"".join(texts), np.uint8)
    offsets = pa.py_buffer(np.array([size - 22, size - 19, size - 19, size]))
    column = pa.Array.from_buffers(pa.large_binary(), 3, [None, offsets, pa.py_buffer(data)])
    is_new = pa.array([True, True, False])
    assert all_columns(6, column, is_new) == all_columns(6, pa.array(texts), is_new)
    large = dedup_outside._column(pa.py_buffer(data), np.array([0, size - 22, size]))
    assert large.type == pa.large_binary() and large[1].as_py() == b"".join(texts)


def test_a_library_is_taken_only_where_it_packs_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zlib, "ZLIB_RUNTIME_VERSION", "0.9 of another house")
    assert dedup_outside.libz.__wrapped__() is None
    monkeypatch.undo()
    for libraries in ([], [ctypes.CDLL(ctypes.util.find_library("m"))]):
        monkeypatch.setattr(dedup_outside, "_libraries", lambda module, name, given=libraries: iter(given))
        assert dedup_outside.libz.__wrapped__() is dedup_outside.libcrypto.__wrapped__() is None


@found
def test_a_digest_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a digest must have 32 bytes"):
        dedup_outside.records(pa.array([1]), pa.array([b"short"]), pa.array([b""]))


# Chunks


def test_sizes_are_as_asked_for(tmp_path: Path) -> None:
    dedup.generate(tmp_path, 3_000_000, 7, duplicates=0.0)
    sizes = kinds(tmp_path, smallest=1000, mean=3000, largest=9000)[:, 1]
    assert sizes.sum() == 3_000_000 and sizes.max() <= 9000
    assert np.mean(sizes < 1000) < 0.1  # only the last of a coarse block may be smaller
    assert 2200 < sizes.mean() < 3800


def test_what_is_inserted_moves_no_other_chunk(tmp_path: Path) -> None:
    dedup.generate(tmp_path, 2_000_000, 8, duplicates=0.0)
    file = tmp_path / "data.bin"
    text = file.read_bytes()
    file.write_bytes(text + b"x" + text)
    assert len(archived(file)) < 1.1 * len(text)


def test_pieces_meet_where_both_find_the_border() -> None:
    text = np.random.default_rng(1).integers(0, 256, 300_000, np.uint8)
    middle = 150_000
    before, behind = text[: middle + dedup.AHEAD], text[middle - dedup.WINDOW :]
    first = b"".join(bytes(part) for part in dedup.fragments(before, 0, middle))
    assert first + b"".join(bytes(p) for p in dedup.fragments(behind, dedup.WINDOW, len(behind))) == text.tobytes()


@pytest.mark.parametrize("duplicates", [0.2, 0.8])
def test_data_has_the_share_of_duplicates_asked_for(tmp_path: Path, duplicates: float) -> None:
    dedup.generate(tmp_path / "a", 4_000_000, 9, duplicates=duplicates)
    found = kinds(tmp_path / "a")
    assert abs(found[found[:, 0] == 0, 1].sum() / 4_000_000 - duplicates) < 0.1
    dedup.generate(tmp_path / "b", 4_000_000, 9, duplicates=duplicates)
    assert (tmp_path / "a/data.bin").read_bytes() == (tmp_path / "b/data.bin").read_bytes()


# Archives that are none


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("small")
    text = 20 * bytes(range(250))
    (folder / "data").write_bytes(text + text)
    archive = archived(folder / "data", sizes={"smallest": 300, "mean": 600, "largest": 1200})
    assert len(archive) < 5000 and restored(archive) == text + text
    return archive


def test_every_cut_is_told(small: bytes) -> None:
    for size in range(len(small)):
        with pytest.raises(ps.DataError, match="it was cut short"):
            restored(small[:size])


def test_every_damage_is_told(small: bytes) -> None:
    for at in range(len(small)):
        with pytest.raises(ps.DataError):
            restored(small[:at] + bytes([small[at] ^ 0x20]) + small[at + 1 :])


def test_what_else_is_wrong_with_an_archive(small: bytes) -> None:
    with pytest.raises(ps.DataError, match="it goes on: something was added"):
        restored(small + b"x")
    with pytest.raises(ps.DataError, match="'given' must be an archive of dedup; it begins with b'just som'"):
        restored(b"just some other text")
    with pytest.raises(ps.DataError, match="must have the version 1; it has 2"):
        restored(small[:8] + b"\0\2" + small[10:])
    head, record = small[: dedup_archive.HEAD.size], dedup_archive.record
    with pytest.raises(ps.DataError, match="a known chunk must stand before its record"):
        restored(head + record(10, bytes(32), b""))
    with pytest.raises(ps.DataError, match="a chunk must unpack"):
        restored(head + record(10, bytes(32), b"no zlib"))


def test_a_file_is_restored_whole_or_not_at_all(tmp_path: Path, small: bytes) -> None:
    archive, output = tmp_path / "archive", tmp_path / "output"
    archive.write_bytes(small[:-30])
    with pytest.raises(ps.DataError, match=r"archive '.*', byte [\d,]+: .* cut short; make the archive again"):
        dedup.restore(archive, output)
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]
    archive.write_bytes(small)
    assert dedup.restore(archive, output) == 10_000 == output.stat().st_size
    with pytest.raises(ps.OutputError, match="must not be there yet"):
        dedup.restore(archive, output)
    assert dedup.restore(archive, output, overwrite=True) == 10_000
    with pytest.raises(ps.OutputError, match="must be in a folder that can be written"):
        dedup.restore(archive, tmp_path / "absent" / "output")


# Settings that cannot be


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"text")
    for sizes in ({"smallest": 10}, {"mean": 1000}, {"largest": 4096}, {"largest": 1 << 20}):
        with pytest.raises(ps.GraphError, match="sizes must go up, 256 <= smallest < mean < largest <= 131072; got"):
            dedup.read(tmp_path, **sizes)
    for level in (0, 10):
        with pytest.raises(ps.GraphError, match="level must be a whole number from 1 to 9"):
            dedup.build(dedup.read(tmp_path), level=level)
    with pytest.raises(ps.DataError, match="there is no such path"):
        dedup.read(tmp_path / "absent")
    with pytest.raises(ps.DataError, match=r"below 1; got 10, 1\.0"):
        dedup.generate(tmp_path, 10, duplicates=1.0)
