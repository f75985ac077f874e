"""The options of a run by name and type, so that editors complete them; what each does is in `docs/running.md`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypedDict

from penstock.graph.tree import At

Capacity = int | None
OnError = Literal["stop", "skip"]
Mode = Literal["error", "overwrite", "append"]


class RunOptions(TypedDict, total=False):
    """How to run. None of these changes the result."""

    compile: bool
    batch_items: Capacity
    fuse: bool
    width: Capacity
    capacity: Capacity
    capacity_signals: Capacity
    memory: Capacity
    delay: Capacity
    context: str | Mapping[Any, str]
    credit: Literal["queued", "balance"]
    threshold: Capacity
    heartbeat: int | Literal["never"] | None
    cores: int
    mapping: Any
    flexible: Any
    block_items: Capacity
    policy: Literal["downstream", "upstream", "random"]
    seed: int
    hash_seed: int
    trace: bool
    check: bool
    clock: Callable[[], float]
    plan: Any
    on_error: OnError
    dead_letter: Any
    mode: Mode
    buckets: int | None
    split_bytes: int | None
    on_progress: Callable[..., None] | None


class PrepareOptions(RunOptions, total=False):
    """How to run, with the signals from outside, and whether keyed rows are put in order on Spark."""

    control: Sequence[At]
    ordered: bool


class WriteOptions(PrepareOptions, total=False):
    """How to run and write."""

    compression: str | None


class StartOptions(TypedDict, total=False):
    """How to run a stream that does not end."""

    format: str
    ordered: bool
    buckets: int | None
    files_per_batch: int | None
    max_file_age: Any
    control: Sequence[At]
    time: Any
    expire_after: Any
    restart: bool
    compile: bool
    batch_items: Capacity
    hash_seed: int
    on_error: OnError
    dead_letter: Any
    compression: str | None


MEANT = {
    "order": "ordered=True",
    "sorted": "ordered=True",
    "keep_order": "ordered=True",
    "overwrite": 'mode="overwrite"',
    "append": 'mode="append"',
    "errors": 'on_error="skip"',
    "skip_errors": 'on_error="skip"',
    "ignore_errors": 'on_error="skip"',
    "batch_size": "batch_items=",
    "chunk_size": "batch_items=",
    "chunksize": "batch_items=",
    "threads": "cores=",
    "workers": "cores=",
    "n_jobs": "cores=",
    "parallelism": "buckets= on Spark, or cores= in this process",
    "partitions": "buckets=",
    "num_partitions": "buckets=",
    "jit": "compile=",
    "debug": "compile=False, so that a debugger can step into the functions",
    "checkpoint_location": "checkpoint=",
    "checkpointLocation": "checkpoint=",
    "processing_time": "trigger=, a number of seconds",
    "processingTime": "trigger=, a number of seconds",
    "available_now": 'trigger="available"',
    "availableNow": 'trigger="available"',
    "watermark": "late= of window(...)",
}
"""What others call an option, by ours."""
KNOWN = frozenset(WriteOptions.__annotations__) | frozenset(StartOptions.__annotations__) | {"spark", "trigger"}


def hint_of_option(name: str) -> str:
    """What was meant by an option that does not exist."""
    if name in MEANT:
        return f"write {MEANT[name]}"
    close = get_close_matches(name, KNOWN, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(KNOWN))}"
