"""The protocol of joins by index, written in Promela and checked by spin: a second opinion on `test_explore.py`.

scripts/spin.sh installs spin and a C compiler where they are missing and may be installed.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.protocol.explore import is_safe

pytestmark = pytest.mark.long

MODEL = Path(__file__).with_name("diamond.pml")
INSTALL = Path(__file__).parents[2] / "scripts" / "spin.sh"
COMPILER = ("gcc", "-O2", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=4000", "-o", "pan", "pan.c")
DEPTH = 100_000
NAMES = ("UV", "VX", "UW", "WX")


@dataclass(frozen=True, slots=True)
class Case:
    """Capacities and intervals of the four edges, the capacity of all control queues, and how long it runs."""

    data: tuple[int, ...] = (2, 2, 2, 2)
    interval: tuple[int, ...] = (1, 1, 1, 1)
    control: int = 2
    indices: int = 4
    commons: int = 1

    def defines(self) -> list[str]:
        edges = [f"-DQ_{name}={q}" for name, q in zip(NAMES, self.data, strict=True)]
        edges += [f"-DH_{name}={h}" for name, h in zip(NAMES, self.interval, strict=True)]
        return [*edges, f"-DCONTROL={self.control}", f"-DINDICES={self.indices}", f"-DCOMMONS={self.commons}"]


ONES = Case((1, 1, 1, 1), (0, 0, 0, 0), control=1)
TWOS = Case()
MIXED = Case((2, 3, 1, 2), (1, 1, 0, 1))


@dataclass(frozen=True, slots=True)
class Checked:
    """What spin found: how many states there are, what is wrong (nothing, if empty), and how many statements of each
    process were never executed."""

    states: int
    wrong: str
    unreached: dict[str, int]


def run(command: Sequence[str | Path], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{command}:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def spin() -> None:
    """Have spin and a compiler; a failure says what to do."""
    run([INSTALL], MODEL.parent)


def check(case: Case, folder: Path, *faults: str) -> Checked:
    """Let spin write the checker of one case, compile it, and search all of it up to the first error."""
    run(["spin", "-a", *case.defines(), *faults, MODEL], folder)
    run(COMPILER, folder)
    said = run(["./pan", f"-m{DEPTH}", "-w22"], folder)
    assert "max search depth too small" not in said and "out of memory" not in said, said
    states, errors = re.search(r"(\d+) states, stored", said), re.search(r"errors: (\d+)", said)
    wrong = re.search(r"^pan:1: (.*) \(at depth", said, re.MULTILINE)
    assert states and errors and (errors[1] == "0") == (wrong is None), said
    unreached = re.findall(r"unreached in proctype (\w+)\n(?:.*\n)*?\t\((\d+) of", said)
    print(f"\n{case}, {faults}: {states[1]} states, {wrong[1] if wrong else 'right'}", end="")
    return Checked(int(states[1]), wrong[1] if wrong else "", {name: int(count) for name, count in unreached})


@pytest.mark.parametrize("case", [ONES, TWOS, MIXED, Case(commons=2)], ids=["ones", "twos", "mixed", "two messages"])
def test_nothing_stops_and_all_is_precise(case: Case, tmp_path: Path) -> None:
    assert is_safe(case.data, case.interval)
    found = check(case, tmp_path)
    assert found.wrong == ""
    assert found.states > 100_000


def test_all_of_the_model_is_executed(tmp_path: Path) -> None:
    """No branch of v, w and x is dead, so that nothing is right only because it never happens. (u sends a second
    message behind one index by a copy of the statements for the first, in which some cases cannot arise.)"""
    unreached = check(Case(commons=2, indices=3), tmp_path).unreached
    assert unreached.pop("u") > 0
    assert unreached == {"inner": 0, "x": 0}


@pytest.mark.parametrize(("case", "edge"), [(TWOS, "UV"), (TWOS, "VX"), (ONES, "UV"), (ONES, "VX"), (MIXED, "VX")])
def test_an_interval_too_large_by_one_is_found(case: Case, edge: str, tmp_path: Path) -> None:
    """For two edges of the diamond by itself, and for one (the last) because of its cycle only."""
    raised = tuple(h + (name == edge) for h, name in zip(case.interval, NAMES, strict=True))
    assert not is_safe(case.data, raised)
    assert check(case, tmp_path, f"-DRAISE_{edge}=1").wrong == "invalid end state"


@pytest.mark.parametrize("fault", ["NO_DUMMY", "NO_FLUSH"])
def test_a_heartbeat_not_sent_is_found(fault: str, tmp_path: Path) -> None:
    assert check(ONES, tmp_path, f"-D{fault}").wrong == "invalid end state"


@pytest.mark.parametrize("fault", ["NO_WAIT", "FIRST_SIDE"])
def test_a_wrong_join_is_found(fault: str, tmp_path: Path) -> None:
    assert check(TWOS, tmp_path, f"-D{fault}").wrong.startswith("assertion violated")
