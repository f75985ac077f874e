"""What the JVM says on its standard error: what of it reaches the screen."""

from __future__ import annotations

import logging
import os

import pytest

from penstock.spark.driver.gateway import Relay, is_worth_a_log

WORKER = "Streaming TransformWithStateInPandas Python worker"


def relayed(before: str, after: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is passed on of what is said before the JVM has started and after it."""
    reader, writer = os.pipe()
    relay = Relay(os.fdopen(reader, "rb"))
    relay.has_started = not before
    os.write(writer, (before or after).encode())
    os.close(writer)
    relay.thread.join(timeout=60)
    return capsys.readouterr().err


def test_what_users_print_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    said = "one\n\n  two\nStreaming is fun\n\n"
    assert relayed("", said, capsys) == said


def test_what_a_worker_says_of_itself_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    said = f"Starting {WORKER}.\n\n\n{WORKER} received parameters for UDF.\nmine\n\n\nmine too\n"
    assert relayed("", said, capsys) == "\nmine\n\nmine too\n"


def test_what_is_said_before_the_start_is_held(capsys: pytest.CaptureFixture[str]) -> None:
    assert relayed("WARNING: Using incubator modules\nException in thread: no room\n", "", capsys) == ""


OF_STOP = """\
Exception in thread "stream execution thread for [id = 4ff00fdc]" java.lang.StackOverflowError
\tat java.base/java.lang.ClassLoader.defineClass1(Native Method)
\tat org.apache.spark.sql.catalyst.trees.TreeNode$$Lambda$1897/0x00007fe0d4c3c9b8.apply(Unknown Source)
Caused by: java.lang.InterruptedException: sleep interrupted
\t... 800 more
Traceback (most recent call last):
  File "/site-packages/pyspark/python/lib/pyspark.zip/pyspark/util.py", line 822, in local_connect_and_auth
FileNotFoundError: [Errno 2] No such file or directory

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/lib/python3.11/contextlib.py", line 137, in __enter__
    return next(self.gen)
           ^^^^^^^^^^^^^^
  File "/site-packages/pyspark/python/lib/pyspark.zip/pyspark/util.py", line 828, in local_connect_and_auth
pyspark.errors.exceptions.base.PySparkRuntimeError: [CANNOT_OPEN_SOCKET] Can not open socket
"""
MINE = """\
Traceback (most recent call last):
  File "/home/me/jobs.py", line 3, in mine
    raise ValueError("at home")
ValueError: at home
mine, at last
"""


def test_traces_of_java_and_of_pyspark_are_left_out_and_those_of_users_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert relayed("", f"before\n{OF_STOP}{MINE}{OF_STOP}", capsys) == f"before\n{MINE}"


@pytest.mark.parametrize(("path", "is_shown"), [("/lib/py4j/java_gateway.py", False), ("/home/me/jobs.py", True)])
def test_what_py4j_logs_and_raises_as_well_is_not_shown(path: str, is_shown: bool) -> None:
    record = logging.LogRecord("root", logging.ERROR, path, 1, "Exception while sending command.", (), None)
    assert is_worth_a_log(record) is is_shown
