"""The first items of a stream: a filter that counts. Once it is full, a run need not read its source any further."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.graph.nodes.base import GraphNode
from penstock.graph.nodes.items import Filter, ItemLimit
from penstock.graph.record import State


class LimitCount(State):
    """How many items a limit has let pass."""

    count: int


def limit(before: GraphNode, most: Any, *, is_by_task: bool = False) -> Filter:
    """The node that lets the first `most` items pass.

    With `is_by_task` each task has a count of its own. The first items of the stream are among those that pass so,
    which is why this may stand anywhere upstream of what chooses among them.
    """
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        raise before.fail(f"limit: must be a whole number of at least 0; got {most!r}")
    return Filter(before, LimitCount, (), _passing(most), ItemLimit(most, is_by_task))


def is_global_limit(node: GraphNode) -> bool:
    """Whether a node lets the first items of the whole stream pass."""
    return isinstance(node, Filter) and node.limit is not None and not node.limit.is_by_task


def _passing(most: int) -> Callable[..., Any]:
    def passes(state):  # type: ignore[no-untyped-def]
        if state.count >= most:
            return False
        state.count += 1
        return True

    return passes
