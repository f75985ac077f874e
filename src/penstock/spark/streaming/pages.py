"""The keys of a bucket in pages, so that a micro-batch reads and writes those that it touches, and no others.

A page holds the keys of one class of a hash, with their records. Pages are made by linear hashing: as keys become more,
one page after the other is split in two, so that the number of keys in a page stays about the same and no batch has to
lay all of them out anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.engine.kept import KeyGroup
from penstock.engine.keys import KeyValues, key_values, taken
from penstock.engine.packed import packed, unpacked
from penstock.engine.upgrade import upgraded
from penstock.graph import types
from penstock.kernels import partition
from penstock.spark.streaming.idleness import Idleness

PAGE_BYTES = 16 << 10
"""About how large a page is: a state store gives and takes it in one call."""
COPIED_BYTES = 64 << 20


class PageStore(Protocol):
    """Pages by number, as bytes. A page that is not there has none."""

    def read(self, pages: Sequence[int]) -> Iterator[bytes]: ...

    def write(self, pages: Iterable[tuple[int, bytes]]) -> None: ...

    def all(self) -> Iterator[tuple[int, bytes]]: ...


class Pages:
    """The pages of one group of keys, over a store of them.

    Invariants: the keys of every page that is `loaded` are known to the group, with all that belongs to them; a key
    that was touched is in a loaded page. There are `count` keys in `size` pages, which have `stored_bytes` in the
    store. A page without keys is not there.
    """

    def __init__(
        self, group: KeyGroup, store: PageStore, hash_seed: int, size: int = 1, count: int = 0, stored: int = 0
    ) -> None:
        """`hash_seed` decides which page a key is in: the same as long as the store is used."""
        self.hash_seed = np.uint64(hash_seed)
        self.group, self.store, self.size, self.count, self.stored_bytes = group, store, size, count, stored
        self.loaded = np.zeros(size, bool)
        self.held: dict[int, bytes] = {}
        """The loaded pages as they were."""
        self.touched = self.written = self.before = 0
        self.idleness: Idleness | None = None
        self.ended = np.zeros(0, bool)
        """Which of the known keys have ended, by their numbers, up to the last that has."""

    # Into memory

    def touch(self, columns: Sequence[pa.Array]) -> None:
        """Know all that there is to know of these keys."""
        if self.loaded.all():
            return
        pages = self.pages_of(key_values(columns))
        self._read(np.unique(pages[~self.loaded[pages]]))

    def load_all(self) -> None:
        """Know all keys."""
        if not self.loaded.all():
            for page, held in self.store.all():
                if not self.loaded[page]:
                    self._load(page, held)
            self.loaded[:] = True

    def _read(self, pages: np.ndarray) -> None:
        """Load some pages."""
        for page, held in zip(pages.tolist(), self.store.read(pages.tolist()), strict=True):
            self._load(page, held)

    def _load(self, page: int, held: bytes) -> None:
        self.loaded[page] = True
        self.touched += 1
        if held:
            self.held[page] = held
            arrays = unpacked(held)
            records = upgraded(arrays.pop("records"), self.group.dtype, self.group.states)
            self.before += len(records)
            slots = self.group.put(_values(arrays, self.group), records)
            if self.idleness is not None:
                self.idleness.load(page, slots, arrays)

    # Keys that are idle

    def note(self, columns: Sequence[pa.Array], times: np.ndarray | None) -> None:
        """These keys have had items of these times."""
        assert self.idleness is not None
        self.touch(columns)
        self.idleness.note(self.group.index.number(columns), times)

    def idle(self) -> np.ndarray:
        """The keys that are to end, as a mask by their numbers."""
        if self.idleness is None or not self.idleness.settle():
            return np.zeros(0, bool)
        self._read(np.flatnonzero(self.idleness.pages() & ~self.loaded))
        return self.idleness.keys()

    def pages_of(self, values: Sequence[KeyValues]) -> np.ndarray:
        """The page of each key."""
        hashes = _hashes(values, self.hash_seed)
        level = max(1, self.size - 1).bit_length()
        pages = hashes & np.uint64((1 << level) - 1)
        beyond = pages >= np.uint64(self.size)
        pages[beyond] &= np.uint64((1 << (level - 1)) - 1)
        return pages.astype(np.int64)

    # Out of memory

    def save(self) -> None:
        """Write the pages that have changed, and more of them where keys have become many."""
        self.count += self.group.index.count - self.before - int(self.ended.sum())
        self._grow()
        values = self.group.index.values()
        pages = self.pages_of(values)
        slots = np.flatnonzero(~np.append(self.ended, np.zeros(len(pages) - len(self.ended), bool)))
        order = slots[np.argsort(pages[slots], kind="stable")]
        if self.idleness is not None:
            self.idleness.save(pages[slots], slots, self.loaded)
        loaded = np.flatnonzero(self.loaded)
        bounds = np.searchsorted(pages[order], np.append(loaded, self.size))
        # Some at a time, because their records are copied.
        at_once = max(1, COPIED_BYTES // (self.group.dtype.itemsize * _keys_in_page(self.group)))
        for first in range(0, len(loaded), at_once):
            some = slice(first, min(first + at_once, len(loaded)))
            self.store.write(self._changed(loaded[some], bounds[some.start : some.stop + 1], values, order))

    def _changed(
        self, pages: np.ndarray, bounds: np.ndarray, values: Sequence[KeyValues], order: np.ndarray
    ) -> Iterator[tuple[int, bytes]]:
        """Those of some pages, whose keys lie between the bounds in `order`, that are not as they were."""
        slots = order[bounds[0] : bounds[-1]]
        keys, records = taken(values, slots), {"records": self.group.take(slots)}
        if self.idleness is not None:
            records[self.idleness.name] = self.idleness.last[slots]
        for page, (start, stop) in zip(pages.tolist(), pairwise((bounds - bounds[0]).tolist()), strict=True):
            held = {name: array[start:stop] for name, array in records.items()}
            made = packed(_arrays(keys, start, stop) | held) if start < stop else b""
            before = self.held.get(page, b"")
            if made != before:
                self.stored_bytes += len(made) - len(before)
                self.written += 1
                yield page, made

    def _grow(self) -> None:
        """Have as many pages as the keys need: those that are split are loaded, and written with the others."""
        wanted = max(self.size, -(-self.count // _keys_in_page(self.group)))
        split = np.array(sorted({self._split_from(page) for page in range(self.size, wanted)}), np.int64)
        self._read(split[~self.loaded[split]])
        self.loaded = np.append(self.loaded, np.ones(wanted - self.size, bool))
        self.size = wanted

    def _split_from(self, page: int) -> int:
        """The page, of those there are, that holds the keys of a new one."""
        while page >= self.size:
            page -= 1 << (page.bit_length() - 1)
        return page


def _values(arrays: dict[str, np.ndarray], group: KeyGroup) -> list[KeyValues]:
    found: list[KeyValues] = []
    for at, t in enumerate(group.index.types):
        if types.is_text(t):
            offsets = np.concatenate(([0], np.cumsum(arrays[f"lengths{at}"], dtype=np.int64)))
            found.append((offsets, arrays[f"texts{at}"]))
        else:
            found.append(arrays[f"key{at}"])
    return found


def _hashes(values: Sequence[KeyValues], seed: np.uint64) -> np.ndarray:
    count = len(values[0][0]) - 1 if isinstance(values[0], tuple) else len(values[0])
    hashes = np.zeros(count, np.uint64)
    for held in values:
        if isinstance(held, tuple):
            partition.hash_texts(*held, hashes, seed)
        else:
            partition.hash_integers(held, hashes, seed)
    return hashes


def _keys_in_page(group: KeyGroup) -> int:
    return max(8, PAGE_BYTES // (group.dtype.itemsize + 16 * len(group.index.types)))


def _arrays(values: Sequence[KeyValues], start: int, stop: int) -> dict[str, np.ndarray]:
    """Some keys, one after the other, as arrays."""
    found = {}
    for at, held in enumerate(values):
        if isinstance(held, tuple):
            offsets, data = held[0][start : stop + 1], held[1]
            found[f"lengths{at}"] = np.diff(offsets).astype(np.uint32)
            found[f"texts{at}"] = data[offsets[0] : offsets[-1]]
        else:
            found[f"key{at}"] = held[start:stop]
    return found


def sizes(pages: Iterable[Pages]) -> Iterator[tuple[str, int]]:
    """What pages are, in numbers."""
    listed = list(pages)
    yield "keys", sum(each.count for each in listed)
    yield "pages", sum(each.size for each in listed)
    yield "touched", sum(each.touched for each in listed)
    yield "written", sum(each.written for each in listed)
    yield "state_bytes", sum(each.stored_bytes for each in listed)
