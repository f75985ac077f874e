"""The methods of a stream that choose among its fields, and among its items by nothing but nulls and number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import GraphError, quoted
from penstock.graph import nodes, types

if TYPE_CHECKING:
    from penstock.graph.stream import Stream


class Fields:
    """What can be done with the fields of a stream."""

    __slots__ = ()
    node: nodes.GraphNode

    def _at(self, node: nodes.GraphNode) -> Stream:
        """The stream behind a node."""
        raise NotImplementedError

    def select(self, *names: str, **renamed: str) -> Stream:
        """Keep only these fields, in this order; `new="old"` renames.

        >>> import penstock as ps
        >>> ps.from_items([{"a": 1, "b": 2, "c": 3}]).select("c", x="a").collect().to_pydict()
        {'c': [3], 'x': [1]}
        """
        if not all(isinstance(name, str) for name in names) or len({*names, *renamed}) < len(names) + len(renamed):
            raise GraphError(f"select: takes different names of fields; got {[*names, *renamed]}")
        return self._at(nodes.Select(self.node, dict(zip(names, names, strict=True)) | renamed))

    def drop(self, *names: str) -> Stream:
        """Leave out these fields, and keep all others in their order.

        Parameters
        ----------
        *names
            Fields of the item, at least one, and not all of them.

        Returns
        -------
        Stream
            The stream without these fields.

        Raises
        ------
        GraphError
            If a name is no field of the item, or if no field would be left.

        Examples
        --------
        >>> import penstock as ps
        >>> ps.from_items([{"a": 1, "b": 2, "c": 3}]).drop("b").collect().to_pydict()
        {'a': [1], 'c': [3]}
        """
        fields = self._must_have("drop", names)
        return self._at(nodes.Select(self.node, {name: name for name in fields if name not in names}))

    def rename(self, **renamed: str) -> Stream:
        """Give fields new names, each as `new="old"`; all fields stay, in their order.

        Parameters
        ----------
        **renamed
            The new name of each field, with the old one as its value.

        Returns
        -------
        Stream
            The stream with the new names.

        Raises
        ------
        GraphError
            If an old name is no field of the item, or if two fields would have one name.

        Examples
        --------
        >>> import penstock as ps
        >>> ps.from_items([{"a": 1, "b": 2}]).rename(first="a").collect().to_pydict()
        {'first': [1], 'b': [2]}
        """
        fields, old = self._must_have("rename", tuple(renamed.values())), {v: k for k, v in renamed.items()}
        names = [old.get(name, name) for name in fields]
        if len(set(names)) < len(names) or len(old) < len(renamed):
            raise self.node.fail(f"rename: fields must have different names; got {quoted(renamed)} for {quoted(old)}")
        return self._at(nodes.Select(self.node, dict(zip(names, fields, strict=True))))

    def _must_have(self, what: str, names: tuple[str, ...]) -> Mapping[str, Any]:
        """All fields of the item, after checking that these are among them."""
        fields = self.node.shape.fields
        for name in names:
            if not isinstance(name, str) or name not in fields:
                raise self.node.fail(
                    f"{what}: {name!r} must be a field of the item; there are {quoted(fields)}"
                    f"{types.nearest(str(name), fields)}"
                )
        if not names:
            raise self.node.fail(f"{what}: must name at least one field; got none")
        return fields

    def limit(self, n: int) -> Stream:
        """Keep the first `n` items of the stream, in the order in which one thread would have them.

        Once they are there, the source is read no further, unless signals pass. Steps before may still have been
        called on items behind the last of them, as these are taken in batches. It counts all items, whatever their
        key, and what follows has none: write `key_by` behind it for a state by key.

        On Spark each task reads no more than it takes to have `n` items, and one task chooses among those. Behind a
        state by key, or an `aggregate` by key, the whole stream runs in one task.

        Parameters
        ----------
        n
            How many items to keep, 0 or more. A running stream gives so many, and then nothing.

        Returns
        -------
        Stream
            The first items, with all their fields.

        Raises
        ------
        GraphError
            If `n` is not such a number, or a region is open here.

        Examples
        --------
        >>> import penstock as ps
        >>> items = ps.from_items([{"v": v} for v in range(10)])
        >>> items.filter(lambda v: v % 2 == 1).limit(2).collect().to_pydict()
        {'v': [1, 3]}
        """
        depth = self.node.shape.depth
        if depth:
            raise self.node.fail(
                f"limit: must stand where no region is open, and here {depth} are; close them with aggregate or close "
                f"before, or write head({n!r}) for the first rows of the result"
            )
        return self._at(nodes.limit(self.node, n))

    def drop_nulls(self, *names: str) -> Stream:
        """Leave out the items in which one of these fields (of all, where none is named) is null or holds a null.

        Stands right after the source; the items keep their indices.

        >>> import penstock as ps
        >>> ps.from_items([{"v": 1}, {"v": None}]).drop_nulls("v").collect().to_pydict()
        {'v': [1]}
        """
        return self._at(nodes.DropNulls(self.node, names or tuple(self.node.shape.fields)))

    def fill_null(self, **values: Any) -> Stream:
        """Put a value where a field is null. In a list, it is put for the elements that are null; a null list is empty.

        >>> import penstock as ps
        >>> ps.from_items([{"v": 1}, {"v": None}]).fill_null(v=0).collect().to_pydict()
        {'v': [1, 0]}
        """
        return self._at(nodes.FillNull(self.node, values))
