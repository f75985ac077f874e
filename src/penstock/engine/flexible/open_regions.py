"""Which regions are open behind a piece of a stream, found without looking at each of its boundaries in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.piece import Piece


@dataclass(frozen=True, slots=True)
class Opened:
    """A region that a piece opens and leaves open: by which mark, and how many it opens before, in all and as deep."""

    depth: int
    mark: int
    before: int
    row: int


@dataclass(frozen=True, slots=True)
class Followed:
    """What becomes of the regions: so many that were open still are, so many were opened, and these are left open."""

    kept: int
    count: int
    opened: tuple[Opened, ...]


def followed(kinds: np.ndarray, depth: int) -> Followed | None:
    """Follow the regions, at most so deep, through marks; None where no boundary is among these.

    >>> followed(np.array([0, 2, 3, 2]), 2).opened
    (Opened(depth=0, mark=0, before=0, row=0), Opened(depth=1, mark=3, before=2, row=1))
    >>> followed(np.array([2, 3, 1, 0, 1]), 2)
    Followed(kept=0, count=2, opened=())
    """
    marks = np.flatnonzero((kinds >= 0) & (kinds < 2 * depth))
    if not len(marks):
        return None
    found = kinds[marks]
    opens = found % 2 == 0
    left = int(found[-1]) // 2 + int(opens[-1])  # a region closes with all that are deeper
    last = [np.flatnonzero(found == 2 * at)[-1:].tolist() for at in range(left)]
    opened = tuple(
        Opened(at, int(marks[of]), int(opens[:of].sum()), int((found[:of] == 2 * at).sum()))
        for at, here in enumerate(last)
        for of in here
    )
    return Followed(left - len(opened), int(opens.sum()), opened)


def opening(made: Piece, piece: Piece, opened: Opened) -> Piece:
    """A mark as the opening of a region of a piece, with its parent: to be told again."""
    parents = [
        {name: column.slice(opened.row, int(at == opened.depth)) for name, column in columns.items()}
        for at, columns in enumerate(piece.parents)
    ]
    return replace(made, parents=parents, opened=[int(at == opened.depth) for at in range(len(piece.parents))])
