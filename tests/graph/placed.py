"""Streams whose last node has copies, or a core, in the graph itself: what `flexible=` and `mapping=` make of one."""

from __future__ import annotations

from dataclasses import replace

import penstock as ps
from penstock.graph import nodes


def flexible(stream: ps.Stream, copies: int = 1, split: str = "central") -> ps.Stream:
    """Let copies help the last node of a stream."""
    return ps.Stream(nodes.flexible(stream.node, copies, split))


def on_core(stream: ps.Stream, core: int) -> ps.Stream:
    """Put the last node of a stream on a core."""
    return ps.Stream(replace(stream.node, core=core))
