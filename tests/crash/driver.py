"""The process of a query: `python -m tests.crash.driver ORDER`, with an `Order` as JSON. It ends as the query does."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.crash.graphs import GRAPHS, Threshold
from tests.crash.points import arm

import penstock.spark


@dataclass(frozen=True)
class Order:
    """What to run, over `in` in the folder to `out`. `point` is where to die, when it is reached for the time `at`."""

    folder: str
    graph: str
    trigger: str | None = None
    point: str | None = None
    at: int = 1
    master: str | None = None
    restart: bool = False
    level: float | None = None
    """Of a signal to send."""
    settings: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))


def main(order: Order) -> None:
    if order.point is not None:
        arm(order.point, order.at)
    graph, folder = GRAPHS[order.graph], Path(order.folder)
    cores = None if order.master else 2
    spark = penstock.spark.session(order.master, cores=cores, memory="512m", settings=order.settings)
    handle = graph.build(folder).start(
        folder / "out",
        checkpoint=folder / "ck",
        trigger=order.trigger,
        spark=spark,
        files_per_batch=graph.files_per_batch,
        buckets=2,
        restart=order.restart,
        dead_letter=folder / "dead" if graph.failures else None,
    )
    if order.level is not None:
        handle.send(Threshold(order.level), timeout_s=300.0)
    handle.await_termination()


if __name__ == "__main__":
    main(Order(**json.loads(sys.argv[1])))
