"""Keys that go idle in a running stream: by which time, and how long before they end.

A key is idle by the newest time of its items, against the newest of the whole stream. That time is a field of the items
where they are sent to the buckets of their keys; without one it is that of the micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.errors import GraphError, quoted
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.tree import Tree
from penstock.graph.window import TimeWindow, lengths_of

OPERATOR = "start"


@dataclass(frozen=True)
class IdleLimit:
    """What was asked for: the field that is the time, and for how long a key may be idle until it ends.

    Each is one value for every `key_by`, or a mapping with a value for each of some: by the name of the step, or by
    the field of its key, or by the tuple of its fields.
    """

    time: Any = None
    expire_after: Any = None

    def at(self, key: n.KeyBy) -> IdleLimit:
        """What was asked for at one `key_by`.

        One time for all is the time where the items have that field; elsewhere none was asked for.
        """
        time = _one(self.time, key)
        if not isinstance(self.time, Mapping) and isinstance(time, str) and time not in key.given.fields:
            time = None
        return IdleLimit(time, _one(self.expire_after, key))


def _one(value: Any, key: n.KeyBy) -> Any:
    if not isinstance(value, Mapping):
        return value
    return next((value[name] for name in names_of(key) if name in value), None)


def names_of(key: n.KeyBy) -> tuple[Any, ...]:
    """What a mapping may call a `key_by`."""
    title = () if key.title is None else (key.title,)
    return (*title, key.names[0], key.names) if len(key.names) == 1 else (*title, key.names)


@dataclass(frozen=True)
class Idle:
    """By which time the keys downstream of a `key_by` are idle, and for how long they may be.

    `time` is a field of the items there; None stands for the time of the micro-batch, in milliseconds. A key whose
    newest time is more than `expire_after` behind the newest of the stream ends.
    """

    time: str | None
    is_float: bool = False
    expire_after: Any = None


def idle_of(key: n.KeyBy, tree: Tree, wanted: IdleLimit) -> Idle | None:
    """How the keys of a `key_by` go idle; None where that matters to nobody."""
    wanted = wanted.at(key)
    behind = [node for node in tree.below(key) if isinstance(node, n.Step) and node.given.key is key]
    windows = list(_timed(behind))
    time = _time(key, windows, wanted)
    if wanted.expire_after is None:
        return None
    if time is None:
        after = wanted.expire_after
        return None if windows else Idle(None, expire_after=_milliseconds(after))
    t = _type(key, time)
    number = lengths_of(f"{OPERATOR}: time={time!r}", time, t)
    expire_after = number("expire_after", wanted.expire_after)
    _refuse_below(expire_after, wanted)
    return Idle(time, types.is_float(t), expire_after)


def _timed(behind: Sequence[n.GraphNode]) -> Iterator[tuple[n.KeyedAggregate, TimeWindow]]:
    for node in behind:
        if isinstance(node, n.KeyedAggregate) and isinstance(node.window, TimeWindow):
            yield node, node.window


def _time(key: n.KeyBy, windows: Sequence[tuple[n.KeyedAggregate, TimeWindow]], wanted: IdleLimit) -> Any:
    """The field that is the time: as asked for, or that of all windows by time where they have one."""
    if wanted.time is not None:
        return wanted.time
    fields = {origin(node, key) for node, _ in windows}
    if len(fields) == 1 and None not in fields:
        return fields.pop()
    if fields and wanted.expire_after is not None:
        raise GraphError(
            f"{OPERATOR}: expire_after= must know the time of the items at {key.label}; the windows behind it do not "
            f"go by one field of them; name it: time=..."
        )
    return None


def origin(node: n.KeyedAggregate, key: n.KeyBy) -> str | None:
    """The field at a `key_by` that the time of windows behind it is; None where it is made in between."""
    assert isinstance(node.window, TimeWindow)
    return _origin(node.before, node.window.field, key)


def _origin(node: n.GraphNode, name: str, key: n.KeyBy) -> str | None:
    """What a field of a node behind a `key_by` is called there; where streams meet, it must be one of all sides."""
    if node is key:
        return name
    if isinstance(node, n.Meet):
        lacks = isinstance(node, n.Join) and name in node.fill
        sides = [side for side in node.sides if name in side.shape.fields]
        found = {None if lacks else _origin(side, name, key) for side in sides}
        return found.pop() if len(found) == 1 else None
    assert isinstance(node, n.Step)
    before = _before(node, name)
    return None if before is None else _origin(node.before, before, key)


def _before(step: n.Step, name: str) -> str | None:
    """What a field was called before a step that has not changed it."""
    if isinstance(step, (n.Filter, n.Emit)):
        return name
    if isinstance(step, n.Select):
        return step.names.get(name, name)
    if isinstance(step, n.Map):
        return None if any(name in names for names, _ in step.outputs) else name
    if isinstance(step, n.MapColumns):
        return None if name in step.to else name
    if isinstance(step, n.FlatMap) and not step.has_end:
        return name if name in step.keep else None
    return None


def _type(key: n.KeyBy, time: Any) -> Any:
    fields = key.given.fields
    if not isinstance(time, str) or time not in fields:
        raise GraphError(
            f"{OPERATOR}: time= must be a field of the items at {key.label}; there are {quoted(fields)}"
            f"{types.nearest(str(time), fields)}; got {time!r}"
        )
    return fields[time]


def _milliseconds(given: Any) -> int:
    """A time of the clock."""
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds < 1e12:
        raise GraphError(
            f"{OPERATOR}: expire_after= must be more than 0 seconds, or a timedelta, where no time= is named; got "
            f"{given!r}"
        )
    return max(1, round(1000 * seconds))


def _refuse_below(expire_after: Any, wanted: IdleLimit) -> None:
    if expire_after is not None and expire_after <= 0:
        raise GraphError(f"{OPERATOR}: expire_after= must be more than 0; got {wanted.expire_after!r}")
