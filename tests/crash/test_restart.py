"""Streams that start again by themselves when something was lost, and what the handle tells when they do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.points import RESTART_POINTS, SEND_POINTS
from tests.crash.process import PATIENCE_S
from tests.crash.trial import ROOT, Trial


def test_the_handle_of_a_stream_whose_java_is_lost_with_and_without_a_restart(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.crash.lost", str(tmp_path)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_restarted_stream_writes_every_row_once(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "regions")
    trial.put(2)
    with trial.start(restart=True) as query:
        trial.wait_until_consumed(query)
        trial.put(2)
        trial.send()
        trial.kill_java(query)
        trial.put(1)
        trial.wait_until_consumed(query)
    trial.finish()
    trial.check(at_least=50)


@pytest.mark.long
def test_a_stream_killed_while_it_restarts_and_while_it_sends(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "regions")
    for name in RESTART_POINTS:
        trial.kill_in_restart(name)
    for name in SEND_POINTS:
        trial.kill_in_send(name)
    trial.finish()
    trial.check()
