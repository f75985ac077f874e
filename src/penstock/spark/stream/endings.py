"""What a running stream must not be asked for: ends that never come, and keys that cannot end."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.tree import Tree
from penstock.graph.window import Whole
from penstock.plan.idle import Wanted
from penstock.plan.stages import Cut


def refuse_endings(tree: Tree) -> None:
    """Refuse what only the end of a stream would give: a running stream has none."""
    for node in tree.nodes:
        if isinstance(node, n.KeyedAggregate) and isinstance(node.window, Whole):
            raise GraphError(
                f"start: {node.label}: gives its rows when the stream ends, and a running stream does not end; put a "
                f"window before it, .window(count=...) or .window(field, length=...), or have keys end that are idle, "
                f"with expire_after="
            )


def refuse_idle(tree: Tree, made: Cut, wanted: Wanted) -> None:
    """Refuse ends that never come, unless keys end by themselves; and what is wanted in vain."""
    if wanted.expire_after is not None:
        _refuse_expiry(made)
        return
    refuse_endings(tree)
    if wanted.time is not None and all(exchange.idle is None for exchange in made.exchanges):
        raise GraphError(
            f"start: time={wanted.time!r} must be of use: to windows by it whose keys are spread over buckets, or with "
            f"expire_after=; here it is not; leave it out"
        )


def _refuse_expiry(made: Cut) -> None:
    for node, reason in _gathered(made):
        raise GraphError(
            f"start: expire_after= ends keys that are spread over buckets; {node.label} runs in one task, because "
            f"{reason}; leave expire_after= out"
        )
    if not any(exchange.kind == "key" for exchange in made.exchanges):
        raise GraphError(
            "start: expire_after= ends keys, and no node of this graph remembers anything of a key; leave it out"
        )


def _gathered(made: Cut) -> Iterator[tuple[n.GraphNode, str]]:
    """The nodes with a state by key that are in one task with the whole stream, and why."""
    for stage in made.stages:
        for node in () if stage.is_keyed else Tree(stage.leaves).nodes:
            if isinstance(node, n.Stateful) and node.state is not None and node.given.key is not None:
                yield node, made.reason if stage.reads is None else stage.reads.reason
