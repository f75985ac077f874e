"""How every benchmark measures: peers in turn on the same cores, the best of the repeats, and every answer compared.

Compilation is done by a first, unmeasured call of each peer; its cost is reported separately, as the time to a first
result in a fresh process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from benchmarks.records import FIRST, Answer, Case, Facts, Peer, Run, Told, ignored
from penstock.errors import DataError, InternalError


@contextlib.contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Keep this process, the processes that it starts and Arrow's threads on so many cores."""
    threads = pa.cpu_count()
    cores = os.sched_getaffinity(0)
    pa.set_cpu_count(count)
    os.sched_setaffinity(0, set(sorted(cores)[-count:]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        pa.set_cpu_count(threads)


def measure(case: Case, repeats: int, told: Told = ignored) -> list[Run]:
    """Warm every peer up, then run them in turn, so that a disturbance strikes all alike.

    Each repeat begins with another peer, and no answer but the right ones outlives its run: what one leaves behind in
    the caches and the heap is not always found by the same other.
    """
    right: dict[str, pa.Table] = {}
    told(f"{case.name}: being made")
    case = Case(case.name, case.made())
    for peer in case.made():
        told(f"{case.name}: {peer.what}, not measured yet")
        right[peer.what] = _rehearsed(case, peer, right)
    gc.freeze()  # what stays alive for all runs is not searched for garbage before each
    runs = []
    try:
        for turn in range(repeats):
            for peer in _turned(case.made(), turn):
                most = min(repeats, peer.repeats or repeats)
                if turn < most:
                    told(f"{case.name}: {peer.what}, {turn + 1} of {most}")
                    runs.append(_run(case, peer, right[peer.what]))
        return runs
    finally:
        gc.unfreeze()


def _rehearsed(case: Case, peer: Peer, right: Mapping[str, pa.Table]) -> pa.Table:
    """Run a peer, unmeasured. Gives the right answer for it."""
    if not peer.rehearsed:
        assert peer.right is not None
        return peer.right()
    answer, own = peer.settled(_work(peer)[1]), peer.right
    found = own() if own is not None else right[case.made()[0].what] if right else answer.table
    check(case, peer, answer, found)
    return found


def _turned(peers: tuple[Peer, ...], by: int) -> tuple[Peer, ...]:
    return peers[by % len(peers) :] + peers[: by % len(peers)]


def _run(case: Case, peer: Peer, right: pa.Table) -> Run:
    seconds, given = _work(peer)
    answer = peer.settled(given)
    facts = check(case, peer, answer, right)
    seconds = seconds if answer.seconds is None else answer.seconds
    items = peer.items if answer.items is None else answer.items
    return Run(peer.what, case.name, items, seconds, facts, answer.batches_ms)


def _work(peer: Peer) -> tuple[float, Any]:
    if peer.before is not None:
        peer.before()
    return timed(peer.work)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        answer = work()
        return time.perf_counter() - start, answer
    finally:
        gc.enable()


def check(case: Case, peer: Peer, answer: Answer, right: pa.Table) -> Facts:
    """Compare the answer, and the facts that must be so. Gives all the facts."""
    if not peer.same(answer.table, right):
        raise DataError(
            f"bench: at {case.name}, {peer.what} must give the same {right.num_rows} rows as {case.made()[0].what}; "
            f"it gave {'others' if answer.table.num_rows == right.num_rows else answer.table.num_rows}"
        )
    for name, value in peer.must.items():
        if answer.facts[name] != value:
            raise InternalError(
                f"bench: at {case.name}, {peer.what} must come to {name} {value!r}; it came to {answer.facts[name]!r}"
            )
    return answer.facts


def first_results(function: str, repeats: int) -> list[Run]:
    """The time from the start of a fresh interpreter's first import to a result: nothing kept on disk, then all."""
    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            runs += [Run(what, FIRST, 1, _first_result(function, cache)) for what in ("penstock-cold", "penstock-warm")]
    return runs


def _first_result(function: str, cache: str) -> float:
    module, _, name = function.partition(":")
    lines = (
        "import time",
        "start = time.perf_counter()",
        f"from {module} import {name}",
        f"{name}()",
        "print(time.perf_counter() - start)",
    )
    environment = os.environ | {"PENSTOCK_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout.split()[-1])
