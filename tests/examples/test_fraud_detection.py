from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from examples import fraud_data
from examples import fraud_detection as fraud
from examples.fraud_data import STATES, habits
from penstock.graph import reference

Way = Callable[..., tuple[pa.Table, ...]]
WAYS: dict[str, Way] = {
    "reference": lambda *streams: reference.run([stream.node for stream in streams]).tables,
    "interpreted": lambda *streams: ps.run(*streams, spark=False, compile=False),
    "interpreted, unfused": lambda *streams: ps.run(*streams, spark=False, compile=False, fuse=False, width=7),
    "compiled": lambda *streams: ps.run(*streams, spark=False),
    "compiled, unfused": lambda *streams: ps.run(*streams, spark=False, fuse=False, width=7),
    "compiled, in batches": lambda *streams: ps.run(*streams, spark=False, batch_items=13),
}
every_way = pytest.mark.parametrize("run", WAYS.values(), ids=WAYS)
every_score = pytest.mark.parametrize("score", fraud.SCORES)

THRESHOLDS = {"miss-probability": 0.93, "miss-rate": 0.7, "entropy-reduction": 0.93}


def uneven() -> np.ndarray:
    """A model with zeros, with states that have one next state only, and with two equally likely ones."""
    model = np.zeros((18, 18))
    for at, row in enumerate(model):
        row[(at + 1) % 18] = 0.5 if at % 3 else 1.0
        row[(at + 5) % 18] = 0.25 if at % 3 == 1 else 0.5 if at % 3 else 0.0
        row[(at + 9) % 18] = 0.25 if at % 3 == 1 else 0.0
    return model


def lines_of(*lines: str) -> ps.Stream:
    return ps.from_arrow(pa.table({"line": pa.array(lines, pa.string())}), name="lines")


def write_random(path: Path, count: int, seed: int) -> None:
    """Transactions of any states: with the uneven model all kinds of scores come."""
    chosen = random.Random(seed)
    rows = (f"{chosen.choice('abé')},t{n},{STATES[chosen.randrange(18)]}\n" for n in range(count))
    path.write_text("".join(rows), encoding="utf-8")


@every_way
@every_score
def test_the_result_is_the_reference(tmp_path: Path, score: str, run: Way) -> None:
    fraud.generate(tmp_path, 500, 3, customers=9, files=3)
    settings: dict[str, Any] = {"model": habits(), "score": score, "threshold": THRESHOLDS[score]}
    found, dropped = run(*fraud.results(fraud.read(tmp_path), **settings))
    expected = fraud.reference(tmp_path, **settings)
    assert found.to_pylist() == expected and 3 < len(expected) < 450
    assert dropped.num_rows == fraud.reference_malformed(tmp_path) == 0


@pytest.mark.parametrize("compile", [False, True], ids=["interpreted", "compiled"])
@every_score
def test_a_model_with_zeros(tmp_path: Path, score: str, compile: bool) -> None:
    write_random(tmp_path / "lines.txt", 300, 1)
    settings: dict[str, Any] = {"model": uneven(), "score": score, "threshold": 0.6, "window": 3}
    found = fraud.build(tmp_path, **settings).collect(spark=False, compile=compile)
    expected = fraud.reference(tmp_path, **settings)
    assert found.to_pylist() == expected and 3 < len(expected) < 300


@pytest.mark.parametrize("format", ["text", "csv", "parquet"])
def test_many_transactions_in_every_format(tmp_path: Path, format: str) -> None:
    fraud.generate(tmp_path, 40_000, 5, format=format, files=2)
    expected = fraud.reference(tmp_path)
    assert fraud.build(tmp_path).collect(spark=False).to_pylist() == expected
    assert 40 < len(expected) < 2000


@every_way
def test_there_may_be_nothing(tmp_path: Path, run: Way) -> None:
    fraud.generate(tmp_path, 0)
    found, dropped = run(*fraud.results(fraud.read(tmp_path)))
    assert (found.num_rows, dropped.num_rows) == (0, 0)
    assert found.schema == pa.schema([("customer", pa.string()), ("transaction", pa.string()), ("score", pa.float64())])
    assert fraud.reference(tmp_path) == []


MALFORMED = ["", ",", ",,", "a", "a,t", "a,t,", "a,t,LN", "a,t,LNLL", "a,t,LNX", "a,t,lnl", "a,t,u,LNL", ",t,LNL"]


@every_way
def test_malformed_lines_are_dropped_and_counted(tmp_path: Path, run: Way) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(("a,t,LNL", *MALFORMED, "b,,HHS")))
    source = lines_of("a,t,LNL", *MALFORMED, "b,,HHS")
    found, dropped = run(fraud.transactions(source), fraud.malformed(source))
    assert found.to_pylist() == [
        {"customer": "a", "transaction": "t", "code": 0},
        {"customer": "b", "transaction": "", "code": 17},
    ]
    assert dropped["line"].to_pylist() == MALFORMED
    assert fraud.reference_malformed(tmp_path) == len(MALFORMED)


@every_way
def test_columns_may_have_unknown_states(run: Way) -> None:
    states = ["MNS", "", "MN", "MNZ", "MNSS", *STATES]
    source = ps.from_items([{"customer": "a", "transaction": str(n), "state": s} for n, s in enumerate(states)])
    found, dropped = run(fraud.transactions(source), fraud.malformed(source))
    assert found["code"].to_pylist() == [STATES.index("MNS"), *range(18)]
    assert dropped["transaction"].to_pylist() == ["1", "2", "3", "4"]


@pytest.mark.parametrize("compile", [False, True], ids=["interpreted", "compiled"])
def test_scores_by_hand(compile: bool) -> None:
    model = np.zeros((18, 18))
    model[:, 0], model[:, 1] = 0.75, 0.25
    source = lines_of(*(f"c,{n},{state}" for n, state in enumerate(("LNL", "LNL", "LNN", "LNS", "LNL"))))
    every = [
        fraud.build(source, model=model, score=score, threshold=-1.0, window=window)
        for score in fraud.SCORES
        for window in (2, 5)
    ]
    miss, misses, rate, rates, entropy, entropies = (
        table["score"].to_pylist() for table in ps.run(*every, compile=compile)
    )
    assert miss == [0.25, 0.75, 1.0, 0.25] and misses == [2.25 / 4]
    assert rate == [0.0, 1.0, 1.0, 0.0] and rates == [0.5]
    likely, unlikely = -0.75 * np.log(0.75), -0.25 * np.log(0.25)
    both = likely + unlikely
    assert entropy == pytest.approx([unlikely / both, likely / both, 1.0, unlikely / both])
    assert entropies == pytest.approx([(2 * unlikely + likely + both) / (4 * both)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 1}, "window must be a whole number of at least 2; got 1"),
        ({"threshold": float("nan")}, "threshold must be a number; got nan"),
        ({"score": "luck"}, "score must be one of miss-probability, miss-rate, entropy-reduction; got 'luck'"),
        ({"model": [[1.0]]}, r"a model must have 18 rows of 18 probabilities; got the shape \(1, 1\)"),
        ({"model": [["x"]]}, "a model must be a matrix of numbers"),
        ({"model": np.eye(18) * 0.5}, "the probabilities behind LNL must be at least 0, with the sum 1"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.PenstockError, match=f"fraud detection: {message}"):
        fraud.build(lines_of(), **({"model": habits()} | settings))


# The model


@pytest.mark.parametrize("format", ["text", "parquet"])
def test_a_model_is_trained_from_a_history(tmp_path: Path, format: str) -> None:
    fraud.generate(tmp_path / "data", 3000, 7, customers=20, format=format)
    states: dict[str, list[str]] = {}
    fraud.generate(tmp_path / "lines", 3000, 7, customers=20)
    for line in (tmp_path / "lines" / "part-00000.txt").read_text().splitlines():
        customer, _, state = line.split(",")
        states.setdefault(customer, []).append(state)
    steps = Counter(step for kept in states.values() for step in pairwise(kept))
    for smoothing in (0.0, 1.0):
        model = fraud.train(tmp_path / "data", smoothing=smoothing)
        for before, row in zip(STATES, model, strict=True):
            counts = [steps[before, now] + smoothing for now in STATES]
            expected = [count / sum(counts) for count in counts] if any(counts) else [1 / 18] * 18
            assert row.tolist() == pytest.approx(expected)


def test_the_trained_model_is_close_to_the_habits() -> None:
    error = np.abs(fraud.usual_model() - habits())
    assert error.max() < 0.06 and error.mean() < 0.005
    assert fraud.usual_model().sum(axis=1) == pytest.approx(np.ones(18))


def test_nothing_to_train_from(tmp_path: Path) -> None:
    fraud.generate(tmp_path, 0)
    assert (fraud.train(tmp_path) == 1 / 18).all()
    assert (fraud.train(tmp_path, smoothing=0.0) == 1 / 18).all()


def test_a_model_is_saved_and_loaded(tmp_path: Path) -> None:
    for model in (habits(), uneven(), fraud.usual_model()):
        fraud.save(model, tmp_path / "model.txt")
        assert (fraud.load(tmp_path / "model.txt") == model).all()
    fraud.generate(tmp_path / "data", 3000, customers=50)
    by_file = fraud.build(tmp_path / "data", model=tmp_path / "model.txt").collect(spark=False)
    assert by_file.equals(fraud.build(tmp_path / "data").collect(spark=False)) and by_file.num_rows > 0


def test_the_states_of_a_file_may_have_another_order(tmp_path: Path) -> None:
    model, order = fraud.usual_model(), random.Random(1).sample(range(18), 18)
    rows = [",".join(repr(float(model[a, b])) for b in order) for a in order]
    (tmp_path / "model.txt").write_text("\n".join((",".join(STATES[a] for a in order), *rows)))
    assert (fraud.load(tmp_path / "model.txt") == model).all()


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path, names = tmp_path / "model.txt", ",".join(STATES)
    cases = {
        "": "must be a model in text",
        "a,b,c\n": "line 1 must have the names of the 18 states; got 'a,b,c'",
        names: "18 rows of 18 probabilities",
        f"{names}\n1,2": "18 rows of 18 probabilities",
        f"{names}\n" + "x\n" * 18: "18 rows of 18 probabilities",
        f"{names}\n" + f"{','.join(['0.5'] * 18)}\n" * 18: "the sum 9",
    }
    for text, message in cases.items():
        path.write_text(text)
        with pytest.raises(ps.DataError, match=message) as refused:
            fraud.load(path)
        assert str(path) in str(refused.value)
    with pytest.raises(ps.DataError, match="must be a model in text"):
        fraud.load(tmp_path / "absent.txt")


@pytest.mark.skipif("PENSTOCK_FRAUD_MODEL" not in os.environ, reason="PENSTOCK_FRAUD_MODEL names no model of DSPBench")
def test_the_model_of_the_benchmark(tmp_path: Path) -> None:
    path = os.environ["PENSTOCK_FRAUD_MODEL"]
    fraud.generate(tmp_path, 3000, customers=50)
    for score in fraud.SCORES:
        found = fraud.build(tmp_path, model=path, score=score, threshold=0.9).collect(spark=False).to_pylist()
        assert found == fraud.reference(tmp_path, model=path, score=score, threshold=0.9) != []


# The data


def contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(folder.iterdir())]


@pytest.mark.parametrize("format", ["text", "csv", "parquet"])
def test_the_same_seed_gives_the_same_data_in_any_number_of_files(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fraud_data, "PIECE_ROWS", 64)
    for folder, seed, files in (("a", 1, 1), ("b", 1, 1), ("c", 2, 1), ("d", 1, 7)):
        fraud.generate(tmp_path / folder, 1000, seed, customers=10, format=format, files=files)
    a, b, c, d = (contents(tmp_path / folder) for folder in "abcd")
    assert a == b != c and len(d) == 7
    if format == "text":
        assert b"".join(a) == b"".join(d) and a[0].count(b"\n") == 1000
    if format == "parquet":
        assert pq.read_table(tmp_path / "a").equals(pq.read_table(tmp_path / "d"))


@pytest.mark.parametrize("customers", [1, 40])
def test_habits_go_on_from_piece_to_piece(customers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fraud_data, "PIECE_ROWS", 100)
    table = pa.Table.from_batches(fraud.pieces(40_000, customers=customers, frauds=False))
    model = fraud.train(ps.from_arrow(table))
    assert np.abs(model - habits())[:3].max() < 0.05
    assert table["transaction"].to_pylist()[:2] == ["T0000000000", "T0000000001"]
    assert len(set(table["customer"].to_pylist())) == customers


def test_frauds_raise_the_scores() -> None:
    alarms = []
    for frauds in (True, False):
        table = pa.Table.from_batches(fraud.pieces(100_000, frauds=frauds))
        alarms.append(fraud.build(ps.from_arrow(table), threshold=0.98).collect(spark=False).num_rows)
    assert alarms[0] > 100 > 50 > alarms[1]


def test_data_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ps.DataError, match="fraud detection: customers must be at least 1; got 0"):
        fraud.generate(tmp_path, 5, customers=0)
    pq.write_table(pa.table({"customer": ["a"], "transaction": ["b"]}), tmp_path / "other.parquet")
    with pytest.raises(ps.DataError, match="must have the columns customer, transaction, state; got"):
        fraud.read(tmp_path)
