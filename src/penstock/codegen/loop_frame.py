"""The frame of a loop: it goes over the rows and the marks between them, sees to room, and saves what is carried over.

The caller provides room for what the loop writes. Before each row (and each mark) the loop checks that the most that
can come of it still fits, and returns early where it does not, so that nothing inside needs a check.

Nothing here knows what nodes do: that is the row code (`loop_body.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.codegen.generated import AT_ROWS, GeneratedLoop, Stop, Where
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
    if "last_index" in code.integers:  # last, so that what is kept of a loop does not depend on it
        code.integers.remove("last_index")
        code.integers.append("last_index")
    code.signature = declare(code, len(loop.signals))
    with out.block(f"def kernel({', '.join(code.signature.parameters)})"):
        _load(loop)
        with out.block("if is_first"):
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
    for each in code.inputs:
        of = "the items" if each.level is None else f"their parents at depth {each.level}"
        loop.out.comment(f"{each.column.prefix}: {each.field!r} of {of}")
    for sink in code.sinks:
        for outlet in (sink.items, *sink.parents):
            fields = ", ".join(repr(column.field) for column in outlet.columns)
            loop.out.comment(f"{outlet.buffer.name}: {fields} that leave {sink.node.label}")
    for at, buffer in enumerate(code.buffers):
        line(f"{buffer.count} = used[{at}]")
        line(f"{buffer.name}_c = room[{at}]")
    for at, name in enumerate(code.integers):
        line(f"{name} = integers[{at}]")
    for at, name in enumerate(code.floats):
        line(f"{name} = floats[{at}]")
    for name in _borrowed(code):
        line(name)
    if len(loop.calls.noted) == 1:
        loop.calls.note_where(Where.WHAT, min(loop.calls.noted))
    for low, high in loop.carried.halves:
        line(f"{high} += {low} >> 32")
        line(f"{low} &= 4294967295")
    line("row = from_row")
    line("mark = from_mark")
    for depth in range(len(loop.segment.entry.shape.regions)):
        line(f"q{depth} = parents[{depth}]")


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
    out.line("stop = rows")
    with out.block("if mark < marks"):
        out.line("stop = mark_rows[mark]")
    loop.calls.note_where(Where.MARK, AT_ROWS)
    _rows(loop, body)
    loop.calls.note_where(Where.ROW, "row")
    loop.calls.note_where(Where.MARK, "mark")
    with out.block("if mark == marks"):
        out.line("break")
    for mark in body.marks:
        with out.block(f"if mark_kinds[mark] == {mark.kind}"):
            loop.room.check(mark.phase, Stop.ROWS)
            out.put(mark.lines)
    out.line("mark += 1")


def _rows(loop: LoopContext, body: LoopBody) -> None:
    """The rows up to the next mark. Where what comes of a row is bounded, room is checked for many rows at once.

    The row that we are at is noted for errors, or the first of a block of rows.
    """
    out, fixed = loop.out, loop.room.fixed_in("rows")
    if not fixed:
        with _each_row(loop, body, "stop"):
            loop.room.check("rows", Stop.ROWS)
            _row(loop, body)
        out.line("row = stop")
        return
    with out.block("while row < stop"):
        out.line("halt = stop - row")
        for buffer, number in fixed:
            out.line(f"halt = min(halt, {buffer.left(number)})")
        with out.block("if halt <= 0"):
            loop.room.stop_short("rows", Stop.ROWS)
        if loop.code.block:
            out.line(f"halt = min(halt, {loop.code.block})")
            loop.calls.note_where(Where.ROW, "row")
        out.line("halt += row")
        with _each_row(loop, body, "halt"):
            loop.room.grow_heaps("rows")
            _row(loop, body)
        out.line("row = halt")


@contextmanager
def _each_row(loop: LoopContext, body: LoopBody, stop: str) -> Iterator[None]:
    with loop.out.block(f"for u in range(unsigned(row), unsigned({stop}))"):
        loop.out.line("row = as_int(u)")
        if body.row_may_raise and not loop.code.block:
            loop.calls.note_where(Where.ROW, "row")
        yield


def _row(loop: LoopContext, body: LoopBody) -> None:
    """The code of a row and, where they are counted, how many items came of it."""
    sinks = [sinks[0] for sinks in loop.exits.sinks.values()]
    total = " + ".join(sink.items.buffer.count for sink in sinks)
    is_counted = loop.code.counts_outputs and loop.by_piece is None
    if is_counted:
        loop.out.line(f"before = {total}")
    loop.out.put(body.row)
    if is_counted:
        loop.exits.count_outputs(f"{total} - before")
