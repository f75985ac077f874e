"""Which Spark can be used: the versions of PySpark, the kind of session, and the Python of its workers.

What cannot be used is refused where it is named, in one sentence, before it fails in the middle of a job.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from penstock.errors import SessionError
from penstock.spark.driver import spark_settings as s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = ("4.1", "4.2", "4.3")
"""The versions of PySpark on which the tests of batches, DataFrames, streams and a killed stream pass."""
PROBE = "import sys, numba, pandas, pyarrow, penstock.spark.worker.task; print(*sys.version_info[:2], sep='.')"
PROBE_S = 120


def require_pyspark() -> None:
    """Refuse to go on without a PySpark that can be used."""
    if importlib.util.find_spec("pyspark") is None:
        raise SessionError(
            "session: running on Spark needs the package pyspark, which is not installed; pip install 'penstock[spark]'"
        )
    import pyspark

    refuse_version(str(pyspark.__version__))


def refuse_version(version: str) -> None:
    """Refuse a PySpark of another version than those that can be used.

    >>> refuse_version("4.2.1")
    >>> refuse_version("3.5.9")
    Traceback (most recent call last):
    penstock.errors.SessionError: session: PySpark must be 4.1, 4.2 or 4.3; it is 3.5.9; pip install 'penstock[spark]'
    """
    if ".".join(version.split(".")[:2]) not in VERSIONS:
        known = f"{', '.join(VERSIONS[:-1])} or {VERSIONS[-1]}"
        raise SessionError(f"session: PySpark must be {known}; it is {version}; pip install 'penstock[spark]'")


def usable(spark: Any) -> SparkSession:
    """A session that jobs can run on, as it is; whatever else is refused. Nothing runs on it."""
    require_pyspark()
    refuse_connect("session", spark)
    if not hasattr(spark, "_jsparkSession"):
        raise SessionError(f"session: spark= must be a SparkSession, True or False; got {spark!r}")
    context = spark.sparkContext
    command = str(context.pythonExec)
    if s.is_local(str(context.master)) and not s.is_this_python(command):
        refuse_python(command)
    return cast("SparkSession", spark)


def refuse_connect(where: str, thing: Any) -> None:
    """Refuse a session or a DataFrame of Spark Connect."""
    if "pyspark.sql.connect" in type(thing).__module__:
        raise SessionError(
            f"{where}: a session must have its driver in this process, because a graph needs its context; got one of "
            f"Spark Connect; make one with SparkSession.builder.master(...), or let penstock.spark.session() make it"
        )


def refuse_python(command: str) -> None:
    """Refuse a Python of workers that has another version than this one, or lacks what tasks need."""
    reason = _lacking(command)
    if reason is not None:
        raise SessionError(
            f"session: the workers must run a Python {_version()} that has Penstock, as {sys.executable} does; they "
            f"run {command!r}, where {reason}; set the environment variable PYSPARK_PYTHON to sys.executable before "
            f"Spark starts"
        )


@cache
def _lacking(command: str) -> str | None:
    """What a Python lacks, or None; it is asked once. On a cluster it may lie on other machines, and is not asked."""
    try:
        ran = subprocess.run([command, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it did not start ({type(error).__name__})"
    if ran.returncode:
        return (ran.stderr.strip().splitlines() or ["it failed"])[-1]
    found = ran.stdout.strip()
    return None if found == _version() else f"the version is {found}"


def _version() -> str:
    return ".".join(map(str, sys.version_info[:2]))
