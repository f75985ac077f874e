"""Texts and bytes as types of their own in compiled code, so that no array operation is taken for one of `str`.

Both are held as an array of bytes. A `Text` compiled code can only hand on, count the code points of (`len`) and ask
for its bytes (`encode`); of `Bytes` it has the length, the elements and slices. `allowed` refuses everything else.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import cgutils, types
from numba.core.datamodel import models, register_default
from numba.core.typeconv import Conversion
from numba.extending import intrinsic, overload_method
from numba.np.arrayobj import make_array


class _Opaque(types.Array):  # type: ignore[misc]
    """A read-only array of bytes that no other type is converted to, and that is converted to no other."""

    word = ""

    def __init__(self, layout: str = "C") -> None:
        name = self.word if layout == "C" else f"{self.word} with steps"
        super().__init__(types.uint8, 1, layout, readonly=True, name=name)

    def copy(self, dtype: Any = None, ndim: Any = None, layout: Any = None, readonly: Any = None) -> Any:
        """What Numba makes the type of a slice by."""
        if dtype in (None, self.dtype) and ndim in (None, 1) and readonly in (None, True):
            return type(self)(layout or self.layout)
        return super().copy(dtype, ndim, layout, readonly)

    def unify(self, typingctx: Any, other: Any) -> Any:
        return type(self)(self.layout if other.layout == self.layout else "A") if type(other) is type(self) else None

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        is_wider = type(other) is type(self) and other.layout in ("A", self.layout)
        return Conversion.safe if is_wider else None


class Text(_Opaque):
    """A `str`, held as UTF-8."""

    word = "text field"


class Bytes(_Opaque):
    """A `bytes`."""

    word = "bytes field"


register_default(Text)(models.ArrayModel)
register_default(Bytes)(models.ArrayModel)

TEXT, BYTES = Text(), Bytes()


def holds(t: Any, kind: type[_Opaque]) -> bool:
    """Whether a type is, or is made of, texts or bytes. Numba names every type after all that it is made of."""
    return isinstance(t, kind) or kind.word in str(t)


def _drop_owner(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The same elements without an owner: a column or a heap outlives what a loop makes of its values."""
    array = make_array(signature.args[0])(context, builder, value=arguments[0])
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


@intrinsic  # type: ignore[untyped-decorator]
def as_text(typing: Any, array: Any) -> Any:
    """The bytes of a value of a column as a text."""
    return TEXT(array), _drop_owner


@intrinsic  # type: ignore[untyped-decorator]
def as_bytes(typing: Any, array: Any) -> Any:
    """The bytes of a value of a column, or of a text, as bytes."""
    return BYTES(array), _drop_owner


@numba.njit
def code_points(text):  # type: ignore[no-untyped-def]
    """How many code points valid UTF-8 holds: every byte but those that continue one."""
    count = 0
    for at in range(text.size):
        count += (text[at] & 0xC0) != 0x80
    return count


def _encode(text: Any) -> Any:
    return lambda text: as_bytes(text)


_encode.__annotations__ = {}  # Numba wants those of an overload and of its implementation to be the same
overload_method(Text, "encode")(_encode)
