"""The tree of errors.

Every message says where, what must be, what was, and what to do. A user's mistake is never reported by a bare
``assert`` or by an error of a library below.
"""

from __future__ import annotations

import os
from typing import Self

HIDE_VALUES = "PENSTOCK_HIDE_VALUES"
HIDDEN = "(hidden)"
"""What stands in a message for a value of the data where these are hidden."""


class PenstockError(Exception):
    """The root of all errors that Penstock raises."""

    item: int | None = None
    """The index of the item that it is about, where it is about one: the message says `item N`."""

    def about(self, item: int) -> Self:
        """The same error, with the index of the item that it is about."""
        self.item = item
        return self


class GraphError(PenstockError, ValueError):
    """The graph cannot mean anything: found while it is built, before anything runs."""


class DataError(PenstockError, ValueError):
    """An item does not fit the graph: a null, a NaN in a key, a sum that overflows, more outputs than declared."""


class FunctionError(PenstockError, RuntimeError):
    """A function of the user's raised while it ran on an item."""


class ControlError(PenstockError, ValueError):
    """A signal cannot be delivered: nobody handles it, or its place was never reached."""


class DeadlockError(PenstockError, RuntimeError):
    """Nodes wait for each other and none can go on, because heartbeats were left out or chosen too large by hand."""


class ModelError(PenstockError, ValueError):
    """A performance model cannot be built or cannot run: a net that deadlocks, a task without a core, a wrong time."""


class SessionError(PenstockError, RuntimeError):
    """Spark cannot be started or used: no Java, no PySpark, a cluster that does not answer."""


class OutputError(PenstockError, OSError):
    """A result cannot be written: the target is there already, is no folder or not writable, or the disk is full."""


class CheckpointError(PenstockError, RuntimeError):
    """The checkpoint of a stream cannot be used: another graph made it, another query uses it, or it is damaged."""


class JobError(PenstockError, RuntimeError):
    """Spark could not run a job, for a reason that is not ours: a lost cluster, no memory, a result too large."""


class InternalError(PenstockError, AssertionError):
    """A fault in Penstock itself. Please report it with the message."""


class InterpretedWarning(UserWarning):
    """A function does not compile, so it runs interpreted, item by item: right, but slow."""


class SkippedWarning(UserWarning):
    """Items were skipped, as `on_error="skip"` asks for, and nobody has looked at their letters."""


class SettingWarning(UserWarning):
    """A setting of the Spark session in use will make graphs slow, or make them fail."""


class LateWarning(UserWarning):
    """Items came after their windows had closed, and were left out."""


# What messages quote of the data. All that may hold values of it goes through these functions.

_is_hidden_by_job = False


def hides_values() -> bool:
    """Whether messages must not quote values: by the environment of this process, or by the job of a task."""
    return _is_hidden_by_job or os.environ.get(HIDE_VALUES, "") not in ("", "0")


def hide_values(is_hidden: bool) -> None:
    """Hide values in this process, as the driver of the job does for which it works now."""
    global _is_hidden_by_job
    _is_hidden_by_job = is_hidden


def value_text(value: object) -> str:
    """A value for a message."""
    return HIDDEN if hides_values() else repr(value)


def reason_text(error: BaseException | str) -> str:
    """What an error of a library or of a user's function says, which may quote values."""
    return HIDDEN if hides_values() else str(error)


def cause_of(error: BaseException) -> BaseException | None:
    """The error to name as the cause of another: Python prints its message too."""
    return None if hides_values() else error


def quoted(names: object) -> str:
    """Names for a message: ``'a', 'b'``, or ``none``."""
    listed = ", ".join(repr(str(name)) for name in names)  # type: ignore[attr-defined]
    return listed or "none"
