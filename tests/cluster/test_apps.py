"""The applications on a cluster of two workers, of which one dies in mid-run: the files are those of a quiet run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.cluster.standalone import SETTINGS, Cluster, until

import penstock as ps
from penstock.examples import spike_detection, taxi

BEGIN = f"""
import sys
from pathlib import Path

import pyarrow as pa

import penstock as ps
import penstock.spark
from penstock.examples import spike_detection, taxi

# What a dead worker held is asked for again and again before Spark gives it up: not for long.
settings = {SETTINGS} | {{"spark.shuffle.io.retryWait": "1s", "spark.shuffle.io.maxRetries": "1"}}
spark = penstock.spark.session(sys.argv[1], memory="512m", settings=settings)
folder = Path(sys.argv[2])
"""

GATE = '''
def gate(name, first):
    """Behind this, tasks from number `first` on say that they have begun, and wait until they may go on."""

    def wait(column):
        import os, time
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is not None and task.partitionId() >= first and not os.path.exists(f"{folder}/{name}-go"):
            open(f"{folder}/{name}-{os.getpid()}", "w").close()
            while not os.path.exists(f"{folder}/{name}-go"):
                time.sleep(0.01)
        return column

    return wait


def write(stream, name, **options):
    written = stream.write_parquet(folder / f"{name}-out", spark, ordered=True, **options)
    print(name, written.rows, len(written.files), flush=True)
'''

APPS = """
# In the stage over splits, when some of them are done and their parts are written.
lines = taxi.read(folder / "taxi").map_columns(lambda line, at=gate("taxi", 4): at(line), to={"line": str})
write(taxi.build(lines), "taxi", split_bytes=50_000)
sys.stdin.readline()

# In the stage behind the shuffle: with the worker goes what the tasks before have left there for the others.
found = spike_detection.build(folder / "spikes")
held = found.map_columns(lambda value, at=gate("spikes", 0): at(value), to={"value": float})
write(held, "spikes", split_bytes=100_000, buckets=2)
"""


def test_a_worker_dies_in_mid_run(cluster: Cluster, tmp_path: Path) -> None:
    taxi.generate(tmp_path / "taxi", 400)
    spike_detection.generate(tmp_path / "spikes", 20_000, devices=20, files=3)
    with cluster.drive(BEGIN + GATE + APPS, str(tmp_path)) as driver:
        for name in ("taxi", "spikes"):
            begun = until(lambda name=name: workers(tmp_path, name), f"two tasks of {name} to begin", driver.process)  # type: ignore[misc]
            cluster.kill_worker(cluster.worker_of(begun[0]))
            (tmp_path / f"{name}-go").touch()
            said, rows, files = driver.line().split()
            assert (said, int(rows)) == (name, wanted(tmp_path, name).num_rows)
            written = sorted((tmp_path / f"{name}-out").iterdir())
            assert len(written) == int(files)
            assert pa.concat_tables(pq.read_table(path) for path in written).equals(wanted(tmp_path, name))
            if name == "taxi":
                assert len(written) > 4
                cluster.add_worker()
                until(lambda: len(cluster.alive()) == 2, "the new worker to register", cluster.workers[-1])
                assert driver.process.popen.stdin is not None
                driver.process.popen.stdin.write(b"\n")
                driver.process.popen.stdin.flush()
        driver.finish()
    assert sorted(path.name for path in tmp_path.iterdir() if "-out" in path.name) == ["spikes-out", "taxi-out"]


def workers(folder: Path, name: str) -> list[int] | None:
    """The Python workers in which tasks wait, once there are two."""
    found = [path.name.partition("-")[2] for path in folder.glob(f"{name}-*")]
    begun = [int(pid) for pid in found if pid.isdigit()]
    return begun if len(begun) == 2 else None


def wanted(folder: Path, name: str) -> pa.Table:
    """The result of one thread."""
    stream = {
        "taxi": lambda: taxi.build(taxi.read(folder / "taxi")),
        "spikes": lambda: spike_detection.build(folder / "spikes"),
    }[name]()
    assert isinstance(stream, ps.Stream)
    return stream.collect(spark=False)
