"""Since when the keys of a bucket are idle: of each key the newest time, of each page of keys the least of these.

So the pages that have a key to end are known without a look into any. The times go by the name of
the field that they are of: where another is chosen, all keys begin to be idle anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from penstock.engine.kept import Frame, KeyGroup
from penstock.plan.idle import Idle

PREFIX = "idle."


class Idleness:
    """The times of the keys of one group.

    `lowest` stands for a time that is not known, because no item had one; once the newest time of the stream is known,
    it is taken for that. Invariant: of a page that is not loaded, `least` is not later than the newest time of any of
    its keys.
    """

    def __init__(self, idle: Idle, group: KeyGroup, held: Mapping[str, np.ndarray], pages: int) -> None:
        self.idle, self.group = idle, group
        self.dtype = np.dtype(np.float64 if idle.is_float else np.int64)
        whole = np.iinfo(np.int64)
        self.lowest: Any = -np.inf if idle.is_float else int(whole.min)
        self.highest: Any = np.inf if idle.is_float else int(whole.max)
        self.name = f"{PREFIX}{idle.time or ''}"
        newest = held.get(f"{self.name}.newest")
        self.newest: Any = None if newest is None else newest[0].item()
        self.last = np.full(1, self.lowest, self.dtype)
        self.least = held.get(f"{self.name}.least{group.number}", np.full(pages, self.lowest, self.dtype))

    # What comes

    def hear(self, newest: Any) -> None:
        """The stream has come to this time, if it is the newest; None says nothing."""
        if newest is not None:
            self.newest = newest if self.newest is None else max(self.newest, newest)

    def note(self, slots: np.ndarray, times: np.ndarray | None) -> None:
        """These keys have had items of these times; of the newest of the stream, where there are none."""
        self._reserve()
        slots, known = slots[slots >= 0], slots >= 0
        if times is None:
            self.last[slots] = self.newest
            return
        times = times[known]
        if self.idle.is_float:
            slots, times = slots[np.isfinite(times)], times[np.isfinite(times)]
        np.maximum.at(self.last, slots, times)

    def load(self, page: int, slots: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
        """These keys have come from a page."""
        self._reserve()
        held = arrays.get(self.name, np.full(len(slots), self.lowest, self.dtype))
        self.last[slots] = np.where(held == self.lowest, self.least[page], held)

    def _reserve(self) -> None:
        more = self.group.index.count - len(self.last)
        if more > 0:
            self.last = np.append(self.last, np.full(max(more, len(self.last)), self.lowest, self.dtype))

    # Who is idle

    def settle(self) -> bool:
        """Take what is not known for the newest time; whether there is one."""
        self._reserve()
        if self.newest is None:
            return False
        for held in (self.last, self.least):
            held[held == self.lowest] = self.newest
        return True

    def pages(self) -> np.ndarray:
        """Which pages may have a key to end."""
        return np.asarray(self.least < self._before(self.idle.expire_after))

    def keys(self) -> np.ndarray:
        """The keys that are known and are to end, as a mask by their numbers."""
        return np.asarray(self.last[: self.group.index.count] < self._before(self.idle.expire_after))

    def _before(self, after: Any) -> Any:
        """The time before which keys have been idle for so long."""
        return self.lowest if after is None else max(self.newest - after, self.lowest)

    # What is kept

    def save(self, pages: np.ndarray, slots: np.ndarray, loaded: np.ndarray) -> None:
        """Find the least times of all pages that are loaded; `slots` are the keys there, `pages` the page of each."""
        self.least = np.append(self.least, np.full(len(loaded) - len(self.least), self.highest, self.dtype))
        self.least[loaded] = self.highest
        self._reserve()
        np.minimum.at(self.least, pages, self.last[slots])

    def frame(self) -> Iterator[tuple[str, np.ndarray]]:
        if self.newest is not None:
            yield f"{self.name}.newest", np.array([self.newest], self.dtype)
        yield f"{self.name}.least{self.group.number}", self.least

    @staticmethod
    def taken(frame: Frame) -> Frame:
        """What a frame holds of this, which is taken out of it."""
        return {name: frame.pop(name) for name in list(frame) if name.startswith(PREFIX)}
