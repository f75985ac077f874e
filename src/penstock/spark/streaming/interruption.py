"""What Spark is given when a micro-batch ends early: one line, which it can read.

When a query is stopped, Spark looks at the error of the micro-batch that it has cut short: does it come of the stop? It
searches the error's text with a regular expression (`StreamExecution.PROXY_ERROR`) that needs the stack for each
character. Where that text has a trace of Java's, with thousands of characters, the search ends in a
`StackOverflowError`, whose thousand lines are on the screen. So no text of Java's goes back to Spark.
"""

from __future__ import annotations

import re

from penstock.errors import PenstockError

INTERRUPTION = "py4j.protocol.Py4JJavaError: An error occurred while calling it: java.lang.InterruptedException"
"""The shortest text in which Spark sees that a stop has interrupted a micro-batch."""
MOST_CHARACTERS = 400
"""How much of an error is given to Spark; some 2,000 characters would be too many for its search."""

_INTERRUPTION = re.compile(
    r"\bjava\.(?:lang\.InterruptedException|io\.InterruptedIOException|nio\.channels\.ClosedByInterruptException)"
    r"|SPARK_JOB_CANCELLED"
)


class BatchError(Exception):
    """Why a micro-batch has ended, for Spark. Users get the error of the query instead."""


def is_interruption(error: Exception) -> bool:
    """Whether a stop has interrupted what raised this.

    >>> is_interruption(Exception("org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 1 cancelled"))
    True
    >>> is_interruption(Exception("java.io.IOException: No space left on device"))
    False
    """
    return not isinstance(error, PenstockError) and _INTERRUPTION.search(str(error)) is not None


def brief(error: Exception) -> str:
    """The beginning of what an error says."""
    return str(error)[:MOST_CHARACTERS]
