"""Fields that come from the names of partition folders, `year=2020/month=1`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import GraphError
from penstock.graph import types
from penstock.graph.files.paths import File

WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def key_types(files: Sequence[File], schema: pa.Schema | None) -> dict[str, pa.DataType]:
    """The type of each key: as the schema says, else integers where all values are whole numbers, else strings."""
    fields: dict[str, pa.DataType] = {}
    for at, (key, _) in enumerate(files[0].keys if files else ()):
        if schema is not None and key in schema.names:
            fields[key] = schema.field(key).type
            continue
        values = [file.keys[at][1] for file in files]
        is_whole = all(WHOLE.fullmatch(value) for value in values if value is not None)
        fields[key] = pa.int64() if is_whole else pa.string()
    return fields


def constants(file: File, wanted: Mapping[str, pa.DataType]) -> dict[str, pa.Scalar]:
    """The values of the partition folders that a file lies in."""
    made = {}
    for key, text in file.keys:
        try:
            made[key] = pa.scalar(text, pa.string()).cast(wanted[key])
        except (pa.ArrowException, ValueError):
            raise GraphError(
                f"{file.where}: the folder '{key}={text}' must give a value of {wanted[key]}; {text!r} is none; "
                f"give schema= another type for {key!r}"
            ) from None
    return made


def refuse_clash(source: str, names: Sequence[str], keys: Mapping[str, Any]) -> None:
    for key in keys:
        if key in names:
            raise GraphError(
                f"{source}: the field {key!r} must come from the files or from folders '{key}=...'; it is in both; "
                f"say partitions=False to take that of the files"
            )


def refuse_unsupported(source: str, wanted: Mapping[str, pa.DataType]) -> None:
    for key, t in wanted.items():
        if not (types.is_scalar(t) or types.is_text(t)):
            raise GraphError(
                f"{source}: the field {key!r} comes from folders and must be a number or a string; not {t}"
            )
