"""A run that is planned: what `prepare` returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.errors import GraphError, quoted
from penstock.graph.nodes import GraphNode


class PreparedRun(ABC):
    """One run of some results, as `prepare` plans it. It can be run once.

    Ask it for its results with `collect`, `tables` or `batches`, and then for `statistics`. Before it runs, `explain`
    tells its plan; in this process `steps` and `show` look into it while it runs.

    Examples
    --------
    >>> import penstock as ps
    >>> run = ps.from_items([{"v": 1}, {"v": 2}], name="numbers").filter(lambda v: v > 1).prepare()
    >>> run
    <run in this process: filter of source 'numbers'>
    >>> run.collect().to_pydict()
    {'v': [2]}
    """

    where = "in this process"

    def __repr__(self) -> str:
        leaves = self.results
        has_run = ", has begun" if self.has_started else ""
        return f"<run {self.where}: {', '.join(leaf.label for leaf in leaves)} of {leaves[0].source.label}{has_run}>"

    @property
    @abstractmethod
    def results(self) -> tuple[GraphNode, ...]:
        """The nodes whose items are the results."""

    @property
    @abstractmethod
    def has_started(self) -> bool:
        """Whether it has been run, or runs."""

    def collect(self) -> pa.Table:
        """Run, and gather the first result as an Arrow table."""
        return self.tables()[0]

    @abstractmethod
    def tables(self) -> tuple[pa.Table, ...]:
        """Run, and gather all results, each as an Arrow table."""

    @abstractmethod
    def batches(self) -> Iterator[tuple[pa.RecordBatch, ...]]:
        """Run, and hand out the results as they come: each time a batch for every result."""

    @abstractmethod
    def explain(self) -> str:
        """The graph and its plan as text."""

    @abstractmethod
    def statistics(self) -> Any:
        """What was counted so far: items, firings, seconds."""

    @property
    @abstractmethod
    def skipped(self) -> int:
        """How many items were skipped so far, with `on_error="skip"`."""

    @abstractmethod
    def dead_letters(self) -> pa.Table:
        """The items that were skipped so far: one row for each, in the order of the source."""

    def steps(self) -> Iterator[str]:
        """Fire one node at a time, in this process; each time the node's name."""
        raise self._only_here("steps()")

    def show(self) -> str:
        """What lies in the channels, in this process."""
        raise self._only_here("show()")

    def frame(self) -> Any:
        """The first result as a DataFrame of Spark, computed when an action asks for it."""
        raise GraphError("run: frame() is of a run on Spark; write prepare(spark=True)")

    def _only_here(self, what: str) -> GraphError:
        labels = quoted(leaf.label for leaf in self.results)
        return GraphError(f"run: {what} is of a run in this process, and {labels} is run on Spark; write spark=False")
