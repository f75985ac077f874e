"""The threads of a run, one step after the other in an order that a seed chooses.

Real threads take turns as the machine likes, which is seldom at the places that matter, and never twice the same. Here
a thread is now slow and now fast, and messages are late, as far as anything may be on real threads; and a seed repeats
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from random import Random
from typing import Any
from unittest import mock

from penstock.engine import build
from penstock.engine.loop import FiringOutput
from penstock.engine.scheduler import Node, refuse_stuck
from penstock.engine.threads import Threads

PACES = (0.01, 0.1, 1.0)
"""How often a thread has its turn, compared with others."""
CHANGES = 0.02
"""How often threads change their pace."""


class Stepped(Threads):
    """Fires the nodes of several threads, without any thread."""

    def __init__(self, seed: int, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.random = Random(seed)
        self.paces = self._paces()

    def run(self) -> Iterator[tuple[Node, FiringOutput]]:
        """As threads do, until nothing can be done any more."""
        while True:
            thread = self._next()
            if not self._step(thread, is_late=True) and not any(self._step(at) for at in self._all()):
                break
            while not self.results.empty():
                found = self.results.get_nowait()
                assert isinstance(found, tuple)
                yield found
        refuse_stuck(self.nodes)

    def fire(self, node: Node) -> FiringOutput:
        """Also what was written within a core is checked at once, and not when it is read."""
        output = super().fire(node)
        for sink in node.sinks if self.is_checked else ():
            sink.channel.check()
        return output

    def _all(self) -> range:
        return range(len(self.own))

    def _paces(self) -> list[float]:
        return [self.random.choice(PACES) for _ in self._all()]

    def _next(self) -> int:
        if self.random.random() < CHANGES:
            self.paces = self._paces()
        return self.random.choices(self._all(), self.paces)[0]

    def _step(self, thread: int, is_late: bool = False) -> bool:
        """Hand a thread its messages, or, where these are late, the first few, and fire a node; whether it could."""
        box = self.post.boxes[thread]
        count = self.random.randint(0, len(box)) if is_late else len(box)
        for _ in range(count):
            box.popleft()()
        if any(node.reads_source for node in self.own[thread]):
            self.feeder.advance()
        node = self.choose[thread]()
        if node is not None:
            self._fire(node)
        return node is not None or count > 0


def stepped(seed: int) -> AbstractContextManager[Any]:
    """While it lasts, runs on several threads are stepped."""
    return mock.patch.object(build, "Threads", lambda *given, **more: Stepped(seed, *given, **more))
