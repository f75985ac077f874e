"""What Spark makes of the error with which a micro-batch ends."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.streaming.test_bad_input import averages
from tests.spark.streaming.test_streams import fill

import penstock as ps
from penstock.spark.streaming.interruption import BatchError
from penstock.spark.streaming.query import StreamQuery

JAVA = "py4j.protocol.Py4JJavaError: An error occurred while calling o93.getResult.\n: "
TRACE = "\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:48)\n" * 500
INTERRUPTED = f"{JAVA}java.lang.InterruptedException\n{TRACE}"
CANCELLED = f"{JAVA}org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 3 cancelled\n{TRACE}"
FULL = f"{JAVA}java.io.IOException: No space left on device\n{TRACE}"


@pytest.fixture
def query(tmp_path: Path, spark: Any) -> Iterator[StreamQuery]:
    (tmp_path / "in").mkdir()
    fill(tmp_path, range(1))
    found = StreamQuery(averages(tmp_path).node, tmp_path / "out", tmp_path / "ck", spark)
    yield found
    found.checkpoint.close()


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_: Any) -> None:
        raise error

    return fail


def text_for_spark(query: StreamQuery, error: Exception) -> str:
    """What Py4J gives to Spark when a micro-batch fails so."""
    query._commit_batch = failing(error)  # type: ignore[method-assign]
    try:
        query._commit(None, 0)  # type: ignore[arg-type]
    except BatchError:
        return traceback.format_exc()
    raise AssertionError("a micro-batch that fails must raise")


def is_interruption(spark: Any, text: str) -> bool:
    """Whether Spark itself takes a text for the interruption by a stop."""
    jvm = spark._jvm
    execution = jvm.org.apache.spark.sql.execution.streaming.runtime.StreamExecution
    return bool(execution.isInterruptionException(jvm.py4j.Py4JException(text), spark.sparkContext._jsc.sc()))


@pytest.mark.parametrize("said", [INTERRUPTED, CANCELLED], ids=["interrupted", "cancelled"])
def test_spark_sees_that_a_stop_has_interrupted_a_micro_batch(said: str, query: StreamQuery, spark: Any) -> None:
    assert is_interruption(spark, text_for_spark(query, RuntimeError(said)))
    assert query.failure is None


@pytest.mark.parametrize(
    "error",
    [RuntimeError(FULL), ps.OutputError(f"start: the function 'f' must take batch 1; it raised {INTERRUPTED}")],
    ids=["of Spark", "of a user"],
)
def test_spark_reads_the_beginning_of_a_failure(error: Exception, query: StreamQuery, spark: Any) -> None:
    text = text_for_spark(query, error)
    assert len(text) < 2_000
    assert is_interruption(spark, text) is (text.count(JAVA) > 0)  # which matters only to a query that was stopped
    assert query.failure is not None


def test_an_error_keeps_its_cause(query: StreamQuery) -> None:
    error, cause = ps.OutputError("start: it raised ValueError"), ValueError("mine")
    error.__cause__ = cause
    text_for_spark(query, error)
    assert query.failure is error
    assert error.__cause__ is cause
