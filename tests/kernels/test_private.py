"""Compiled code is kept only where no other user can put any: what others have planted does not run."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.kernels.cache import cache
from penstock.kernels.private import is_guarded_folder, is_own_file, private_folder, read_own

STRANGER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")

PROGRAM = """
import penstock as ps

class Total(ps.State):
    sum: int

def running(v, state):
    state.sum += v
    return state.sum

print(ps.from_items([{"v": v} for v in (1, 2)]).map(sum=running, state=Total).collect(spark=False)["sum"].to_pylist())
"""


class Planted:
    """Creates a file when it is unpickled, as Numba does with what it has kept."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> object:
        return Path.touch, (self.proof,)


def temporary_in(folder: Path) -> Path:
    """A folder for temporary files such as /tmp, below folders that others cannot write."""
    folder = folder / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    return temporary_in(tmp_path)


@pytest.fixture(scope="module")
def after_a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a run has kept its code."""
    temporary = temporary_in(tmp_path_factory.mktemp("run"))
    assert run(temporary) == "[1, 3]"
    return temporary / f"penstock-{os.geteuid()}"


@pytest.fixture
def kept(temporary: Path, after_a_run: Path) -> Path:
    """A copy of that folder where the next run looks for it."""
    return Path(shutil.copytree(after_a_run, temporary / after_a_run.name))


def run(temporary: Path, program: str = PROGRAM) -> str:
    """Run a program where the home cannot be written."""
    blocked = temporary.parent / "blocked"
    blocked.write_text("not a folder")
    places = {"XDG_CACHE_HOME": str(blocked / "cache"), "HOME": str(blocked), "TMPDIR": str(temporary)}
    environment = {name: value for name, value in os.environ.items() if name != "PENSTOCK_CACHE_DIR"} | places
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def plant(folder: Path, proof: Path) -> None:
    """Put code into all that Numba keeps in a folder."""
    kept = [path for path in folder.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert kept
    for path in kept:
        path.write_bytes(pickle.dumps(Planted(proof)))


def give_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


def test_without_a_home_code_is_kept_in_a_private_temporary_folder(kept: Path, tmp_path: Path) -> None:
    folders = [path for path in (kept, *kept.rglob("*")) if path.is_dir()]
    assert len(folders) >= 4 and {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    plant(kept, tmp_path / "ran")
    assert run(kept.parent) == "[1, 3]"
    assert (tmp_path / "ran").exists()  # so the tests below do show that planted code does not run


@needs_root
def test_code_in_a_folder_of_another_user_does_not_run(kept: Path, tmp_path: Path) -> None:
    plant(kept, tmp_path / "ran")
    give_away(kept)
    before = sorted(kept.rglob("*"))
    assert run(kept.parent) == "[1, 3]"
    assert not (tmp_path / "ran").exists()
    assert sorted(kept.rglob("*")) == before


def test_code_in_a_folder_behind_a_link_does_not_run(kept: Path, tmp_path: Path) -> None:
    plant(kept, tmp_path / "ran")
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert run(kept.parent) == "[1, 3]"
    assert not (tmp_path / "ran").exists()


@needs_root
def test_a_file_of_another_user_in_a_folder_of_ours_does_not_run(kept: Path, tmp_path: Path) -> None:
    plant(kept, tmp_path / "ran")
    for path in (kept / "loops" / "__pycache__").iterdir():
        os.chown(path, STRANGER, STRANGER)
    assert run(kept.parent) == "[1, 3]"
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_others_may_write_is_refused_and_one_that_they_may_read_is_closed(tmp_path: Path) -> None:
    open_, readable = tmp_path / "open", tmp_path / "readable"
    open_.mkdir()
    open_.chmod(0o777)
    readable.mkdir(0o755)
    assert private_folder(open_) is None
    assert private_folder(open_ / "within") is None
    assert private_folder(readable) == readable.resolve()
    assert readable.stat().st_mode & 0o777 == 0o700
    assert private_folder(tmp_path / "new" / "newer") is not None
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("new", "new/newer")} == {0o700}
    assert not is_guarded_folder(open_) and is_guarded_folder(readable)


@needs_root
def test_a_folder_below_one_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, STRANGER, STRANGER)
    assert private_folder(theirs / "penstock") is None
    assert not (theirs / "penstock").exists()
    (tmp_path / "link").symlink_to(theirs)
    assert private_folder(tmp_path / "link" / "penstock") is None


def test_a_file_is_ours_if_it_is_no_link_and_closed_to_others(tmp_path: Path) -> None:
    own, link, open_ = tmp_path / "own", tmp_path / "link", tmp_path / "open"
    own.write_text("text")
    link.symlink_to(own)
    open_.write_text("text")
    open_.chmod(0o666)
    assert [is_own_file(path) for path in (own, link, open_, tmp_path / "none")] == [True, False, False, False]
    assert [read_own(path) for path in (own, link, open_, tmp_path / "none")] == ["text", None, None, None]


def test_a_shared_cache_is_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(shared))
    kept = cache()
    assert kept is not None and kept.folder == shared
    path = kept.write("loops/a.py", "text")
    assert path is not None and path.stat().st_mode & 0o444 == 0o444 & ~_umask()
    assert kept.read("loops/a.py") == "text"


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before


def test_penstock_is_imported_where_neither_its_folder_nor_the_home_can_be_written(temporary: Path) -> None:
    refused = """
import numba.core.caching as c
for kind in (c.InTreeCacheLocator, c.UserWideCacheLocator):
    kind.get_cache_path = lambda self: "/dev/null/none"
"""
    assert run(temporary, refused + PROGRAM) == "[1, 3]"
    assert list((temporary / f"penstock-{os.geteuid()}" / "kernels").iterdir())
