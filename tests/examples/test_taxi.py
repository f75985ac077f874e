from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.examples import taxi

MODES = pytest.mark.parametrize("compile", [False, True], ids=["interpreted", "compiled"])


def run(source: ps.Stream, compile: bool = True) -> tuple[list[dict[str, Any]], dict[str, int]]:
    found = taxi.brackets(source)
    pairs, dropped = ps.run(taxi.pairs(found), taxi.malformed(found), compile=compile)
    return pairs.to_pylist(), {row["trip"]: row["malformed"] for row in dropped.to_pylist()}


def of(*polylines: str) -> ps.Stream:
    lines = [f'"{trip}","A","[5,6]","{polyline}"' for trip, polyline in enumerate(polylines)]
    return ps.from_arrow(pa.table({"line": pa.array(lines, pa.string())}))


@MODES
@pytest.mark.parametrize(("size", "seed"), [(0, 0), (1, 0), (60, 1), (60, 2)])
def test_the_result_is_the_reference(tmp_path: Path, size: int, seed: int, compile: bool) -> None:
    taxi.generate(tmp_path, size, seed)
    pairs, malformed = run(taxi.read(tmp_path), compile)
    assert pairs == taxi.reference(tmp_path)
    assert sum(malformed.values()) == taxi.reference_malformed(tmp_path)


def test_many_lines(tmp_path: Path) -> None:
    taxi.generate(tmp_path, 3000, 5)
    pairs, malformed = run(taxi.read(tmp_path))
    assert pairs == taxi.reference(tmp_path)
    assert sum(malformed.values()) == taxi.reference_malformed(tmp_path) > 100
    assert taxi.build(taxi.read(tmp_path)).collect().to_pylist() == pairs


PAIRS = {
    "none": ("[]", []),
    "one": ("[[-8.5,41.25]]", [(41.25, -8.5)]),
    "whole numbers": ("[[1,-2]]", [(-2.0, 1.0)]),
    "zeros in front": ("[[007,00.5]]", [(0.5, 7.0)]),
    "minus zero": ("[[-0.0,0]]", [(0.0, -0.0)]),
    "fifteen digits": ("[[123456789012345,0.00000000000001]]", [(1e-14, 123456789012345.0)]),
    "several": ("[[1,2],[3,4]]", [(2.0, 1.0), (4.0, 3.0)]),
}


@MODES
def test_pairs(compile: bool) -> None:
    pairs, malformed = run(of(*(polyline for polyline, _ in PAIRS.values())), compile)
    expected = [(str(trip), *pair) for trip, (_, found) in enumerate(PAIRS.values()) for pair in found]
    assert [tuple(map(repr, row.values())) for row in pairs] == [tuple(map(repr, row)) for row in expected]
    assert malformed == {}


MALFORMED = {
    "letters": "[[1.x,2]]",
    "no first number": "[[,2]]",
    "no second number": "[[1,]]",
    "one number": "[[1]]",
    "three numbers": "[[1,2,3]]",
    "two points": "[[1.2.3,2]]",
    "no digit before the point": "[[.5,2]]",
    "no digit behind the point": "[[1.,2]]",
    "a plus": "[[+1,2]]",
    "an exponent": "[[1e3,2]]",
    "a sign alone": "[[-,2]]",
    "a blank": "[[1, 2]]",
    "not a number": "[[nan,inf]]",
    "sixteen digits": "[[1234567890123456,2]]",
    "sixteen digits, most behind the point": "[[1.234567890123456,2]]",
    "far more digits than fit 64 bits": f"[[{'9' * 15}.{'9' * 40},{'9' * 60}]]",
    "an empty pair": "[[],[]]",
    "not closed": "[[1,2",
    "nothing behind": "[[",
}


@MODES
@pytest.mark.parametrize("polyline", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_pair_is_dropped_and_counted(polyline: str, compile: bool) -> None:
    pairs, malformed = run(of(polyline, "[[1,2]]"), compile)
    assert pairs == [{"trip": "1", "latitude": 2.0, "longitude": 1.0}]
    assert malformed == {"0": polyline.count("[") - 1}


@MODES
def test_a_pair_in_a_malformed_one(compile: bool) -> None:
    pairs, malformed = run(of("[[[1,2]],[3[4,5]]"), compile)
    assert [tuple(row.values()) for row in pairs] == [("0", 2.0, 1.0), ("0", 5.0, 4.0)]
    assert malformed == {"0": 2}


@MODES
def test_lines_may_be_bytes_and_may_be_anything(compile: bool) -> None:
    lines = [b"", b'"', b"[[1,2]]", b'"7', b'"8",[[1,2]]', b'"9","[[1,2]]"', b'"10","[[1,2']
    source = ps.from_arrow(pa.table({"line": pa.array(lines, pa.binary())}))
    pairs, malformed = run(source, compile)
    assert [row["trip"] for row in pairs] == ["9"]
    assert malformed == {"10": 1}


def test_numbers_are_those_of_python() -> None:
    chosen = random.Random(1)
    texts = []
    for _ in range(4000):
        digits, point = chosen.randint(1, 15), chosen.randint(1, 15)
        text = "".join(chosen.choice("0123456789") for _ in range(digits))
        sign = chosen.choice(("", "-"))
        texts.append(sign + (f"{text[:point]}.{text[point:]}" if point < digits else text))
    polyline = ",".join(f"[{text},0]" for text in texts)
    pairs, malformed = run(of(f"[{polyline}]"))
    assert [repr(row["longitude"]) for row in pairs] == [repr(float(text)) for text in texts]
    assert malformed == {}


def test_the_result_has_text_and_numbers() -> None:
    assert taxi.build(of()).schema == pa.schema(
        [("trip", pa.string()), ("latitude", pa.float64()), ("longitude", pa.float64())]
    )
