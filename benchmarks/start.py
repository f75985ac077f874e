"""How fast a run starts: `penstock run taxi` on a megabyte, against a PySpark job that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from benchmarks import files
from benchmarks.benchmark import Benchmark
from benchmarks.records import Case, Peer, Speeds, Target
from penstock.errors import DataError
from penstock.spark.driver.java import find_java

LINES = 740
"""About a megabyte."""
MOST_TIMES, MOST_SECONDS = 1.3, 2.0
EMPTY = """
import os, sys
from pyspark.sql import SparkSession
os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.range(1).count() == 1
spark.stop()
"""


def cases(scale: str) -> Iterator[Case]:
    path = files.lines(LINES, 1)
    run = ("-c", "from penstock.cli import main; main()", "run", "taxi", "--input", str(path))
    yield Case("1MB", (Peer("penstock", partial(done, *run), 1), Peer("empty", partial(done, "-c", EMPTY), 1)))


def done(*arguments: str) -> pa.Table:
    """Run a Python to its end. The first time, which is not measured, fills the cache of compiled code."""
    environment = os.environ | {"JAVA_HOME": str(find_java().home)}
    ended = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    if ended.returncode:
        raise DataError(
            f"bench: {' '.join(arguments[2:] or arguments)!r} must run; it ended with: {ended.stderr.strip()}"
        )
    return pa.table({"ended": [True]})


def allowed(best: Speeds) -> dict[str, float]:
    """The time that a run may take over the time that it takes."""
    empty, own = (1 / best[what, "1MB"] for what in ("empty", "penstock"))
    return {"penstock/empty@1MB": empty / own, "allowed/penstock@1MB": (MOST_TIMES * empty + MOST_SECONDS) / own}


BENCHMARK = Benchmark(
    name="start",
    about="from `penstock run taxi` to its result, on a megabyte, and an empty PySpark job",
    unit="",
    cases=cases,
    targets=(Target("allowed/penstock", 1.0),),
    ratios=allowed,
    cores=2,
    repeats={"tiny": 1, "small": 3},
)
