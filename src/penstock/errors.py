"""The tree of errors.

Every message says where, what must be, what was, and what to do. A user's mistake is never reported by a bare
``assert`` or by an error of a library below.
"""

from __future__ import annotations


class PenstockError(Exception):
    """The root of all errors that Penstock raises."""


class GraphError(PenstockError, ValueError):
    """The graph cannot mean anything: found while it is built, before anything runs."""


class DataError(PenstockError, ValueError):
    """An item does not fit the graph: a null, a NaN in a key, a sum that overflows, more outputs than declared."""


class FunctionError(PenstockError, RuntimeError):
    """A function of the user's raised while it ran on an item."""


class ControlError(PenstockError, ValueError):
    """A signal cannot be delivered: nobody handles it, or its place was never reached."""


class InternalError(PenstockError, AssertionError):
    """A fault in Penstock itself. Please report it with the message."""


class InterpretedWarning(UserWarning):
    """A function does not compile, so it runs interpreted, item by item: right, but slow."""


def quoted(names: object) -> str:
    """Names for a message: ``'a', 'b'``, or ``none``."""
    listed = ", ".join(repr(str(name)) for name in names)  # type: ignore[attr-defined]
    return listed or "none"
