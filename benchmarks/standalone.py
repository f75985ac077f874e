"""A real Spark cluster on this machine: a master and some workers, each a process, and drivers in processes too.

Nothing waits for a fixed time. The master's page, as JSON, tells which workers have registered and which executors run
where; waiting is asking it again until it says so, or until `PATIENCE_S` have passed, which is an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import pyspark

from penstock.errors import JobError, SessionError
from penstock.spark import QUICK_START
from penstock.spark.driver.java import find_java

PATIENCE_S = 120
WORKER_CORES = 1
WORKER_MEMORY = "1g"
JAVA = QUICK_START["spark.driver.extraJavaOptions"]
T = TypeVar("T")

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
}
"""For the session of a driver: `penstock.spark.session(url, memory="512m", settings=SETTINGS)`."""


@dataclass(frozen=True)
class Process:
    """A process that leads a group of its own, so that it is killed with all that it has started."""

    popen: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """At once, and with its children: no clean-up of theirs runs."""
        for pid in reversed([self.popen.pid, *descendants(self.popen.pid)]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.popen.wait()

    def said(self) -> str:
        return self.log.read_text(errors="replace")


class Cluster:
    """A running cluster. `url` is what a driver gives as its master."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.environment = _environment(folder)
        self.workers: list[Process] = []
        self.master = self._start("master", "master.Master", "--port", "0", "--webui-port", "0")
        try:
            self.url, self.page = self._addresses()
            for _ in range(workers):
                self.add_worker()
            self.wait_for_workers(workers)
        except BaseException:
            self.stop()
            raise

    def _start(self, name: str, role: str, *arguments: str) -> Process:
        log = self.folder / f"{name}.log"
        command = [f"{self.environment['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{role}"]
        with log.open("wb") as file:
            popen = subprocess.Popen(
                [*command, "--host", "127.0.0.1", *arguments],
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return Process(popen, log)

    def _addresses(self) -> tuple[str, str]:
        """The master's address and that of its page, which it has chosen itself and tells in its log."""

        def told() -> tuple[str, str] | None:
            said = self.master.said()
            url = re.search(r"Starting Spark master at (\S+)", said)
            port = re.search(r"'MasterUI' on port (\d+)", said)
            return (url[1], f"http://127.0.0.1:{port[1]}/json/") if url and port else None

        return until(told, "the master to start", self.master)

    def state(self) -> dict[str, Any]:
        """What the master knows of workers and applications."""
        with urllib.request.urlopen(self.page, timeout=PATIENCE_S) as answer:
            said = answer.read()
        if said.startswith(b"<"):  # it has just begun, and answers with its page for people
            return {"workers": [], "activeapps": []}
        found: dict[str, Any] = json.loads(said)
        return found

    def alive(self) -> list[dict[str, Any]]:
        """The workers that the master takes for alive."""
        return [worker for worker in self.state()["workers"] if worker["state"] == "ALIVE"]

    def add_worker(self) -> Process:
        """Start one more worker. It has registered when `wait_for_workers` says so."""
        at = len(self.workers)
        place = self.folder / f"worker-{at}"
        place.mkdir()
        size = ("--cores", str(WORKER_CORES), "--memory", WORKER_MEMORY)
        options = (*size, "--work-dir", str(place), "--webui-port", "0")
        self.workers.append(self._start(f"worker-{at}", "worker.Worker", *options, self.url))
        return self.workers[-1]

    def wait_for_workers(self, count: int) -> None:
        until(lambda: len(self.alive()) == count, f"{count} workers to register", *self.workers)

    def worker_of(self, pid: int) -> int:
        """The number of the worker under which a process runs: an executor, or a Python worker of one."""
        for at, worker in enumerate(self.workers):
            if pid in descendants(worker.popen.pid):
                return at
        raise LookupError(f"process {pid} runs under no worker")

    def kill_worker(self, at: int) -> None:
        """Kill a worker with its executors and their Pythons, all at once, as when a machine loses its power."""
        self.workers[at].kill()

    def stop(self) -> None:
        for process in [*self.workers, self.master]:
            process.kill()

    def drive(self, code: str, *arguments: str, **environment: str) -> Driver:
        """Start a driver: a Python process that runs `code` with `url` and `arguments` in `sys.argv`."""
        return Driver(self, textwrap.dedent(code), arguments, environment)


class Driver:
    """A driver in a process of its own: a process has but one JVM. It talks by lines on its standard output.

    Its standard input is open until `finish`: a driver that reads it waits for that.
    """

    def __init__(self, cluster: Cluster, code: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        script = cluster.folder / f"driver-{time.monotonic_ns()}.py"
        script.write_text(code)
        self.log = script.with_suffix(".log")
        with self.log.open("wb") as file:
            popen = subprocess.Popen(
                [sys.executable, str(script), cluster.url, *arguments],
                env=cluster.environment | environment,
                stdout=subprocess.PIPE,
                stderr=file,
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        self.process = Process(popen, self.log)

    def line(self) -> str:
        """The next line that the driver prints."""
        out: IO[bytes] | None = self.process.popen.stdout
        assert out is not None
        found = out.readline().decode()
        if not found:
            raise JobError(f"the driver has ended; it said:\n{self.process.said()}")
        return found.rstrip("\n")

    def finish(self) -> list[str]:
        """Wait for the end; the lines that were left. A failure of the driver is raised, with what it said."""
        out, _ = self.process.popen.communicate(timeout=PATIENCE_S)
        if self.process.popen.returncode:
            raise JobError(f"the driver has failed; it said:\n{self.process.said()}")
        return out.decode().splitlines()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()


def until(found: Callable[[], T | None], what: str, *processes: Process, patience_s: float = PATIENCE_S) -> T:
    """Ask again and again until the answer is true; fail when a process has ended, or when patience does."""
    deadline = time.monotonic() + patience_s
    while True:
        answer = found()
        if answer:
            return answer
        ended = [process for process in processes if process.popen.poll() is not None]
        if ended or time.monotonic() > deadline:
            said = "\n".join(process.said()[-3000:] for process in ended or processes)
            raise SessionError(f"waited in vain for {what}:\n{said}")
        time.sleep(0.05)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rsplit(")", 1)[1].split()
            children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, left = [], [pid]
    while left:
        left += (below := children.get(left.pop(0), []))
        found += below
    return found


def _environment(folder: Path) -> dict[str, str]:
    """Of all processes of a cluster. What this process has set for its own Spark must not reach them."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return kept | {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
        "PYSPARK_PYTHON": sys.executable,
    }


@contextlib.contextmanager
def running(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster for as long as the block runs."""
    cluster = Cluster(folder, workers)
    try:
        yield cluster
    finally:
        cluster.stop()
