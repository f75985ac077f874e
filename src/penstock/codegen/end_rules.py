"""Keys that end one by one with the stream.

A node that ends its keys notes each with its first item, and at the end goes through them in that order. Between any
two it may stop, because a channel is full, and go on there later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.codegen.generated import Stop, Where
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.outlets import INDEX
from penstock.codegen.site import Level, Local, Site
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.needs import key_field
from penstock.graph.tree import Tree

AT_END = 1 << 57
"""From here on are the indices of what is sent at the end of the stream: after those of all items."""
MOST_ENDS = 5
"""How many nodes upstream of one may send items at the end, so that indices downstream of them are 64 bits."""


def _ends_above(node: n.GraphNode) -> int:
    """How many nodes upstream of this one, on any way to it, send items at the end of the stream."""
    on_the_way: dict[n.GraphNode, int] = {}
    for each in Tree((node,)).nodes:
        on_the_way[each] = max((on_the_way[before] + before.has_end for before in each.inputs), default=0)
    ends = on_the_way[node]
    if ends > MOST_ENDS:
        raise GraphError(
            f"{node.label}: at most {MOST_ENDS} nodes before it may give items when the stream ends, where these are "
            f"put in order again; there are {ends}; leave out an end="
        )
    return ends


def arrivals(loop: LoopContext, node: n.Stateful) -> str:
    """The arrays in which a node notes its keys in the order of their first items."""
    name = f"arrivals{loop.number(node)}"
    loop.code.arrivals[name] = node
    return name


def note_arrival(loop: LoopContext, node: n.Stateful, slot: str, site: Site) -> None:
    """Note a key at a node that ends its keys."""
    with arriving(loop, node, slot, site):
        pass


@contextmanager
def arriving(loop: LoopContext, node: n.Stateful, slot: str, site: Site) -> Iterator[None]:
    """What is done with the first item of a key at a node that ends its keys: it is noted."""
    if node.given.key is None:
        yield
        return
    name, out = arrivals(loop, node), loop.out
    with out.block(f"if not {name}_seen[{slot}]"):
        out.line(f"{name}_seen[{slot}] = True")
        out.line(f"{name}_order[{name}_count[0]] = {slot}")
        out.line(f"{name}_count[0] += 1")
        if _has_indices(loop):
            out.line(f"{name}_index[{slot}] = {loop.exits.index(site).name}")
        yield


def end_keys(loop: LoopContext, node: n.Stateful, end_key: Callable[[str, Site], None]) -> None:
    """Steps of the end of the stream, in which `end_key` writes what is done with each key of a node."""
    out, number, count = loop.out, loop.number(node), "1"
    loop.end.begin()
    loop.out.comment(f"{node.label}: its keys end")
    done = loop.carried.integer(f"ended{number}")
    if node.given.key is not None:
        count = f"{arrivals(loop, node)}_count[0]"
    with out.block(f"while {done} < {count}"):
        loop.room.checked(f"end{number}", lambda: _end_key(loop, node, done, end_key), Stop.END)
        out.line(f"{done} += 1")
    loop.calls.note_where(Where.MARK, "mark")
    loop.end.begin()


def _end_key(loop: LoopContext, node: n.Stateful, done: str, end_key: Callable[[str, Site], None]) -> None:
    slot, own = "0", Level()
    if node.given.key is not None:
        slot = loop.calls.assign(f"as_int({arrivals(loop, node)}_order[{done}])").name
        own[key_field(loop.tree, node.given.key)] = Local(slot)
        own |= _index_at_end(loop, node, slot)
    note_end(loop, node, slot)
    end_key(slot, Site((own,), phase=f"end{loop.number(node)}"))


def note_end(loop: LoopContext, node: n.Stateful, slot: str) -> None:
    """Note, for errors, which key a node ends."""
    number = loop.number(node)
    loop.code.endings[number] = node
    loop.calls.note_where(Where.MARK, -2 - number)
    loop.calls.note_where(Where.KEY, slot)


def _index_at_end(loop: LoopContext, node: n.Stateful, slot: str) -> Level:
    """The index of what a key sends at the end of the stream.

    After all items of the stream, and all that nodes upstream send at the end, in the order of the keys' first ones.
    """
    if not _has_indices(loop):
        return {}
    # Of each such node upstream, the end may give a key its first item here: so indices are up to twice as large.
    return {INDEX: loop.calls.assign(f"{AT_END << _ends_above(node)} + {arrivals(loop, node)}_index[{slot}]")}


def index_of_windows(loop: LoopContext, node: n.Stateful) -> Level:
    """The index of windows of all keys that close with the stream: after all items, and in no other order."""
    return {INDEX: Local(str(AT_END << _ends_above(node)))} if _has_indices(loop) else {}


def _has_indices(loop: LoopContext) -> bool:
    """Whether items enter with their indices in the stream, and something leaves with them."""
    source = loop.tree.source
    enter = isinstance(source, n.Received) and source.has_places
    return enter and any(sink.is_cut or sink.has_places for sink in loop.code.sinks)
