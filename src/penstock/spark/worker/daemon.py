"""The parent of Spark's Python workers, which has imported already what every task needs.

Spark forks a worker from this process for each task slot. Whatever was imported before the fork costs a worker nothing;
without it every worker spends a second or more on imports before its first item.

Invariant: at the fork this process has one thread. Importing starts none: Arrow starts its pools at their first use,
Numba its threads at the first parallel loop, and Spark has told the linear algebra libraries to use one.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Callable
from typing import Any

import pyspark.daemon

MODULES = (
    "numba",
    "numpy",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.fs",
    "pyarrow.json",
    "pyarrow.parquet",
    "pyspark.worker",
    "penstock.engine.run",
    "penstock.spark.files.part",
    "penstock.spark.worker.task",
)


def warm() -> None:
    """Import what tasks use.

    A module that is not there is left to the task that needs it, whose error reaches the user; one from here would not.
    """
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a worker's collector then leaves these objects alone, and their memory stays shared


def quiet(worker: Callable[..., int]) -> Callable[..., int]:
    """The same worker, which ends without a word when Spark hangs up on it, as it does when a job is cancelled."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (ConnectionError, EOFError):
            return 1

    return run


if __name__ == "__main__":
    warm()
    pyspark.daemon.worker = quiet(pyspark.daemon.worker)
    pyspark.daemon.manager()
