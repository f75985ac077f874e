"""The cases of the stream benchmark: which streams run over which files, and what of them counts."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from benchmarks import files, keyed
from benchmarks import stream_peers as by
from benchmarks.records import Answer, Case, Peer
from benchmarks.spark import CORES, in_workers, session
from benchmarks.stream import BYTES, GROWTH, RESTART, SMALL_FILES, Growth, Restarts, Size, Spikes, Touch
from benchmarks.stream_peers import Ended, Place
from penstock.errors import DataError
from penstock.examples import spike_detection
from penstock.spark.driver.session import with_settings
from penstock.spark.streaming.handle import StreamHandle
from penstock.spark.streaming.stream_progress import has_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.005
ALL_PROGRESS = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
"""Spark asks the session that a stream began in how much of its progress to keep, for as long as the stream runs."""
CYCLE = 40
"""In how many micro-batches the size of a state store goes up and down: each tenth makes RocksDB write a file, and of
four files it makes one. Samples that are closer, or further apart, show where in a cycle they were taken."""
FILLED = 8
"""How often the first file has each key, so that the states have all their values from the start. Stores compress what
they hold: where values take the place of zeros, one grows with each batch, until all keys have had theirs."""

Work = Callable[[Place], Ended]
Right = Callable[[Sequence[str]], pa.Table]


def cases_of(size: Size) -> Iterator[Case]:
    spark = session()
    try:
        for spikes in size.spikes:
            yield Case(spikes.case, partial(spike_peers, spark, spikes))
        for touch in size.touches:
            name = "all" if touch.keys == size.keys else touch.keys
            yield Case(f"touch-{name}", partial(touch_peers, spark, f"touch-{name}", size.keys, touch))
        for keys in size.restarts.keys:
            yield Case(f"{RESTART}{keys}", partial(restart_peers, spark, keys, size.restarts))
        yield Case(GROWTH, partial(growth_peers, spark, size.growth))
        yield Case(SMALL_FILES, partial(small_file_peers, spark, size.small_files))
    finally:
        shutil.rmtree(by.folder(), ignore_errors=True)


def stream_peer(
    spark: SparkSession,
    case: str,
    what: str,
    work: Work,
    paths: Sequence[str],
    warm: int,
    right: Right,
    at_once: int = 1,
    **more: Any,
) -> Peer:
    """A stream over some files, `at_once` a micro-batch, whose first `warm` do not count; its answer must be `right`.

    It needs no rehearsal, for these warm it up.
    """
    place = Place(f"{case}-{what}", at_once)
    before = partial(place.clear, paths)
    batches = [paths[at : at + at_once] for at in range(0, len(paths), at_once)]
    settle = partial(steady, place, [files.rows(list(batch)) for batch in batches], warm)
    own, items = partial(right, paths), files.rows(list(paths))
    peer = Peer(what, partial(work, place), items, own, settle=settle, rehearsed=False, **more)
    return in_workers(spark, peer, before)


def steady(place: Place, rows: Sequence[int], warm: int, ended: Ended) -> Answer:
    """What counts: the rows of all but the first micro-batches, and the time of these."""
    times = ended.batches_ms
    if len(times) != len(rows):
        raise DataError(f"bench: {place.name} must run {len(rows)} micro-batches; it ran {len(times)}")
    counted = times[warm:]
    facts = {"first_ms": times[0], "batch_ms": sum(counted) / len(counted), **ended.facts}
    return Answer(in_order(place.result()), facts, sum(counted) / 1000, sum(rows[warm:]), times)


def in_order(table: pa.Table) -> pa.Table:
    """The rows sorted, since neither files nor rows of several tasks have an order."""
    names = sorted(table.schema.names)
    sorted_rows = table.select(names).sort_by([(name, "ascending") for name in names])
    return sorted_rows.cast(pa.schema([(each.name, each.type) for each in sorted_rows.schema])).combine_chunks()


# Spike detection


def spike_peers(spark: SparkSession, size: Spikes) -> Iterator[Peer]:
    count = size.span.batches
    paths = files.paths(files.readings(size.rows * count, size.devices, False, count * size.files))
    build = partial(spike_detection.build, window=size.window)
    peer = partial(stream_peer, spark, size.case, at_once=size.files)
    spikes = partial(answer, build)
    own: Work = partial(by.by_penstock, spark, build=build)
    yield peer("penstock", own, paths, size.span.warm, spikes, same=same_spikes)
    few = paths[: size.slow.batches * size.files]
    slow: dict[str, Work] = {
        "tws": partial(by.by_tws, spark, window=size.window),
        "apply": partial(by.by_apply, spark, window=size.window),
    }
    for what, work in slow.items():
        yield peer(what, work, few, size.slow.warm, spikes, same=same_spikes, repeats=1)
    floor: Work = partial(by.by_floor, spark, columns=by.READINGS, keep=by.is_high)
    yield peer("floor", floor, few, size.slow.warm, partial(kept, by.is_high), repeats=1)


def same_spikes(given: pa.Table, right: pa.Table) -> bool:
    return keyed.same(keyed.settled(given), keyed.settled(right))


def answer(build: by.Build, paths: Sequence[str]) -> pa.Table:
    """What Penstock gives for some files in one process, without Spark and not as a stream."""
    return in_order(build(ps.read_parquet(list(paths))).collect(spark=False))


def kept(keep: Callable[[pa.Table], Any], paths: Sequence[str]) -> pa.Table:
    """The rows of some files that the floor keeps."""
    return in_order(pa.concat_tables([table.filter(keep(table)) for table in map(pq.read_table, paths)]))


# Some of many keys


class Running(ps.State):
    """64 bytes of a key: its last values and their sum."""

    last: ps.array(float, 6)  # type: ignore[valid-type]
    total: float
    n: int


def running_total(value: int, state: Any) -> float:
    state.last[state.n % len(state.last)] = value
    state.n += 1
    state.total += value
    return state.total  # type: ignore[no-any-return]


def totals(source: ps.Stream) -> ps.Stream:
    """The sum of all values of its key so far, for one row in a hundred."""
    found = source.key_by("key").map(total=running_total, state=Running)
    return found.filter(lambda value: value == 0).select("key", "value", "total")


def touch_peers(spark: SparkSession, case: str, keys: int, size: Touch) -> Iterator[Peer]:
    """The first file, with all keys, comes before those that are touched, and does not count either."""
    paths = files.paths(files.touches(keys, size.keys, size.span.batches))
    peer, right = partial(stream_peer, spark, case), partial(answer, totals)
    warm = 1 + size.span.warm
    yield peer("penstock", partial(by.by_penstock, spark, build=totals), paths, warm, right)
    floor = partial(by.by_floor, spark, columns=by.TOUCHES, keep=by.is_hundredth)
    yield peer("floor", floor, paths, warm, partial(kept, by.is_hundredth))
    yield peer("plain", partial(floor, settings={}), paths, warm, partial(kept, by.is_hundredth))
    few, blob = paths[: 1 + size.blob.batches], partial(by.by_blob, spark, build=totals)
    yield peer("blob", blob, few, 1 + size.blob.warm, right, repeats=1, must={"pages": CORES})


# Many small files


def small_file_peers(spark: SparkSession, count: int) -> Iterator[Peer]:
    """Files of one row, all of a micro-batch at once: Penstock with state by key, and Spark's own without any."""
    paths = files.paths(files.single_rows(2 * count))
    peer = partial(stream_peer, spark, SMALL_FILES, paths=paths, warm=1, at_once=count)
    yield peer("penstock", partial(by.by_penstock, spark, build=totals), right=partial(answer, totals))
    floor = partial(by.by_floor, spark, columns=by.TOUCHES, keep=by.is_hundredth)
    yield peer("floor", floor, right=partial(kept, by.is_hundredth))
    yield peer("plain", partial(floor, settings={}), right=partial(kept, by.is_hundredth))


# Restarts


def restart_peers(spark: SparkSession, keys: int, size: Restarts) -> list[Peer]:
    """From `start` to the first new file of results. Each run finds the same checkpoint, and one file more."""
    paths = files.paths(files.touches(keys, size.touched, size.batches + 1))
    place, saved = Place(f"{RESTART}{keys}"), Place(f"{RESTART}{keys}-saved")

    def before() -> None:
        if not saved.folder.exists():
            place.clear(paths[:-1])
            by.by_penstock(spark, place, totals)
            place.folder.rename(saved.folder)
        place.remove()
        shutil.copytree(saved.folder, place.folder)
        place.add(paths[-1:])

    def settle(seconds: float) -> Answer:
        return Answer(in_order(place.result()), seconds=seconds)

    right = partial(answer, totals, paths)
    peer = Peer("penstock", partial(restarted, spark, place), size.touched, right, settle=settle, rehearsed=False)
    return [in_workers(spark, peer, before)]


def restarted(spark: SparkSession, place: Place) -> float:
    """The seconds to a file that was not there."""
    known = set(os.listdir(place.out))
    start = time.perf_counter()
    handle = by.started(spark, place, totals)
    while handle.running.isActive and set(os.listdir(place.out)) <= known:
        time.sleep(POLL_S)
    seconds = time.perf_counter() - start
    handle.await_termination()
    return seconds


# Growth


def growth_peers(spark: SparkSession, size: Growth) -> list[Peer]:
    paths = files.paths(files.touches(size.keys, size.touched, size.batches - 1, FILLED))
    work: Work = partial(grown, spark, batches=size.batches)
    return [stream_peer(spark, GROWTH, "penstock", work, paths, 1, partial(answer, totals), repeats=1)]


def grown(spark: SparkSession, place: Place, batches: int) -> Ended:
    """The most bytes that the state store had in the cycle before each quarter of all micro-batches."""
    with with_settings(spark, ALL_PROGRESS):
        handle = by.started(spark, place, totals)
        sizes = watched(handle, Path(place.checkpoint, "state"))
        found = by.ended(place, handle)
    facts: dict[str, float] = {}
    for quarter in range(1, 5):
        stop = batches * quarter // 4
        facts[f"{BYTES}{stop}"] = float(max(sizes.get(batch, 0) for batch in range(max(0, stop - CYCLE), stop)))
    return Ended(found.batches_ms, {**found.facts, **facts})


def watched(handle: StreamHandle, folder: Path) -> dict[int, int]:
    """The bytes of a folder behind each micro-batch, until the stream ends; one may be missing now and then."""
    found: dict[int, int] = {}
    is_active = True
    while is_active:
        is_active = handle.running.isActive
        told = handle.running.lastProgress
        if told is not None and has_run(told) and told["batchId"] not in found:
            found[int(told["batchId"])] = bytes_in(folder)
        time.sleep(POLL_S)
    return found


def bytes_in(folder: Path) -> int:
    """The bytes of all files in a folder, from which some may be removed meanwhile."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.path.getsize(os.path.join(path, name))
    return total
