"""Names in generated loops: none is used for two things. Found by a random graph, kept small."""

from __future__ import annotations

import pyarrow as pa

import penstock as ps
from penstock.graph import reference


class Sum(ps.State):
    sum: int


class Level(ps.Signal):
    level: int = 3


class Length(ps.Fold):
    n: int

    def run(self, word):  # type: ignore[no-untyped-def]
        self.n += len(word)

    def end(self):  # type: ignore[no-untyped-def]
        return self.n


def test_handling_a_signal_leaves_the_open_parent_alone() -> None:
    """The loop over the records of a state once had the name of the variable that holds the parent's row."""
    docs = ps.from_arrow(pa.table({"id": [15, 16, 17], "words": [["a", "bc"], ["d", "a"], ["a", "e"]]}))
    cut = docs.enumerate("words", as_="word").map_columns(lambda word: word, to={"same": str})
    emitted = cut.emit(Level, when=lambda word: word.encode()[0] == 97)
    totals = emitted.aggregate(n=Length, keep="id").map(s=lambda state: state.sum, state=Sum)
    stream = totals.on(Level, sum=lambda state, signal: state.sum + signal.level)
    (expected,) = reference.run([stream.node]).tables
    for compile in (False, True):
        for batch_items in (1, None):
            assert stream.collect(compile=compile, batch_items=batch_items) == expected
