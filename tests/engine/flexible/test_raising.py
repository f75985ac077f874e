"""A copy that raises: the error names the node, the copy and the item; what came before is there, and threads end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.graph.placed import flexible
from tests.property.stepped import stepped

import penstock as ps
from penstock.errors import DataError, FunctionError, PenstockError

BAD, COUNT = 31, 40


def numbers() -> ps.Stream:
    return ps.from_numpy({"v": np.arange(COUNT)}, name="numbers")


def pushed(v: int) -> Iterator[int]:
    for at in range(3 if v == BAD else v % 3):
        yield v * 10 + at


def refused(v: pa.Array) -> pa.Array:
    if pc.any(pc.equal(v, BAD)).as_py():
        raise ValueError(f"{BAD} is refused")
    return v


GRAPHS: dict[str, tuple[Any, type[PenstockError]]] = {
    "map 'w'": (lambda: numbers().map(w=lambda v: 1 // (v - BAD)), FunctionError),
    "filter": (lambda: numbers().filter(lambda v: 1 // (v - BAD) < 5), FunctionError),
    "flat_map 'w'": (lambda: numbers().flat_map(pushed, to="w", at_most=2), DataError),
    "map_columns 'w'": (lambda: numbers().map_columns(refused, to={"w": int}), FunctionError),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_an_error_names_node_copy_and_item(name: str) -> None:
    build, kind = GRAPHS[name]
    stream, copies = flexible(build(), 2), set()
    for steps in range(8):
        with stepped(steps), pytest.raises(kind) as raised:
            _run(stream, policy="random", seed=steps).collect()
        message = str(raised.value)
        assert message.startswith(f"{name}:")
        assert f"item {BAD}" in message or f"{BAD} is refused" in message
        copies |= {copy for copy in (1, 2) if message.endswith(f"; in {name} (copy {copy})")}
    assert copies


@pytest.mark.parametrize("name", GRAPHS)
def test_what_came_before_is_there_and_threads_end(name: str) -> None:
    """Whoever takes the results one by one has a piece from the beginning, in order, when the error comes."""
    build, kind = GRAPHS[name]
    stream, wanted = build(), []
    with pytest.raises(kind):
        for batch in stream.prepare(spark=False, width=1, compile=False, batch_items=1).batches():
            wanted += batch[0].to_pylist()
    for seed in range(3):
        found: list[Any] = []
        with pytest.raises(kind):
            for batch in _run(flexible(stream, 2), policy="random", seed=seed).batches():
                found += batch[0].to_pylist()
        assert found == wanted[: len(found)]
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-core")]


def test_an_error_behind_copies_does_not_name_them() -> None:
    stream = flexible(numbers().map(w=lambda v: v)).map(z=lambda w: 1 // (w - BAD))
    with pytest.raises(FunctionError, match=f"map 'z'.*item {BAD}") as raised:
        _run(stream).collect()
    assert "copy" not in str(raised.value)


def _run(stream: ps.Stream, **more: Any) -> Any:
    return stream.prepare(
        spark=False, fuse=False, cores=3, capacity=2, width=1, compile=False, check=True, batch_items=7, **more
    )
