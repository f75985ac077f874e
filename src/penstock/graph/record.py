"""Records: the state of a key, the content of a signal, the accumulator of a fold.

A record is a class with typed fields. Interpreted, an instance is an ordinary object that refuses what its fields
cannot hold; compiled, it is one row of a NumPy structured array with the same field names.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.errors import GraphError, quoted
from penstock.graph.types import ArrayType
from penstock.graph.values import Vector, accept, declared_scalar

_RESERVED = ("layout", "as_row", "as_tuple", "upgrade")
"""What every record has, so that no field may be called so."""
_DTYPES = {int: "i8", float: "f8", bool: "?"}


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The fields of a record class: their NumPy layout and the values that a new record holds."""

    dtype: np.dtype
    initial: dict[str, Any]

    def new(self) -> np.ndarray:
        """An array of one record with the initial values."""
        made = np.zeros(1, self.dtype)
        for name, value in self.initial.items():
            made[name] = value
        return made


def layout_of(cls: type, scope: dict[str, Any]) -> RecordLayout:
    """The annotated fields of `cls` behind those of its bases. `scope` is where annotations given as text are read."""
    fields: list[tuple[Any, ...]] = []
    initial: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        if isinstance(known := vars(base).get("layout"), RecordLayout):
            fields += [(name, *_field_type(known.dtype[name])) for name in known.initial if name not in initial]
            initial |= {name: getattr(cls, name, value) for name, value in known.initial.items()}
    try:
        annotations = inspect.get_annotations(cls, locals=scope, eval_str=True)
    except NameError as error:
        raise GraphError(f"{cls.__name__}: the type of a field cannot be read: {error}") from None
    for name, annotation in annotations.items():
        if getattr(annotation, "__origin__", None) is ClassVar or annotation is ClassVar:
            continue
        reserved = (*_RESERVED, *getattr(cls, "_hooks", ()))
        if name in reserved:
            raise GraphError(f"{cls.__name__}.{name}: a field may not have this name; got one of {quoted(reserved)}")
        fields.append(_field(cls, name, annotation))
        initial[name] = _initial(cls, name, annotation)
    dtype = np.dtype(fields, align=True) if fields else np.dtype([("_empty", "?")])
    return RecordLayout(dtype, initial)


def _field_type(dtype: np.dtype) -> tuple[Any, ...]:
    return (dtype,) if dtype.subdtype is None else dtype.subdtype


def _field(cls: type, name: str, annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, ArrayType):
        return (name, _DTYPES[annotation.element], (annotation.size,))
    if annotation not in _DTYPES:
        raise GraphError(
            f"{cls.__name__}.{name}: a field of a state or a signal must be int, float, bool or ps.array(type, size); "
            f"got {annotation!r}"
        )
    return (name, _DTYPES[annotation])


def _initial(cls: type, name: str, annotation: Any) -> Any:
    default = getattr(cls, name, None)
    if isinstance(annotation, ArrayType):
        made = np.zeros(annotation.size, _DTYPES[annotation.element])
        if default is not None:
            made[...] = _elements(cls, name, default, made)
        return made
    if default is None:
        return annotation()
    try:
        return _check_scalar(cls, name, annotation, default)
    except (TypeError, ValueError, OverflowError) as error:
        raise GraphError(str(error)) from None


def _check_scalar(cls: type, name: str, kind: type, value: Any) -> Any:
    try:
        return accept(value, declared_scalar(kind))
    except OverflowError:
        raise OverflowError(f"{cls.__name__}.{name} must be {kind.__name__} of 64 bits; got {value!r}") from None
    except (TypeError, ValueError):
        was = f"{value!r}, a {type(value).__name__}"
        raise TypeError(f"{cls.__name__}.{name} must be {kind.__name__}; got {was}") from None


def check_value(cls: type[Record], name: str, value: Any) -> Any:
    """A value as the field of a record holds it; an error where the field cannot hold it as it is."""
    initial = cls.layout.initial.get(name)
    if initial is None:
        raise AttributeError(f"{cls.__name__} has the fields {quoted(cls.layout.initial)}; got {name!r}")
    if isinstance(initial, np.ndarray):
        return _elements(cls, name, value, initial).view(Vector)
    return _check_scalar(cls, name, type(initial), value)


def _elements(cls: type, name: str, value: Any, held: np.ndarray) -> np.ndarray:
    """What an array field takes: as many numbers as it holds, or one for all, and no float for an integer."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in ("iub" if held.dtype.kind == "i" else "iubf"):
            raise ValueError
        return np.array(np.broadcast_to(given, held.shape), held.dtype)
    except (ValueError, TypeError):
        kind = "int" if held.dtype.kind == "i" else "float"
        raise GraphError(f"{cls.__name__}.{name} must be {len(held)} of {kind}; got {value!r}") from None


class Record:
    """The base of `State`, `Signal`, `Fold` and `Operator`: typed fields, each with a first value (0 unless given)."""

    layout: ClassVar[RecordLayout]
    _hooks: ClassVar[tuple[str, ...]] = ()
    """The methods that the engine calls."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        frame = sys._getframe(1)
        cls.layout = layout_of(cls, {**frame.f_globals, **frame.f_locals})
        if inspect.isfunction(getattr(cls, "upgrade", None)):
            raise GraphError(
                f"{cls.__name__}.upgrade: must be a classmethod of an older record; got a plain function; write "
                f"@classmethod above it, and `cls` before `old`"
            )

    def __init__(self, *values: Any, **named: Any) -> None:
        names = list(self.layout.initial)
        if len(values) > len(names):
            raise GraphError(f"{type(self).__name__}: takes at most {len(names)} values; got {len(values)}")
        given = dict(zip(names, values, strict=False)) | named
        unknown = given.keys() - set(names)
        if unknown:
            raise GraphError(f"{type(self).__name__}: has the fields {quoted(names)}; got {quoted(sorted(unknown))}")
        for name, initial in self.layout.initial.items():
            try:
                setattr(self, name, given.get(name, initial))
            except (TypeError, ValueError, OverflowError) as error:
                raise GraphError(str(error)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        held = check_value(type(self), name, value)
        if isinstance(held, np.ndarray) and name in vars(self):
            getattr(self, name)[...] = held  # as in an array of records: who holds the array sees it change
        else:
            object.__setattr__(self, name, held)

    def as_row(self) -> np.ndarray:
        """This record as an array of one row."""
        made = self.layout.new()
        for name in self.layout.initial:
            made[name] = getattr(self, name)
        return made

    def as_tuple(self) -> tuple[Any, ...]:
        """The fields' values, for comparison and display."""
        values = (getattr(self, name) for name in self.layout.initial)
        return tuple(tuple(value.tolist()) if isinstance(value, np.ndarray) else value for value in values)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(self.layout.initial, self.as_tuple(), strict=True))
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.as_tuple() == other.as_tuple()

    def __hash__(self) -> int:
        return hash((type(self), self.as_tuple()))


class State(Record):
    """What a node remembers: one record a key after `key_by`, one for the whole stream before it.

    Fields are `int`, `float`, `bool` or `ps.array(type, size)`; a new record holds zeros, or the class's values.

    >>> import penstock as ps
    >>> class Count(ps.State):
    ...     n: int
    >>> def number(state):
    ...     state.n += 1
    ...     return state.n
    >>> items = ps.from_items([{"k": "a"}, {"k": "b"}, {"k": "a"}])
    >>> items.key_by("k").map(nth=number, state=Count).collect().to_pylist()
    [{'k': 'a', 'nth': 1}, {'k': 'b', 'nth': 1}, {'k': 'a', 'nth': 2}]

    A stream keeps its states in its checkpoint, and goes on only where their fields are the same. When they must
    change, a classmethod `upgrade` says how the records that were kept are read: it takes an object with the old
    fields, and returns values for new ones. A field that it leaves out has its first value, also where the old record
    had a field of that name. It is called once for each key that comes into use, with whichever older version that
    key's record has, so keep it for as long as the checkpoint.

    >>> class Mean(ps.State):
    ...     n: int
    ...     total: float
    ...     @classmethod
    ...     def upgrade(cls, old):  # was: n: int; mean: float
    ...         return {"n": old.n, "total": old.n * old.mean}
    """

    upgrade: ClassVar[Callable[[Any], Mapping[str, Any]] | None] = None


class Signal(Record):
    """A typed control message with a place in the stream: after one item and before the next.

    >>> import penstock as ps
    >>> class Threshold(ps.Signal):
    ...     level: float
    >>> Threshold(0.05)
    Threshold(level=0.05)
    """


class Fold(Record):
    """A fold of one's own for `aggregate`: `begin` and `run` change the fields, `end` gives the result.

    Each hook names the fields it takes after `self`: `run` those of the item or of any parent, `begin` and `end` those
    of the parents. `begin` is optional; every region starts from the first values of the fields.

    >>> import penstock as ps
    >>> class Spread(ps.Fold):
    ...     low: float = float("inf")
    ...     high: float = float("-inf")
    ...     def run(self, v):
    ...         self.low = min(self.low, v)
    ...         self.high = max(self.high, v)
    ...     def end(self):
    ...         return self.high - self.low
    >>> blobs = ps.from_items([{"id": 1, "values": [1.0, 4.0]}, {"id": 2, "values": [2.0]}])
    >>> blobs.enumerate("values", as_="v").aggregate(spread=Spread).collect().to_pylist()
    [{'id': 1, 'spread': 3.0}, {'id': 2, 'spread': 0.0}]
    """

    _hooks = ("begin", "run", "end")
    begin: ClassVar[Callable[..., None] | None] = None


class Operator(Record):
    """A node with hooks of its own: `begin`, `run` and `end` around each region, every `yield` a push.

    `run` is called on every item, `begin` before the first and `end` after the last item of each region (of the whole
    stream where there is none). Each is optional but `run`, and each may yield. See `Stream.process`.
    """

    _hooks = ("begin", "run", "end")
    begin: ClassVar[Callable[..., Any] | None] = None
    end: ClassVar[Callable[..., Any] | None] = None
