"""One embedded Spark for all tests of a process: the JVM takes seconds to start, and a process has but one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import penstock.spark
from penstock.spark import QUICK_START


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    found = penstock.spark.session(cores=2, settings=QUICK_START)
    yield found
    found.stop()
