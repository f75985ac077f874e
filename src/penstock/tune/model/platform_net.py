"""The net of a platform: its tasks, arcs, cores, memories and flexible copies, put together from the constructs.

Tokens count pieces of a block, `grain` to a block. A task takes and gives whole blocks, a flexible one single tokens.
What a task makes lies in its *outlet* on its core, until it is sent to the *inlet* of the next task on that one's core;
on the same core both are one place. Where the next task is flexible, a split sends each token to the first copy with
room; a copy on the core of the task before needs no sending and works straight from the outlet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from penstock.tune.model.constructs import (
    MOVE,
    RANKS,
    SEND,
    SPARE,
    WORK,
    Sketch,
    add_merges,
    exclusive,
    exposed_latency,
    flexible,
    memory,
    move,
    portion,
)
from penstock.tune.model.net import Constant, Drawn, Net, Time, Traced
from penstock.tune.model.platform import Arc, Platform, Task


def net_of(platform: Platform) -> Net:
    """The net that stands for a program on cores.

    >>> pair = Platform((Task("a", 2, "core 1"), Task("b", 3, "core 2")), (Arc("a", "b", capacity=2),))
    >>> [transition.name for transition in net_of(pair).transitions]
    ['a', 'b', 'send a → b']
    """
    building = Building(platform)
    for core in platform.cores:
        building.core(core)
    for task in platform.tasks:
        building.task(task)
    for task in platform.tasks:
        if task.copies:
            building.flexible_input(task)
        else:
            building.input(task)
        building.merges(task)
    return building.sketch.net()


def workers(platform: Platform, task: Task) -> dict[str, str]:
    """The transitions that do the work of a task, with the cores that they run on: the task's own first."""
    return {task.name: task.core} | {f"{task.name} on {core}": core for core in task.copies}


def blocks_a_firing(platform: Platform, task: Task) -> Fraction:
    """How much of a block one firing of a task works on."""
    return Fraction(1, platform.grain) if task.copies else Fraction(1)


def queue_places(platform: Platform, arc: Arc) -> list[str]:
    """The places in which blocks of an arc wait, on either core."""
    target = platform.task[arc.target]
    places = [f"{arc.source} → {arc.target}"]
    places += [f"{places[0]} on {core}" for core in platform.task[arc.source].copies]
    if target.copies:
        elsewhere = [core for core in (target.core, *target.copies) if not platform.is_in_place(target, core)]
        places += [place for core in elsewhere for place in (f"{inlet(arc, core)}, coming", inlet(arc, core))]
    elif platform.task[arc.source].core != target.core:
        places.append(inlet(arc, target.core))
    return places


def inlet(arc: Arc, core: str) -> str:
    return f"{arc.source} → {arc.target} at {core}"


@dataclass(slots=True)
class Building:
    """A platform whose net is being built."""

    platform: Platform
    sketch: Sketch = field(default_factory=Sketch)

    def core(self, core: str) -> None:
        exclusive(self.sketch, core, ())
        blocks = self.platform.memory_of(core)
        if blocks is not None:
            memory(self.sketch, core, blocks, self.platform.grain)

    def task(self, task: Task) -> None:
        """The work of a task and of its copies, with their outlets."""
        platform, sketch = self.platform, self.sketch
        firing = self.firing(task)
        for rank, (name, core) in enumerate(workers(platform, task).items()):
            sketch.transition(name, self.time(task), self.priority(task, rank, core))
            exclusive(sketch, core, [name])
            for arc in platform.out_of(task.name):
                outlet = f"{arc.source} → {arc.target}" + (f" on {core}" if rank else "")
                sketch.give(name, sketch.place(outlet), firing)
            more = len(platform.out_of(task.name)) - len(platform.into(task.name))
            self.remember(name, takes=core, tokens=max(more, 0) * firing)
            self.remember(name, gives=core, tokens=max(-more, 0) * firing)

    def priority(self, task: Task, rank: int, core: str) -> int:
        """Which task of a core goes first: in turns, copies last; or the nearest to the results.

        Then flexible ones are last on the core that hands out what they get.
        """
        platform = self.platform
        if not platform.downstream:
            return SPARE + rank if rank and platform.spare_copies else WORK
        at = min(platform.tasks.index(task), RANKS - 1)
        is_spare = task.copies and any(platform.task[arc.source].core == core for arc in platform.into(task.name))
        return SPARE + at if is_spare else WORK + RANKS - 1 - at

    def firing(self, task: Task) -> int:
        """The tokens that one firing of a task works on."""
        return 1 if task.copies else self.platform.grain

    def time(self, task: Task) -> Time:
        """The time of one firing, with the overhead of split and merge where the task is flexible."""
        if not task.copies:
            return task.time
        return portion(_longer(task.time, Fraction(self.platform.overhead)), self.platform.grain)

    def remember(self, transition: str, takes: str | None = None, gives: str | None = None, tokens: int = 0) -> None:
        """Take tokens of the memory of one core, and give them to that of another, where they have a bounded one."""
        if takes == gives or not tokens:
            return
        if takes is not None and self.platform.memory_of(takes) is not None:
            self.sketch.take(transition, f"memory of {takes}", tokens)
        if gives is not None and self.platform.memory_of(gives) is not None:
            self.sketch.give(transition, f"memory of {gives}", tokens)

    # Whole blocks

    def input(self, task: Task) -> None:
        """The arcs to a task that takes whole blocks."""
        platform, sketch, grain = self.platform, self.sketch, self.platform.grain
        receives = True
        for arc in platform.into(task.name):
            source = platform.task[arc.source]
            outlet = f"{arc.source} → {arc.target}"
            if source.core == task.core:
                sketch.take(task.name, outlet, grain)
            else:
                place = sketch.place(inlet(arc, task.core))
                self.send(arc, task, outlet, place, receives)
                sketch.take(task.name, place, grain)
                receives = False
            if arc.capacity is not None:
                room = self.room(arc, "")
                sketch.give(task.name, room, grain)
                self.limit_room(arc, room)

    def send(self, arc: Arc, task: Task, outlet: str, place: str, receives: bool) -> None:
        """A message between cores. What its latency exposes keeps the receiver busy; further messages overlap it."""
        platform, grain = self.platform, self.platform.grain
        time = exposed_latency(arc.size, platform.alpha, platform.beta, task.time, platform.double_buffering)
        name = move(self.sketch, f"send {arc.source} → {arc.target}", {outlet: place}, grain, time)
        self.remember(name, task.core, platform.task[arc.source].core, grain)
        if time and receives:
            exclusive(self.sketch, task.core, [name])
            self.sketch.transitions[name].priority = WORK

    def room(self, arc: Arc, where: str) -> str:
        """A back edge's place: room for the blocks of an arc, as many as its capacity says."""
        tokens = (arc.capacity or 0) * self.platform.grain
        return self.sketch.place(f"room {arc.source} → {arc.target}{where}", tokens, "room")

    def limit_room(self, arc: Arc, room: str) -> None:
        """Let the source of an arc start only with room for what it makes."""
        source = self.platform.task[arc.source]
        for name in workers(self.platform, source):
            self.sketch.take(name, room, self.firing(source))

    # Single tokens

    def flexible_input(self, task: Task) -> None:
        """The arcs to a flexible task: one split for all of them, so that tokens that belong together stay together."""
        arcs = self.platform.into(task.name)
        unsplit = {arc: self.room(arc, " unsplit") for arc in arcs if arc.capacity is not None}
        for arc, room in unsplit.items():
            self.limit_room(arc, room)
        in_place = {n: c for n, c in workers(self.platform, task).items() if self.platform.is_in_place(task, c)}
        elsewhere = {n: c for n, c in workers(self.platform, task).items() if n not in in_place}
        flexible(self.sketch, {f"split {task.name} to {core}": self.ways(arcs, core) for core in elsewhere.values()})
        for name in in_place:
            for arc in arcs:
                self.sketch.take(name, f"{arc.source} → {arc.target}")
        for name, core in elsewhere.items():
            self.receive(task, name, core)
        for leaving in (*in_place, *(f"split {task.name} to {core}" for core in elsewhere.values())):
            for room in unsplit.values():
                self.sketch.give(leaving, room)

    def ways(self, arcs: list[Arc], core: str) -> dict[str, str]:
        """From the outlet of each arc to the place where its tokens come to this core."""
        return {f"{arc.source} → {arc.target}": self.sketch.place(f"{inlet(arc, core)}, coming") for arc in arcs}

    def receive(self, task: Task, name: str, core: str) -> None:
        """What a split has sent to one copy, through what its latency exposes, which keeps the core busy."""
        platform, sketch = self.platform, self.sketch
        splitting, arcs = f"split {task.name} to {core}", platform.into(task.name)
        late = max(self.late(arc, task, core) for arc in arcs)
        inlets = {f"{inlet(arc, core)}, coming": sketch.place(inlet(arc, core)) for arc in arcs}
        receiving = move(sketch, f"receive {name}", inlets, time=late, priority=SEND if late else MOVE)
        if late:
            exclusive(sketch, core, [receiving])
        for arc in arcs:
            sketch.take(name, inlet(arc, core))
            self.remember(splitting, core, platform.task[arc.source].core, 1)
            if arc.capacity is not None:
                room = self.room(arc, f" at {core}")
                sketch.take(splitting, room)
                sketch.give(name, room)

    def late(self, arc: Arc, task: Task, core: str) -> Fraction:
        """What a token's share of a message exposes on this core; the tokens of a block travel together."""
        platform = self.platform
        if platform.task[arc.source].core == core:
            return Fraction(0)
        time = exposed_latency(arc.size, platform.alpha, platform.beta, task.time, platform.double_buffering)
        return time / platform.grain

    def merges(self, task: Task) -> None:
        """What copies made goes to the outlets of the task itself, from where it is sent on."""
        arcs = self.platform.out_of(task.name)
        if not arcs:
            return
        for core in task.copies:
            name = f"merge {task.name} on {core}"
            outlets = {f"{a.source} → {a.target} on {core}": f"{a.source} → {a.target}" for a in arcs}
            add_merges(self.sketch, {name: outlets}, {name: max(self.late_from(arc, core) for arc in arcs)})
            for _ in arcs:
                self.remember(name, task.core, core, 1)

    def late_from(self, arc: Arc, core: str) -> Fraction:
        platform = self.platform
        target = platform.task[arc.target]
        if core == target.core:
            return Fraction(0)
        time = exposed_latency(arc.size, platform.alpha, platform.beta, target.time, platform.double_buffering)
        return time / platform.grain


def _longer(time: Time, by: Fraction) -> Time:
    if not by:
        return time
    if isinstance(time, Constant):
        return Constant(time.value + by)
    values = tuple(value + by for value in time.values)
    return Drawn(values) if isinstance(time, Drawn) else Traced(values)
