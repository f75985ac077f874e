"""What a running stream must not be asked for: ends that never come, and keys that cannot end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from penstock.errors import GraphError, quoted
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.tree import Tree
from penstock.graph.window import WholeWindow
from penstock.plan.idle import IdleLimit, names_of
from penstock.plan.stages import Cut

NO_EXPIRY = IdleLimit()


def refuse_endings(tree: Tree, wanted: IdleLimit = NO_EXPIRY) -> None:
    """Refuse what only the end of a stream would give: a running stream has none, and its keys end only if asked to."""
    for node in tree.nodes:
        if isinstance(node, n.Step) and not _ends(node, wanted):
            if isinstance(node, n.KeyedAggregate) and isinstance(node.window, WholeWindow):
                raise GraphError(
                    f"start: {node.label}: gives its rows when the stream ends, and a running stream does not end; "
                    f"{_HAVE_KEYS if node.given.key is None else ''}put a window before it, .window(count=...) or "
                    f".window(field, length=...), or have keys end that are idle, with expire_after="
                )
            if isinstance(node, n.FlatMap) and node.has_end:
                raise GraphError(
                    f"start: {node.label}: its end= is called when the stream ends, and a running stream does not end; "
                    f"{_HAVE_KEYS if node.given.key is None else ''}have keys end that are idle, with expire_after=, "
                    f"or leave end= out"
                )


def _refuse_without_late(tree: Tree) -> None:
    """Refuse windows of time that close only when the stream ends."""
    for node in tree.nodes:
        window = n.timed_of(node)
        if window is not None and window.late is None:
            raise GraphError(
                f"start: {node.label}: windows of {window.field!r} close when the stream ends, and a running stream "
                f"does not end; say how far an item may be behind the newest one: "
                f".window({window.field!r}, length=..., late=...), where late=0 closes them at once"
            )


_HAVE_KEYS = "put a key_by before it and "


def _ends(node: n.Step, wanted: IdleLimit) -> bool:
    key = node.given.key
    return key is not None and wanted.at(key).expire_after is not None


def refuse_idle(tree: Tree, made: Cut, wanted: IdleLimit) -> None:
    """Refuse ends that never come, unless keys end by themselves; and what is wanted in vain."""
    keys = [node for node in tree.nodes if isinstance(node, n.KeyBy)]
    for option, value in (("time", wanted.time), ("expire_after", wanted.expire_after)):
        _refuse_unknown(option, value, keys)
    if wanted.expire_after is not None:
        _refuse_expiry(made, wanted)
    refuse_endings(tree, wanted)
    _refuse_without_late(tree)
    if wanted.time is not None:
        _refuse_idle_time(made, keys, wanted)
    _refuse_two_units(made, wanted)


def _refuse_unknown(option: str, value: object, keys: list[n.KeyBy]) -> None:
    """Refuse a mapping with a name that no `key_by` has."""
    known = [names_of(key) for key in keys]
    for name in value if isinstance(value, Mapping) else ():
        count = sum(name in names for names in known)
        if count != 1:
            raise GraphError(
                f"start: {option}= must name one key_by by its field, the tuple of its fields, or its name; "
                f"{'several are' if count else 'none is'} called {name!r}, and there are "
                f"{quoted(dict.fromkeys(names[0] for names in known))}"
                f"{'; give each a name, with .named(...)' if count else ''}"
            )


def _refuse_idle_time(made: Cut, keys: list[n.KeyBy], wanted: IdleLimit) -> None:
    time = wanted.time
    if isinstance(time, str) and keys and not any(time in key.given.fields for key in keys):
        key = keys[0]
        raise GraphError(
            f"start: time= must be a field of the items at {key.label}; there are {quoted(key.given.fields)}"
            f"{types.nearest(time, key.given.fields)}; got {time!r}"
        )
    used = {exchange.idle.time for exchange in made.exchanges if exchange.idle is not None}
    if not used & ({*time.values()} if isinstance(time, Mapping) else {time}):
        raise GraphError(
            f"start: time={time!r} must be of use: to windows by it whose keys are spread over buckets, or with "
            f"expire_after=; here it is not; leave it out"
        )


def _refuse_two_units(made: Cut, wanted: IdleLimit) -> None:
    """Refuse one number that would be a time of the items at one `key_by`, and seconds of the clock at another."""
    after, by_key = wanted.expire_after, [(e.keys, e.idle.time) for e in made.exchanges if e.idle is not None]
    if after is None or isinstance(after, (Mapping, timedelta)):
        return
    fields, clocks = ([each for each in by_key if (each[1] is None) is is_clock] for is_clock in (False, True))
    if fields and clocks:
        (by_field, time), (by_clock, _) = fields[0], clocks[0]
        raise GraphError(
            f"start: expire_after={after!r} must be one length of time; it would be in the unit of {time!r} at key_by "
            f"{quoted(by_field)}, and in seconds of the clock at key_by {quoted(by_clock)}, whose items have no such "
            f"time; give each its own: expire_after={{{_key(by_field)!r}: ..., {_key(by_clock)!r}: ...}}"
        )


def _key(names: tuple[str, ...]) -> str | tuple[str, ...]:
    return names[0] if len(names) == 1 else names


def _refuse_expiry(made: Cut, wanted: IdleLimit) -> None:
    for node, reason in _nodes_with_state(made, wanted):
        raise GraphError(
            f"start: expire_after= ends keys that are spread over buckets; {node.label} runs in one task, because "
            f"{reason}; leave expire_after= out"
        )
    if not any(exchange.kind == "key" for exchange in made.exchanges):
        raise GraphError(
            "start: expire_after= ends keys, and no node of this graph remembers anything of a key; leave it out"
        )


def _nodes_with_state(made: Cut, wanted: IdleLimit) -> Iterator[tuple[n.GraphNode, str]]:
    """The nodes whose keys are to end, but that are in one task with the whole stream, and why."""
    for stage in made.stages:
        for node in () if stage.is_keyed else Tree(stage.leaves).nodes:
            if isinstance(node, n.Stateful) and node.state is not None and _ends(node, wanted):
                yield node, made.reason if stage.reads is None else stage.reads.reason
