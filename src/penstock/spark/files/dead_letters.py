"""Dead letters as files: a folder of Parquet beside the result, written when the run has ended, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.letters import SCHEMA
from penstock.graph.split import Joined, Split, with_bad
from penstock.spark.files.folders import Folder, refuse_overwriting
from penstock.spark.files.format import format_of
from penstock.spark.files.part import PartWriter
from penstock.spark.files.result_folder import ResultFolder


class FileLocator:
    """Finds the files of items by their places in splits."""

    def __init__(self, splits: Mapping[int, Split]) -> None:
        self.splits = splits
        self.counts: dict[int, int] = {}

    def of(self, split: int | None, offset: int) -> dict[str, Any]:
        """The file that an item came from, and where it is in it; nothing where it came from none."""
        found = None if split is None else self.splits.get(split)
        if found is None:
            return {}
        inner, at = self._within(found, offset)
        file = getattr(getattr(inner, "range", inner), "file", None)
        if file is None:
            return {}
        piece = inner.label.removeprefix(file.name).removeprefix(", ")
        return {"file": file.path, "position": f"item {at} of {piece}" if piece else f"item {at}"}

    def _within(self, split: Split, offset: int) -> tuple[Split, int]:
        """The piece of a split that an item lies in. Those before it are counted, once."""
        for part in split.parts if isinstance(split, Joined) else ():
            count = self.counts.get(id(part))
            if count is None:
                count = self.counts[id(part)] = _count(part)
            if offset < count:
                return self._within(part, offset)
            offset -= count
        return split, offset


def _count(split: Split) -> int:
    """How many items a split has, malformed records among them."""
    if split.rows is not None:
        return split.rows
    return sum(batch.num_rows for batch in split.read(with_bad(split, ()), COUNTED_ITEMS))


COUNTED_ITEMS = 1 << 16
ToFolder = Callable[[pa.Table], None]


def letters_to(path: Any, mode: str, leaves: Sequence[n.GraphNode], beside: Sequence[Folder] = ()) -> ToFolder:
    """What writes letters to a folder. That this can be done is checked here, before anything runs."""
    output = ResultFolder(path, format_of("parquet", SCHEMA, {}), mode)
    refuse_overwriting("dead_letter", output.folder, leaves[0].source.items, mode, output.part_name(0))
    for folder in beside:
        if not folder.is_beside(output.folder) and folder.path == output.folder.path:
            raise GraphError(f"dead_letter: {output.given!r} must be another folder than {folder.about}; name another")
    with output:
        pass  # whether the folder may be there, and its parent can be written

    def write(letters: pa.Table) -> None:
        with output:
            with PartWriter(output.staging, (0,)) as writer:
                for batch in letters.to_batches():
                    writer.write(batch)
                parts = writer.close()
            output.commit(parts)

    return write
