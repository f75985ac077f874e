"""Programs on cores: what the model says where it can be worked out by hand, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ModelError
from penstock.tune.model import Arc, Drawn, Platform, Task, Traced, cycle_rate, net_of, predict
from penstock.tune.model.platform_net import queue_places, workers


def pipeline(*times: int, cores: tuple[int, ...] | None = None, **options: object) -> Platform:
    """Tasks t0, t1, … one after the other, on cores c0, c1, … unless told otherwise."""
    capacity = options.pop("capacity", 2)
    size = options.pop("size", 0)
    where = cores or tuple(range(len(times)))
    tasks = tuple(Task(f"t{n}", time, f"c{where[n]}") for n, time in enumerate(times))
    arcs = tuple(Arc(f"t{n}", f"t{n + 1}", size, capacity) for n in range(len(times) - 1))  # type: ignore[arg-type]
    return Platform(tasks, arcs, **options)  # type: ignore[arg-type]


def with_copies(platform: Platform, **copies: tuple[str, ...]) -> Platform:
    tasks = tuple(Task(t.name, t.time, t.core, copies.get(t.name, ())) for t in platform.tasks)
    return replace(platform, tasks=tasks)


def test_the_slowest_core_sets_the_pace() -> None:
    told = predict(pipeline(2, 5, 3))
    assert told.throughput == Fraction(1, 5)
    assert told.utilisation == {"c0": Fraction(2, 5), "c1": 1, "c2": Fraction(3, 5)}
    assert told.critical == "c1"
    assert "limited by c1" in str(told)


def test_tasks_on_one_core_take_turns() -> None:
    told = predict(pipeline(2, 5, 3, cores=(0, 0, 1)))
    assert told.throughput == Fraction(1, 7)
    assert told.utilisation["c0"] == 1


def test_a_buffer_of_one_block_makes_neighbours_wait_for_each_other() -> None:
    told = predict(pipeline(2, 3, capacity=1))
    assert (told.throughput, told.critical) == (Fraction(1, 5), "room t0 → t1")


def test_without_a_bound_blocks_pile_up_and_nothing_repeats() -> None:
    told = predict(pipeline(1, 2, capacity=None), firings=20_000)
    assert not told.is_exact
    assert float(told.throughput) == pytest.approx(1 / 2, rel=0.001)
    assert told.longest["t0", "t1"] > 1000


def test_a_branch_and_a_join() -> None:
    tasks = Task("a", 1, "c0"), Task("b", 4, "c1"), Task("c", 2, "c2"), Task("d", 1, "c0")
    arcs = tuple(Arc(x, y, capacity=2) for x, y in ("ab", "ac", "bd", "cd"))
    told = predict(Platform(tasks, arcs))
    assert told.throughput == Fraction(1, 4)
    assert predict(Platform(tasks, arcs, memory=3)).throughput <= Fraction(1, 4)


def test_latency_is_from_the_first_start_to_the_last_end() -> None:
    told = predict(pipeline(2, 2, 2, capacity=1))
    assert told.throughput == Fraction(1, 4)
    assert told.latency == told.latency_99 == 6


def test_queues_count_blocks() -> None:
    told = predict(pipeline(1, 4, capacity=3))
    assert told.queues["t0", "t1"] == Fraction(7, 4)  # with 3 made and not finished, one of them in work
    assert told.longest["t0", "t1"] == 2


def test_communication_is_hidden_as_long_as_the_work_lasts() -> None:
    quiet = pipeline(10, 10, alpha=4, beta=Fraction(1, 100), size=500)
    assert predict(quiet).throughput == Fraction(1, 10)
    loud = replace(quiet, alpha=9)
    assert predict(loud).throughput == Fraction(1, 14)  # 4 of the 14 are not hidden, and keep the receiver busy
    assert predict(replace(loud, double_buffering=False)).throughput == Fraction(1, 24)


@pytest.mark.parametrize("copies", [("c0",), ("c2",), ("c0", "c2"), ("c3", "c4")])
def test_copies_add_what_their_cores_have_left(copies: tuple[str, ...]) -> None:
    base = pipeline(2, 12, 2, tokens=12)
    platform = with_copies(replace(base, cores=("c0", "c1", "c2", "c3", "c4")), t1=copies)
    told = predict(platform)
    cores = {"c1", *copies}
    work = 12 + sum(2 for core in ("c0", "c2") if core in cores)
    assert Fraction(1, 12) < told.throughput <= Fraction(len(cores), work)
    assert told.throughput >= Fraction(len(cores), work) * Fraction(9, 10)
    assert sum(told.shares["t1"].values()) == 1


def test_overhead_of_split_and_merge_lengthens_the_work() -> None:
    platform = with_copies(pipeline(2, 12, 2, tokens=4), t1=("c0",))
    assert predict(replace(platform, overhead=3)).throughput < predict(platform).throughput


def test_finer_blocks_never_hurt_here() -> None:
    platform = with_copies(pipeline(2, 7, capacity=1), t1=("c0",))
    rates = [predict(replace(platform, tokens=tokens)).throughput for tokens in (1, 2, 4, 8)]
    assert rates == sorted(rates)


def test_drawn_times_are_met_on_average() -> None:
    tasks = Task("a", Drawn((50, 150)), "c0"), Task("b", Traced((90, 30)), "c1")
    told = predict(Platform(tasks, (Arc("a", "b", capacity=8),)), firings=100_000)
    assert not told.is_exact
    assert float(told.throughput) == pytest.approx(1 / 100, rel=0.02)
    assert float(told.utilisation["c1"]) == pytest.approx(0.6, rel=0.02)
    assert told.latency_99 > told.latency


def test_the_same_seed_gives_the_same_prediction() -> None:
    platform = Platform(
        (Task("a", Drawn((1, 2, 5)), "c0"), Task("b", Drawn((2, 4)), "c1")), (Arc("a", "b", capacity=2),)
    )
    first, again, other = (predict(platform, firings=5_000, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@settings(max_examples=60)
@given(
    times=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    capacity=st.integers(1, 3),
    memory=st.sampled_from([None, 1, 2, 3]),
    alpha=st.integers(0, 4),
)
def test_a_pipeline_is_as_fast_as_its_slowest_cycle(
    times: list[int], capacity: int, memory: int | None, alpha: int
) -> None:
    platform = pipeline(*times, capacity=capacity, memory=memory, alpha=alpha)
    told, net = predict(platform), net_of(platform)
    if net.is_choice_free:
        assert told.throughput == cycle_rate(net, "t0")
    assert told.throughput <= Fraction(1, max(times))


@settings(max_examples=40)
@given(
    times=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    flexible=st.integers(1, 3),
    tokens=st.integers(1, 4),
    memory=st.sampled_from([None, 2, 3]),
    ahead=st.booleans(),
)
def test_flexible_pipelines_run_and_obey_the_bounds(
    times: list[int], flexible: int, tokens: int, memory: int | None, ahead: bool
) -> None:
    at = min(flexible, len(times) - 1)
    platform = with_copies(
        pipeline(*times, tokens=tokens, memory=memory, spare_copies=ahead), **{f"t{at}": (f"c{at - 1}",)}
    )
    told = predict(platform)
    assert told.is_exact
    assert told.throughput <= Fraction(len(times), sum(times))
    assert all(share <= 1 for share in told.utilisation.values())
    for arc in platform.arcs:
        assert all(place in net_of(platform).number for place in queue_places(platform, arc))
    for task in platform.tasks:
        assert all(name in net_of(platform).number for name in workers(platform, task))


A, B = Task("a", 1, "c0"), Task("b", 2, "c1")
AB = Arc("a", "b", capacity=1)
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no task": (lambda: Platform(()), "there must be at least one task"),
    "a task twice": (lambda: Platform((A, A)), "each task must have a name of its own; 'a' is there several times"),
    "a core too many": (
        lambda: Platform((A, B), (AB,), cores=("c0",)),
        "tasks must be on cores that there are; got 'c1'; the cores are 'c0'; name more cores, or map those tasks",
    ),
    "a core twice": (lambda: Platform((A, B), (AB,), cores=("c0", "c0", "c1")), "each core must be named once"),
    "an arc to nobody": (lambda: Platform((A,), (AB,)), "arc 'a' → 'b': it must join two tasks; 'b' is none"),
    "an arc twice": (lambda: Platform((A, B), (AB, AB)), "two tasks must be joined by one arc"),
    "a circle": (
        lambda: Platform((A, B), (AB, Arc("b", "a"))),
        "arcs must not lead in a circle; they do around 'a', 'b'",
    ),
    "a capacity": (lambda: Arc("a", "b", capacity=0), "the capacity must be 1 block or more, or None; got 0"),
    "a size": (lambda: Arc("a", "b", -1), "the size of a block must be 0 bytes or more; got -1"),
    "no tokens": (lambda: Platform((A,), tokens=0), "a block must have 1 token or more; got tokens=0"),
    "alpha": (lambda: Platform((A,), alpha=0.5), "alpha must be an exact number"),  # type: ignore[arg-type]
    "memory": (lambda: Platform((A,), memory=0), "the memory of 'c0' must hold 1 block or more; got 0"),
    "memory of no core": (lambda: Platform((A,), memory={"x": 1}), "memory must be of cores that there are; got 'x'"),
    "a time": (lambda: Task("a", 0.5, "c0"), "it must be an exact number"),  # type: ignore[arg-type]
    "a copy beside it": (lambda: Task("a", 1, "c0", ("c0",)), "must be on cores of their own; 'c0' has several"),
    "a flexible source": (lambda: Platform((Task("a", 1, "c0", ("c1",)),)), "must take its blocks from another task"),
    "nothing bounds": (
        lambda: Platform((A, Task("b", 2, "c1", ("c0",))), (Arc("a", "b"),)),
        "task 'b': each copy of a flexible task must have a bounded input.* that on 'c1' has none; give an arc",
    ),
    "no time at all": (lambda: predict(Platform((Task("a", 0, "c0"),))), "time must pass"),
    "too few firings": (
        lambda: predict(pipeline(1, 1, 1, 1), firings=1),
        "must be enough firings|each task must get on",
    ),
}


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make()


def test_a_platform_that_deadlocks_names_the_places() -> None:
    """A join that needs two blocks at a time in a memory of one: the first that comes leaves no room for the other."""
    tasks = Task("a", 1, "c0"), Task("b", 1, "c1"), Task("c", 1, "c2"), Task("d", 1, "c3")
    arcs = tuple(Arc(x, y) for x, y in ("ab", "ac", "bd", "cd"))
    with pytest.raises(ModelError, match=r"not so 'd' in .* these places lack tokens: .*'memory of c3'"):
        predict(Platform(tasks, arcs, memory={"c3": 1}))
    with pytest.raises(ModelError, match=r"at time 0 none can, .* lack tokens: 'memory of c0' \(for 'a'\)"):
        predict(Platform(tasks, arcs, memory=1))
