"""A sink of Spark's, by its name: nothing of Spark is needed to name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import GraphError


@dataclass(frozen=True)
class SparkSink:
    """A sink of Spark's by the name of its format, as its writer takes it; see `spark_sink`."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def about(self) -> str:
        return f"Spark's sink {self.format!r}"


def spark_sink(format: str, **options: Any) -> SparkSink:
    """Any streaming sink of Spark's, with its options, for `start`: what it promises after a crash is its own.

    >>> import penstock as ps
    >>> ps.spark_sink("kafka", topic="spikes").about
    "Spark's sink 'kafka'"
    """
    if not isinstance(format, str) or not format:
        raise GraphError(f"spark_sink: must be the name of a format; got {format!r}")
    return SparkSink(format, {name: str(value) for name, value in options.items()})
