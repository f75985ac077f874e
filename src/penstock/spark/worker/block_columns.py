"""How items lie in blocks: the columns of an exchange, and the items and signals of a block that has arrived."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.columns import arrays_of, scalars_to_arrow
from penstock.engine.intake import Arrival
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.record import Signal
from penstock.plan.idle import Idle
from penstock.plan.stages import Exchange
from penstock.spark.wire import Block

SPLIT_BITS = 32
"""A place is the number of the split, then so many bits for the item's place in what leaves it."""
MOST_SPLITS = 1 << 25
"""How many splits there may be: places of what comes at the end of a stream lie behind those of all items."""


def is_flat(t: pa.DataType) -> bool:
    """Whether a column of this type is one array of numbers."""
    return types.is_scalar(t) and not pt.is_boolean(t)


def times_of(rows: pa.RecordBatch, idle: Idle) -> np.ndarray:
    """The times of items, by which their keys are not idle."""
    (values,) = arrays_of(rows.column(idle.time))
    return values.astype(np.float64 if idle.is_float else np.int64, copy=False)


def schema_of(exchange: Exchange) -> pa.Schema:
    """The columns of the items in the blocks of an exchange."""
    fields = exchange.send.given.fields
    names = [(name, fields[name]) for name in exchange.names]
    return pa.schema([*names, *([(n.PLACE, pa.int64())] if exchange.has_places else [])])


def arrival(block: Block, schema: pa.Schema, signals: Sequence[type[Signal]]) -> Arrival:
    """What lies in a block: items, and signals at their places among them."""
    columns = _columns(block, schema)
    places = columns.pop(n.PLACE).to_numpy() if n.PLACE in columns else None
    rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return Arrival(rows, tuple((mark.offset, signals[mark.number](*mark.values)) for mark in block.marks), places)


def _columns(block: Block, schema: pa.Schema) -> dict[str, pa.Array]:
    """The columns of the items: first the flat ones, as arrays one after the other, then the others as Arrow data."""
    if not block.items:
        return {field.name: pa.array([], field.type) for field in schema}
    columns: dict[str, pa.Array] = {}
    at = 0
    for field, packing in zip([field for field in schema if is_flat(field.type)], block.columns, strict=True):
        values = np.frombuffer(block.payload, np.dtype(packing.dtype), block.items, at)
        at += values.nbytes
        if packing.base is not None:
            stored = types.storage(field.type)
            values = values.astype(stored) + stored.type(packing.base)
        columns[field.name] = scalars_to_arrow(values, field.type)
    others = [field for field in schema if field.name not in columns]
    if others:
        rest = pa.ipc.read_record_batch(block.payload.slice(at), pa.schema(others))
        columns |= dict(zip(rest.schema.names, rest.columns, strict=True))
    return {field.name: columns[field.name] for field in schema}
