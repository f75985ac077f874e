"""Several threads: each has nodes of its own, fires them as they may, and waits while none may.

Threads share nothing but the post: a queue of messages for each. A message is a block of items and marks that crosses
from one thread to another, or what was consumed of such (`engine/crossing.py`). A thread whose nodes may not fire waits
for a message. Messages are posted, and threads begin to wait, under one lock. So it is known at once when nothing can
go on any more: all threads wait, and no message is under way.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from queue import Queue
from typing import Any

from penstock.engine.cores import Cores, Message
from penstock.engine.loop import FiringOutput
from penstock.engine.scheduler import Node, refuse_stuck

SWITCH_S = 1e-4
"""How long a thread waits for Python's lock before it asks for it: a kernel that ends on one core should not wait for
all that Python has to do on another."""
AHEAD = 64
"""How many results may wait to be taken before the threads wait for that."""


class Post:
    """The messages between threads, and who waits for one.

    Invariant: `waiting` counts the threads that have nothing to do and no message; when that is all of those that are
    left, none will ever have one.
    """

    def __init__(self, threads: int) -> None:
        self.changed = threading.Condition()
        self.boxes: list[deque[Message]] = [deque() for _ in range(threads)]
        self.left, self.waiting = threads, 0
        self.is_stopped = self.is_stuck = False

    def put(self, thread: int, message: Message) -> None:
        with self.changed:
            self.boxes[thread].append(message)
            self.changed.notify_all()

    def take(self, thread: int) -> list[Message]:
        """All messages for a thread."""
        box = self.boxes[thread]
        if not box:
            return []
        with self.changed:
            found = list(box)
            box.clear()
        return found

    def wait(self, thread: int) -> None:
        """Wait until there is a message for a thread, or all is over."""
        with self.changed:
            self.waiting += 1
            self._notice()
            self.changed.wait_for(lambda: self.boxes[thread] or self.is_stopped)
            self.waiting -= 1

    def leave(self) -> None:
        """A thread has nothing more to do."""
        with self.changed:
            self.left -= 1
            self._notice()

    def stop(self) -> None:
        """All threads are to end."""
        with self.changed:
            self.is_stopped = True
            self.changed.notify_all()

    def _notice(self) -> None:
        """Stop where all that are left wait, and no message is under way."""
        if self.left and self.waiting == self.left and not any(self.boxes):
            self.is_stopped = self.is_stuck = True
            self.changed.notify_all()


class Threads(Cores):
    """Fires nodes on several threads until all have finished."""

    def __init__(self, *given: Any, check: bool) -> None:
        super().__init__(*given, check=check)
        self.post = Post(len(self.own))
        for node in self.nodes:
            node.is_gentle = len(self.own) > 1
        self.results: Queue[tuple[Node, FiringOutput] | BaseException | None] = Queue(AHEAD)

    def run(self) -> Iterator[tuple[Node, FiringOutput]]:
        """Each time a node has fired and something came of it but what went into channels."""
        threads = [
            threading.Thread(target=self._work, args=(at,), name=f"penstock-core-{at}", daemon=True)
            for at in range(len(self.own))
        ]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, SWITCH_S))
        for thread in threads:
            thread.start()
        try:
            left = len(threads)
            while left:
                found = self.results.get()
                if found is None:
                    left -= 1
                elif isinstance(found, BaseException):
                    raise found
                else:
                    yield found
            if self.post.is_stuck:
                refuse_stuck(self.nodes)
        finally:
            sys.setswitchinterval(interval)
            self._end(threads)

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        """Let all threads end, also those that wait for their results to be taken."""
        self.post.stop()
        for thread in threads:
            while thread.is_alive():
                while not self.results.empty():
                    self.results.get_nowait()
                thread.join(0.01)

    def _work(self, thread: int) -> None:
        """What a thread does from beginning to end."""
        try:
            while not self.post.is_stopped:
                for message in self.post.take(thread):
                    message()
                if any(node.reads_source for node in self.own[thread]):
                    self.feeder.advance()
                node = self.choose[thread]()
                if node is not None:
                    self._fire(node)
                elif all(node.is_finished for node in self.own[thread]):
                    break
                else:
                    self.post.wait(thread)
        except BaseException as error:
            self.post.stop()
            self.results.put(error)
        finally:
            self.post.leave()
            self.results.put(None)

    def _fire(self, node: Node) -> None:
        output = self.fire(node)
        for receiver, crossing, block in self.blocks(node):
            self.post.put(receiver, lambda crossing=crossing, block=block: crossing.receive(block))  # type: ignore[misc]
        for receiver, message in self.words(node):
            self.post.put(receiver, message)
        if output.batches or output.deliveries:
            self.results.put((node, output))
