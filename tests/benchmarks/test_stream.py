"""The benchmark of streams, at a scale at which times mean nothing; and what is made of its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import benchmarks
from benchmarks import files, measure, stream, stream_cases, stream_peers
from benchmarks.records import Answer, Case, Peer, Run
from benchmarks.stream_peers import Ended, Place
from penstock import DataError
from penstock.examples import spike_detection

CASES = ["30", "touch-all", "restart-50", "restart-2000", "growth", "small-files"]
PEERS = {"30": {"penstock", "floor", "tws", "apply"}, "touch-all": {"penstock", "floor", "plain", "blob"}}
PEERS["small-files"] = {"penstock", "floor", "plain"}


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    kept = tmp_path_factory.getbasetemp() / "penstock-bench"
    monkeypatch.setattr(files, "kept_folder", lambda: kept)
    yield kept


def test_all_streams_agree_and_are_reported() -> None:
    report = json.loads(json.dumps(benchmarks.run("stream", "tiny", 1).as_dict()))
    assert list(dict.fromkeys(run["case"] for run in report["runs"])) == CASES
    found = {(run["case"], run["what"]): run for run in report["runs"]}
    for case in CASES:
        assert {what for of, what in found if of == case} == PEERS.get(case, {"penstock"})
    ratios = {f"penstock/{peer}@{case}" for case, peers in PEERS.items() for peer in peers - {"penstock"}}
    assert set(report["ratios"]) == ratios | {"allowed/penstock@restart-2000", "half/end@growth"}
    assert found["touch-all", "blob"]["facts"]["pages"] == 2 < found["touch-all", "penstock"]["facts"]["pages"]
    assert found["growth", "penstock"]["facts"].keys() >= {"bytes_1", "bytes_2", "bytes_3", "bytes_4"}
    assert not stream_peers.folder().exists()


def steady(place: Place, batches_ms: tuple[float, ...]) -> Answer:
    Path(place.out).mkdir(parents=True)
    pa.parquet.write_table(pa.table({"b": [2, 1], "a": [3, 4]}), Path(place.out, "part-0.parquet"))
    return stream_cases.steady(place, [100, 200, 300], 1, Ended(batches_ms, {"keys": 7}))


def test_the_first_batches_are_shown_and_do_not_count() -> None:
    answer = steady(Place("steady"), (9000.0, 100.0, 150.0))
    assert (answer.items, answer.seconds) == (500, 0.25)
    assert answer.facts == {"first_ms": 9000.0, "batch_ms": 125.0, "keys": 7}
    assert answer.table.to_pydict() == {"a": [3, 4], "b": [2, 1]}
    (run,) = measure.measure(Case("c", (Peer("penstock", lambda: answer, 600),)), 1)
    assert (run.items, run.seconds) == (500, 0.25)
    assert run.as_dict()["facts"] == {**answer.facts, "batches_ms": [9000.0, 100.0, 150.0]}


def test_a_stream_that_did_not_take_files_one_by_one_is_an_error() -> None:
    with pytest.raises(DataError, match="uneven must run 3 micro-batches; it ran 2"):
        steady(Place("uneven"), (9000.0, 100.0))


def test_what_is_not_rehearsed_runs_as_often_as_it_is_measured() -> None:
    done: list[int] = []

    def work() -> pa.Table:
        done.append(1)
        return pa.table({"v": [len(done)]})

    peer = Peer("penstock", work, 1, right=lambda: pa.table({"v": [1]}), rehearsed=False)
    assert len(measure.measure(Case("c", (peer,)), 1)) == len(done) == 1
    with pytest.raises(DataError, match="penstock must give the same 1 rows"):
        measure.measure(Case("c", (peer,)), 1)


def test_files_arrive_in_the_order_of_their_times() -> None:
    paths = files.paths(files.touches(50, 5, 3))
    place = Place("arriving")
    place.clear(paths[:2])
    place.add(paths[2:])
    arrived = sorted(Path(place.source).iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in arrived] == [f"part-{number:05}.parquet" for number in range(4)]
    tables = [pa.parquet.read_table(path).to_pydict() for path in arrived]
    assert tables[0]["key"] == list(range(50))
    assert all(len(set(table["key"])) == 5 and table["value"] == [0, 1, 2, 3, 4] for table in tables[1:])
    place.clear(paths[:1])
    assert len(list(Path(place.source).iterdir())) == 1


def test_the_first_file_can_have_every_key_several_times() -> None:
    first, *others = (pa.parquet.read_table(path) for path in files.paths(files.touches(50, 5, 3, 8)))
    assert sorted(first["key"].to_pylist()) == sorted(8 * list(range(50)))
    assert len(set(zip(first["key"].to_pylist(), first["value"].to_pylist(), strict=True))) > 300
    assert [len(table) for table in others] == [5, 5, 5]


@pytest.mark.parametrize("window", [3, 1000])
def test_the_peers_find_the_spikes_from_the_last_values(window: int) -> None:
    """In pieces, which come in any order within, as one thread finds them in all rows."""
    data = files.readings(3000, 4, False, 3)
    last: dict[int, bytes] = {}
    found = []
    for path in files.paths(data):
        frame = pa.parquet.read_table(path).to_pandas().sample(frac=1.0, random_state=1)
        for device, rows in frame.groupby("device"):
            pieces = [rows[:100], rows[100:]]
            last[device], spikes = stream_peers.spikes_of(device, last.get(device, b""), pieces, window)
            found.append(spikes)
    right = pa.Table.from_pylist(spike_detection.reference(data, window=window))
    assert right.num_rows > 5
    assert stream_cases.same_spikes(pa.Table.from_pandas(pd.concat(found), preserve_index=False), right)


def test_a_restart_may_take_twice_the_time_of_one_with_few_keys_and_some_seconds() -> None:
    runs = [Run("penstock", "restart-1000000", 1, 9.0), Run("penstock", "restart-1000", 1, 2.0)]
    assert stream.restart_and_growth(runs) == {"allowed/penstock@restart-1000000": 1.0}
    assert stream.restart_and_growth(runs[:1]) == {}


def test_growth_is_from_half_of_the_batches_to_all() -> None:
    facts = {"keys": 5.0, "bytes_50": 40.0, "bytes_100": 60.0, "bytes_150": 50.0, "bytes_200": 80.0}
    assert stream.restart_and_growth([Run("penstock", "growth", 1, 1.0, facts)]) == {"half/end@growth": 0.75}


def test_all_aims_have_a_case_at_full() -> None:
    size = stream.SIZES["full"]
    cases = {spikes.case for spikes in size.spikes} | {f"touch-{touch.keys}" for touch in size.touches}
    named = [target.name.partition("@")[2] for target in stream.BENCHMARK.targets]
    assert {case for case in named if case} <= cases | {stream.SMALL_FILES}
