"""Penstock: irregular, stateful streams with precise control, at the speed of compiled columns."""

from typing import TYPE_CHECKING

from penstock.engine.clock import VirtualClock
from penstock.errors import (
    CheckpointError,
    ControlError,
    DataError,
    DeadlockError,
    FunctionError,
    GraphError,
    InternalError,
    InterpretedWarning,
    JobError,
    LateWarning,
    OutputError,
    PenstockError,
    SessionError,
    SettingWarning,
    SkippedWarning,
)
from penstock.graph.aggregate import count, first, last, max, mean, min, sum, to_list, variance
from penstock.graph.align import align, merge
from penstock.graph.foreign import FUNCTIONS, hint
from penstock.graph.function import returns
from penstock.graph.prepare import prepare, run
from penstock.graph.prepared_run import PreparedRun
from penstock.graph.read import (
    from_arrow,
    from_items,
    from_numpy,
    from_pandas,
    from_spark,
    read_csv,
    read_json,
    read_parquet,
    read_text,
)
from penstock.graph.record import Fold, Operator, Signal, State
from penstock.graph.sink import spark_sink
from penstock.graph.stream import Stream
from penstock.graph.tree import at
from penstock.graph.types import array

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "ControlError",
    "DataError",
    "DeadlockError",
    "Fold",
    "FunctionError",
    "GraphError",
    "InternalError",
    "InterpretedWarning",
    "JobError",
    "LateWarning",
    "Operator",
    "OutputError",
    "PenstockError",
    "PreparedRun",
    "SessionError",
    "SettingWarning",
    "Signal",
    "SkippedWarning",
    "State",
    "Stream",
    "VirtualClock",
    "align",
    "array",
    "at",
    "count",
    "first",
    "from_arrow",
    "from_items",
    "from_numpy",
    "from_pandas",
    "from_spark",
    "last",
    "max",
    "mean",
    "merge",
    "min",
    "prepare",
    "read_csv",
    "read_json",
    "read_parquet",
    "read_text",
    "returns",
    "run",
    "spark_sink",
    "sum",
    "to_list",
    "variance",
]


if not TYPE_CHECKING:  # an editor knows the names that there are

    def __getattr__(name: str) -> object:
        raise AttributeError(f"module 'penstock' has no {name!r}{hint(name, FUNCTIONS, __all__)}")
