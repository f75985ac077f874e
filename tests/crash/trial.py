"""A query that is killed and started again over one folder, until it has consumed all files; what it wrote is checked.

Files are put before each start, so that there is always something to be killed in. Their names and their times are in
order, which makes that the order in which the query takes them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
from tests.cluster.standalone import Process, until
from tests.crash.driver import Order
from tests.crash.graphs import GRAPHS, Threshold, marker
from tests.crash.points import LETTER_POINTS, POINTS, STAGES, found_of
from tests.crash.process import PATIENCE_S, Query
from tests.crash.tally import TALLY

import penstock as ps
from penstock.graph import reference
from penstock.graph.tree import At
from penstock.spark import QUICK_START
from penstock.spark.streaming.checkpoint import Checkpoint

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
"""Where processes find the tests, and the package where this one does."""
# Here most of the time goes into starts: Java need not verify the classes of Spark at each.
JAVA = f"{QUICK_START['spark.driver.extraJavaOptions']} -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
LEVELS = (0.15, 0.05, 0.2, 0.08)
FIRST_TIME = 1_700_000_000


class Trial:
    """One graph over one folder. `history` is what was done to it; a failure tells it."""

    def __init__(self, folder: Path, graph: str, seed: int = 0) -> None:
        self.folder, self.name, self.graph = folder, graph, GRAPHS[graph]
        self.random = Random(f"{graph} {seed}")
        self.checkpoint = Checkpoint(folder / "ck")
        self.files = 0
        self.sent: dict[str, float] = {}
        self.history: list[str] = [f"seed {seed}"]
        for name in ("in", "new", "tmp"):
            (folder / name).mkdir()

    # What comes in

    def put(self, count: int) -> None:
        """Let the folder have more files, each at once."""
        for number in range(self.files, self.files + count):
            path = self.folder / "new" / f"{number:05}.{self.graph.ending}"
            self.graph.write(path, number)
            os.utime(path, (FIRST_TIME + number, FIRST_TIME + number))
            path.rename(self.folder / "in" / path.name)
        self.files += count

    def send(self) -> None:
        """Send a signal, as `penstock send` does; not before the stream was started once."""
        if self.graph.has_signals and self.checkpoint.description() is not None:
            level = LEVELS[len(self.sent) % len(LEVELS)]
            self.sent[self.checkpoint.write_signal("Threshold", {"level": level})] = level

    # The process

    def order(self, **given: str | float | None) -> Order:
        settings = {"spark.driver.extraJavaOptions": f"{JAVA} -Djava.io.tmpdir={self.folder / 'tmp'}"}
        order = Order(str(self.folder), self.name, settings=settings)
        return replace(order, **given)  # type: ignore[arg-type]

    def start(self, **given: str | float | None) -> Query:
        log = self.folder / f"start-{len(self.history)}.log"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        temporary = str(self.folder / "tmp")
        with log.open("wb") as file:
            popen = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.driver", self.order(**given).text()],
                cwd=ROOT,
                env=kept | {"PYTHONPATH": PATHS, "TMPDIR": temporary, "SPARK_LOCAL_DIRS": temporary},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Query(popen, log)

    def batches(self, log: str) -> list[int]:
        """The micro-batches in one of Spark's logs: `offsets` has those that are planned, `commits` those done."""
        folder = self.folder / "ck" / log
        return sorted(int(path.name) for path in folder.glob("[0-9]*")) if folder.exists() else []

    # Ways to die

    def kill_at(self, point: str, at: int = 1) -> None:
        """At a point of the driver, when it gets there for the time `at`."""
        self.history.append(f"killed at {point!r} ({at})")
        before = self.batches("offsets")
        self.put(self.graph.files_per_batch * at)
        self.send()
        with self.start(point=point, at=at) as query:
            query.died()
        TALLY.kills += 1
        self._check_cut_short()
        wanted, found = self._leaves(point), self._stage()
        # A batch that was cut short before may have come further then.
        is_new = self.batches("offsets") != before
        assert found == wanted if is_new else STAGES.index(found) >= STAGES.index(wanted), (found, self.history)

    def _leaves(self, point: str) -> str:
        """What a kill at a point leaves of the last batch. The first move is the last one where there is one part."""
        leaves = (POINTS | LETTER_POINTS)[point].leaves
        record = self.checkpoint.batch(self.batches("offsets")[-1])
        return "all parts" if leaves == "some parts" and record and len(record["moves"]) == 1 else leaves

    def kill_in_task(self, place: str) -> None:
        """A task kills all, itself included."""
        self.history.append(f"killed in a task, {place}")
        self.put(self.graph.files_per_batch)
        self.send()
        marker(self.folder, place).write_text("group")
        with self.start() as query:
            query.died()
        TALLY.kills += 1
        self._check_cut_short()

    def kill_at_random(self) -> None:
        """Some time after it has taken the checkpoint, or after a log of Spark's says that there is a batch more."""
        event, seconds = self.random.choice(["lock", "offsets", "commits"]), 10 ** self.random.uniform(-3, 1)
        self.history.append(f"killed {seconds:.3f} s after a change of {event!r}")
        self.put(3 * self.graph.files_per_batch)
        self.send()
        before = self._seen(event)
        with self.start() as query:
            # What was planned before a crash is not planned again: it is the next batch that changes 'offsets' then.
            until(lambda: self._seen(event) != before, f"a change of {event}", query, patience_s=PATIENCE_S)
            self.send()
            self.put(1)
            time.sleep(seconds)
            query.kill()
        TALLY.kills += 1

    def kill_in_send(self, point: str) -> None:
        """While the driver itself sends a signal."""
        self.history.append(f"killed in send, at {point!r}")
        self.put(self.graph.files_per_batch)
        level = LEVELS[len(self.sent) % len(LEVELS)]
        with self.start(point=point, level=level) as query:
            query.died()
        TALLY.kills += 1
        (name,) = set(self.checkpoint.names("control")) - set(self.sent)
        self.sent[name] = level

    def kill_in_restart(self, point: str) -> None:
        """While a stream that has lost its Java starts again."""
        self.history.append(f"killed in a restart, at {point!r}")
        self.put(self.graph.files_per_batch)
        before = self._seen("commits")
        with self.start(point=point, at=2 if point == "restarted" else 1, restart=True) as query:
            self.put(self.graph.files_per_batch)
            # When a batch is done, `start` has returned, and there is somebody to restart it.
            until(lambda: self._seen("commits") != before, "a batch", query, patience_s=PATIENCE_S)
            self.kill_java(query)
            query.died()
        TALLY.kills += 1

    def kill_java(self, query: Query) -> None:
        """Only the JVM of a query, which goes on in another one where it may restart."""
        self.history.append("killed its Java")
        query.kill_java()
        TALLY.kills += 1

    def _seen(self, event: str) -> object:
        lock = self.folder / "ck/penstock/lock"
        return self.batches(event) if event != "lock" else lock.read_text() if lock.exists() else ""

    def _stage(self) -> str:
        return found_of(self.checkpoint, self.batches("offsets")[-1], self.folder / "out")

    def _check_cut_short(self) -> None:
        """Spark has planned a batch, and does not know that it was done."""
        assert set(self.batches("offsets")) - set(self.batches("commits")), self.history

    def finish(self) -> None:
        """Let the query consume all that is left, while a worker of Python dies at every place of the graph."""
        self.history.append("finished")
        self.put(2 * self.graph.files_per_batch)
        self.send()
        for place in self.graph.places:
            marker(self.folder, place).write_text("worker")
        with self.start(trigger="available") as query:
            query.ended()
        assert not any(marker(self.folder, place).exists() for place in self.graph.places), self.history
        TALLY.kills += len(self.graph.places)

    # What has come of it

    def check(self, at_least: int = 100) -> None:
        """The files written hold what one thread gives, every row once, and nothing is left over."""
        stream, written = self.graph.build(self.folder), ps.read_parquet(self.folder / "out").collect(spark=False)
        on_error = "skip" if self.graph.failures else "stop"
        wanted = reference.run([stream.node], self.control(), is_open=True, on_error=on_error).tables[0]
        assert wanted.num_rows >= at_least
        assert in_order(written).equals(in_order(wanted)), self.history
        assert self.consumed() == self.files, self.history
        TALLY.rows += wanted.num_rows
        self._check_letters()

    def _check_letters(self) -> None:
        """Each item that fails has one dead letter, with its file and its index in it."""
        if self.graph.failures is None:
            return
        wanted = [(n, index) for n in range(self.files) for index in self.graph.failures(self.folder, n)]
        rows = ps.read_parquet(self.folder / "dead").select("file", "index", "count").collect(spark=False).to_pylist()
        assert all(row["count"] == 1 for row in rows), self.history
        assert sorted((int(Path(row["file"]).stem), row["index"]) for row in rows) == wanted, self.history
        TALLY.rows += len(rows)

    def consumed(self) -> int:
        """How many files were taken, by what is noted of the batches."""
        records = [self.checkpoint.batch(int(name)) or {} for name in self.checkpoint.names("batches")]
        return sum(int(record.get("files", 0)) for record in records)

    def wait_until_consumed(self, process: Process) -> None:
        """Wait until the batches that are noted have taken all files."""
        until(lambda: self.consumed() == self.files, "all files to be taken", process, patience_s=PATIENCE_S)

    def control(self) -> list[At]:
        """Every signal that was sent, at the one place that it was given."""
        assert sorted(self.checkpoint.names("placed")) == sorted(self.sent), self.history
        return [ps.at(self._index(name), Threshold(level)) for name, level in self.sent.items()]

    def _index(self, name: str) -> int:
        place = self.checkpoint.placed(name)
        assert place is not None
        record = self.checkpoint.batch(place.batch)
        assert record is not None
        return int(record["items_before"])


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])
