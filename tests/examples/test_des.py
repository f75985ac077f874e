from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from examples import des, des_tables

WAYS: dict[str, dict[str, Any]] = {
    "fused": {},
    "unfused": {"fuse": False},
    "two cores": {"fuse": False, "cores": 2, "width": 500},
}
REAL = Path(des.__file__)

# key, plain text, cipher text: a worked example, and known answers of NBS special publication 500-20 for the initial
# permutation, the choice of the key's bits, the permutation behind the boxes, and the boxes.
VECTORS = [
    ("133457799BBCDFF1", "0123456789ABCDEF", "85E813540F0AB405"),
    ("0101010101010101", "8000000000000000", "95F8A5E5DD31D900"),
    ("0101010101010101", "95F8A5E5DD31D900", "8000000000000000"),
    ("8001010101010101", "0000000000000000", "95A8D72813DAA94D"),
    ("1046913489980131", "0000000000000000", "88D55E54F54C97B4"),
    ("7CA110454A1A6E57", "01A1D6D039776742", "690F5B0D9A26939B"),
    ("0131D9619DC1376E", "5CD54CA83DEF57DA", "7A389D10354BD271"),
    ("FFFFFFFFFFFFFFFF", "FFFFFFFFFFFFFFFF", "7359B2163E4EDC58"),
]


def made(path: Path, *, key: str = des.KEY, decrypt: bool = False, **options: Any) -> bytes:
    """The file that comes of a file."""
    run = des.build(des.read(path, key=key, decrypt=decrypt), decrypt=decrypt).prepare(**options)
    file = io.BytesIO()
    des.save(file, (first for (first,) in run.batches()), decrypt=decrypt)
    return file.getvalue()


def by_openssl(path: Path, key: str) -> bytes:
    """Triple DES with one key for all three, which is DES."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    command = ["openssl", "enc", "-des-ede3", "-nosalt", "-K", 3 * key, "-in", str(path)]
    return subprocess.run(command, check=True, capture_output=True).stdout


def signed(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)


@pytest.mark.parametrize("decrypt", [False, True], ids=["encrypt", "decrypt"])
def test_known_answers(decrypt: bool) -> None:
    keys, plain, cipher = ([vector[at] for vector in VECTORS] for at in range(3))
    given, wanted = (cipher, plain) if decrypt else (plain, cipher)
    columns = {"block": [signed(text) for text in given], "key": [des.key_bits(key) for key in keys]}
    stream = des.build(ps.from_arrow(pa.table(columns)), decrypt=decrypt)
    assert stream.collect()["block"].to_pylist() == [signed(text) for text in wanted]


@pytest.mark.parametrize(
    ("size", "seed", "key"), [(5, 1, "0123456789ABCDEF"), (1600, 2, des.KEY), (1_100_003, 3, "F" * 16)]
)
def test_files_are_those_of_openssl(tmp_path: Path, size: int, seed: int, key: str) -> None:
    des.generate(tmp_path, size, seed)
    text = tmp_path / "text.bin"
    assert text.stat().st_size == size
    found = made(tmp_path, key=key)
    assert found == by_openssl(text, key)
    (tmp_path / "cipher").write_bytes(found)
    assert made(tmp_path / "cipher", key=key, decrypt=True) == text.read_bytes()


@pytest.mark.parametrize("way", WAYS)
def test_a_real_file_in_every_way(tmp_path: Path, way: str) -> None:
    found = made(REAL, **WAYS[way])
    assert found == by_openssl(REAL, des.KEY)
    (tmp_path / "cipher").write_bytes(found)
    assert made(tmp_path / "cipher", decrypt=True, **WAYS[way]) == REAL.read_bytes()


def test_the_result_is_the_reference(tmp_path: Path) -> None:
    des.generate(tmp_path, 203, 4)
    stream = des.build(des.read(tmp_path))
    expected = des.reference(tmp_path)
    assert stream.collect().to_pylist() == expected and len(expected) == 26
    assert stream.collect(compile=False).to_pylist() == expected


def test_there_are_eighteen_filters_of_one_form(tmp_path: Path) -> None:
    des.generate(tmp_path, 4000)
    made = des.filters(des.read(tmp_path))
    assert list(made) == ["initial permutation", *(f"round {n}" for n in range(1, 17)), "final permutation"]
    run = made["final permutation"].prepare(fuse=False)
    run.collect()
    assert [node.items for node in run.statistics().nodes] == 18 * [501]


def test_an_empty_file_is_one_block(tmp_path: Path) -> None:
    des.generate(tmp_path, 0)
    found = made(tmp_path)
    assert len(found) == 8
    (tmp_path / "text.bin").write_bytes(found)
    assert made(tmp_path, decrypt=True) == b""


def test_the_tables_are_whole() -> None:
    for table, size in ((des_tables.INITIAL, 64), (des_tables.FINAL, 64), (des_tables.PERMUTATION, 32)):
        assert sorted(table) == list(range(1, size + 1))
    assert all(sorted(box[16 * row : 16 * row + 16]) == list(range(16)) for box in des_tables.BOXES for row in range(4))
    assert len(set(des_tables.KEY_BITS)) == 56 and not any(bit % 8 == 0 for bit in des_tables.KEY_BITS)
    assert len(set(des_tables.ROUND_KEY_BITS)) == 48 and sum(des_tables.SHIFTS) == 28


@pytest.mark.parametrize("key", ["", "0123", "G" * 16, "0x23456789ABCDEF"[:15]])
def test_a_key_that_is_none(tmp_path: Path, key: str) -> None:
    des.generate(tmp_path, 8)
    with pytest.raises(ps.GraphError, match="des: key must be 16 hexadecimal digits; got"):
        des.read(tmp_path, key=key)


def test_what_cannot_be_decrypted(tmp_path: Path) -> None:
    des.generate(tmp_path, 13)
    with pytest.raises(ps.DataError, match=r"must hold whole blocks of 8 bytes .* it has 13 bytes; was it cut short\?"):
        des.read(tmp_path, decrypt=True)
    (tmp_path / "text.bin").write_bytes(made(tmp_path))
    with pytest.raises(ps.DataError, match="the key is another, or the file is damaged"):
        made(tmp_path, key="0123456789ABCDEF", decrypt=True)
    with pytest.raises(ps.DataError, match="there is no such path"):
        des.read(tmp_path / "absent")
    (tmp_path / "second").write_bytes(b"")
    with pytest.raises(ps.DataError, match="a folder with one; it holds 2; name one"):
        des.read(tmp_path)
    with pytest.raises(ps.DataError, match="size must be at least 0"):
        des.generate(tmp_path, -1)
