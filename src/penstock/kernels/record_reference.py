"""Records by reference. Numba copies a record into the frame of a generator, and what it stores there would be lost."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic


class RecordReference(types.Record):  # type: ignore[misc]
    """A record that is held as a pointer wherever it goes, also in a generator's frame."""


@register_default(RecordReference)
class _RecordReferenceModel(models.RecordModel):  # type: ignore[misc]
    def get_data_type(self) -> Any:
        return self._be_ptr_type

    def as_data(self, builder: Any, value: Any) -> Any:
        return value

    def from_data(self, builder: Any, value: Any) -> Any:
        return value

    def load_from_data_pointer(self, builder: Any, ptr: Any, align: Any = None) -> Any:
        return builder.load(ptr, align=align)


def reference_to(record: Any) -> RecordReference:
    """The reference type of a record type."""
    fields = [
        (name, {"type": f.type, "offset": f.offset, "alignment": f.alignment, "title": f.title})
        for name, f in record.fields.items()
    ]
    return RecordReference(fields, record.size, record.aligned)


@intrinsic  # type: ignore[untyped-decorator]
def by_reference(typing: Any, record: Any) -> Any:
    """A record of an array as a reference to it."""
    return reference_to(record)(record), lambda context, builder, signature, arguments: arguments[0]
