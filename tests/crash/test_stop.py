"""What a user sees of a stream that is stopped in the middle of a micro-batch: nothing; and in Spark's log no crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.crash.process import PATIENCE_S
from tests.crash.trial import ROOT


def ended(folder: Path, log: str) -> subprocess.CompletedProcess[str]:
    """The process that stops a stream again and again."""
    program = [sys.executable, "-m", "tests.crash.stopped", str(folder), log]
    return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)


def test_a_stop_in_mid_batch_is_silent(tmp_path: Path) -> None:
    done = ended(tmp_path, "quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_log_of_spark_tells_of_no_failure_when_a_stream_is_stopped(tmp_path: Path) -> None:
    done = ended(tmp_path, "loud")
    assert done.returncode == 0, done.stderr
    for sign in ("StackOverflowError", 'Exception in thread "stream execution thread', "terminated with error"):
        assert sign not in done.stderr
