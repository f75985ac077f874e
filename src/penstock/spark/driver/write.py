"""Write the result of a run to a folder of files: the tasks write parts, the driver commits them, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.engine.run import Run
from penstock.engine.statistics import Statistics
from penstock.graph import nodes as n
from penstock.graph.prepare import skipping
from penstock.graph.tree import At
from penstock.spark.driver.batch import BatchJob
from penstock.spark.driver.job_statistics import JobStatistics
from penstock.spark.driver.results import JobOutput
from penstock.spark.driver.spark_run import SparkRun
from penstock.spark.files.dead_letters import letters_to
from penstock.spark.files.folders import refuse_overwriting
from penstock.spark.files.format import format_of, is_option
from penstock.spark.files.part import PartWriter, ResultPart, Staging
from penstock.spark.files.result_folder import ResultFolder
from penstock.spark.worker.result_writers import PartResults


@dataclass(frozen=True)
class Written:
    """What was written: the folder, its new files in the order of their parts, and what was counted."""

    path: str
    files: tuple[str, ...]
    rows: int
    bytes: int
    statistics: JobStatistics | Statistics


def write(
    leaf: n.GraphNode,
    format: str,
    path: Any,
    spark: Any = None,
    *,
    mode: str = "error",
    control: Sequence[At] = (),
    ordered: bool = False,
    dead_letter: Any = None,
    on_progress: Callable[..., None] | None = None,
    **options: Any,
) -> Written:
    """Run a graph and write its result; `options` are those of the format, and of the run."""
    of_format = {name: value for name, value in options.items() if is_option(format, name)}
    of_run = {name: value for name, value in options.items() if name not in of_format}
    schema = pa.schema(list(leaf.shape.fields.items()))
    output = ResultFolder(path, format_of(format, schema, of_format), mode)
    refuse_overwriting(f"write_{format}", output.folder, leaf.source.items, mode, output.part_name(0))
    is_here = leaf.source.items.is_here if spark is None else spark is False
    if dead_letter is not None:
        of_run["letters_to"] = letters_to(dead_letter, mode, (leaf,), [output.folder])
        of_run["on_error"] = skipping(of_run)
    if is_here:
        run = Run((leaf,), control, **of_run)
        with output:
            parts = _write_here(run, output.staging)  # letters are in place before the result is
            files = output.commit(parts)
        return _written(output, files, parts, run.statistics())
    of_run |= {"ordered": ordered, "is_collected": False, "on_progress": on_progress}
    planned = SparkRun((leaf,), control, None if isinstance(spark, bool) else spark, **of_run)
    with output:
        job = planned.job(results=PartResults(output.staging))
        parts = planned.run(lambda: _parts(planned, job), job)
        files = output.commit(parts)
    return _written(output, files, parts, planned.statistics())


def _write_here(run: Run, staging: Staging) -> tuple[ResultPart, ...]:
    with PartWriter(staging, (0,)) as writer:
        for (batch,) in run.batches():
            writer.write(batch)
        run.warn_late()
        return writer.close()


def _parts(run: SparkRun, job: BatchJob) -> tuple[tuple[ResultPart, ...], JobOutput]:
    output = job.run(run.on_progress)
    return output.parts(), output


def _written(output: ResultFolder, files: tuple[str, ...], parts: Sequence[ResultPart], statistics: Any) -> Written:
    rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
    return Written(output.given, files, rows, size, statistics)
