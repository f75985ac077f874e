from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click import Command
from click.testing import CliRunner, Result

from examples import jpeg_picture
from examples.restore import restore
from penstock.cli import commands

REAL = Path(commands.__file__)


def penstock(*arguments: object, code: int = 0) -> Result:
    return invoked(commands.commands, *arguments, code=code)


def restored(*arguments: object, code: int = 0) -> Result:
    return invoked(restore, *arguments, code=code)


def invoked(command: Command, *arguments: object, code: int) -> Result:
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def test_a_file_is_archived_and_restored(tmp_path: Path) -> None:
    text = penstock("run", "examples.dedup", REAL, "-o", tmp_path / "archive").stdout
    assert f"examples.dedup  {REAL} → " in text and f"written to {tmp_path / 'archive'}" in text
    text = restored(tmp_path / "archive", "-o", tmp_path / "back").stdout
    assert f" → {REAL.stat().st_size:,} bytes, written to " in text
    assert (tmp_path / "back").read_bytes() == REAL.read_bytes()
    refused = restored(tmp_path / "archive", "-o", tmp_path / "back", code=1)
    assert "must not be there yet; it is; overwrite it" in refused.stderr
    restored(tmp_path / "archive", "-o", tmp_path / "back", "--overwrite")


def test_a_cut_archive_is_one_message(tmp_path: Path) -> None:
    penstock("run", "examples.dedup", "--input", REAL, "--output", tmp_path / "archive")
    (tmp_path / "archive").write_bytes((tmp_path / "archive").read_bytes()[:-1])
    refused = restored(tmp_path / "archive", "-o", tmp_path / "back", code=1)
    assert refused.stderr.startswith("Error: dedup: archive ") and "it was cut short" in refused.stderr
    assert refused.stderr.count("\n") == 1 and not (tmp_path / "back").exists()


def test_settings_go_where_they_belong(tmp_path: Path) -> None:
    key = ("--set", "key=0123456789abcdef")
    penstock("run", "examples.des", REAL, "-o", tmp_path / "cipher", *key)
    penstock("run", "examples.des", tmp_path / "cipher", "-o", tmp_path / "plain", *key, "--set", "decrypt=true")
    assert (tmp_path / "plain").read_bytes() == REAL.read_bytes()
    refused = penstock(
        "run", "examples.des", tmp_path / "cipher", "-o", tmp_path / "x", "--set", "decrypt=true", code=1
    )
    assert "the key is another" in refused.stderr and not (tmp_path / "x").exists()


def test_a_picture_is_encoded_with_a_note(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    grey = jpeg_picture.drawn(50, 30, 1)
    image.fromarray(np.stack([grey, grey, grey], 2)).save(tmp_path / "in.png")
    text = penstock(
        "run", "examples.jpeg", tmp_path / "in.png", "-o", tmp_path / "out.jpg", "--set", "quality=90"
    ).stdout
    assert "is not greyscale of 8 bits (its mode is RGB); it was converted" in text
    with image.open(tmp_path / "out.jpg") as made:
        assert made.size == (50, 30) and made.mode == "L"
    refused = penstock("run", "examples.jpeg", REAL, "-o", tmp_path / "no.jpg", code=1)
    assert "must be a picture" in refused.stderr and not (tmp_path / "no.jpg").exists()


@pytest.mark.parametrize("name", ["examples.dedup", "examples.des", "examples.jpeg"])
def test_data_is_made_where_none_is_given(name: str) -> None:
    text = penstock("run", name, "--size", 3000, "--seed", 2, "--unfused", "--statistics").stdout
    assert f"{name}  3,000 " in text and "bytes in" in text and "written" not in text
    assert "map" in text and "occupancy" in text


def test_what_does_not_fit(tmp_path: Path) -> None:
    for arguments, message in (
        (("--spark", "local[1]"), "makes one file in order, and does so here; leave out --spark"),
        (("--format", "csv"), "makes a file of its own form; leave out --format"),
        (("-o", tmp_path), "the output must be a file"),
        (("-o", REAL), "must not be there yet"),
        (("-o", tmp_path / "absent" / "x"), "must be in a folder that can be written"),
        (("--set", "level=11"), "level must be a whole number from 1 to 9; got 11"),
        (("--checkpoint", tmp_path / "c", "--stream", tmp_path), "makes one file of another, and no stream"),
    ):
        given = () if "--stream" in arguments else (REAL,)
        assert message in penstock("run", "examples.dedup", *given, *arguments, code=1).stderr
    assert "INPUT and --input are the same" in penstock("run", "examples.dedup", REAL, "--input", REAL, code=2).stderr
    assert not list(tmp_path.iterdir())
