"""The cluster itself: both workers take part, and one of them dies in the middle of a job."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.standalone import SETTINGS, Cluster, until

BEGIN = f"""
import sys

import pyarrow as pa

import penstock.spark

spark = penstock.spark.session(sys.argv[1], memory="512m", settings={SETTINGS})
folder = sys.argv[2]
"""

SPREAD = """
def where(batches):
    import os
    yield pa.record_batch({"pid": [os.getpid()], "rows": [sum(batch.num_rows for batch in batches)]})

# Each task waits until the other has begun, so that no worker can take both.
def meet(batches):
    import os, time
    open(f"{folder}/begun-{os.getpid()}", "w").close()
    while len([name for name in os.listdir(folder) if name.startswith("begun-")]) < 2:
        time.sleep(0.01)
    yield from where(batches)

for row in spark.range(0, 1000, 1, 2).mapInArrow(meet, "pid long, rows long").collect():
    print(row.pid, row.rows)
print("done", flush=True)
sys.stdin.read()
"""

KILLED = """
def slow(batches):
    import os, time
    for batch in batches:
        first = batch.column(0)[0].as_py()
        try:
            open(f"{folder}/begun-{first}", "x").write(str(os.getpid()))
        except FileExistsError:
            pass  # a second attempt
        else:
            while not os.path.exists(f"{folder}/go"):
                time.sleep(0.01)
        yield batch

found = spark.range(0, 2000, 1, 2).mapInArrow(slow, "id long").selectExpr("sum(id) as total", "count(*) as n").first()
print(found.total, found.n)
"""


def test_both_workers_take_part(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.drive(BEGIN + SPREAD, str(tmp_path)) as driver:
        found = [driver.line().split() for _ in range(2)]
        assert sorted(int(rows) for _, rows in found) == [500, 500]
        assert {cluster.worker_of(int(pid)) for pid, _ in found} == {0, 1}


def test_a_worker_is_killed_in_mid_run(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.drive(BEGIN + KILLED, str(tmp_path)) as driver:
        begun = [tmp_path / "begun-0", tmp_path / "begun-1000"]
        until(lambda: all(path.exists() and path.read_text() for path in begun), "both tasks to begin", driver.process)
        cluster.kill_worker(cluster.worker_of(int(begun[1].read_text())))
        (tmp_path / "go").touch()
        assert driver.finish() == ["1999000 2000"]
    until(lambda: len(cluster.alive()) <= 1, "the master to miss the worker", cluster.master)
