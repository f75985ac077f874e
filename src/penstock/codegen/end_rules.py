"""The end of the stream: what a loop does when nothing more comes, in steps, and the keys that end one by one.

A node that ends its keys notes each with its first item, and at the end goes through them in that order. Between any
two it may stop, because a channel is full, and go on there later; so the end is cut into steps, and what has been done
is not done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.codegen.keyed_rules import KeyedFold
from penstock.codegen.outlets import INDEX
from penstock.codegen.room import RoomWriter
from penstock.codegen.site import Level, Local, Site
from penstock.codegen.window_rules import TimedFold
from penstock.errors import GraphError
from penstock.graph import nodes as n
from penstock.graph.function import Function
from penstock.graph.needs import Names, key_field
from penstock.graph.tree import Tree
from penstock.graph.window import Timed
from penstock.plan.heartbeat.clocks import Clocks
from penstock.plan.segment import Segment

AT_END = 1 << 57
"""Where the places begin of what is given at the end of the stream: behind those of all items."""
MOST_ENDS = 5
"""How many nodes before one may give items at the end, so that places behind them are 64 bits."""


def _ends_before(node: n.GraphNode) -> int:
    """How many nodes before this one, on any way to it, give items at the end of the stream."""
    on_the_way: dict[n.GraphNode, int] = {}
    for each in Tree((node,)).nodes:
        on_the_way[each] = max((on_the_way[before] + before.has_end for before in each.inputs), default=0)
    found = on_the_way[node]
    if found > MOST_ENDS:
        raise GraphError(
            f"{node.label}: at most {MOST_ENDS} nodes before it may give items when the stream ends, where these are "
            f"put in order again; there are {found}; leave out an end="
        )
    return found


class EndingWriter(RoomWriter):
    """The part of a loop's writer that ends the stream."""

    def __init__(self, tree: Tree, segment: Segment, needed: dict[n.GraphNode, Names], clocks: Clocks) -> None:
        super().__init__(tree, segment, needed, clocks)
        self.keyed_folds: dict[n.KeyedAggregate, KeyedFold] = {}
        self.steps: list[tuple[str, list[str]]] = []
        """The steps so far: the phase of each, and its lines."""

    def push(
        self, node: n.FlatMap | n.Through, function: Function, site: Site, records: dict[str, str], own: Level
    ) -> None:
        """Run a generator, and send what it yields."""
        raise NotImplementedError

    def keyed_fold(self, node: n.KeyedAggregate) -> KeyedFold:
        """The writer of an aggregate by key."""
        if node not in self.keyed_folds:
            kind = TimedFold if isinstance(node.window, Timed) else KeyedFold
            self.keyed_folds[node] = kind(self, node)  # type: ignore[arg-type]
        return self.keyed_folds[node]

    def last(self, write: Callable[[], None]) -> list[str]:
        """The end of the stream, in steps: one that has been done is not done again when the loop goes on later."""
        out, has_steps = self.out, any(node.has_end for node in self.segment.nodes)
        out.depth = 3 if has_steps else 2
        with out.aside():
            self.begin_step()
            write()
        out.depth = 1
        with out.aside() as lines, out.block("if last"):
            for at, (phase, step) in enumerate(self.steps):
                if not has_steps:
                    self.check_room(phase, 2)
                    out.lines += step
                elif step:
                    with out.block(f"if {self.integer('step')} <= {at}"):
                        self.check_room(phase, 2)
                        out.lines += step
                        out.line(f"step = {at + 1}")
        return lines

    def arrivals(self, node: n.Stateful) -> str:
        """The arrays in which a node notes its keys in the order of their first items."""
        name = f"en{self.tree.number[node]}"
        self.code.arrivals[name] = node
        return name

    @contextmanager
    def arriving(self, node: n.Stateful, slot: str, site: Site) -> Iterator[None]:
        """What is done with the first item of a key at a node that ends its keys: it is noted."""
        if node.given.key is None:
            yield
            return
        name = self.arrivals(node)
        with self.out.block(f"if not {name}_seen[{slot}]"):
            self.out.line(f"{name}_seen[{slot}] = True")
            self.out.line(f"{name}_order[{name}_count[0]] = {slot}")
            self.out.line(f"{name}_count[0] += 1")
            if self._has_places():
                self.out.line(f"{name}_index[{slot}] = {self.place(site).name}")
            yield

    def index_at_end(self, node: n.Stateful, slot: str) -> Level:
        """The index of what a key gives at the end of the stream, where indices are places in its order.

        Behind all items of the stream, and all that nodes before this one give at the end, in the order of the keys'
        first ones.
        """
        if not self._has_places():
            return {}
        local = self.out.fresh()
        # Of each such node before, the end may give a key its first item here: so indices are up to twice as large.
        self.out.line(f"{local} = {AT_END << _ends_before(node)} + {self.arrivals(node)}_index[{slot}]")
        return {INDEX: Local(local)}

    def index_of_windows(self, node: n.Stateful) -> Level:
        """The index of windows of all keys that close with the stream: behind all items, and in no other order."""
        return {INDEX: Local(str(AT_END << _ends_before(node)))} if self._has_places() else {}

    def _has_places(self) -> bool:
        """Whether items enter with their places in the stream, and something leaves with them."""
        enter = isinstance(self.tree.source, n.Received) and self.tree.source.has_places
        return enter and any(sink.is_cut or sink.has_places for sink in self.code.sinks)

    def begin_step(self) -> None:
        """Begin a step of the end of the stream, in a phase of its own. What is written from here on lies in it."""
        self.steps.append(("last" if not self.steps else f"last{len(self.steps)}", []))
        self.out.lines = self.steps[-1][1]

    def end_keys(self, node: n.Stateful) -> None:
        """The end of the stream at a node that ends its keys one by one, and may stop between any two."""
        out, number = self.out, self.tree.number[node]
        self.begin_step()
        fold = self.keyed_fold(node) if isinstance(node, n.KeyedAggregate) else None
        if isinstance(fold, TimedFold):
            fold.end_all()
            out.line("w[2] = m")
            self.begin_step()
            return
        done, count = self.integer(f"en{number}_done"), "1"
        if node.given.key is not None:
            count = f"{self.arrivals(node)}_count[0]"
        with out.block(f"while {done} < {count}"):
            self.checked(f"end{number}", lambda: self._end_key(node, done), progress=2)
            out.line(f"{done} += 1")
        out.line("w[2] = m")
        self.begin_step()

    def _end_key(self, node: n.Stateful, done: str) -> None:
        number, slot = self.tree.number[node], "0"
        own: Level = {}
        if node.given.key is not None:
            slot = self.out.fresh()
            self.out.line(f"{slot} = as_int({self.arrivals(node)}_order[{done}])")
            own[key_field(self.tree, node.given.key)] = Local(slot)
            own |= self.index_at_end(node, slot)
        self.code.endings[number] = node
        self.out.line(f"w[2] = {-2 - number}")
        self.out.line(f"w[3] = {slot}")
        site = Site((own,), phase=f"end{number}")
        if isinstance(node, n.KeyedAggregate):
            self.keyed_fold(node).end(slot, site)
            return
        assert isinstance(node, n.FlatMap) and node.end is not None
        key = self.key_level(node, slot)
        own = own | {name: value for name, value in key.items() if name in node.keep}
        records = {"state": f"{self.state_array(node)}[{slot}]"}
        self.push(node, node.end, site.with_own(site.own | key), records, own)
