"""The kinds of marks that stand between the items of a run: its signals, and the end of a copy's run."""

from __future__ import annotations

from penstock.graph.record import Signal
from penstock.graph.tree import Tree, signals_at


def signal_types(tree: Tree) -> tuple[type[Signal], ...]:
    """All signals that some node handles or hands on, in a fixed order."""
    found = dict.fromkeys(signal for node in tree.nodes for signal in signals_at(node))
    return (*found, *([RunEnd] if any(tree.copies(node) for node in tree.nodes) else []))


class RunEnd(Signal):
    """The mark behind the last item of a run that a copy of a flexible node has."""

    number: int
