"""When a stream that has failed is started again by itself: which failures may pass, and how long to wait."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from penstock.errors import CheckpointError, GraphError, JobError, OutputError, PenstockError
from penstock.spark.driver.reason import LOST

MOST, WITHIN_S = 10, 3600.0
"""At most so many restarts in so many seconds."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0

_FULL = re.compile(r"No space left on device|Disk quota exceeded")


def may_pass(error: PenstockError) -> bool:
    """Whether the same stream may run well the next time: something outside of it was lost, or a disk was full.

    An error in data or in code comes again, so it does not.

    >>> may_pass(JobError("job: a Python worker must live until its task is done; it died"))
    True
    >>> may_pass(JobError("job: Spark could not run it: ValueError"))
    False
    >>> may_pass(OutputError("start: 'out': cannot be written; No space left on device"))
    True
    """
    if not isinstance(error, (JobError, OutputError, CheckpointError)):
        return False
    return _FULL.search(str(error)) is not None or (isinstance(error, JobError) and LOST.search(str(error)) is not None)


class Restarts:
    """Says how long to wait before each restart: twice as long as before the last one, or not to restart any more.

    >>> restarts = Restarts()
    >>> [restarts.pause_s(now) for now in (0.0, 10.0, 20.0)], restarts.pause_s(4000.0)
    ([1.0, 2.0, 4.0], 1.0)
    """

    def __init__(self) -> None:
        self.times: deque[float] = deque()

    def pause_s(self, now: float) -> float | None:
        """The seconds to wait, after a failure at this time; None where there were too many."""
        while self.times and now - self.times[0] >= WITHIN_S:
            self.times.popleft()
        if len(self.times) >= MOST:
            return None
        self.times.append(now)
        return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (len(self.times) - 1)))


def restarts_of(given: Any) -> Restarts | None:
    """What `restart=` says."""
    if not isinstance(given, bool):
        raise GraphError(
            f"start: restart must be True (at most {MOST} times an hour, after a failure that may pass) or False; got "
            f"{given!r}"
        )
    return Restarts() if given else None
