"""The parts that nets of stream programs are built of, each a few places and arcs added to a sketch.

A construct names what it adds after what it connects, so that every place says what its tokens stand for. The
functions here compose freely; `platform` puts them together for a program on cores.

>>> sketch = Sketch()
>>> chain(sketch, {"a": 2, "b": 3})
>>> exclusive(sketch, "core 1", ["a"])
'core 1 free'
>>> exclusive(sketch, "core 2", ["b"])
'core 2 free'
>>> buffer(sketch, "a", "b", 1)
>>> from penstock.tune.model.exact import cycle_rate
>>> cycle_rate(sketch.net(), "b")
Fraction(1, 5)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from penstock.errors import ModelError
from penstock.tune.model.net import (
    Constant,
    Drawn,
    Net,
    Number,
    Place,
    Role,
    Time,
    Traced,
    Transition,
    as_time,
    mean_time,
)

# Permanent priorities: what moves data goes before what works on it, and a copy works last.
MOVE, SEND, WORK, SPARE = range(0, 4000, 1000)
RANKS = 1000
"""So many ranks are within each of them."""
NONE: Mapping[str, Number] = {}


@dataclass(slots=True)
class Draft:
    """A transition whose arcs are still being drawn."""

    time: Time
    priority: int
    core: str | None
    takes: dict[str, int] = field(default_factory=dict)
    gives: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Sketch:
    """A net that is still being drawn; `net()` gives it, checked and frozen."""

    places: dict[str, Place] = field(default_factory=dict)
    transitions: dict[str, Draft] = field(default_factory=dict)

    def place(self, name: str, tokens: int = 0, role: Role = "data") -> str:
        """Add a place, and give its name back."""
        if name in self.places:
            raise ModelError(f"place {name!r}: each place must be added once; this one is there already")
        self.places[name] = Place(name, tokens, role)
        return name

    def transition(self, name: str, time: Time | Number, priority: int = WORK, core: str | None = None) -> str:
        """Add a transition without arcs, and give its name back."""
        if name in self.transitions:
            raise ModelError(f"transition {name!r}: each transition must be added once; this one is there already")
        self.transitions[name] = Draft(as_time(time), priority, core)
        return name

    def take(self, transition: str, place: str, tokens: int = 1) -> None:
        """Let a transition take so many tokens more from a place; none is no arc."""
        self._draw(self._draft(transition).takes, place, tokens)

    def give(self, transition: str, place: str, tokens: int = 1) -> None:
        """Let a transition give so many tokens more to a place; none is no arc."""
        self._draw(self._draft(transition).gives, place, tokens)

    def net(self) -> Net:
        drawn = (Transition(name, d.time, d.takes, d.gives, d.priority, d.core) for name, d in self.transitions.items())
        return Net(tuple(self.places.values()), tuple(drawn))

    def _draft(self, name: str) -> Draft:
        if name not in self.transitions:
            raise ModelError(
                f"transition {name!r}: an arc must begin or end at a transition of the sketch; add it first"
            )
        return self.transitions[name]

    def _draw(self, arcs: dict[str, int], place: str, tokens: int) -> None:
        if place not in self.places:
            raise ModelError(f"place {place!r}: an arc must begin or end at a place of the sketch; add it first")
        if tokens:
            arcs[place] = arcs.get(place, 0) + tokens


def chain(sketch: Sketch, tasks: Mapping[str, Time | Number]) -> None:
    """Tasks one after the other, with data from each to the next (figure 13)."""
    names = [sketch.transition(name, time) for name, time in tasks.items()]
    for before, after in pairwise(names):
        arc(sketch, before, after)


def arc(sketch: Sketch, source: str, target: str, tokens: int = 1) -> str:
    """Data from one transition to another: a place, at first empty."""
    place = sketch.place(f"{source} → {target}")
    sketch.give(source, place, tokens)
    sketch.take(target, place, tokens)
    return place


def exclusive(sketch: Sketch, core: str, transitions: Iterable[str]) -> str:
    """Mutual exclusion on a core: a token that a transition takes to start and gives back at its end (figure 14)."""
    place = f"{core} free"
    if place not in sketch.places:
        sketch.place(place, 1, "core")
    for name in transitions:
        _hold(sketch, name, [place])
        sketch.transitions[name].core = core
    return place


def buffer(sketch: Sketch, source: str, target: str, capacity: int, tokens: int = 1) -> None:
    """A bounded buffer as a back edge (figure 15): the source takes room when it starts, the target gives it back.

    A capacity counts what one firing of the source makes, and `tokens` is how many tokens that is.
    """
    checked_capacity(f"buffer {source!r} → {target!r}", capacity)
    place = sketch.place(f"room {source} → {target}", capacity * tokens, "room")
    sketch.take(source, place, tokens)
    sketch.give(target, place, tokens)


def memory(sketch: Sketch, core: str, capacity: int, tokens: int = 1) -> str:
    """The memory of a core, for so many blocks (table I): who makes or receives one takes of it."""
    checked_capacity(f"memory of {core!r}", capacity)
    return sketch.place(f"memory of {core}", capacity * tokens, "room")


def supply(sketch: Sketch, source: str, firings: int) -> str:
    """A finite stream: its source fires so many times, and then the net runs dry."""
    place = sketch.place(f"supply of {source}", firings, "room")
    sketch.take(source, place)
    return place


def move(
    sketch: Sketch,
    name: str,
    ways: Mapping[str, str],
    tokens: int = 1,
    time: Time | Number = 0,
    priority: int = MOVE,
) -> str:
    """Data from places to others, the same number of tokens on each way, as soon as all are there.

    Rooms are taken and given by further arcs.
    """
    sketch.transition(name, time, priority)
    for source, target in ways.items():
        sketch.take(name, source, tokens)
        sketch.give(name, target, tokens)
    return name


def latency(size: Number, alpha: Number, beta: Number) -> Fraction:
    """How long a message of this size is on its way: α + β · size (equation 1)."""
    return Fraction(alpha) + Fraction(beta) * size


def exposed_latency(size: Number, alpha: Number, beta: Number, work: Time, double_buffering: bool = True) -> Fraction:
    """What is left of the latency when the work of the receiver on the block before hides it (equation 3).

    >>> exposed_latency(100, 5, Fraction(1, 10), as_time(12))
    Fraction(3, 1)
    """
    whole = latency(size, alpha, beta)
    return max(whole - mean_time(work), Fraction(0)) if double_buffering and whole else whole


def portion(time: Time, pieces: int) -> Time:
    """The time of one of so many equal pieces."""
    if pieces == 1:
        return time
    if isinstance(time, Constant):
        return Constant(Fraction(time.value) / pieces)
    values = tuple(Fraction(value) / pieces for value in time.values)
    return Drawn(values) if isinstance(time, Drawn) else Traced(values)


def flexible(sketch: Sketch, splits: Mapping[str, Mapping[str, str]]) -> None:
    """A split among the copies of a task (figure 17), of any number: each token goes to the first that has room.

    `splits` maps the name of each way to the places that it leads from and to, one pair for each input of the task, so
    that tokens which belong together stay together. They are in the order of a permanent priority, the original first.
    Rooms are taken by further arcs; a way without one takes everything.
    """
    for rank, (name, ways) in enumerate(splits.items()):
        move(sketch, name, ways, priority=MOVE + rank)


def add_merges(
    sketch: Sketch, merges: Mapping[str, Mapping[str, str]], times: Mapping[str, Time | Number] = NONE
) -> None:
    """A merge of what the copies of a task made (figure 17): each way from the places of a copy to those of the task.

    The model does not know one token from another, so it keeps no order. In a stream the next token may have to wait
    for the one before it.
    """
    for name, ways in merges.items():
        move(sketch, name, ways, time=times.get(name, 0))


@dataclass(frozen=True, slots=True)
class CoreSite:
    """A core with its memory, by the names of their places; `done` is where blocks wait that it has finished."""

    core: str
    free: str
    memory: str
    done: str | None = None


def site(sketch: Sketch, core: str, blocks: int, is_last: bool = False) -> CoreSite:
    """A core with memory for so many blocks. What the last of a pipeline has finished leaves it at once."""
    done = None if is_last else sketch.place(f"done on {core}")
    return CoreSite(core, exclusive(sketch, core, ()), memory(sketch, core, blocks), done)


def first_task(sketch: Sketch, task: str, time: Number, here: CoreSite) -> None:
    """The task that begins the stream: it takes memory for a new block when it starts."""
    _piece(sketch, task, time, WORK, here.memory, here.done or here.memory, here)


def next_task(sketch: Sketch, task: str, time: Number, here: CoreSite, there: CoreSite, pieces: int = 0) -> None:
    """A task on the core `there`, which takes its blocks from the core `here`, block by block as in table I.

    A block moves, as soon as it is finished here and there is memory there, in no time. With `pieces` the task is
    flexible, as section 3.1 walks through it: while the block cannot be passed on and the core has nothing else to do,
    it works ahead on its oldest block, one piece at a time. The pieces done shorten what is left there.

    Invariant: of the blocks that wait here the older has less left, so going by what is left keeps their order; and
    none is passed on while the oldest is worked on.
    """
    finished = _finish_place(task, here, pieces)
    whole = max(pieces, 1)
    ahead = [sketch.place(f"{task} ahead, {left} left") for left in range(pieces)]
    queue = _queue(sketch, task, sketch.places[there.memory].tokens) if pieces else []
    still = [sketch.place(f"{task} not ahead", 1, "room")] if pieces else []
    for left, place in enumerate([*ahead, finished], whole - len(ahead)):
        arrived = sketch.place(f"{task} arrived, {left} left")
        name = move(sketch, f"pass to {task}, {left} left", {place: arrived}, priority=MOVE + left)
        sketch.take(name, there.memory)
        sketch.give(name, here.memory)
        _hold(sketch, name, still)
        first = _line_up(sketch, f"{task}, {left} left", name, arrived, queue)
        share = Fraction(time) * left / whole
        _piece(sketch, f"{task}, {left} left", share, WORK, first, there.done or there.memory, there)
        for slot in queue[:1]:
            sketch.give(f"{task}, {left} left", slot)
        if left and pieces:
            _piece(
                sketch, f"{task} ahead at {left}", Fraction(time) / pieces, SPARE + left, place, ahead[left - 1], here
            )
            _hold(sketch, f"{task} ahead at {left}", still)


def _finish_place(task: str, here: CoreSite, pieces: int) -> str:
    """The place of what the core before has finished; checked."""
    if here.done is None:
        raise ModelError(
            f"task {task!r}: its blocks must come from a core that passes them on; {here.core!r} is the last"
        )
    if not 0 <= pieces < RANKS:
        raise ModelError(f"task {task!r}: a block must have 0 … {RANKS - 1} pieces; got {pieces}")
    return here.done


def _hold(sketch: Sketch, transition: str, places: Iterable[str]) -> None:
    """Let a transition take a token for as long as it lasts."""
    for place in places:
        sketch.take(transition, place)
        sketch.give(transition, place)


def _queue(sketch: Sketch, task: str, length: int) -> list[str]:
    """Slots in a row, the first being that of the block in work: tokens alone would not keep blocks in order."""
    return [sketch.place(f"slot {at + 1} of {task}", 1, "room") for at in range(length)]


def _line_up(sketch: Sketch, name: str, passing: str, arrived: str, queue: list[str]) -> str:
    """The way of blocks with so much left through the slots, from the last to the first; that place comes back."""
    for slot in queue[-1:]:
        sketch.take(passing, slot)
    for before, slot in zip(reversed(queue), reversed(queue[:-1]), strict=False):
        nearer = sketch.place(f"{name} in {slot}")
        step = move(sketch, f"{name} to {slot}", {arrived: nearer})
        sketch.take(step, slot)
        sketch.give(step, before)
        arrived = nearer
    return arrived


def _piece(sketch: Sketch, name: str, time: Number, priority: int, source: str, target: str, at: CoreSite) -> None:
    """Work on a core that takes a block from one state to the next."""
    sketch.transition(name, time, priority, at.core)
    _hold(sketch, name, [at.free])
    sketch.take(name, source)
    sketch.give(name, target)


def checked_capacity(where: str, capacity: int) -> int:
    """A capacity in blocks, or an error that says what it must be."""
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        raise ModelError(f"{where}: the capacity must be 1 block or more; got {capacity!r}")
    return capacity
