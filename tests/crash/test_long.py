"""Many kills, for `make test-long`: each graph at every point, in every task, and at random moments, in random order.

PENSTOCK_LONG_TRIALS says how many such trials of each graph there are: four, if it does not. One has 17 to 21 kills,
workers and Java processes included, so that all tests of this folder make more than 200.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.crash.graphs import GRAPHS
from tests.crash.points import LETTER_POINTS, POINTS, RESTART_POINTS, SEND_POINTS
from tests.crash.trial import Trial

TRIALS = int(os.environ.get("PENSTOCK_LONG_TRIALS") or 4)
RANDOM_MOMENTS = 3


@pytest.mark.long
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("seed", range(TRIALS))
def test_many_kills(tmp_path: Path, graph: str, seed: int) -> None:
    trial = Trial(tmp_path, graph, seed)
    for kill in kills(trial):
        kill()
    trial.finish()
    trial.check()


def kills(trial: Trial) -> list[Callable[[], None]]:
    # In the middle of the moves is only the first of them: there are two parts at most.
    points = [*POINTS, *(LETTER_POINTS if trial.graph.failures else ())]
    times = {name: 1 if name == "some moved" else trial.random.choice([1, 2]) for name in points}
    found: list[Callable[[], None]] = [partial(trial.kill_at, name, at) for name, at in times.items()]
    found += [partial(trial.kill_in_task, place) for place in trial.graph.places]
    found += [trial.kill_at_random] * RANDOM_MOMENTS
    found += [partial(trial.kill_in_restart, name) for name in RESTART_POINTS]
    trial.random.shuffle(found)
    if trial.graph.has_signals:  # not first: a signal is sent to a stream that was started
        found += [partial(trial.kill_in_send, name) for name in SEND_POINTS]
    return found
