"""The frame of a loop: it goes over the rows and the marks between them, sees to room, and saves what is carried over.

The caller provides room for what the loop writes. Before each row (and each mark) the loop checks that the most that
can come of it still fits, and returns early where it does not, so that nothing inside needs a check.

Nothing here knows what nodes do: that is the row code (`loop_body.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.codegen.generated import GeneratedLoop, Stop
from penstock.codegen.loop_body import LoopBody
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.signature import declare

BLOCK = 1024
"""How many rows are noted at once, where one that raises can be found by running them again: a note costs a store."""


def frame_loop(loop: LoopContext, body: LoopBody) -> GeneratedLoop:
    """The loop around its row code, as a kernel that runs on a core."""
    code, out = loop.code, loop.out
    if body.row_may_raise and not body.row_has_records and loop.room.fixed_in("rows"):
        code.block = BLOCK
    if "ix_last" in code.integers:  # last, so that what is kept of a loop does not depend on it
        code.integers.remove("ix_last")
        code.integers.append("ix_last")
    code.signature = declare(code, len(loop.signals))
    with out.block(f"def kernel({', '.join(code.signature.parameters)})"):
        _load(loop)
        with out.block("if first"):
            loop.room.check("first", Stop.FIRST)
            out.put(body.first)
        with out.block("while True"):
            _turn(loop, body)
        out.put(body.last)
        loop.carried.save(Stop.DONE)
    code.source = out.render()
    return code


def _load(loop: LoopContext) -> None:
    """Load what is carried over, and begin where the last call ended."""
    code, line = loop.code, loop.out.line
    for at, buffer in enumerate(code.buffers):
        line(f"{buffer.count} = used[{at}]")
        line(f"{buffer.name}_c = cap[{at}]")
    for at, name in enumerate(code.integers):
        line(f"{name} = ci[{at}]")
    for at, name in enumerate(code.floats):
        line(f"{name} = cf[{at}]")
    for name in _borrowed(code):
        line(name)
    if len(loop.calls.noted) == 1:
        line(f"w[0] = {min(loop.calls.noted)}")
    for low, high in loop.carried.halves:
        line(f"{high} += {low} >> 32")
        line(f"{low} &= 4294967295")
    line("i = i0")
    line("m = m0")
    for depth in range(len(loop.segment.entry.shape.regions)):
        line(f"q{depth} = p0[{depth}]")


def _borrowed(code: GeneratedLoop) -> Iterator[str]:
    """The arrays are the caller's for the whole call, so slices of them need no count of references."""
    for each in code.inputs:
        yield from () if each.is_plain else (f"{name} = borrowed({name})" for name in each.column.arrays)
    for name, cells in code.cells.items():
        state, node = next(each for each in code.states.items() if each[1] is cells.node)
        views = [(state, field) for field in node.records["state"].layout.initial]
        views += [(name, field) for field in cells.fields]
        yield from (f'{array}_{field} = borrowed({array})["{field}"]' for array, field in views)


def _turn(loop: LoopContext, body: LoopBody) -> None:
    """The rows up to the next mark, and that mark."""
    out = loop.out
    out.line("stop = n")
    with out.block("if m < mn"):
        out.line("stop = mk_at[m]")
    out.line("w[2] = -1")
    _rows(loop, body)
    out.line("w[1] = i")
    out.line("w[2] = m")
    with out.block("if m == mn"):
        out.line("break")
    for mark in body.marks:
        with out.block(f"if mk_kind[m] == {mark.kind}"):
            loop.room.check(mark.phase, Stop.ROWS)
            out.put(mark.lines)
    out.line("m += 1")


def _rows(loop: LoopContext, body: LoopBody) -> None:
    """The rows up to the next mark. Where what comes of a row is bounded, room is checked for many rows at once.

    In `w[1]` is the row that we are at, for errors, or the first of a block of rows.
    """
    out, fixed = loop.out, loop.room.fixed_in("rows")
    if not fixed:
        with _each_row(loop, body, "stop"):
            loop.room.check("rows", Stop.ROWS)
            _row(loop, body)
        out.line("i = stop")
        return
    with out.block("while i < stop"):
        out.line("halt = stop - i")
        for buffer, number in fixed:
            out.line(f"halt = min(halt, {buffer.left(number)})")
        with out.block("if halt <= 0"):
            loop.room.stop_short("rows", Stop.ROWS)
        if loop.code.block:
            out.line(f"halt = min(halt, {loop.code.block})")
            out.line("w[1] = i")
        out.line("halt += i")
        with _each_row(loop, body, "halt"):
            loop.room.grow_heaps("rows")
            _row(loop, body)
        out.line("i = halt")


@contextmanager
def _each_row(loop: LoopContext, body: LoopBody, stop: str) -> Iterator[None]:
    with loop.out.block(f"for u in range(unsigned(i), unsigned({stop}))"):
        loop.out.line("i = as_int(u)")
        if body.row_may_raise and not loop.code.block:
            loop.out.line("w[1] = i")
        yield


def _row(loop: LoopContext, body: LoopBody) -> None:
    """The code of a row and, where they are counted, how many items came of it."""
    sinks = [sinks[0] for sinks in loop.exits.sinks.values()]
    total = " + ".join(sink.items.buffer.count for sink in sinks)
    is_counted = loop.code.counts_outputs and loop.by_piece is None
    if is_counted:
        loop.out.line(f"ob = {total}")
    loop.out.put(body.row)
    if is_counted:
        loop.exits.count_outputs(f"{total} - ob")
