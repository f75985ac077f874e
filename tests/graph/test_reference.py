"""Places of signals that random graphs have found the reference to be wrong about, against what one thread does."""

from __future__ import annotations

import penstock as ps
from penstock.graph import reference


def test_a_signal_before_a_region_ends_in_which_sums_meet() -> None:
    """It has come before the end on all sides, also where no item of a side is there to carry it along."""

    class Tick(ps.Signal):
        pass

    class Heard(ps.State):
        ticks: int

    lists = ps.from_items([{"v": at, "l": [1, 2]} for at in range(3)]).regions(start=lambda v: v < 0)
    parts = lists.enumerate("l", as_="x").regions(start=lambda x: x % 2 == 0)
    sums, others = parts.aggregate(t=ps.sum("x")), parts.emit(Tick, when=lambda x: x == 1).aggregate(u=ps.sum("x"))
    total = ps.align(sums, others).aggregate(s=ps.sum("t")).aggregate(total=ps.sum("s"))
    heard = total.map(n=lambda total, state: state.ticks, state=Heard).on(Tick, ticks=lambda state: state.ticks + 1)
    for given in (reference.run([heard.node], [ps.at(3, Tick())]).tables[0], heard.collect(control=[ps.at(3, Tick())])):
        assert given.to_pydict()["n"] == [4]
