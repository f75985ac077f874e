"""What a loop raised, as an error that names the node, the function and the item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.codegen.generated import Where
from penstock.engine.ensemble import Ensemble
from penstock.engine.loop import FiringOutput, RunningLoop, index_at
from penstock.errors import InternalError, PenstockError
from penstock.graph import faults
from penstock.graph import nodes as n
from penstock.graph.faults import FaultKind
from penstock.graph.hidden import is_hidden
from penstock.graph.source import to_plain
from penstock.kernels import support
from penstock.kernels.credit import SIGNAL


def explained(loop: RunningLoop, error: Exception, ensemble: Ensemble) -> PenstockError:
    """The error to raise instead of what a loop raised on an ensemble."""
    code, (number, row, mark, slot) = loop.code, map(int, loop.where)
    if mark < -1:
        return _at_the_end(loop, error, ensemble, code.endings[-2 - mark], slot)
    if mark < 0 and code.block and not isinstance(error, support.Fault) and 0 <= number < len(code.functions):
        row, error = _found(loop, ensemble, row, error)
    mark = mark if mark < ensemble.last_mark else -1
    index, item = index_at(code, ensemble, row, mark), {} if mark >= 0 else _item(ensemble, row)
    place = _place(int(ensemble.kinds[mark]), index, loop.index_level) if mark >= 0 else None
    if isinstance(error, support.Fault):
        fault = code.faults[-number - 1]
        if fault.function is not None:
            bad = ValueError(_BAD_RESULTS[fault.kind].format(fault.what))
            return faults.function_error(fault.function, bad, index, item, place).about(index)
        made: PenstockError = _FAULTS[fault.kind](fault.node, fault.what, index)
        return made.about(index)
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, MemoryError) or not 0 <= number < len(code.functions):
        return InternalError(f"a loop failed with {type(error).__name__}: {error}")
    if loop.is_compiled and not code.block and mark < 0 and row < ensemble.stop:
        error = _replayed(loop, ensemble, row) or error
    return faults.function_error(code.functions[number], error, index, item, place).about(index)


def in_copy(error: PenstockError, name: str) -> PenstockError:
    """The same error, which also names the copy of a flexible node that had the item."""
    error.args = (f"{error}; in {name}",)
    return error


def _at_the_end(loop: RunningLoop, error: Exception, ensemble: Ensemble, node: n.Stateful, slot: int) -> PenstockError:
    """The error of a loop that was at the end of the stream, ending the key of a number."""
    number, index, key = int(loop.where[Where.WHAT]), index_at(loop.code, ensemble, ensemble.stop), node.given.key
    fields = {} if key is None else dict(zip(key.names, loop.memory.index(key).value(slot), strict=True))
    place = faults.key_place(fields)
    if isinstance(error, support.Fault):
        fault = loop.code.faults[-number - 1]
        if fault.function is not None:
            bad = ValueError(_BAD_RESULTS[fault.kind].format(fault.what))
            return faults.function_error(fault.function, bad, index, fields, place)
        made: PenstockError = _FAULTS[fault.kind](fault.node, fault.what, index)
        return made
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, MemoryError) or not 0 <= number < len(loop.code.functions):
        return InternalError(f"a loop failed with {type(error).__name__}: {error}")
    return faults.function_error(loop.code.functions[number], error, index, fields, place)


def _place(kind: int, index: int, level: int | None) -> str:
    """Where a loop was that was at a mark."""
    if kind >= SIGNAL:
        return f"at a signal before item {index}"
    which = "of" if level is not None else "before" if kind % 2 else "at"
    return f"where the region {which} item {index} {'ends' if kind % 2 else 'begins'}"


def _found(loop: RunningLoop, ensemble: Ensemble, first: int, error: Exception) -> tuple[int, Exception]:
    """The row of a block that raises when it is run again, and what it raises."""
    for row in range(first, min(first + loop.code.block, ensemble.stop)):
        replayed = _replayed(loop, ensemble, row)
        if replayed is not None:
            return row, replayed
    return first, error


def _replayed(loop: RunningLoop, ensemble: Ensemble, row: int) -> Exception | None:
    """Run one row again as plain Python: its error knows what the function was called with, and the line.

    The row runs on copies and without what came before it, so it may go another way; then there is None. What it sends
    goes nowhere.
    """
    channels = [sink.twin() for sink in loop.channels]
    twin = RunningLoop(loop.code, loop.memory.copy(), loop.signals, channels, compile=False)
    levels = range(len(ensemble.initial))
    initial = np.array([ensemble.parent_rows(d)[row - ensemble.start] for d in levels], np.int64)
    none = np.empty(0, np.int64)
    alone = Ensemble(ensemble.window, row, row + 1, 0, 0, none, none, none, initial)
    try:
        twin.run(alone, FiringOutput())
    except Exception as error:
        is_same = twin.where[Where.WHAT] == loop.where[Where.WHAT]
        return error if is_same and not isinstance(error, PenstockError) else None
    return None


def _item(ensemble: Ensemble, row: int) -> dict[str, Any]:
    """The item that entered a loop at a row, as plain values."""
    if row >= ensemble.stop:
        return {}
    fields = ensemble.window.fields()
    columns = {name: ensemble.window.column(None, name).slice(row, 1) for name in fields if not is_hidden(name)}
    return {name: _shown(column) for name, column in columns.items()}


def _shown(value: pa.Array) -> Any:
    """One value for a message: bytes where a text is no UTF-8."""
    try:
        return to_plain(value)[0]
    except UnicodeDecodeError:
        return value.cast(pa.large_binary())[0].as_py()


_FAULTS: dict[FaultKind, Any] = {
    FaultKind.TOO_MANY: lambda node, what, index: faults.too_many(node, index),
    FaultKind.NAN_KEY: faults.nan_key,
    FaultKind.UNEQUAL_LENGTHS: lambda node, what, index: faults.unequal_lengths(node, index),
    FaultKind.EMPTY_REGION: faults.empty_region,
    FaultKind.SUM_OVERFLOW: faults.sum_overflow,
    FaultKind.BAD_TIME: faults.bad_time,
    FaultKind.LATE_ITEM: faults.late_item,
}
_BAD_RESULTS = {
    FaultKind.ARRAY_SIZE: "the result must hold {} elements",
    FaultKind.BAD_UTF8: "a result declared as a string must be valid UTF-8; declare it as bytes",
}
