"""The virtual clock: a run on cores that are not there, in a time that passes only while nodes fire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from penstock.errors import GraphError

if TYPE_CHECKING:
    from penstock.plan.segment import Segment

Prices = Callable[[Any, int], float]
"""How long a running node takes for so many items."""


@dataclass(eq=False)
class VirtualClock:
    """A clock for `clock=`: the run takes place on virtual cores, in one thread, event by event.

    - `cost`: seconds an item, by stream; a node that is not named takes no time, and neither do the split and the
      merges of a flexible node. Or a function of a node's name and a number of items that gives the seconds of the
      firing; then all nodes are asked for, splits and merges too. Whole numbers and fractions stay exact.
    - `memory_blocks`: how many blocks of `block_items` a core holds. A block is in a core's memory from when the core
      receives it until it has passed to the next; it passes when that has room. Unless said, there is room for all.

    Each core fires one of its nodes when it is free. What comes of a firing, and the room that it makes, is there when
    it ends. The same run gives the same times, each time.

    A clock is for one run at a time, which sets it to 0 when it begins.

    >>> import penstock as ps
    >>> twice = ps.from_items([{"v": v} for v in range(4)]).map(w=lambda v: 2 * v)
    >>> more = twice.map(z=lambda w: w + 1)
    >>> run = more.prepare(fuse=False, cores=2, width=1, clock=ps.VirtualClock({twice: 1, more: 2}))
    >>> run.collect()["z"].to_pylist()
    [1, 3, 5, 7]
    >>> run.seconds
    9
    """

    cost: Mapping[Any, float] | Callable[[str, int], float] = field(default_factory=dict)
    memory_blocks: int | None = None
    now: float = field(default=0, init=False)

    def __post_init__(self) -> None:
        blocks = self.memory_blocks
        is_whole = isinstance(blocks, Integral) and not isinstance(blocks, bool)
        if blocks is not None and not (is_whole and blocks >= 1):
            raise GraphError(
                f"VirtualClock: memory_blocks must be a whole number of blocks, at least 1; got {blocks!r}"
            )
        if isinstance(self.cost, Mapping):
            for stream, seconds in self.cost.items():
                _check_seconds(seconds, f"for {getattr(stream, 'node', stream)!s}")
        elif not callable(self.cost):
            raise GraphError(
                f"VirtualClock: cost must be a dict from streams to seconds an item, or a function of a node's name "
                f"and a number of items; got {self.cost!r}"
            )

    def __call__(self) -> float:
        return self.now

    def prices(self, segments: Sequence[Segment]) -> tuple[Prices, Callable[[Any], bool]]:
        """How long firings take, and which nodes never take any time."""
        given = self.cost
        if not isinstance(given, Mapping):

            def asked(node: Any, items: int) -> float:
                seconds = given(node.name, items)
                _check_seconds(seconds, f"for {items} items of {node.name}")
                return seconds

            return asked, lambda node: False
        found = _by_segment(given, segments)

        def seconds_of(node: Any, items: int) -> float:
            return items * found.get(node.segment, 0) if node.role == "loop" else 0

        return seconds_of, lambda node: node.role != "loop" or not found.get(node.segment, 0)


def _by_segment(given: Mapping[Any, float], segments: Sequence[Segment]) -> dict[Segment, float]:
    """Seconds an item of each loop: those of its nodes together."""
    from penstock.plan.segment import inside

    found: dict[Segment, float] = {}
    for stream, seconds in given.items():
        named = getattr(stream, "node", None)
        if named is None:
            raise GraphError(f"VirtualClock: cost takes a dict from streams to seconds; got the key {stream!r}")
        segment = next((each for each in segments if named in inside(each)), None)
        if segment is None:
            raise GraphError(
                f"VirtualClock: cost names {named.label}, which is in no loop of this run; name the stream that it "
                f"has: flexible= and mapping= give another"
            )
        found[segment] = found.get(segment, 0) + seconds
    return found


def _check_seconds(seconds: Any, where: str) -> None:
    if not isinstance(seconds, Real) or isinstance(seconds, bool) or not 0 <= float(seconds) < float("inf"):
        raise GraphError(f"VirtualClock: the cost must be a number of seconds, at least 0; got {seconds!r} {where}")
