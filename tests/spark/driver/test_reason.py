"""What an error of Py4J says of the Java process behind it."""

from __future__ import annotations

import pytest
from py4j import protocol
from py4j.protocol import Py4JError

from penstock.spark.driver.reason import is_lost, job_error


def error_of(answer: str) -> Py4JError:
    with pytest.raises(Py4JError) as raised:
        protocol.get_return_value(answer, None, "o137", "isActive")
    return raised.value


def test_a_call_without_an_answer_is_a_lost_java_process() -> None:
    unanswered = error_of(protocol.ERROR)  # what Py4J makes of a connection that ends in the middle of a call
    assert is_lost(unanswered)
    assert str(job_error(unanswered)).startswith("job: the Java process of Spark must live while it is used; it ended")


def test_an_answer_with_an_error_is_not() -> None:
    assert not is_lost(error_of(f"{protocol.ERROR}{protocol.STRING_TYPE}no such method"))
