"""What the JVM says on its standard error: what of it reaches the screen."""

from __future__ import annotations

import os

import pytest

from penstock.spark.gateway import Relay

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
