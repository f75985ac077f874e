from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.examples.rows import expected_rows

import penstock as ps
from penstock.examples import spike_data
from penstock.examples import spike_detection as spike
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

GOOD = "2004-02-28 00:58:46.002832 65333 28 19.7336 37.0933 71.76 2.69964"


def lines_of(*lines: str) -> ps.Stream:
    return ps.from_arrow(pa.table({"line": pa.array(lines, pa.string())}), name="lines")


def readings_of(*readings: tuple[Any, float]) -> ps.Stream:
    return ps.from_items([{"device": device, "value": value} for device, value in readings])


@every_way
@pytest.mark.parametrize("format", ["text", "csv", "parquet"])
def test_the_result_is_the_reference(tmp_path: Path, format: str, run: Way) -> None:
    spike.generate(tmp_path, 400, 3, devices=5, format=format, files=3)
    found, *dropped = run(*spike.results(spike.read(tmp_path), window=20))
    expected = expected_rows(spike, tmp_path, window=20)
    assert found.to_pylist() == expected and len(expected) > 3
    if format == "text":
        assert dropped[0].num_rows == spike.reference_incomplete(tmp_path) > 0


@pytest.mark.parametrize("format", ["text", "parquet"])
def test_many_readings_and_the_usual_window(tmp_path: Path, format: str) -> None:
    spike.generate(tmp_path, 60_000, 5, format=format)
    expected = expected_rows(spike, tmp_path)
    assert spike.build(tmp_path).collect(spark=False).to_pylist() == expected
    assert 100 < len(expected) < 6000


@pytest.mark.parametrize("format", ["text", "parquet"])  # a CSV file without rows does not tell the type of a device
def test_there_may_be_nothing_in_several_files(tmp_path: Path, format: str) -> None:
    spike.generate(tmp_path, 0, format=format, files=2)
    assert spike.build(tmp_path).collect(spark=False).num_rows == 0


def test_numbers_in_csv_may_begin_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("value,device,more\n" + 200_000 * "20,a,x\n" + "30.5,a,x\n")
    assert spike.build(tmp_path).collect(spark=False)["value"].to_pylist() == [30.5]


@every_way
def test_there_may_be_nothing(tmp_path: Path, run: Way) -> None:
    spike.generate(tmp_path, 0)
    found, dropped = run(*spike.results(spike.read(tmp_path)))
    assert (found.num_rows, dropped.num_rows) == (0, 0)
    assert found.schema == pa.schema([("device", pa.int64()), ("mean", pa.float64()), ("value", pa.float64())])
    assert spike.reference(tmp_path) == []


INCOMPLETE = {
    "nothing": "",
    "a blank": " ",
    "no voltage": GOOD.rpartition(" ")[0],
    "a field more": f"{GOOD} 7",
    "only the time": "2004-02-28 00:58:46.002832",
    "a device that is no number": GOOD.replace(" 28 ", " mote ", 1),
    "a device with a fraction": GOOD.replace(" 28 ", " 2.8 ", 1),
    "no temperature, and as many fields": GOOD.replace("19.7336", "?"),
    "letters": GOOD.replace("19.7336", "19.7x"),
    "a sign alone": GOOD.replace("19.7336", "-"),
    "a plus": GOOD.replace("19.7336", "+19.7"),
    "no digit before the point": GOOD.replace("19.7336", ".5"),
    "no digit behind the point": GOOD.replace("19.7336", "19."),
    "two points": GOOD.replace("19.7336", "1.9.7"),
    "an exponent": GOOD.replace("19.7336", "1e3"),
    "not a number": GOOD.replace("19.7336", "nan"),
    "nineteen digits": GOOD.replace("19.7336", "1.234567890123456789"),
    "more digits than fit 64 bits": GOOD.replace(" 28 ", f" {'9' * 40} ", 1),
}


@every_way
def test_incomplete_lines_are_dropped_and_counted(tmp_path: Path, run: Way) -> None:
    (tmp_path / "lines.txt").write_text("\n".join((GOOD, *INCOMPLETE.values(), GOOD)))
    source = lines_of(GOOD, *INCOMPLETE.values(), GOOD)
    found, dropped = run(spike.readings(source), spike.incomplete(source))
    assert found.to_pylist() == 2 * [{"device": 28, "value": 19.7336}]
    assert dropped["line"].to_pylist() == list(INCOMPLETE.values())
    assert spike.reference_incomplete(tmp_path) == len(INCOMPLETE)


@every_way
def test_blanks_and_numbers_of_all_kinds(run: Way) -> None:
    texts = ("0", "-0.0", "-38.4", "122.153", "007.50", "123456789012345", "0.00000000000001", "99999999999.9999")
    (found,) = run(spike.readings(lines_of(*(f"  d  t e -{n}  {text} h l v " for n, text in enumerate(texts)))))
    assert [repr(value) for value in found["value"].to_pylist()] == [repr(float(text)) for text in texts]
    assert found["device"].to_pylist() == [-n for n in range(len(texts))]
    (found,) = run(spike.readings(lines_of(GOOD.replace("19.7336", "3.14159265358979312"))))
    assert math.isclose(found["value"][0].as_py(), math.pi, rel_tol=1e-15)


@every_way
def test_the_mean_is_that_of_the_last_values_with_the_current_one(run: Way) -> None:
    source = readings_of(("a", 1.0), ("b", 100.0), ("a", 2.0), ("a", 6.0), ("a", 4.0), ("b", 90.0))
    (found,) = run(spike.build(source, window=2, threshold=0.06))
    assert found.to_pylist() == [
        {"device": "a", "mean": 1.5, "value": 2.0},
        {"device": "a", "mean": 4.0, "value": 6.0},
        {"device": "a", "mean": 5.0, "value": 4.0},
    ]
    (found,) = run(spike.build(source, window=1, threshold=0.0))
    assert found.num_rows == 0


def test_the_sum_that_is_kept_stays_close_to_the_true_one() -> None:
    values = [(0, 20.0 + math.sin(n) * 1e6 ** (n % 3 - 1)) for n in range(20_000)]
    means = spike.build(readings_of(*values), window=100, threshold=0.0).collect(spark=False)
    last = math.fsum(value for _, value in values[-100:]) / 100
    assert math.isclose(means["mean"][-1].as_py(), last, rel_tol=1e-9)


@every_way
@pytest.mark.parametrize("window", [1, 7, 40])
def test_a_mean_recovers_once_a_spoiled_value_has_left_the_window(window: int, run: Way) -> None:
    """As accurate as adding up the window. A running total would stay NaN, or lack what 1e17 has swallowed."""
    spoilers = [math.nan, 1e17, -1e17, math.inf, -math.inf, 1e308]
    values = {d: [20.0 + 0.1 * ((n + d) % 9) for n in range(100)] for d in range(len(spoilers))}
    for device, spoiler in enumerate(spoilers):
        values[device][13] = values[device][30] = spoiler
    source = readings_of(*((device, values[device][n]) for n in range(100) for device in values))
    (found,) = run(source.key_by("device").map(mean=spike.moving_mean, state=spike._last(window)))
    for device, spoiler in enumerate(spoilers):
        means = found.filter(pc.equal(found["device"], device))["mean"].to_pylist()
        for at, mean in enumerate(means):
            last = values[device][max(0, at + 1 - window) : at + 1]
            if repr(spoiler) in map(repr, last):
                assert not math.isclose(mean, 20.0, rel_tol=0.1)
            else:
                assert math.isclose(mean, math.fsum(last) / len(last), rel_tol=1e-14), (spoiler, at)


def test_the_reference_recovers_too(tmp_path: Path) -> None:
    rows = [("a", value) for value in (20.0, math.nan, 1e17, math.inf, -math.inf, *(20.0 + n for n in range(5)))]
    pq.write_table(pa.table({"device": [d for d, _ in rows], "value": [v for _, v in rows]}), tmp_path / "a.parquet")
    found = spike.build(tmp_path, window=3, threshold=0.01).collect(spark=False).to_pylist()
    assert found == expected_rows(spike, tmp_path, window=3, threshold=0.01)
    assert [row["mean"] for row in found[-3:]] == [21.0, 22.0, 23.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 0}, "window must be a whole number of at least 1; got 0"),
        ({"window": 2.5}, "window must be a whole number"),
        ({"threshold": -0.1}, "threshold must be a number of at least 0; got -0.1"),
        ({"threshold": float("nan")}, "threshold must be a number"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.GraphError, match=f"spike detection: {message}"):
        spike.build(readings_of((1, 1.0)), **settings)


# The data


def contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(folder.iterdir())]


@pytest.mark.parametrize("format", ["text", "csv", "parquet"])
def test_the_same_seed_gives_the_same_data_in_any_number_of_files(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spike_data, "PIECE_ROWS", 64)
    for folder, seed, files in (("a", 1, 1), ("b", 1, 1), ("c", 2, 1), ("d", 1, 7)):
        spike.generate(tmp_path / folder, 1000, seed, format=format, files=files)
    a, b, c, d = (contents(tmp_path / folder) for folder in "abcd")
    assert a == b != c and len(d) == 7
    if format == "text":
        assert b"".join(a) == b"".join(d) and a[0].count(b"\n") == 1000


def test_the_formats_hold_the_same_readings(tmp_path: Path) -> None:
    for format in ("csv", "parquet", "text"):
        spike.generate(tmp_path / format, 500, 1, format=format)
    table = pq.read_table(tmp_path / "parquet")
    assert pyarrow.csv.read_csv(tmp_path / "csv" / "part-00000.csv").equals(table)
    read = spike.readings(spike.read(tmp_path / "text")).collect(spark=False).to_pylist()
    rows = iter(table.to_pylist())
    assert all(row in rows for row in read) and 450 < len(read) < 500


def test_devices_may_have_names(tmp_path: Path) -> None:
    spike.generate(tmp_path, 300, devices=3, named=True, format="parquet")
    assert set(pq.read_table(tmp_path)["device"].to_pylist()) == {"sensor-0", "sensor-1", "sensor-2"}
    assert spike.build(tmp_path).collect(spark=False).to_pylist() == expected_rows(spike, tmp_path)
    with pytest.raises(ps.DataError, match="in lines of text devices are numbers"):
        spike.generate(tmp_path, 300, named=True)


def test_another_call_replaces_what_was_written(tmp_path: Path) -> None:
    spike.generate(tmp_path, 100, files=4)
    spike.generate(tmp_path, 50, format="csv")
    assert [file.name for file in tmp_path.iterdir()] == ["part-00000.csv"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": -1}, "size must be at least 0; got -1"),
        ({"devices": 0}, "devices must be at least 1; got 0"),
        ({"files": 0}, "files must be at least 1; got 0"),
        ({"format": "xml"}, "format must be one of text, csv, parquet; got 'xml'"),
    ],
)
def test_data_that_cannot_be_is_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.DataError, match=f"spike detection: {message}"):
        spike.generate(tmp_path, **({"size": 5} | settings))


def test_files_of_another_shape_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ps.GraphError, match="the folder has none"):
        spike.read(tmp_path).collect(spark=False)
    with pytest.raises(ps.GraphError, match="there is no such path"):
        spike.read(tmp_path / "absent.txt")
    pq.write_table(pa.table({"device": [1], "heat": [1.0]}), tmp_path / "other.parquet")
    with pytest.raises(ps.DataError, match="must have the columns device, value; got device, heat"):
        spike.read(tmp_path)
