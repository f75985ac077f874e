"""What Penstock keeps in the checkpoint of a stream. No Spark is needed for that."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs as pf
import pytest

import penstock as ps
from penstock.errors import CheckpointError, ControlError, GraphError, InternalError
from penstock.spark.files.filesystem import Files
from penstock.spark.streaming.checkpoint import Checkpoint
from penstock.spark.streaming.description import describe, differences
from penstock.spark.streaming.sent_signals import SignalPosition, values_of
from penstock.spark.streaming.steps import with_slots


class Average(ps.State):
    ring: ps.array(float, 4)
    n: int
    total: float


class Threshold(ps.Signal):
    level: float


class Tune(ps.Signal):
    weights: ps.array(float, 2)
    rank: int
    hard: bool


def average(value: float, state: Any) -> float:
    state.n += 1
    state.total += value
    return state.total / state.n


def source(**fields: Any) -> ps.Stream:
    return ps.from_items([], schema={"device": str, "value": float} | fields)


def graph(state: type = Average, given: ps.Stream | None = None) -> ps.Stream:
    keyed = (source() if given is None else given).key_by("device")
    averaged = keyed.map(average=average, state=state)
    handled = averaged.on(Threshold, lambda state, signal: None).on(Tune, lambda state, signal: None)
    return handled.filter(lambda value, average: value > average)


def described(*streams: ps.Stream, buckets: int = 8, sink: str = "spikes/") -> dict[str, Any]:
    return describe([stream.node for stream in streams or (graph(),)], buckets=buckets, sink=sink)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    with Checkpoint(tmp_path / "ck") as made:
        made.open(described())
        yield made


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


# The description


def test_a_description_is_plain_json_and_tells_the_layout() -> None:
    found = described()
    assert json.loads(json.dumps(found)) == found
    assert [node["label"] for node in found["nodes"]] == [
        "source 'items'",
        "key_by 'device'",
        "map 'average'",
        "filter",
    ]
    assert found["nodes"][2]["state"] == {
        "class": "Average",
        "fields": {"ring": "float64[4]", "n": "int64", "total": "float64"},
        "upgrades": False,
    }
    assert found["nodes"][2]["fields"] == {"device": "string", "value": "double", "average": "double"}
    assert found["nodes"][2]["key"] == ["device"] and found["nodes"][0]["key"] == []
    assert found["signals"] == {
        "Threshold": {"level": "float"},
        "Tune": {"weights": "array of 2 float", "rank": "int", "hard": "bool"},
    }


def test_a_source_of_files_tells_its_format_and_its_path(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.csv").write_text("v\n1\n")
    one, other = (described(ps.read_csv(tmp_path / name)) for name in ("a", "b"))
    assert one["source"] == {"format": "csv", "path": f"file://{tmp_path / 'a'}/*"}
    assert json.loads(json.dumps(one)) == one
    assert ["where every file would be new" in told for told in differences(one, other)] == [True]
    (tmp_path / "b" / "x.csv").unlink()
    (tmp_path / "b" / "x.json").write_text('{"v": 1}\n')
    assert differences(one, described(ps.read_json(tmp_path / "b")))[0] == "the format of the source was csv, is json"


def test_where_streams_meet_behind_a_state_nothing_may_change() -> None:
    items = source().key_by("device").map(average=average, state=Average)
    some, doubled = items.filter(lambda value: value > 1), items.map(twice=lambda value: 2 * value)
    outer = {"how": "outer", "fill": {"twice": 0.0}}
    reason = "no step may change, because align brings streams together"
    held = described(ps.align(some, doubled))
    assert held["nodes"][-1]["settings"] == {"how": "inner", "fill": "{}", "present": "[]"}
    assert differences(held, described(ps.align(some, doubled))) == []
    assert differences(held, described(ps.align(some, doubled, **outer))) == [
        "align: its how was inner, is outer",
        reason,
    ]
    filled = [
        described(ps.align(some, doubled.filter(lambda value: value > 2), how="outer", fill={"twice": fill}))
        for fill in (0, 1)
    ]
    assert differences(*filled) == ["align: its fill was {'twice': 0.0}, is {'twice': 1.0}", reason]
    longer = described(ps.align(some.filter(lambda value: value > 3), doubled))
    assert differences(held, longer) == ["the graph has the new node filter behind filter", reason]


def test_what_spans_items_without_a_key_fixes_the_graph() -> None:
    regions = source().regions(start=lambda value: value > 3).aggregate(n=ps.count())
    held = described(regions)
    assert differences(held, described(regions)) == []
    assert differences(held, described(regions.filter(lambda n: n > 1))) == [
        "the graph has the new node filter behind aggregate 'n'",
        "no step may change, because regions spans items without a key",
    ]


def test_functions_sinks_and_the_number_of_buckets_may_change() -> None:
    def mended(value: float, state: Any) -> float:
        state.total += value
        return float(state.total)

    keyed = source().key_by("device").map(average=mended, state=Average)
    keyed = keyed.on(Threshold, level_is_ignored).on(Tune, level_is_ignored)
    now = described(keyed.filter(lambda value: value > 0), buckets=3, sink="elsewhere/")
    assert differences(described(), now) == []


def level_is_ignored(state: Any, signal: Any) -> None:
    pass


def state_like(name: str = "Average", **fields: Any) -> type:
    return type(name, (ps.State,), {"__annotations__": fields})


RING = {"ring": ps.array(float, 4)}


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (state_like(**RING, n=int, total=float), []),
        (state_like(total=float, n=int, **RING), []),  # another order is read by name
        (state_like(**RING, n=float, total=float), [": the field 'n' was int64, is float64"]),
        (state_like(**RING, n=int), [": it has lost 'total'"]),
        (state_like(**RING, n=int, total=float, x=int), [": it has the new field 'x'"]),
        (
            state_like(ring=ps.array(float, 5), n=int, total=float),
            [": the field 'ring' was float64[4], is float64[5]"],
        ),
        (state_like(n=int, y=bool), [": it has lost 'ring'", ": it has lost 'total'", ": it has the new field 'y'"]),
    ],
)
def test_what_differs_in_a_state(state: type, found: list[str]) -> None:
    def same(state: Any) -> float:
        return 0.0

    keyed = source().key_by("device").map(average=same, state=state)
    handled = keyed.on(Threshold, level_is_ignored).on(Tune, level_is_ignored)
    now = described(handled.filter(lambda value, average: value > average))
    assert differences(described(), now) == [f"the state Average of map 'average'{each}" for each in found]


def test_other_fields_of_a_state_that_upgrades_are_none() -> None:
    class Mean(ps.State):
        n: int

        @classmethod
        def upgrade(cls, old: Any) -> dict[str, Any]:
            return {"n": old.n}

    keyed = source().key_by("device").map(average=lambda state: 1.0 * state.n, state=Mean)
    handled = keyed.on(Threshold, level_is_ignored).on(Tune, level_is_ignored)
    now = described(handled.filter(lambda value: value > 0))
    assert differences(described(), now) == []
    # the other way, it is another class, and does not say how to read the first one
    assert differences(now, described()) == ["the state of map 'average' was Mean, is Average"]


# Steps that remember nothing may come and go


def changed(was: ps.Stream, now: ps.Stream) -> list[str]:
    return differences(described(was), described(now))


def averaged(given: ps.Stream, name: str = "average", state: type = Average) -> ps.Stream:
    return given.map(**{name: average}, state=state)


def test_steps_without_a_state_may_come_and_go() -> None:
    base = averaged(source().key_by("device"))
    positive = source().filter(lambda value: value > 0)
    assert changed(base, averaged(positive.key_by("device"))) == []
    assert changed(averaged(positive.key_by("device")), base) == []
    assert changed(base, base.filter(lambda average: average > 1).select("device")) == []
    assert changed(base, averaged(source(unused=int).key_by("device"))) == [], "a new column of the source"
    assert changed(base, averaged(source().map(value=lambda value: 2 * value).key_by("device"))) == []
    assert changed(base, base.map_columns(lambda value: value, to={"w": float})) == []
    assert changed(source().map(a=lambda value: value), source().filter(lambda value: value > 0)) == []


def test_steps_with_a_state_may_not() -> None:
    base = averaged(source().key_by("device"))
    assert changed(base, averaged(base, "again")) == [
        "the graph has the new step map 'again', which remembers something"
    ]
    assert changed(averaged(base, "again"), base) == ["the graph has lost map 'again', which remembers something"]
    assert changed(base, source()) == ["the graph has lost map 'average', which remembers something"]
    assert changed(source(), base) == ["the graph has the new step map 'average', which remembers something"]
    assert changed(base, averaged(source())) == [
        "the state was shared out by key 'device', is by files, one after the other"
    ]
    assert changed(base, averaged(source().key_by("device", "value"))) == [
        "the state was shared out by key 'device', is by key 'device' 'value'"
    ]
    other = ps.from_items([], schema={"device": int, "value": float})
    assert changed(base, averaged(other.key_by("device"))) == [
        "the key of map 'average': the field 'device' was string, is int64"
    ]


def slots(was: ps.Stream, now: ps.Stream) -> list[int]:
    """The slots of the steps of a graph, after another."""
    held, new = described(was), described(now)
    assert differences(held, new) == []
    return [step["slot"] for stage in with_slots(held["stages"], new["stages"]) for step in stage["steps"]]


def test_steps_are_found_by_name_by_label_or_by_order() -> None:
    keyed = source().key_by("device")
    both = averaged(averaged(keyed, "a"), "b")
    assert slots(both, both) == [0, 1]
    assert slots(both, averaged(averaged(keyed, "b"), "a")) == [1, 0], "by label"
    assert slots(both, averaged(averaged(keyed, "a"), "c")) == [0, 1], "by order"
    assert slots(both, averaged(averaged(keyed, "a").named("x"), "b")) == [0, 1], "a name may be given later"
    x_then_y = averaged(averaged(keyed, "a").named("x"), "b").named("y")
    assert slots(x_then_y, averaged(averaged(keyed, "c").named("y"), "d").named("x")) == [1, 0], "by name"
    assert changed(both, averaged(averaged(keyed, "b"), "c")) == [
        "which step is which cannot be told by their order; give them the names that they had, or will have"
    ]
    assert changed(x_then_y, averaged(averaged(keyed, "a").named("x"), "b").named("z")) == [
        "the graph has the new step map 'b', which remembers something",
        "the graph has lost map 'b', which remembers something",
    ]


def test_steps_of_one_key_by_stay_together() -> None:
    keyed = source().key_by("device")
    one, two = averaged(averaged(keyed, "a"), "b"), averaged(averaged(keyed, "a").key_by("device"), "b")
    assert changed(one, two) != []
    assert changed(two, one) != []


def test_other_results_need_another_folder() -> None:
    base = averaged(source().key_by("device"))

    def at(stream: ps.Stream, folder: str | None) -> dict[str, Any]:
        return describe([stream.node], buckets=8, sink="", folder=folder)

    narrow = base.select("device", "average")
    assert differences(at(base, "/out"), at(narrow, "/out")) == [
        "the results in '/out' must keep their fields; it has lost 'value'; write to a new folder"
    ]
    assert differences(at(base, "/out"), at(narrow, "/new")) == []
    assert differences(at(base, None), at(narrow, None)) == [], "a function takes what there is"


def test_what_differs_in_an_aggregate() -> None:
    class Spread(ps.Fold):
        low: float

        def run(self, value):  # type: ignore[no-untyped-def]
            self.low = min(self.low, value)

        def end(self):  # type: ignore[no-untyped-def]
            return self.low

    first = Spread

    class Spread(ps.Fold):  # type: ignore[no-redef]
        low: int

        def run(self, value):  # type: ignore[no-untyped-def]
            self.low += 1

        def end(self):  # type: ignore[no-untyped-def]
            return 1.0 * self.low

    keyed = source(t=int).key_by("device")

    def found(was: ps.Stream, now: ps.Stream) -> list[str]:
        return differences(described(was), described(now))

    assert found(keyed.aggregate(x=ps.sum("value")), keyed.aggregate(x=ps.mean("value"))) == [
        "aggregate 'x': its result 'x' was sum(value), is mean(value)"
    ]
    assert found(keyed.aggregate(x=first), keyed.aggregate(x=Spread)) == [
        "the fold Spread of aggregate 'x': the field 'low' was float64, is int64"
    ]
    tens, fives = (keyed.window("t", length=length).aggregate(n=ps.count()) for length in (10, 5))
    assert found(tens, tens) == []
    assert found(tens, fives)[0] == "aggregate 'n': its window's length was 10, is 5"
    assert found(keyed.aggregate(n=ps.count()), keyed.window(count=3).aggregate(n=ps.count()))[0] == (
        "aggregate 'n': its window was Whole, is Counted"
    )


def test_what_differs_in_a_key_and_in_signals() -> None:
    def on(stream: ps.Stream, *signals: type[ps.Signal]) -> ps.Stream:
        kept = stream.map(x=average, state=Average)
        for signal in signals:
            kept = kept.on(signal, level_is_ignored)
        return kept

    other = type("Threshold", (ps.Signal,), {"__annotations__": {"level": int}})
    keyed = source().key_by("device")
    held = described(on(keyed, Threshold, Tune))
    assert differences(held, described(on(keyed, Threshold))) == ["the signal Tune was handled, and is no more"]
    assert differences(described(on(keyed, Threshold)), held) == ["the signal Tune is handled, and was not"]
    assert differences(held, described(on(keyed, other, Tune))) == [
        "the signal Threshold: the field 'level' was float, is int"
    ]
    assert differences(held, described(on(source().key_by("value"), Threshold, Tune))) == [
        "the state was shared out by key 'device', is by key 'value'"
    ]
    with pytest.raises(GraphError, match="start: the signals of a stream must have different names; two classes"):
        described(on(keyed, Threshold, other))


def test_another_format_is_said_first() -> None:
    assert differences(described() | {"format": 99}, described()) == [
        "it was written in the format 99 of another Penstock, and this one has 3"
    ]


# Opening


def test_a_new_folder_is_made_and_the_graph_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ck"
    with Checkpoint(path) as checkpoint:
        assert checkpoint.open(described()) == described()
        assert checkpoint.description() == described()
    assert everything(path / "penstock") == ["batches", "control", "graph.json", "lock", "placed"]
    with Checkpoint(path) as checkpoint:
        again = checkpoint.open(described(buckets=99, sink="other"))
        assert again == described(buckets=8, sink="other"), "the number of buckets is that of the checkpoint"
        assert checkpoint.description() == again


def test_an_address_is_a_path_too(tmp_path: Path) -> None:
    Checkpoint(f"file://{tmp_path}/ck").open(described())
    assert Checkpoint(tmp_path / "ck").description() == described()
    with pytest.raises(GraphError, match="start: 'nothing://x/y' must be a path or an address; "):
        Checkpoint("nothing://x/y")


def test_the_checkpoint_of_another_graph_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.close()
    changed = state_like(**RING, n=float, x=int)
    other = source().key_by("device").map(average=average_of_n, state=changed).filter(lambda value: value > 0)
    with pytest.raises(CheckpointError) as refused:
        checkpoint.open(described(other))
    assert str(refused.value) == (
        f"start: {checkpoint.given!r} must be the checkpoint of this graph; "
        "the state Average of map 'average': the field 'n' was int64, is float64; "
        "the state Average of map 'average': it has lost 'total'; "
        "the state Average of map 'average': it has the new field 'x'; "
        "the signal Threshold was handled, and is no more; the signal Tune was handled, and is no more; "
        "use another folder, or go on with the graph that it was made for, or give the state class a classmethod "
        "upgrade(cls, old)"
    )
    checkpoint.open(described())  # the lock was not kept


def average_of_n(state: Any) -> float:
    return float(state.n)


def averaged_by(state: type) -> ps.Stream:
    keyed = source().key_by("device").map(average=lambda value, state: value, state=state)
    return keyed.on(Threshold, level_is_ignored).on(Tune, level_is_ignored)


def test_at_most_five_differences_are_told(checkpoint: Checkpoint) -> None:
    checkpoint.close()
    with pytest.raises(CheckpointError, match=r"'b'; and 4 more; use another folder, or go on with .* made for, or"):
        checkpoint.open(described(averaged_by(state_like(**dict.fromkeys("abcdef", int)))))


@pytest.mark.parametrize("name", ["offsets", "metadata"])
def test_the_checkpoint_of_another_program_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(CheckpointError, match=f"another program, because it has '{name}' and no 'penstock/graph.json'"):
        Checkpoint(tmp_path).open(described())
    assert everything(tmp_path) == [name], "nothing is written there"


def test_a_folder_with_other_files_is_taken(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    Checkpoint(tmp_path).open(described())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="file' must be a folder, or not be there; it is a file; name another"):
        Checkpoint(tmp_path / "file").open(described())
    with pytest.raises(CheckpointError, match=r"start: .* must be a folder that can be written; .*; use another"):
        Checkpoint(tmp_path / "file" / "ck").open(described())


@pytest.fixture
def without_rights() -> Iterator[Path]:
    """A folder that this process may not write: root, which may write anywhere, is nobody for as long."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name, "ck")
        folder.mkdir(mode=0o555)
        os.seteuid(user or 65534)
        try:
            yield folder
        finally:
            os.seteuid(user)


def test_a_folder_without_permission(without_rights: Path) -> None:
    with pytest.raises(CheckpointError, match="must be readable and writable; permission was denied"):
        Checkpoint(without_rights).open(described())


@pytest.mark.parametrize("text", ["", "{", "[1]", "nul"])
def test_a_damaged_description(checkpoint: Checkpoint, text: str) -> None:
    checkpoint.close()
    Path(checkpoint.folder, "graph.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"'penstock/graph.json' must hold what Penstock wrote; .*; restore it"):
        checkpoint.open(described())


# The lock

HOLD = """
import sys
from penstock.spark.streaming.lock import Lock
lock = Lock(sys.argv[1], "start: 'ck'")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(checkpoint: Checkpoint) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    checkpoint.close()
    command = [sys.executable, "-c", HOLD, f"{checkpoint.folder}/lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_two_processes_on_one_checkpoint(checkpoint: Checkpoint, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(CheckpointError) as refused:
        checkpoint.open(described())
    assert str(refused.value) == (
        f"start: {checkpoint.given!r} must be used by one query at a time; the process {holder.pid} on "
        f"{socket.gethostname()} uses it; stop that one, or use another folder"
    )
    name = checkpoint.write_signal("Threshold", {"level": 1.0})  # who sends takes no lock
    assert checkpoint.placed(name) is None


def test_a_holder_that_is_killed_frees_it(checkpoint: Checkpoint, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    checkpoint.open(described())


def test_two_queries_of_one_process(checkpoint: Checkpoint) -> None:
    other = Checkpoint(checkpoint.given)
    with pytest.raises(CheckpointError, match=f"the process {os.getpid()} on"):
        other.open(described())
    other.close()
    checkpoint.close()
    checkpoint.close()
    other.open(described())


def test_a_checkpoint_travels_without_its_lock(checkpoint: Checkpoint) -> None:
    copy = pickle.loads(pickle.dumps(checkpoint))
    copy.note_placed("0-a", 3)
    copy.close()
    assert checkpoint.placed("0-a") == SignalPosition(3, None)
    with pytest.raises(CheckpointError, match="by one query at a time"):
        copy.open(described())


# Signals


def test_a_signal_goes_there_and_back(checkpoint: Checkpoint) -> None:
    classes = {"Threshold": Threshold, "Tune": Tune}
    sent = [Threshold(0.05), Tune([0.5, 1.5], rank=-(2**63), hard=True), Threshold(float("inf"))]
    names = [checkpoint.write_signal(type(signal).__name__, values_of(signal)) for signal in sent]
    assert checkpoint.names("control") == sorted(names)
    paths = [f"file:{checkpoint.folder}/control/{name}.json" for name in names]
    assert [checkpoint.read_signal(path, classes) for path in paths] == sent
    other = checkpoint.write_signal("Tune", {"weights": np.ones(2), "rank": np.int64(3), "hard": np.bool_(False)})
    assert checkpoint.read_signal(other, classes) == Tune([1.0, 1.0], rank=3, hard=False)
    assert all(len(name) == 29 and name[20] == "-" for name in names)


def test_spark_sees_no_signal_that_is_being_written(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(Files, "move", lambda self, source, target: seen.append(source))
    checkpoint.write_signal("Threshold", {"level": 1})
    assert [Path(path).name[0] for path in seen] == ["."]
    assert checkpoint.names("control") == []


TUNE = {"weights": [1.0, 2.0], "rank": 1, "hard": True}
TUNED = r"Tune\(weights: array of 2 float, rank: int, hard: bool\)"


@pytest.mark.parametrize(
    ("signal", "values", "message"),
    [
        (
            "Treshold",
            {},
            rf"got 'Treshold', and there are Threshold\(level: float\), {TUNED}; did you mean 'Threshold'",
        ),
        ("Threshold", {"levels": 1.0, "level": 1.0}, r"is Threshold\(level: float\); it has no field 'levels'"),
        ("Threshold", {}, r"the signal is Threshold\(level: float\); it must be given 'level'"),
        ("Threshold", {"level": "high"}, "Threshold.level must be float; got 'high'"),
        ("Threshold", {"level": True}, "Threshold.level must be float; got True"),
        ("Tune", TUNE | {"weights": [1.0]}, r"Tune.weights must be array of 2 float; got \[1.0\]"),
        ("Tune", TUNE | {"weights": 1.0}, "Tune.weights must be array of 2 float; got 1.0"),
        ("Tune", TUNE | {"rank": 2**63}, "Tune.rank must be int of 64 bits; got 9223372036854775808"),
        ("Tune", TUNE | {"rank": 1.0}, "Tune.rank must be int of 64 bits; got 1.0"),
        ("Tune", TUNE | {"hard": 1}, "Tune.hard must be bool; got 1"),
    ],
)
def test_a_signal_that_the_stream_cannot_take(
    checkpoint: Checkpoint, signal: str, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        checkpoint.write_signal(signal, values)
    assert checkpoint.names("control") == []


def test_a_signal_to_what_is_no_stream(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"send: '.*' must be the checkpoint of a stream; it has no 'penstock/graph"
    ):
        Checkpoint(tmp_path, "send").write_signal("Threshold", {"level": 1.0})


def test_a_file_that_holds_no_signal(checkpoint: Checkpoint) -> None:
    for name, record in {
        "a": {"signal": "Other", "values": {}},
        "b": {"signal": "Threshold", "values": {"l": 1}},
    }.items():
        checkpoint.write(f"control/{name}", record)
        with pytest.raises(CheckpointError, match=f"'penstock/control/{name}.json' must hold a signal .*; remove the"):
            checkpoint.read_signal(f"{name}.json", {"Threshold": Threshold})
    with pytest.raises(CheckpointError, match=r"must stay until it is placed; 'penstock/control/c.json' is gone"):
        checkpoint.read_signal("c.json", {})


def test_a_place_is_noted_once_and_for_good(checkpoint: Checkpoint) -> None:
    name = checkpoint.write_signal("Threshold", {"level": 1.0})
    assert checkpoint.placed(name) is None
    checkpoint.note_placed(f"file:/somewhere/{name}.json", 7)
    checkpoint.note_placed(name, 7)
    assert checkpoint.placed(name) == SignalPosition(7, None)
    checkpoint.note_placed(name, 7, 1000)  # it has become known
    checkpoint.note_placed(name, 7)
    assert checkpoint.placed(name) == SignalPosition(7, 1000)
    for other in ((8, None), (7, 1001)):
        with pytest.raises(InternalError, match="a signal must keep its place"):
            checkpoint.note_placed(name, *other)


def test_waiting_for_a_place(checkpoint: Checkpoint) -> None:
    name, slept = checkpoint.write_signal("Threshold", {"level": 1.0}), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            checkpoint.note_placed(name, 2, 40)

    assert checkpoint.wait_placed(name, 10, clock=lambda: 0.0, sleep=sleep) == SignalPosition(2, 40)
    assert len(slept) == 3 and max(slept) < 1
    assert checkpoint.wait_placed(name, 0) == SignalPosition(2, 40)


def test_nobody_places_it(checkpoint: Checkpoint) -> None:
    name, now = checkpoint.write_signal("Threshold", {"level": 1.0}), [0.0]
    with pytest.raises(
        ControlError, match="none has placed it within 2 s; it waits, and will be placed when the stream"
    ):
        checkpoint.wait_placed(name, 2, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    assert now[0] == pytest.approx(2)
    assert checkpoint.names("control") == [name]


# Batches


def test_what_batches_did(checkpoint: Checkpoint) -> None:
    assert checkpoint.last_batch() is None and checkpoint.batch(0) is None
    for number in (0, 9, 10):
        checkpoint.write_batch(number, {"rows": number, "is_done": False})
    checkpoint.write_batch(10, {"rows": 10, "is_done": True})
    assert checkpoint.last_batch() == 10
    assert checkpoint.batch(10) == {"rows": 10, "is_done": True}
    assert everything(Path(checkpoint.folder, "batches"))[0] == "00000000000000000000.json"


def test_old_batches_and_their_signals_are_forgotten(checkpoint: Checkpoint) -> None:
    for number in range(6):
        checkpoint.write_batch(number, {})
    old, new, waiting = (checkpoint.write_signal("Threshold", {"level": 1.0}) for _ in range(3))
    checkpoint.note_placed(old, 3)
    checkpoint.note_placed(new, 4)
    checkpoint.forget_before(4)
    assert [number for number in range(6) if checkpoint.batch(number) is not None] == [4, 5]
    assert checkpoint.names("placed") == [new]
    assert set(checkpoint.names("control")) == {new, waiting}
    checkpoint.forget_before(4)
    assert checkpoint.last_batch() == 5


def test_what_a_killed_process_leaves_is_not_seen(checkpoint: Checkpoint) -> None:
    Path(checkpoint.folder, "batches", ".00000000000000000007.json-1a2b3c4d").write_text("{")
    assert checkpoint.last_batch() is None


# Files


def test_text_is_written_at_once(tmp_path: Path) -> None:
    files = Files(pf.LocalFileSystem())
    path = f"{tmp_path}/x.gz"  # a name that Arrow would compress by
    files.write_text_atomically(path, "1 µm\n")
    files.write_text_atomically(path, "2 µm\n")
    assert files.read_text(path) == Path(path).read_text() == "2 µm\n"
    assert everything(tmp_path) == ["x.gz"]


def test_elsewhere_there_is_no_lock(tmp_path: Path) -> None:
    """A filesystem that is not local to Arrow: the same files, and nobody is kept out."""
    one, other = Checkpoint(tmp_path / "ck"), Checkpoint(tmp_path / "ck")
    for each in (one, other):
        each.files = Files(pf.SubTreeFileSystem("/", pf.LocalFileSystem()))
        each.open(described())
    one.write_batch(1, {"rows": 2})
    assert other.batch(1) == {"rows": 2} and other.last_batch() == 1
    assert "lock" not in everything(tmp_path / "ck" / "penstock")
