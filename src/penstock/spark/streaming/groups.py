"""Many small files in one micro-batch: tasks read them in groups, each as one sender.

A sender costs some milliseconds: a run of the engine, blocks for every bucket, a part of the result. So where a
micro-batch has many files, the driver puts those that follow each other in the order of their paths into groups, before
the tasks run. Spark hands every file to some task, in an order of its own; the task that is given the first file of a
group reads all of it, and whoever is given another file of it leaves that alone.

Tasks find the groups in the checkpoint, by a name that the driver hands to them as a property of the job.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow.fs as pf

from penstock.errors import CheckpointError, DataError
from penstock.graph.files.file_items import FileItems
from penstock.spark.streaming.assigned import plain
from penstock.spark.streaming.checkpoint import Checkpoint

PROPERTY = "penstock.groups"
MANY = 64
"""From so many files on a micro-batch has groups."""
MOST_FILES, MOST_BYTES = 512, 64 << 20
"""How large a group may become."""

Entry = tuple[str, int]
"""A file: its path as Spark writes it, and its size."""


@dataclass(frozen=True)
class Groups:
    """The groups of a micro-batch. Invariant: all its files with something in them, in the order of their paths."""

    groups: tuple[tuple[Entry, ...], ...]
    firsts: Mapping[str, tuple[Entry, ...]] = field(init=False)
    sizes: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "firsts", {plain(group[0][0]): group for group in self.groups})
        object.__setattr__(self, "sizes", {plain(path): size for group in self.groups for path, size in group})

    def begun_by(self, path: str, size: int) -> tuple[Entry, ...]:
        """The group that begins with a file that a task is given; empty where the file is in the middle of one."""
        name = plain(path)
        if self.sizes.get(name) != size:
            raise DataError(
                f"start: file {path!r}: must not change once it is there; it had {size} bytes when it was first seen, "
                f"and {self.sizes.get(name, 0)} when its batch began; write each file once, under a name of its own"
            )
        return self.firsts.get(name, ())


def group_files(files: Sequence[Entry], wanted: int) -> Groups:
    """Files in groups of about the same size, so many of them if the files are small.

    >>> files = [(f"/in/{number}", size) for number, size in enumerate([5, 5, 0, 90, 5, 5])]
    >>> [[path[-1] for path, _ in group] for group in group_files(files, 2).groups]
    [['0', '1'], ['3'], ['4', '5']]
    """
    there = sorted(entry for entry in files if entry[1])
    most_files = min(MOST_FILES, -(-len(there) // wanted))
    most_bytes = min(MOST_BYTES, sum(size for _, size in there) // wanted + 1)
    return Groups(tuple(_cut(there, most_files, most_bytes)))


def _cut(files: Sequence[Entry], most_files: int, most_bytes: int) -> Iterator[tuple[Entry, ...]]:
    waiting: list[Entry] = []
    held = 0
    for path, size in files:
        if waiting and (len(waiting) >= most_files or held + size > most_bytes):
            yield tuple(waiting)
            waiting, held = [], 0
        waiting.append((path, size))
        held += size
    if waiting:
        yield tuple(waiting)


# The driver writes them, and tasks read them


def plan_groups(checkpoint: Checkpoint, items: FileItems, paths: Sequence[str], wanted: int) -> str | None:
    """Put the files of a micro-batch into groups; the name by which tasks find them. None where there are few."""
    if len(paths) < MANY:
        return None
    taken = [path for path in paths if items.takes(path)]
    place = items.plan.found.place
    assert place is not None
    inside = [f"{place.base.rstrip('/')}/{'/'.join(place.below(path) or ())}" for path in taken]
    infos = place.filesystem.get_file_info(inside)
    sizes = [int(info.size or 0) if info.type == pf.FileType.File else 0 for info in infos]
    name = uuid.uuid4().hex
    made = group_files(list(zip(taken, sizes, strict=True)), wanted)
    checkpoint.write("groups", {"name": name, "groups": [list(group) for group in made.groups]})
    return name


def groups_of(checkpoint: Checkpoint, name: str | None) -> Groups | None:
    """The groups of a name, in a task; None where there are none."""
    return None if name is None else _read(checkpoint.given, name)


@lru_cache(maxsize=2)
def _read(folder: str, name: str) -> Groups:
    checkpoint = Checkpoint(folder)
    held = checkpoint.read("groups")
    if held is None or held["name"] != name:
        raise CheckpointError(
            f"{checkpoint.where}: 'penstock/groups.json' must hold the groups of the batch that runs; it does not; "
            f"does another query use the checkpoint?"
        )
    return Groups(tuple(tuple((path, size) for path, size in group) for group in held["groups"]))
