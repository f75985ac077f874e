"""Records that were kept with other fields than those of today: read as their state class says.

How a record is laid out may change without a change of its fields (another order, other gaps): then values go by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from penstock.errors import CheckpointError, FunctionError, PenstockError, cause_of, quoted, reason_text, value_text
from penstock.graph.record import check_value

EMPTY = "_empty"
"""The field of a record that has none."""


class OldRecord(SimpleNamespace):
    """A record as it was kept: what `upgrade` takes. Numbers are plain, arrays are NumPy arrays."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the older record has the fields {quoted(vars(self))}; got {name!r}")


def upgraded(records: np.ndarray, wanted: np.dtype, states: Mapping[str, type]) -> np.ndarray:
    """The records of keys, with the type `wanted`. Where nothing is different, the same array.

    The fields of a record are its parts. Where a part differs and `states` has a class for it that defines `upgrade`,
    that says how to read it; a difference anywhere else is a CheckpointError.
    """
    if records.dtype == wanted:
        return records
    held, names = records.dtype.names or (), wanted.names or ()
    if set(held) != set(names):
        raise CheckpointError(
            f"state: what is kept of a key must have the parts {quoted(sorted(names))}; it has {quoted(sorted(held))}; "
            f"go on with the graph that made the checkpoint"
        )
    made = np.zeros(len(records), wanted)
    for name in names:
        if name in states:
            made[name] = upgraded_states(records[name], states[name])
        else:
            _refuse_other(f"the part {name!r}", records.dtype[name], wanted[name])
            made[name] = _by_name(records[name], wanted[name].base)
    return made


def upgraded_states(records: np.ndarray, state: type) -> np.ndarray:
    """Records of a state, one a key, as the class lays them out today. Where nothing is different, the same array."""
    wanted: np.dtype = state.layout.dtype  # type: ignore[attr-defined]
    if records.dtype == wanted:
        # Types that are equal may differ in saying that they are aligned, and then be two types to the compiler.
        return records if records.dtype.isalignedstruct == wanted.isalignedstruct else records.view(wanted)
    where = f"the state {state.__name__}"
    differ = next(_differing(records.dtype, wanted), None)
    if differ is None:
        return _by_name(records, wanted)
    if getattr(state, "upgrade", None) is None:
        raise CheckpointError(
            f"state: {where} must have the fields that it was kept with; {differ}; give {state.__name__} a classmethod "
            f"upgrade(cls, old) that returns the new values, or use another checkpoint"
        )
    made: np.ndarray = np.repeat(state.layout.new(), len(records))  # type: ignore[attr-defined]
    for at, record in enumerate(records):
        for name, value in _values(where, state, record).items():
            made[name][at] = value
    return made


def _values(where: str, state: Any, record: Any) -> dict[str, Any]:
    """What `upgrade` gives for one record, after checking that the fields can hold it."""
    old = OldRecord(**{name: _plain(record[name]) for name in record.dtype.names if name != EMPTY})
    try:
        given = state.upgrade(old)
    except PenstockError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {reason_text(error)}; the record was {value_text(old)}"
        raise FunctionError(f"{where}: upgrade raised {told}") from cause_of(error)
    if not isinstance(given, Mapping):
        raise CheckpointError(f"{where}: upgrade must return a dict of fields and values; got {value_text(given)}")
    try:
        return {name: check_value(state, name, value) for name, value in given.items()}
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(
            f"{where}: upgrade must return values that its fields can hold; {reason_text(error)}"
        ) from None


def _plain(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value.item()


def _refuse_other(where: str, held: np.dtype, wanted: np.dtype) -> None:
    if held == wanted:
        return
    same_shape = held.shape == wanted.shape and held.base.names and wanted.base.names
    differ = next(_differing(held.base, wanted.base), None) if same_shape else f"it was {text(held)}, is {text(wanted)}"
    if differ is not None:
        raise CheckpointError(
            f"state: {where} of a key must be as it was kept; {differ}; go on with the graph that made the checkpoint"
        )


def _differing(held: np.dtype, wanted: np.dtype) -> Iterator[str]:
    """What is different, field by field; nothing is said of their order."""
    return differences(*({name: text(of[name]) for name in of.names or () if name != EMPTY} for of in (held, wanted)))


def differences(held: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[str]:
    """What is different between fields with their types as text, one sentence a field, without a subject.

    >>> list(differences({"n": "int64", "total": "float64"}, {"n": "float64", "x": "int64"}))
    ["the field 'n' was int64, is float64", "it has lost 'total'", "it has the new field 'x'"]
    """
    for name, was in held.items():
        if name not in wanted:
            yield f"it has lost {name!r}"
        elif wanted[name] != was:
            yield f"the field {name!r} was {was}, is {wanted[name]}"
    for name in wanted:
        if name not in held:
            yield f"it has the new field {name!r}"


def text(dtype: np.dtype) -> str:
    """
    >>> text(np.dtype("f8")), text(np.dtype(("i8", (3,))))
    ('float64', 'int64[3]')
    """
    base = "record" if dtype.base.names else str(dtype.base)
    return base + "".join(f"[{size}]" for size in dtype.shape)


def _by_name(records: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """The same values in the fields of the same names. NumPy itself would go by their places."""
    made = np.zeros(records.shape, wanted)
    if wanted.names is None:
        made[...] = records
    for name in wanted.names or ():
        made[name] = records[name]
    return made
