"""A stream on a cluster whose executors are killed, one where it reads and one where it writes state."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.cluster.standalone import SETTINGS, Driver, running
from tests.crash.driver import Order
from tests.crash.graphs import BEHIND, FIRST, marker
from tests.crash.tally import TALLY
from tests.crash.trial import PATHS, Trial

CODE = """
import json, sys
from tests.crash.driver import Order, main

main(Order(**json.loads(sys.argv[2])))
"""


@contextlib.contextmanager
def driving(trial: Trial, workers: int) -> Iterator[Driver]:
    """The query of a trial on a cluster. It ends with the first error: a lost executor is none."""
    with running(trial.folder, workers) as cluster:
        settings = SETTINGS | {"spark.executorEnv.PYTHONPATH": PATHS}
        order = Order(str(trial.folder), trial.name, master=cluster.url, settings=settings)
        with cluster.drive(CODE, json.dumps(asdict(order)), PYTHONPATH=PATHS) as driver:
            yield driver


def kill_executor(trial: Trial, driver: Driver, place: str, partition: int | None = None) -> None:
    """Let a task kill its executor at a place, and the query go on without."""
    marker(trial.folder, place).write_text("executor" if partition is None else f"executor {partition}")
    trial.put(1)
    trial.wait_until_consumed(driver.process)
    assert not marker(trial.folder, place).exists()
    TALLY.kills += 1


def test_executors_die(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "spikes")
    trial.put(1)
    with driving(trial, workers=2) as driver:
        trial.wait_until_consumed(driver.process)
        for place in (FIRST, BEHIND):
            kill_executor(trial, driver, place)
    trial.check(at_least=50)


def test_an_executor_dies_when_another_task_of_its_stage_is_done(tmp_path: Path) -> None:
    """What the stage before has sent dies with it. It is sent again, with other times and names of files."""
    trial = Trial(tmp_path, "spikes")
    trial.put(2)
    with driving(trial, workers=1) as driver:
        trial.wait_until_consumed(driver.process)
        kill_executor(trial, driver, BEHIND, partition=1)  # one core has run that of 0 before
    trial.check(at_least=50)
