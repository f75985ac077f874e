"""What a channel was planned to be, what is counted of it, and the arrays that it uses again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from penstock.plan.plan import Bounds

Fields = dict[str, pa.DataType]


@dataclass(frozen=True, eq=False)
class ChannelForm:
    """What a channel was planned to be, and how it is run.

    `items`, `parents` (from the outermost in) and `signals` are what passes; `context` is how regions travel. The
    sender reports how far it has come by each of the `clocks`, which have where one stands who has had an item. With
    `keeps`, it is noted of each mark how many items were sent before it.
    """

    items: Fields
    parents: Sequence[Fields]
    signals: Sequence[np.dtype]
    bounds: Bounds
    protocol: SimpleNamespace
    context: str = "lane"
    clocks: Mapping[str, int] = field(default_factory=dict)
    is_checked: bool = False
    keeps: bool = False


@dataclass(slots=True)
class ChannelCounts:
    """What is counted of a channel for statistics, and nothing depends on but what looks for news."""

    highest_items: int = 0
    highest_signals: int = 0
    granted: int = 0
    messages: int = 0
    stalls: int = 0
    beats: int = 0


class ChannelScratch:
    """Arrays that every ensemble uses again, and whether the marks of the last were found again from tags."""

    def __init__(self, depth: int, signals: int) -> None:
        self.rows = np.zeros(depth + signals, np.int64)
        self.passed = np.zeros(2 * depth + signals, np.int64)
        self.initial = np.full(depth, -1, np.int64)
        self.is_rebuilt = False
