"""Compiled code on disk: found by the next process, safe for two at once, and never a stale answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import numba
import penstock as ps

SCALE = int(sys.argv[1])

def helper(v):
    return v * SCALE

class Total(ps.State):
    sum: int

def running(v, state):
    state.sum += helper(v)
    return state.sum

compiled = []
original = numba.core.compiler.compile_extra
def watched(*arguments, **options):
    compiled.append(arguments[2])
    return original(*arguments, **options)
numba.core.compiler.compile_extra = watched

stream = ps.from_items([{"k": k, "v": k + 1} for k in (0, 1, 0)]).key_by("k").map(sum=running, state=Total)
print(stream.collect()["sum"].to_pylist(), len(compiled))
"""


def run(folder: Path, *arguments: str, check: bool = True) -> str:
    environment = os.environ | {"PENSTOCK_CACHE_DIR": str(folder)}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


def test_a_second_process_compiles_nothing_and_a_changed_value_gives_its_own_answer(tmp_path: Path) -> None:
    first = run(tmp_path, "10")
    assert first.startswith("[10, 20, 20]") and not first.endswith(" 0")
    assert run(tmp_path, "10") == "[10, 20, 20] 0"
    assert run(tmp_path, "3").startswith("[3, 6, 6]")
    assert run(tmp_path, "10") == "[10, 20, 20] 0"


def test_two_processes_at_once_on_an_empty_cache(tmp_path: Path) -> None:
    environment = os.environ | {"PENSTOCK_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, "7"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    assert [process.communicate()[0].split("]")[0] for process in both] == ["[7, 14, 14"] * 2
    assert run(tmp_path, "7") == "[7, 14, 14] 0"
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("damage", [b"", b"damaged"])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    expected = run(tmp_path, "5").split("]")[0]
    for path in tmp_path.rglob("*"):
        if path.suffix in (".nbi", ".nbc", ".json"):
            path.write_bytes(damage)
    assert run(tmp_path, "5").split("]")[0] == expected
    assert run(tmp_path, "5") == "[5, 10, 10] 0"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert run(blocked / "cache", "2").startswith("[2, 4, 4]")


def test_a_value_that_changes_between_building_and_running(tmp_path: Path) -> None:
    program = """
import sys
import penstock as ps
k = int(sys.argv[1])
def f(v):
    return v + k
stream = ps.from_items([{"v": 1}]).map(w=f)
k = int(sys.argv[2])
print(stream.collect()["w"].to_pylist(), stream.collect(compile=False)["w"].to_pylist())
"""
    environment = os.environ | {"PENSTOCK_CACHE_DIR": str(tmp_path)}
    for built, later in ((10, 30), (30, 30), (10, 30)):
        command = [sys.executable, "-c", program, str(built), str(later)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.strip() == f"[{built + 1}] [{built + 1}]"


ONE_NAME = """
import sys
import numpy as np
import penstock as ps

def made(count):
    def mixed(v):
        x = np.empty(count)
        for at in range(count):
            x[at] = v * count + at
        for at in range(count - 1):
            if x[at] > 1e300:
                raise ValueError("too large")
            x[at + 1] += x[at] % (count + 1)
        total = 0.0
        for at in range(count):
            total += x[at] * (at % 3)
        return total

    return mixed

for count in map(int, sys.argv[1:]):
    found = ps.from_numpy({"v": np.arange(4.0)}).map(w=made(count)).collect(spark=False)["w"].to_pylist()
    assert found == [made(count)(float(v)) for v in range(4)], (count, found)
"""


def test_functions_of_one_name_from_several_processes_are_told_apart(tmp_path: Path) -> None:
    """Loops that two processes have kept, and a third one loads both, each with a function of the same name in it."""
    program = tmp_path / "one_name.py"
    program.write_text(ONE_NAME)
    environment = os.environ | {"PENSTOCK_CACHE_DIR": str(tmp_path / "cache")}
    for counts in (["5"], ["9"], ["5", "9"]):
        command = [sys.executable, str(program), *counts]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
