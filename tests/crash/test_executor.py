"""A stream on a cluster whose executors are killed, one where it reads and one where it writes state."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests.cluster.standalone import SETTINGS, running
from tests.crash.driver import Order
from tests.crash.graphs import BEHIND, FIRST, marker
from tests.crash.tally import TALLY
from tests.crash.trial import ROOT, Trial

CODE = """
import json, sys
import penstock as ps
from tests.crash.driver import Order, main

for _ in range(5):
    try:
        main(Order(**json.loads(sys.argv[2])))
        break
    except ps.JobError as error:  # Spark may give a query up when it loses executors: then it is started again
        print(error)
"""


def test_executors_die(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "spikes")
    trial.put(1)
    with running(tmp_path) as cluster:
        settings = SETTINGS | {"spark.executorEnv.PYTHONPATH": str(ROOT)}
        order = Order(str(tmp_path), "spikes", master=cluster.url, settings=settings)
        with cluster.drive(CODE, json.dumps(asdict(order)), PYTHONPATH=str(ROOT)) as driver:
            trial.wait_until_consumed(driver.process)
            for place in (FIRST, BEHIND):
                marker(tmp_path, place).write_text("executor")
                trial.put(1)
                trial.wait_until_consumed(driver.process)
                assert not marker(tmp_path, place).exists()
                TALLY.kills += 1
    trial.check(at_least=50)
