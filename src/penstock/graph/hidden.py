"""Hidden fields: what the engine carries with items and users never see, told from their fields by one mark."""

from __future__ import annotations

from typing import Literal

MARK = "#"

HiddenRole = Literal["at", "bad", "index", "k", "key", "link", "place", "state", "tag", "which"]
"""What a hidden field is for.

- ``at``: the index of an item where streams part, by which they are aligned again; one for each such node
- ``bad``: why a record of a file cannot be read, where such records are skipped
- ``index``: the index of an item, on a channel or in its source
- ``k``: the slot of an item's key; one for each `key_by`
- ``key``: the key of an item, in the reference
- ``link``, ``tag``: the parent's row, of a parent and of an item, where regions travel as tags
- ``place``: the position of an item in the order of the source, between stages and in dead letters
- ``state``, ``which``: the state before an item that failed, and the node where it did
"""


class HiddenField(str):
    """The name of a hidden field. Invariant: it begins with the mark, which no user's field may."""

    __slots__ = ()

    @classmethod
    def of(cls, role: HiddenRole, number: int | None = None) -> HiddenField:
        """The hidden field of a role; numbered, where each of several nodes has one.

        >>> HiddenField.of("k", 3)
        '#k3'
        """
        return cls(f"{MARK}{role}{'' if number is None else number}")


def is_hidden(name: str, role: HiddenRole | None = None) -> bool:
    """Whether a name is that of a hidden field, and of this role if one is given. Names may come back from Arrow.

    >>> is_hidden("#k3"), is_hidden("#k3", "k"), is_hidden("#key", "k"), is_hidden("key")
    (True, True, False, False)
    """
    if role is None:
        return name.startswith(MARK)
    return name.startswith(MARK) and name[1:].rstrip("0123456789") == role
