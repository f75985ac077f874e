"""The arrays that a kernel is called with: for each argument that its signature declares, those of its names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.codegen import signature as s
from penstock.codegen.site import Column
from penstock.engine.ensemble import Ensemble

if TYPE_CHECKING:
    from penstock.engine.loop import RunningLoop

Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """What a loop is called with on an ensemble: the number of each row's key, by the names of the arguments, and more.

    `index` are the indices of the items, or the first of them, and `initial` the parents that are open.
    """

    loop: RunningLoop
    ensemble: Ensemble
    slots: Mapping[str, np.ndarray]
    index: np.ndarray
    initial: np.ndarray


def bind(signature: s.Signature, call: Call) -> list[Any]:
    """The arrays of all arguments, in the order of the signature."""
    arrays = []
    for argument in signature.arguments:
        bound = BINDINGS[type(argument)](call, argument)
        arrays += [bound[name] for name in argument.names]
    return arrays


def _named(names: Iterable[str], arrays: Iterable[Any]) -> Arrays:
    return dict(zip(names, arrays, strict=True))


def _entering(call: Call, argument: s.Entering) -> Arrays:
    e = call.ensemble
    marks = {"mark_kinds": e.kinds, "mark_rows": e.places, "mark_refs": e.references}
    return marks | {"indices": call.index, argument.PARENTS: call.initial}


def _counters(call: Call, argument: s.Counters) -> Arrays:
    return {name: getattr(call.loop, name) for name in argument.names}


def _mark_places(call: Call, argument: s.MarkPlaces) -> Arrays:
    return _named(argument.names, call.ensemble.window.mark_places())


def _column(call: Call, argument: s.InputColumn) -> Arrays:
    column, window = argument.column, call.ensemble.window
    if column.is_plain:
        return {column.column.prefix: window.column(column.level, column.field)}
    return _named(argument.names, window.arrays(column.level, column.field, column.is_wide))


def _key_fields(call: Call, argument: s.KeyFields) -> Arrays:
    index, name = call.loop.memory.index(argument.key), argument.name
    arrays = {f"{name}_p{at}": places for at, places in enumerate(index.places())}
    for at, t in enumerate(index.types):
        arrays |= _named(Column(f"{name}_{at}", t).arrays, index.arrays(at))
    return arrays


def _states(call: Call, argument: s.StateRecords) -> Arrays:
    states = call.loop.memory.of(argument.node)
    return {argument.name: states.records, argument.fresh: states.fresh}


def _arrivals(call: Call, argument: s.ArrivalOrder) -> Arrays:
    arrivals = call.loop.memory.arrivals_at(argument.node)
    return {f"{argument.name}_{part}": getattr(arrivals, part) for part in argument.PARTS}


def _cells(call: Call, argument: s.CellRecords) -> Arrays:
    cells = call.loop.memory.cells_of(argument.cells)
    arrays = {argument.name: cells.records}
    for fold, records, fresh in zip(argument.cells.folds, cells.folds, cells.fresh, strict=True):
        arrays |= {fold: records, f"{fold}_0": fresh}
    return arrays | {f"{argument.name}_{part}": getattr(cells, part) for part in argument.parts}


def _hook_record(call: Call, argument: s.HookRecord) -> Arrays:
    record, fresh = call.loop.records[argument.name]
    return {argument.name: record, argument.fresh: fresh}


def _heap(call: Call, argument: s.HeapArrays) -> Arrays:
    heap = call.loop.heaps.held[argument.heap.name]
    return _named(argument.names, (heap.offsets, heap.elements))


def _sink(call: Call, argument: s.SinkArrays) -> Arrays:
    arrays: Arrays = call.loop.sink_of(argument.sink).arrays()
    return arrays


def _log(call: Call, argument: s.SignalLog) -> Arrays:
    assert call.loop.log is not None
    return call.loop.log.arrays()


BINDINGS: dict[type[s.Argument], Callable[[Call, Any], Arrays]] = {
    s.Entering: _entering,
    s.Counters: _counters,
    s.MarkPlaces: _mark_places,
    s.InputColumn: _column,
    s.OutputCounts: lambda call, argument: {argument.name: call.loop.outputs},
    s.KeyNumbers: lambda call, argument: {argument.name: call.slots[argument.name]},
    s.KeyFields: _key_fields,
    s.StateRecords: _states,
    s.ArrivalOrder: _arrivals,
    s.CellRecords: _cells,
    s.HookRecord: _hook_record,
    s.Scratch: lambda call, argument: {argument.name: call.loop.scratch[argument.name]},
    s.EnteringSignals: lambda call, argument: {argument.name: call.ensemble.window.signals[argument.number]},
    s.EmittedSignal: lambda call, argument: {argument.name: call.loop.emitted[argument.name]},
    s.HeapArrays: _heap,
    s.SinkArrays: _sink,
    s.SignalLog: _log,
}
"""How each kind of argument is bound; a test demands all of them."""
