"""Streams that are killed and started again: what they have written in the end is what one thread would have.

Each trial is one stream that is killed several times. A last start lets it consume what is left, while workers of
Python die.
"""

from __future__ import annotations

from pathlib import Path

from tests.crash.graphs import FIRST
from tests.crash.trial import Trial


def test_keyed_state(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "spikes")
    trial.kill_at("state written", at=2)
    trial.kill_at("planned")
    trial.finish()
    trial.check()


def test_dead_letters(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "letters")
    trial.kill_at("intent written", at=2)
    trial.kill_at("letters moved")
    trial.finish()
    trial.check()


def test_regions_of_items(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "taxi")
    trial.kill_in_task(FIRST)
    trial.kill_at("some moved")
    trial.finish()
    trial.check()


def test_regions_of_keys_and_live_signals(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "regions", seed=5)  # the random moment is three seconds after a batch was planned
    trial.kill_at("committed", at=2)
    trial.kill_at_random()
    trial.finish()
    trial.check()
    assert len(trial.sent) == 3
