"""What we set in Spark: for a session of our own, for the jobs beside a user's, and what hurts in a user's."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import HIDE_VALUES, SessionError, SettingWarning, hides_values
from penstock.kernels.private import is_guarded_folder

if TYPE_CHECKING:
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
QUIET_LOG = Path(__file__).with_name("log4j2.properties")
PYTHON = "spark.executorEnv.PYSPARK_PYTHON"

# Of a session of our own, wherever it runs.
OURS = {
    "spark.app.name": "penstock",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.shuffle.compress": "false",  # blocks cross a shuffle a quarter faster as they are
    "spark.shuffle.spill.compress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.python.daemon.module": "penstock.spark.worker.daemon",
    # Spark looks up the files of a micro-batch in tasks, where they are more than 32: by default in one for each file.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}

# For `settings=`: the JVM spends about 40 % less on its start, and moves blocks as fast as without. Spark's own
# operators take twice as long, so this is for a session that runs our jobs and little else, such as that of a command.
QUICK_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

ATTEMPTS = 4
"""How often a task is tried in an embedded session: as on a cluster, where Spark's own default is that."""

MOST_SOCKET_PATH = 107
_SOCKET_PREFIX = "penstock-"
_SOCKET_NAME = f"/.{uuid.UUID(int=0)}.sock"

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# Of the session beside a user's, for our jobs. These move few, large rows; Spark cuts what it hands to Python at the
# first of the two bounds that is reached.
#
# When a task is run again, as after the loss of an executor, Spark (since 4.2) compares what it sends with what it sent
# before. If that differs, and a task that took it is done, Spark gives the job up. Our rows always differ, in measured
# times and in names of new files, though their items do not.
BLOCKS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
}

# Of a session for a running stream.
STREAMS = {
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",  # a batch writes what it changed
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # rows of a DataFrame may be among them
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}

# The same, where the user has not set them. Spark keeps 100 versions of the state, each with all that its batch wrote.
# A start needs the last; with ten there is an older snapshot behind its own.
STREAMS_UNLESS_SET = {"spark.sql.streaming.minBatchesToRetain": "10"}

# Spark's usual way to write small files forks a process for each, on a filesystem like this: some 40 ms, several times
# in a micro-batch. This one renames as well.
LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}

# There it costs next to nothing to look for old versions of the state, and a stream may run some hundred batches in the
# minute that Spark waits otherwise. Spark takes this from the first stream of a process.
LOCAL_UNLESS_SET = {"spark.sql.streaming.stateStore.maintenanceInterval": "10s"}

# Settings of the user's that our jobs share.
INHERITED = ("spark.sql.adaptive.enabled", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions")


def session_settings(
    master: str | None, cores: int | None, memory: str, quiet: bool, over: Mapping[str, Any]
) -> dict[str, str]:
    """The settings of a new session."""
    where = _master(master, cores)
    found = OURS | {"spark.master": where, PYTHON: sys.executable} | sockets(is_local(where))
    if is_local(where):
        found |= LOOPBACK | {"spark.driver.memory": memory}
    else:
        # The workers may keep their Python elsewhere.
        found |= {"spark.executor.memory": memory, PYTHON: os.environ.get("PYSPARK_PYTHON", sys.executable)}
        if cores is not None:
            found |= {"spark.cores.max": str(cores)}
    if hides_values():
        found |= {f"spark.executorEnv.{HIDE_VALUES}": "1"}
    found |= {key: str(value) for key, value in over.items()}
    if quiet:
        options = (f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()}", found.get("spark.driver.extraJavaOptions", ""))
        found |= {"spark.driver.extraJavaOptions": " ".join(options).strip()}
    return found


def sockets(local: bool) -> dict[str, str]:
    """Workers are spoken to by sockets of the filesystem: over TCP a short message may wait 40 ms for the one before.

    Spark asks for no secret there: whoever can open the socket is believed. So they are in a folder that only this user
    can enter. On a cluster no such folder is known that all executors have; there Spark's own way is taken, TCP with a
    secret.
    """
    folder = _socket_folder() if local and hasattr(socket, "AF_UNIX") else None
    if folder is None:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


_socket_folders: dict[int, str] = {}
"""The folder for sockets, by process: a fork is not to use, or remove, that of its parent."""


def _socket_folder() -> str | None:
    """A new private folder with a short name; the same one for all sessions of a process."""
    process = os.getpid()
    if process not in _socket_folders:
        for parent in (tempfile.gettempdir(), "/tmp"):
            is_short = len(os.fsencode(f"{parent}/{_SOCKET_PREFIX}{'x' * 8}{_SOCKET_NAME}")) <= MOST_SOCKET_PATH
            if is_short and os.access(parent, os.W_OK | os.X_OK) and is_guarded_folder(Path(parent)):
                _socket_folders[process] = tempfile.mkdtemp(prefix=_SOCKET_PREFIX, dir=parent)
                atexit.register(_remove, _socket_folders[process], process)
                break
    return _socket_folders.get(process)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def is_local(master: str) -> bool:
    """Whether the tasks run beside the driver, and share its Python and its network.

    >>> is_local("local[*]"), is_local("spark://host:7077"), is_local("local-cluster[2,1,1024]")
    (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def _master(master: str | None, cores: int | None) -> str:
    if cores is not None and (not isinstance(cores, int) or cores < 1):
        raise SessionError(f"session: cores must be a whole number of at least 1; got {cores!r}")
    if master is None:
        return f"local[{'*' if cores is None else cores},{ATTEMPTS}]"
    if is_local(master) and cores is not None:
        raise SessionError(
            f"session: master and cores must not both say how many cores; got master={master!r} and cores={cores}; "
            "leave one out"
        )
    return master


# What hurts in a session of the user's

_told: set[str] = set()  # the contexts, by Spark's name for them, whose settings were looked at


def trust(context: SparkContext) -> None:
    """Never warn about a context: we have made it."""
    _told.add(str(context.applicationId))


def warn(spark: SparkSession, master: str | None, cores: int | None, over: Mapping[str, Any] | None) -> None:
    """Warn about each setting of a session in use that will hurt, once for each Spark; and of arguments not heeded."""
    context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsparkSession") else None
    if over or cores is not None or (master is not None and (context is None or context.master != master)):
        _tell(
            "master=, cores= and settings= are for a new session, and one is active; stop it first, or leave them out"
        )
    if context is None or context.applicationId in _told:
        return
    trust(context)
    for message in faults(context):
        _tell(message)


def _tell(message: str) -> None:
    warnings.warn(f"session: {message}", SettingWarning, stacklevel=4)


def faults(context: SparkContext) -> Iterator[str]:
    """What will hurt in the settings of a Spark, each with what to set."""
    get: Callable[..., str] = context.getConf().get
    jvm: Any = context._jvm
    local = is_local(str(context.master))
    if local and not is_this_python(context.pythonExec):
        yield (
            f"the tasks must run the Python of this process, {sys.executable}; they run {context.pythonExec!r}, which "
            "may lack Penstock; set the environment variable PYSPARK_PYTHON to sys.executable before Spark starts"
        )
    if get("spark.python.worker.reuse", "true").lower() == "false":
        yield "every task starts a Python of its own; set spark.python.worker.reuse to true"
    if local and get("spark.shuffle.compress", "true").lower() == "true":
        yield "compressing a shuffle costs a fifth of a keyed job on one machine; set spark.shuffle.compress to false"
    least = 256 << 20
    size = int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(get(_RESULT, "1g")))
    if 0 < size < least:
        yield f"results above {get(_RESULT)} cannot be collected; set {_RESULT} to 1g or more"


_RESULT = "spark.driver.maxResultSize"


def is_this_python(command: str) -> bool:
    """Whether a command runs this Python. Environments share a Python: its folder tells them apart, not its file."""
    found, ours = shutil.which(command), Path(sys.executable)
    return found is not None and Path(found).absolute().parent == ours.parent and Path(found).samefile(ours)
