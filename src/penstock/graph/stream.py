"""The fluent interface: a stream is an immutable handle on one point of a graph.

Every method makes one node and gives a new stream; the node checks itself. Nothing runs before `collect`, `batches` or
`run`. A branch is two uses of one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import GraphError
from penstock.graph import nodes
from penstock.graph.fields import Fields
from penstock.graph.foreign import METHODS, hint
from penstock.graph.function import Undeclared
from penstock.graph.record import Operator, Signal, State
from penstock.graph.running import Running
from penstock.graph.window import TimeWindow, WholeWindow, Window, count_window


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stream(Fields, Running):
    """A point of a graph, from which more can be built and which can be run."""

    node: nodes.GraphNode

    def _at(self, node: nodes.GraphNode) -> Stream:
        return Stream(node)

    # Items

    def map(
        self, *given: Any, to: tuple[str, ...] | None = None, state: type[State] | None = None, **fields: Any
    ) -> Stream:
        """Set fields of each item, each by a function of the fields that it names.

        With `state=`, the functions may also take `state`, the record of the item's key. With `to=`, one function
        returns a tuple and sets several fields.

        >>> import penstock as ps
        >>> items = ps.from_items([{"v": 1.0}, {"v": 2.0}])
        >>> items.map(double=lambda v: 2 * v).collect().to_pydict()
        {'v': [1.0, 2.0], 'double': [2.0, 4.0]}
        >>> items.map(lambda v: (v + 1, v - 1), to=("up", "down")).collect().to_pydict()
        {'v': [1.0, 2.0], 'up': [2.0, 3.0], 'down': [0.0, 1.0]}
        """
        if bool(given) != (to is not None) or len(given) > 1:
            raise GraphError(
                "map: write map(field=function), or map(function, to=('a', 'b')) for a function that returns a tuple"
            )
        functions = [(tuple(to or ()), given[0])] if given else []
        return Stream(nodes.Map(self.node, state, (), (*functions, *fields.items())))

    def filter(self, predicate: Callable[..., Any], *, state: type[State] | None = None) -> Stream:
        """Keep the items for which a function of the fields that it names is true.

        >>> import penstock as ps
        >>> ps.from_items([{"v": 1}, {"v": -2}]).filter(lambda v: v > 0).collect().to_pydict()
        {'v': [1]}
        """
        return Stream(nodes.Filter(self.node, state, (), predicate))

    def flat_map(
        self,
        function: Callable[..., Any],
        *,
        to: str | tuple[str, ...],
        at_most: int,
        keep: str | Sequence[str] = (),
        state: type[State] | None = None,
        end: Callable[..., Any] | None = None,
    ) -> Stream:
        """Give 0 to `at_most` new items for each: the function is a generator, and every `yield` is a push.

        A new item has the fields `to`, and of the old one those named by `keep`. One output more than declared is an
        error.

        `end=` is a generator of `state`, and of the key's fields, that is called when the stream ends: for every key
        that had an item here, in the order of their first items; without a key, once. It too pushes at most `at_most`.
        Then the function may be one that only changes the state, and `keep` names fields of the key.

        >>> import penstock as ps
        >>> def halves(v):
        ...     while v > 0:
        ...         yield v
        ...         v //= 2
        >>> ps.from_items([{"v": 5}, {"v": 0}, {"v": 2}]).flat_map(halves, to="h", at_most=64).collect().to_pydict()
        {'h': [5, 2, 1, 2, 1]}
        >>> class Peak(ps.State):
        ...     high: float
        >>> def rise(v, state):
        ...     state.high = max(state.high, v)
        >>> def highest(state):
        ...     yield state.high
        >>> items = ps.from_items([{"k": "a", "v": 1.0}, {"k": "b", "v": 5.0}, {"k": "a", "v": 2.0}]).key_by("k")
        >>> items.flat_map(rise, to="high", at_most=1, keep="k", state=Peak, end=highest).collect().to_pydict()
        {'k': ['a', 'b'], 'high': [2.0, 5.0]}
        """
        return Stream(nodes.FlatMap(self.node, state, (), function, to, at_most, _names(keep), end))

    def map_columns(self, function: Callable[..., Any], *, to: Mapping[str, Any]) -> Stream:
        """Set fields by a function over whole Arrow columns, for what is best said that way.

        The function is given the columns that it names and returns one column, or a dict or a tuple of them, of the
        types in `to`. A row of the result may depend on that row alone: batches are cut anywhere.

        >>> import penstock as ps
        >>> import pyarrow.compute as pc
        >>> items = ps.from_items([{"name": "ada"}, {"name": "bob"}])
        >>> items.map_columns(lambda name: pc.utf8_upper(name), to={"loud": str}).collect().to_pydict()
        {'name': ['ada', 'bob'], 'loud': ['ADA', 'BOB']}
        """
        return Stream(nodes.MapColumns(self.node, function, dict(to)))

    # Regions

    def enumerate(self, field: str, *, as_: str, index: str | None = None) -> Stream:
        """Open each item: the elements of its list become the items, and the item becomes their parent.

        Functions may name the parent's fields as well as the element. `index=` names a field for the element's place.
        Strings and bytes are opened into their bytes.

        >>> import penstock as ps
        >>> blobs = ps.from_items([{"id": 1, "values": [1, 2]}, {"id": 2, "values": []}])
        >>> opened = blobs.enumerate("values", as_="v", index="i")
        >>> opened.map(w=lambda id, v, i: 100 * id + 10 * i + v).collect().to_pydict()
        {'v': [1, 2], 'i': [0, 1], 'w': [101, 112]}
        """
        return Stream(nodes.Enumerate(self.node, field, as_, index))

    def regions(
        self,
        *,
        start: Callable[..., Any] | None = None,
        by: str | Sequence[str] = (),
        keep: Mapping[str, str] | str | Sequence[str] = (),
    ) -> Stream:
        """Find regions in the stream: wherever `start` is true, or wherever a field of `by` changes.

        The first item always begins a region; the last region ends with the stream, or with the region around it. The
        fields of `by` become the parent's, and so do those that `keep={"new": "old"}` takes from the first item.

        >>> import penstock as ps
        >>> trips = ps.from_items([{"trip": 1, "km": 2}, {"trip": 1, "km": 3}, {"trip": 2, "km": 4}])
        >>> trips.regions(by="trip").aggregate(km=ps.sum("km")).collect().to_pydict()
        {'trip': [1, 2], 'km': [5, 4]}
        >>> words = ps.from_items([{"word": 1, "first": True}, {"word": 2, "first": False}, {"word": 3, "first": True}])
        >>> found = words.regions(start=lambda first: first, keep={"head": "word"})
        >>> found.aggregate(n=ps.count()).collect().to_pydict()
        {'head': [1, 3], 'n': [2, 1]}

        Behind `key_by`, each key has regions of its own, found in its items alone; `aggregate` must close them right
        behind. There `keep="field"` takes fields under their own names too.

        >>> words = ps.from_items([{"k": k, "v": v} for k, v in [("a", 1), ("b", 7), ("a", 2), ("b", 8), ("a", 9)]])
        >>> found = words.key_by("k").regions(start=lambda v: v > 5, keep={"head": "v"})
        >>> found.aggregate(n=ps.count()).collect().to_pydict()
        {'k': ['b', 'a', 'a', 'b'], 'head': [7, 1, 9, 8], 'n': [1, 2, 1, 1]}
        """
        kept = dict(keep) if isinstance(keep, Mapping) else {name: name for name in _names(keep or ())}
        if self.node.shape.key is not None and not self.node.shape.regions:
            return KeyRegions(nodes.KeyedRegions(self.node, start, _names(by), kept))
        return Stream(nodes.Regions(self.node, start, _names(by), kept))

    def aggregate(self, *, keep: str | Sequence[str] | None = None, **results: Any) -> Stream:
        """Close the innermost region: one item for each, with the parent's fields and the aggregates.

        Behind `key_by`, where no region is open, it gives one item for each key when the stream ends: the key's fields
        and the aggregates, in the order of the keys' first items. Without a key it gives one item for the whole stream,
        also for one without items; a running stream, which does not end, refuses both.

        Parameters
        ----------
        keep
            Which of the parent's fields, or of the key's, to keep. By default all but the list that was opened.
        **results
            The aggregates by the names of their fields: built-ins such as `ps.sum("v")`, or classes derived from
            `ps.Fold`.

        Returns
        -------
        Stream
            One item for each region, for each key, or for all.

        Raises
        ------
        GraphError
            If there is no aggregate, a field does not exist, or its type cannot be aggregated so.

        Examples
        --------
        >>> import penstock as ps
        >>> blobs = ps.from_items([{"id": 1, "values": [1.0, 2.0]}, {"id": 2, "values": []}])
        >>> blobs.enumerate("values", as_="v").aggregate(total=ps.sum("v"), n=ps.count()).collect().to_pydict()
        {'id': [1, 2], 'total': [3.0, 0.0], 'n': [2, 0]}

        >>> items = ps.from_items([{"k": "a", "v": 1}, {"k": "b", "v": 5}, {"k": "a", "v": 2}])
        >>> items.key_by("k").aggregate(total=ps.sum("v")).collect().to_pydict()
        {'k': ['a', 'b'], 'total': [3, 5]}
        >>> items.aggregate(total=ps.sum("v"), n=ps.count()).collect().to_pylist()
        [{'total': 8, 'n': 3}]
        """
        kept, shape = None if keep is None else _names(keep), self.node.shape
        if not shape.regions:
            return Stream(nodes.keyed_aggregate(self.node, results, WholeWindow(), kept))
        return Stream(nodes.Aggregate(self.node, results, kept))

    def close(self, *keep: str) -> Stream:
        """Strip the innermost region: its items stay, with the parent's fields that are named here.

        >>> import penstock as ps
        >>> blobs = ps.from_items([{"id": 1, "values": [1.0, 2.0]}, {"id": 2, "values": [3.0]}])
        >>> blobs.enumerate("values", as_="v").close("id").collect().to_pydict()
        {'id': [1, 1, 2], 'v': [1.0, 2.0, 3.0]}
        """
        return Stream(nodes.Close(self.node, keep))

    def process(self, operator: type[Operator], *, to: str | tuple[str, ...], at_most: int) -> Stream:
        """Run an operator of one's own: `begin`, `run` and `end` around each region, every `yield` a push.

        >>> import penstock as ps
        >>> class Steps(ps.Operator):
        ...     last: float
        ...     n: int
        ...     def run(self, v):
        ...         if self.n > 0:
        ...             yield v - self.last
        ...         self.last = v
        ...         self.n += 1
        ...     def end(self):
        ...         yield -1.0
        >>> blobs = ps.from_items([{"id": 1, "values": [1.0, 4.0, 6.0]}, {"id": 2, "values": [3.0]}])
        >>> blobs.enumerate("values", as_="v").process(Steps, to="step", at_most=1).close("id").collect().to_pydict()
        {'id': [1, 1, 1, 2], 'step': [3.0, 2.0, -1.0, -1.0]}
        """
        return Stream(nodes.Through(self.node, operator, to, at_most))

    # Keys and signals

    def key_by(self, *names: str) -> Stream:
        """Group the items by fields: from here on a `state=` belongs to a key, and each key sees its items in order.

        >>> import penstock as ps
        >>> class Total(ps.State):
        ...     sum: float
        >>> def running(v, state):
        ...     state.sum += v
        ...     return state.sum
        >>> items = ps.from_items([{"k": "a", "v": 1.0}, {"k": "b", "v": 5.0}, {"k": "a", "v": 2.0}])
        >>> items.key_by("k").map(sum=running, state=Total).collect().to_pydict()
        {'k': ['a', 'b', 'a'], 'v': [1.0, 5.0, 2.0], 'sum': [1.0, 5.0, 3.0]}
        """
        return Stream(nodes.key_by(self.node, names))

    def window(
        self,
        time: str | None = None,
        *,
        length: int | float | timedelta | None = None,
        count: int | None = None,
        every: int | float | timedelta | None = None,
        late: int | float | timedelta | None = None,
        on_late: str = "drop",
        partial: bool = True,
        start: str | None = "start",
        end: str | None = "end",
    ) -> Windows:
        """Windows by key, to be followed by `aggregate`: of `count` items, or of a `length` of time.

        A window begins with every `every` items, or at every multiple of `every`; without it, where the one before
        ends. `start` and `end` name the fields of the bounds; None leaves them out.

        A window of `count` items closes with its last one; `partial=False` leaves out those that are not full at the
        end. Windows of time close when the stream ends. With `late=` they close as soon as the newest time of the whole
        stream, less `late`, has come to their end: the watermark. An item of which all windows have closed is late. It
        is counted and left out, or an error with `on_late="error"`; `late` of the windows is the stream of such items.
        A running stream needs `late=`. See `docs/time.md`.

        >>> import penstock as ps
        >>> items = ps.from_items([{"k": "a", "t": t, "v": t * t} for t in (1, 2, 5, 11)]).key_by("k")
        >>> items.window(count=3).aggregate(v=ps.sum("v")).collect().to_pylist()
        [{'k': 'a', 'start': 0, 'end': 3, 'v': 30}, {'k': 'a', 'start': 3, 'end': 4, 'v': 121}]
        >>> items.window("t", length=10, start="since", end=None).aggregate(n=ps.count()).collect().to_pylist()
        [{'k': 'a', 'since': 0, 'n': 3}, {'k': 'a', 'since': 10, 'n': 1}]
        """
        bounds = (start or "", end or "")
        if (time is None) == (count is None) or (time is None) != (length is None):
            raise GraphError("window: give count=, or the field of the time and length=, and not both")
        if time is None:
            if late is not None or on_late != "drop":
                raise GraphError("window: late= and on_late= belong to windows of time; got count=")
            return Windows(self.node, count_window(count, every, partial, bounds))
        if partial is not True:
            raise GraphError("window: partial= belongs to windows of count= items; got a time")
        return Windows(self.node, TimeWindow(time, length, every, late, on_late, bounds))

    def emit(self, signal: type[Signal], *, when: Callable[..., Any], **values: Any) -> Stream:
        """Place a signal after each item for which `when` is true, its fields computed by functions of the item.

        Every node behind that handles the signal does so after this item and before the next.

        >>> import penstock as ps
        >>> class Reset(ps.Signal):
        ...     to: int
        >>> class Count(ps.State):
        ...     n: int
        >>> def count(state):
        ...     state.n += 1
        ...     return state.n
        >>> items = ps.from_items([{"v": v} for v in (1, 9, 1, 1)])
        >>> reset = items.emit(Reset, when=lambda v: v > 5, to=lambda v: 10 * v)
        >>> reset.map(n=count, state=Count).on(Reset, n=lambda signal: signal.to).collect().to_pydict()
        {'v': [1, 9, 1, 1], 'n': [1, 2, 91, 92]}
        """
        return Stream(nodes.Emit(self.node, signal, when, values))

    def on(self, signal: type[Signal], function: Callable[..., Any] | None = None, **assigned: Any) -> Stream:
        """Let the stateful node before handle a signal: by a function of `state` and `signal`, or field by field.

        After `key_by` every key handles it, also a key whose first item is yet to come.

        >>> import penstock as ps
        >>> class Scale(ps.Signal):
        ...     factor: float
        >>> class Factor(ps.State):
        ...     now: float = 1.0
        >>> scaled = ps.from_items([{"v": 1.0}, {"v": 2.0}]).map(v=lambda v, state: v * state.now, state=Factor)
        >>> scaled = scaled.on(Scale, now=lambda state, signal: state.now * signal.factor)
        >>> scaled.collect(control=[ps.at(1, Scale(10.0))]).to_pydict()
        {'v': [1.0, 20.0]}
        """
        if not isinstance(self.node, nodes.Stateful) or nodes.is_global_limit(self.node):
            raise GraphError(f"{self.node.label}: on: must come right after a map, filter or flat_map with state=")
        return Stream(self.node.on(signal, function, assigned))

    def split(
        self, *routes: Callable[..., Any], outputs: int | None = None, state: type[State] | None = None
    ) -> tuple[Stream, ...]:
        """Several streams, one for each condition: an item goes to those whose condition it meets, any number of them.

        With `outputs=`, one function gives a tuple of so many truths; with `state=` it may take `state`. `ps.align` and
        `ps.merge` bring the streams together again.

        >>> import penstock as ps
        >>> items = ps.from_items([{"v": v} for v in (-1, 2, 30)])
        >>> small, positive = items.split(lambda v: v < 10, lambda v: v > 0)
        >>> small.collect()["v"].to_pylist(), positive.collect()["v"].to_pylist()
        ([-1, 2], [2, 30])
        >>> low, high = items.split(lambda v: (v < 2, v >= 2), outputs=2)
        >>> high.collect().to_pydict()
        {'v': [2, 30]}
        """
        from penstock.graph.align import split

        return split(self, routes, outputs, state)

    def named(self, name: str) -> Stream:
        """Name the step before, for reports, for the options of a run, and for checkpoints.

        `explain`, statistics and Spark's pages show the name. `mapping=`, `flexible=` and `context=` of a run may name
        the step by it, and so may `expire_after=` and `time=` of `start`. A running stream that is started again with a
        changed graph finds the state of a named step under its name, wherever the step is now; see `docs/streams.md`.
        What the step does is not changed.

        Parameters
        ----------
        name
            A text that is not empty; each step should have its own.

        Returns
        -------
        Stream
            The same stream.

        Raises
        ------
        GraphError
            If it is no such text, or if there is no step before: a source has its name where it is made.

        Examples
        --------
        >>> import penstock as ps
        >>> class Total(ps.State):
        ...     sum: float
        >>> def running(v, state):
        ...     state.sum += v
        ...     return state.sum
        >>> items = ps.from_items([{"k": "a", "v": 1.0}, {"k": "a", "v": 2.0}])
        >>> items.key_by("k").map(sum=running, state=Total).named("totals").collect()["sum"].to_pylist()
        [1.0, 3.0]
        >>> squares = items.map(w=lambda v: v * v).named("squares").filter(lambda w: w > 1)
        >>> squares.collect(cores=2, fuse=False, flexible={"squares": 1})["w"].to_pylist()
        [4.0]
        """
        return Stream(nodes.with_title(self.node, name))

    @property
    def schema(self) -> pa.Schema:
        """The fields of the items here, as an Arrow schema.

        >>> import penstock as ps
        >>> ps.from_items([{"v": 1}]).map(w=lambda v: v / 2).schema.names
        ['v', 'w']
        """
        try:
            return pa.schema(list(self.node.shape.fields.items()))
        except Undeclared as error:
            raise GraphError(str(error)) from None

    if not TYPE_CHECKING:  # an editor knows the methods that there are

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"a stream has no {name!r}{hint(name, METHODS, dir(type(self)))}")

    def __repr__(self) -> str:
        try:
            fields = ", ".join(f"{name}: {t}" for name, t in self.node.shape.fields.items())
        except Undeclared:
            return f"<stream of fields that a run will show after {self.node.label}>"
        inside = "".join(f" in {region.opener.label}" for region in reversed(self.node.shape.regions))
        return f"<stream of ({fields}){inside} after {self.node.label}>"


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The windows of a keyed stream, as `Stream.window` makes them: to aggregate, and to see what came too late."""

    node: nodes.GraphNode
    window: Window

    @property
    def late(self) -> Stream:
        """The items of which every window had closed before they came, as they are; for windows of time with `late=`.

        >>> import penstock as ps
        >>> items = ps.from_items([{"k": "a", "t": t} for t in (1, 12, 3, 25)]).key_by("k")
        >>> windows = items.window("t", length=10, late=0)
        >>> counts, late = ps.run(windows.aggregate(n=ps.count()), windows.late)
        >>> counts["n"].to_pylist(), late.to_pylist()
        ([1, 1, 1], [{'k': 'a', 't': 3}])
        """
        if not isinstance(self.window, TimeWindow):
            raise self.node.fail("window: only windows of time have late items; got count=")
        return Stream(nodes.late_items(self.node, self.window))

    def aggregate(self, *, keep: str | Sequence[str] | None = None, **results: Any) -> Stream:
        """One item for each window with an item in it: the key's fields, the bounds, and the aggregates.

        `keep=` chooses among the key's fields. An aggregate is a built-in such as `ps.sum("v")`, or a class derived
        from `ps.Fold`, of which `begin` sees the key's fields, and `end` those and the bounds.

        >>> import penstock as ps
        >>> items = ps.from_items([{"k": "a", "v": v} for v in (1, 2, 3, 4)]).key_by("k")
        >>> items.window(count=2, every=1, partial=False).aggregate(v=ps.mean("v")).collect()["v"].to_pylist()
        [1.5, 2.5, 3.5]
        """
        return Stream(nodes.keyed_aggregate(self.node, results, self.window, None if keep is None else _names(keep)))


class KeyRegions(Stream):
    """The regions of each key, as `Stream.regions` finds them behind `key_by`.

    They are no point of a graph before `aggregate` has closed them, so that all else is refused.
    """

    __slots__ = ("found",)
    found: nodes.KeyedRegions

    def __init__(self, node: nodes.KeyedRegions) -> None:
        object.__setattr__(self, "found", node)

    @property
    def node(self) -> nodes.GraphNode:  # type: ignore[override]
        """Refused; any method but `aggregate` begins with it."""
        raise self.found.fail(
            "the regions of a key must be closed by aggregate right behind; got something else in between, or nothing; "
            "put it before regions, or behind aggregate"
        )

    def aggregate(self, *, keep: str | Sequence[str] | None = None, **results: Any) -> Stream:
        """One item for each region of each key: the key's fields, those of `by` and `keep`, and the aggregates.

        `keep=` chooses among them. An aggregate is a built-in such as `ps.sum("v")`, or a class derived from `ps.Fold`,
        of which `begin` and `end` see these fields. The item comes when the region ends: before the item that begins
        the next one of its key is taken up.

        >>> import penstock as ps
        >>> items = ps.from_items([{"k": k, "on": on} for k, on in [(1, True), (2, True), (1, True), (1, False)]])
        >>> items.key_by("k").regions(by="on").aggregate(n=ps.count()).collect().to_pylist()
        [{'k': 1, 'on': True, 'n': 2}, {'k': 1, 'on': False, 'n': 1}, {'k': 2, 'on': True, 'n': 1}]
        """
        kept = None if keep is None else _names(keep)
        return Stream(nodes.keyed_aggregate(self.found.before, results, self.found.window, kept))

    def __repr__(self) -> str:
        return f"<{self.found.label} of each key after {self.found.before.label}>"


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
