"""The engine gives what the reference gives, on random graphs, items, signals, batches and settings of channels."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import cache
from io import StringIO
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.property.check import check, check_channels, difference, expected, repeat
from tests.property.choose import Drawn
from tests.property.graphs import BATCHES, Case, build, from_seed
from tests.property.planted import FAULTS
from tests.property.settings import WANTED as WANTED_SETTINGS
from tests.property.settings import Setting, needed, parse
from tests.property.situations import WANTED, situations

import penstock as ps
from penstock.engine.options import CONTEXTS
from penstock.graph.nodes import KINDS, EmitWatermark, LateItems, Meet
from penstock.graph.tree import Tree
from penstock.plan.segment import CLEANING

HERE = [kind for kind in KINDS if not issubclass(kind, (Meet, EmitWatermark, LateItems))]
"""Streams that meet have tests of their own, `test_joins.py`; watermarks and late items, `tests/oracle`."""
INTERPRETED = 512
PARTS = 8
COMPILED = 60
COMPILED_CHANNELS = 12
COUNTED = 640
A_FEW = 3


@st.composite
def cases(draw) -> Case:
    return build(Drawn(draw))


@pytest.mark.parametrize("part", range(PARTS))
def test_interpreted(part: int) -> None:
    """Graphs that Hypothesis draws, and shrinks: as few loops as can be, and with channels between them.

    In parts, so that several processes share them.
    """

    @settings(
        max_examples=INTERPRETED // PARTS,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def agree(case: Case) -> None:
        check(case)
        check_channels(case)

    agree()


def compiled_case(number: int) -> Case:
    """Of two graphs the smaller one, because it takes seconds to compile a large one."""
    return min(from_seed(2 * number + 1), from_seed(2 * number + 2), key=lambda case: len(case.lines))


@pytest.mark.parametrize("number", range(COMPILED))
def test_compiled(number: int) -> None:
    """Fixed seeds, so that the loops are found compiled on the disk the next time."""
    check(compiled_case(number), compile=True)


@cache
def compiled_channels(number: int) -> Case:
    """Of 16 graphs the smallest with a region and two channels, each context in turn: all nodes compile alone."""
    cases = {seed: from_seed(seed) for seed in range(16 * number, 16 * number + 16)}
    nodes = {seed: [n for n in Tree(case.leaves).nodes if not isinstance(n, CLEANING)] for seed, case in cases.items()}
    fitting = [seed for seed in cases if len(nodes[seed]) > 2 and any(node.shape.regions for node in nodes[seed])]
    case = cases[min(fitting, key=lambda seed: len(nodes[seed]))]
    return replace(case, setting=replace(case.setting, fuse=False, context=CONTEXTS[number % len(CONTEXTS)]))


@pytest.mark.parametrize("number", range(COMPILED_CHANNELS))
def test_compiled_channels(number: int) -> None:
    check_channels(compiled_channels(number), compile=True)


@pytest.fixture(scope="module")
def counted() -> Counter[str]:
    """How often each thing occurs in the graphs of the first seeds."""
    found: Counter[str] = Counter()
    for seed in range(COUNTED):
        case = from_seed(seed)
        found.update(situations(case))
        found.update(f"batches of {size}" for size in case.batches)
        found.update(case.setting.about())
        if case.fault is not None and isinstance(expected(case), ps.PenstockError):
            found[f"raised for {case.fault}"] += 1
    return found


def test_every_kind_of_node_is_drawn(counted: Counter[str]) -> None:
    assert [kind.__name__ for kind in HERE if counted[f"node {kind.__name__}"] < A_FEW] == []


def test_every_situation_is_drawn(counted: Counter[str]) -> None:
    wanted = [*WANTED, *(f"batches of {size}" for size in BATCHES), *(f"raised for {fault}" for fault in FAULTS)]
    assert [what for what in wanted if counted[what] < A_FEW] == []


def test_every_setting_is_drawn(counted: Counter[str]) -> None:
    assert [what for what in WANTED_SETTINGS if counted[what] < A_FEW] == []
    assert counted["smallest capacities"] > COUNTED // 4


def test_every_context_and_credit_is_compiled() -> None:
    cases = [compiled_channels(number) for number in range(COMPILED_CHANNELS)]
    assert all(needed(case.leaves, case.control, fuse=False) for case in cases)
    assert {case.setting.context for case in cases} == set(CONTEXTS)
    assert {case.setting.credit for case in cases} == {"queued", "balance"}


def test_the_text_of_a_setting_is_the_setting() -> None:
    for seed in range(50):
        case = from_seed(seed)
        assert parse(str(case.setting)) == case.setting
    told = repeat(replace(case, room=None), False, 3, True, Setting(context="lane", spare=0, credit="balance"))
    assert f"""--seed {case.seed} --batch 3 --channels "context='lane', spare=0, credit='balance'\"""" in told
    assert "Run(leaves, control, compile=False, batch_items=3, trace=True, fuse=False, context='lane'" in told


def test_every_kind_of_node_is_compiled() -> None:
    kinds = {type(node) for number in range(COMPILED) for node in Tree(compiled_case(number).leaves).nodes}
    assert set(HERE) - kinds == set()


def test_a_seed_makes_one_graph() -> None:
    assert [from_seed(seed).text() for seed in range(20)] == [from_seed(seed).text() for seed in range(20)]


def test_the_text_of_a_case_is_the_case() -> None:
    """What a failure prints is a program that makes the same graph, with the same results."""
    for seed in range(20):
        case = from_seed(seed)
        program: dict[str, Any] = {"__name__": "program"}
        with redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.InterpretedWarning)
            with suppress(ps.PenstockError):  # the last line runs the case, which may be one that ends in an error
                exec(case.text(), program)
        again = replace(case, leaves=tuple(program["leaves"]), control=tuple(program["control"]))
        assert difference(expected(case), expected(again)) is None
