"""The steps of a running stream that remember something: which of a graph are those that a checkpoint was made for.

What a step remembers is kept under a number, its slot. A step of a changed graph has the slot of the one of the same
name, else of the same label, else at the same place among the others. Steps that remember nothing have no slot, and may
come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

import pyarrow as pa

from penstock.engine.remember import kept_in_loops, remembering
from penstock.engine.upgrade import EMPTY, text
from penstock.engine.upgrade import differences as differing_fields
from penstock.graph import nodes as n
from penstock.graph.record import Record, State
from penstock.graph.source import to_plain
from penstock.graph.tree import Tree
from penstock.graph.window import CountWindow, RegionWindow, TimeWindow, WholeWindow
from penstock.plan.stages import Cut, Stage

Step = dict[str, Any]


# What they are

WINDOWS: dict[type, str] = {WholeWindow: "Whole", CountWindow: "Counted", TimeWindow: "Timed", RegionWindow: "Found"}
"""Windows as checkpoints name them, which stays: another name would refuse the checkpoints that exist."""


def stages_of(cut: Cut) -> list[dict[str, Any]]:
    """The stages of a running stream that keep a state, as plain JSON, with the steps that remember something."""
    return [_stage(stage) for stage in with_state(cut)]


def with_state(cut: Cut) -> list[Stage]:
    """The stages that keep a state, in the order in which Spark knows them."""
    later = [stage for stage in cut.stages if stage.reads is not None and stage.reads.kind != "order"]
    return [*(cut.stages[:1] if cut.is_whole else ()), *later]


def fixed_reason(cut: Cut) -> str | None:
    """Why no step of a graph may change, where that is so: what is kept then is laid out by all of them."""
    nodes = (node for stage in with_state(cut) for node in Tree(stage.leaves).nodes)
    node = next((node for node in nodes if kept_in_loops(node)), None)
    if node is None:
        return None
    if isinstance(node, n.LateItems):
        return f"{node.label} are known by the watermark alone"
    return f"{node.label} {'brings streams together' if isinstance(node, n.Meet) else 'spans items without a key'}"


def _stage(stage: Stage) -> dict[str, Any]:
    nodes = remembering(Tree(stage.leaves))
    first = {node.given.key: slot for slot, node in reversed(list(enumerate(nodes)))}
    if stage.reads is None:
        reads, is_numbered = "files, one after the other", False
    else:
        reads, is_numbered = " ".join((stage.reads.kind, *map(repr, stage.reads.keys))), stage.reads.is_numbered
    steps = [_step(node) | {"slot": slot, "group": first[node.given.key]} for slot, node in enumerate(nodes)]
    return {"reads": reads, "is_numbered": is_numbered, "steps": steps}


def _step(node: n.Stateful) -> Step:
    return {
        "label": node.label,
        "name": node.title,
        "kind": type(node).__name__,
        "key": {name: str(t) for name, t in node.given.key_fields.items()},
        "fields": {name: str(t) for name, t in node.shape.fields.items()} if _is_aggregate(node) else {},
        "state": state_of(node),
        "folds": folds_of(node),
        "settings": settings_of(node),
        "has_end": bool(node.has_end),
    }


def _is_aggregate(node: n.GraphNode) -> bool:
    return isinstance(node, n.KeyedAggregate)


def state_of(node: n.GraphNode) -> dict[str, Any] | None:
    """The record of the user's that a node keeps from item to item: a state, or the fields of a node with hooks."""
    if isinstance(node, n.Through):
        return _record(node.hooks)
    if isinstance(node, n.KeyedAggregate) or not isinstance(node, n.Stateful) or node.state is None:
        return None
    return _record(node.state)


def _record(record: type[Record]) -> dict[str, Any]:
    dtype = record.layout.dtype
    return {
        "class": record.__name__,
        "fields": {name: text(dtype[name]) for name in dtype.names or () if name != EMPTY},
        "upgrades": issubclass(record, State) and record.upgrade is not None,
    }


def folds_of(node: n.GraphNode) -> dict[str, Any]:
    if not isinstance(node, (n.Aggregate, n.KeyedAggregate)):
        return {}
    folds = ((name, each) for name, each in node.results.items() if isinstance(each, n.Folding))
    return {name: _record(each.record) for name, each in folds}


def settings_of(node: n.GraphNode) -> dict[str, str]:
    """What decides, beside the fields, what comes of items: aggregates, windows, ends, and how streams meet."""
    if isinstance(node, n.FlatMap):
        return {"end": "given" if node.has_end else "not given"}
    if isinstance(node, n.Join):
        filled = {name: to_plain(value)[0] for name, value in node.fill.items()}
        return {"how": "outer" if node.is_outer else "inner", "fill": str(filled), "present": str(list(node.present))}
    if not isinstance(node, (n.Aggregate, n.KeyedAggregate)):
        return {}
    found = {f"result {name!r}": str(result) for name, result in node.results.items()}
    if isinstance(node, n.KeyedAggregate):
        found["window"] = WINDOWS[type(node.window)]
        for each in fields(node.window):
            value = getattr(node.window, each.name)
            if each.name == "clock":
                continue  # a number among those of the graph
            if isinstance(value, (bool, int, float, str, tuple, Mapping, pa.DataType)):  # and no function
                found[f"window's {each.name}"] = str(value)
    return found


# Which is which


def match_steps(held: Sequence[Step], now: Sequence[Step]) -> list[tuple[Step | None, Step | None]]:
    """Each step of today with the one that it was; what has no counterpart is lost, or is new."""
    left, found = list(held), dict[int, Step]()
    for what in ("name", "label", None):
        for at, step in enumerate(now):
            same = [each for each in left if at not in found and _may_be(each, step, what)]
            if same:
                found[at] = same[0]
                left.remove(same[0])
    return [*((found.get(at), step) for at, step in enumerate(now)), *((each, None) for each in left)]


def _may_be(held: Step, now: Step, what: str | None) -> bool:
    """Whether a step may be another, by its name, by its label, or whatever it is. Two names are two steps."""
    if what == "name":
        return held["name"] is not None and held["name"] == now["name"]
    if held["name"] is not None and now["name"] is not None:
        return False
    return what is None or bool(held["label"] == now["label"] and held["kind"] == now["kind"])


def _is_in_order(pairs: Iterable[tuple[Step | None, Step | None]]) -> bool:
    """Whether steps without names that have another label than before are at the same place among the others."""
    known = [(was["slot"], was, now) for was, now in pairs if was is not None and now is not None]
    by_place = [was for _, was, now in known if was["label"] != now["label"] and not _may_be(was, now, "name")]
    return not by_place or all(one[0] < other[0] for one, other in pairwise(known))


def with_slots(held: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The stages of today, their steps with the slots of those that they were. They must not differ."""
    made = []
    for old, new in zip(held, now, strict=True):
        pairs = [(was, step) for was, step in match_steps(old["steps"], new["steps"]) if step is not None]
        steps = [{**step, "slot": was["slot"], "group": was["group"]} for was, step in pairs if was is not None]
        made.append({**new, "steps": steps})
    return made


def slots_of(cut: Cut, stages: Sequence[Mapping[str, Any]]) -> dict[int, tuple[int, ...]]:
    """By stage, the slots of its steps that remember something, in their order."""
    return {
        stage.number: tuple(step["slot"] for step in about["steps"])
        for stage, about in zip(with_state(cut), stages, strict=True)
    }


# What differs


def of_stages(held: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is not the same in the steps that remember something, one sentence each."""
    kinds, new_kinds = ([stage["reads"] for stage in each] for each in (held, now))
    if kinds != new_kinds:
        lost, new = _missing(held, now), _missing(now, held)
        yield from (f"the graph has lost {label}, which remembers something" for label in lost)
        yield from (f"the graph has the new step {label}, which remembers something" for label in new)
        if not lost and not new:
            yield f"the state was shared out by {_list(kinds)}, is by {_list(new_kinds)}"
        return
    for old, new_stage in zip(held, now, strict=True):
        yield from _of_stage(old, new_stage)


def _missing(stages: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> list[str]:
    there = [step["label"] for stage in others for step in stage["steps"]]
    found = []
    for label in (step["label"] for stage in stages for step in stage["steps"]):
        if label in there:
            there.remove(label)
        else:
            found.append(label)
    return found


def _list(kinds: Sequence[str]) -> str:
    return ", ".join(kinds) or "nothing"


def _of_stage(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    pairs = match_steps(old["steps"], new["steps"])
    for was, step in pairs:
        if step is None and was is not None:
            yield f"the graph has lost {was['label']}, which remembers something"
        elif was is None and step is not None:
            yield f"the graph has the new step {step['label']}, which remembers something"
        elif was is not None and step is not None:
            yield from _of_step(was, step)
    if not _is_in_order(pairs):
        yield "which step is which cannot be told by their order; give them the names that they had, or will have"
    groups = {(was["group"], step["group"]) for was, step in pairs if was is not None and step is not None}
    if len(groups) > min(len({one for one, _ in groups}), len({other for _, other in groups})):
        yield "steps that shared a key_by must share one, and others must not"
    ends = [step["label"] for step in new["steps"] if step["has_end"] and step["key"]]
    if ends and old["is_numbered"] != new["is_numbered"]:
        yield f"{ends[0]} notes the order of its keys in another way; leave ordered= and the steps before it alone"


def _of_step(old: Step, new: Step) -> Iterator[str]:
    where = new["label"]
    if old["kind"] != new["kind"] or list(old["key"]) != list(new["key"]):
        yield f"{_behind(old)} is {_behind(new)} now"
        return
    for name in {**old["settings"], **new["settings"]}:
        was, is_now = old["settings"].get(name, "not there"), new["settings"].get(name, "not there")
        if was != is_now:
            yield f"{where}: its {name} was {was}, is {is_now}"
    yield from about(f"the key of {where}", differing_fields(old["key"], new["key"]))
    yield from about(where, differing_fields(old["fields"], new["fields"]))
    yield from of_record("state", where, old["state"], new["state"])
    for name in old["folds"]:
        if name in new["folds"]:
            yield from of_record("fold", where, old["folds"][name], new["folds"][name])


def _behind(step: Step) -> str:
    return f"{step['label']} by {', '.join(map(repr, step['key']))}" if step["key"] else f"{step['label']} by no key"


def of_record(what: str, where: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[str]:
    was, is_now = ("none" if each is None else each["class"] for each in (old, new))
    if old is None or new is None or (was != is_now and not new["upgrades"]):
        if was != is_now:
            yield f"the {what} of {where} was {was}, is {is_now}"
    elif not new["upgrades"]:
        yield from about(f"the {what} {is_now} of {where}", differing_fields(old["fields"], new["fields"]))


def about(where: str, sentences: Iterable[str]) -> Iterator[str]:
    return (f"{where}: {sentence}" for sentence in sentences)
