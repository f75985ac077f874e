"""What the tasks of a job need to know, made by the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.engine.options import draw_seed
from penstock.errors import hides_values
from penstock.graph.record import Signal
from penstock.plan.stages import Cut
from penstock.spark.driver.bucket_layout import BucketLayout
from penstock.spark.worker.program import Program, ResultWriter


def plan_program(
    cut: Cut,
    layout: BucketLayout,
    results: Callable[[int, int], ResultWriter],
    options: Mapping[str, Any],
    signals: Mapping[int, tuple[tuple[int, Signal], ...]],
    bases: Mapping[int, int],
    cores: Mapping[int, int] | None = None,
    *,
    is_measured: bool = False,
) -> Program:
    """What tasks need to know. Where items are to be sent with their indices in the split, these begin at 0."""
    are_indexed = any(output.has_places for output in cut.stages[0].outputs)
    return Program(
        cut.stages,
        layout.targets,
        layout.senders,
        results,
        {"hash_seed": draw_seed(), **options},
        signals,
        {} if are_indexed else bases,
        layout.splits,
        cores=cores or {},
        hides_values=hides_values(),
        is_measured=is_measured,
    )
