"""Signals as they are sent to a stream that runs: what each must hold, and where each was placed.

Who sends one needs no code of the user's: the checkpoint's description says which signals there are, and their fields.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import CheckpointError, PenstockError, quoted
from penstock.graph.record import Signal
from penstock.graph.types import INT64_MAX, INT64_MIN, nearest

Known = Mapping[str, Mapping[str, str]]
"""Signals by name: the fields of each, with what they hold, as `describe` gives it."""

_ARRAY = re.compile(r"array of (\d+) (int|float)")


@dataclass(frozen=True, slots=True)
class SignalPosition:
    """Where a signal stands: before the item of an index, as far as that is known, and in which micro-batch.

    >>> print(SignalPosition(7, 1200), "|", SignalPosition(7, None))
    before item 1200, in batch 7 | in batch 7
    """

    batch: int
    index: int | None

    def __str__(self) -> str:
        before = "" if self.index is None else f"before item {self.index}, "
        return f"{before}in batch {self.batch}"

    def contradicts(self, other: SignalPosition) -> bool:
        """Whether both cannot be the place of one signal. An index may become known later."""
        return self.batch != other.batch or (self.index != other.index and None not in (self.index, other.index))


def new_name() -> str:
    """What a signal that is sent now is known by: names are in the order of time."""
    return f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"


def name_of(path: str) -> str:
    """What the signal of a file is known by; a name is its own.

    >>> name_of("file:/ck/penstock/control/00001700000000000000-1a2b3c4d.json")
    '00001700000000000000-1a2b3c4d'
    """
    return path.rpartition("/")[2].removesuffix(".json")


def values_of(signal: Signal) -> dict[str, Any]:
    """The fields of a signal, as `signal_record` and `Checkpoint.write_signal` take them."""
    return {name: getattr(signal, name) for name in signal.layout.initial}


def signal_of(record: Mapping[str, Any], classes: Mapping[str, type[Signal]]) -> Signal:
    """The signal that a record holds. A CheckpointError, without a beginning, says why it holds none."""
    try:
        return classes[record["signal"]](**record["values"])
    except (KeyError, TypeError, PenstockError) as error:
        raise CheckpointError(f"one of {quoted(classes)}; {type(error).__name__}: {error}") from None


def signal_record(where: str, signals: Known, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a signal that is sent, after checking that it is one of these and has a value for every field."""
    if name not in signals:
        listed = ", ".join(_signature(each, signals[each]) for each in signals) or "none"
        raise CheckpointError(
            f"{where}: a signal must be one that the stream handles; got {name!r}, and there are {listed}"
            f"{nearest(name, signals)}"
        )
    fields, signature = signals[name], _signature(name, signals[name])
    for what, names in (("has no field", values.keys() - fields), ("must be given", fields.keys() - values.keys())):
        if names:
            raise CheckpointError(f"{where}: the signal is {signature}; it {what} {quoted(sorted(names))}")
    held = {field: _value(f"{where}: {name}.{field}", fields[field], values[field]) for field in fields}
    return {"signal": name, "values": held}


def _signature(name: str, fields: Mapping[str, str]) -> str:
    return f"{name}({', '.join(f'{field}: {kind}' for field, kind in fields.items())})"


def _value(where: str, kind: str, given: Any) -> Any:
    """A value as JSON holds it, after checking that it is of a kind."""
    plain = given.tolist() if isinstance(given, (np.ndarray, np.generic)) else given
    array = _ARRAY.fullmatch(kind)
    if array is None:
        is_right = _is_scalar(kind, plain)
    else:
        is_right = isinstance(plain, (list, tuple)) and len(plain) == int(array[1])
        is_right = is_right and all(_is_scalar(array[2], each) for each in plain)
    if not is_right:
        raise CheckpointError(f"{where} must be {kind}{' of 64 bits' if kind == 'int' else ''}; got {given!r}")
    return plain


def _is_scalar(kind: str, value: Any) -> bool:
    if kind == "bool" or isinstance(value, bool):
        return kind == "bool" and isinstance(value, bool)
    if kind == "int":
        return isinstance(value, int) and INT64_MIN <= value <= INT64_MAX
    return isinstance(value, (int, float))
