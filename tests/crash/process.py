"""The process of a query, and what it starts: a driver, its JVM, and Spark's workers of Python."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType

from tests.cluster.standalone import Process

PATIENCE_S = 400


class Query(Process):
    """A process that leads a session. Of its processes the workers of Python, and their parent, have another group."""

    def kill(self) -> None:
        """Kill the driver and its JVM, then what they leave behind: nothing of the session lives on."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        while left := members(self.popen.pid):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def kill_java(self) -> None:
        """Kill the JVM, and leave the driver. Workers end with it."""
        for pid in members(self.popen.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                    os.kill(pid, signal.SIGKILL)

    def died(self) -> None:
        """Wait until something has killed it. Ended in another way, it fails the test, with what it said."""
        self._wait(-signal.SIGKILL)

    def ended(self) -> None:
        """Wait until it has ended well."""
        self._wait(0)

    def _wait(self, wanted: int) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(PATIENCE_S)
        code = self.popen.poll()
        self.kill()
        assert code == wanted, f"ended with {code} and not {wanted}; it said:\n{self.said()[-6000:]}"

    def __enter__(self) -> Query:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()


def members(session: int) -> list[int]:
    """The processes of a session that live. One that has ended, and waits for its parent to see it, does not."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of, *_ = entry.read_text().rsplit(")", 1)[1].split()
            if int(of) == session and state not in "ZX":
                found.append(int(entry.parent.name))
    return found
