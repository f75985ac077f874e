"""A slow, plain interpreter of the rules of `penstock.tune.model.net`, short enough to be believed by reading it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b

from penstock.tune.model.net import Drawn, Net, Time, Traced, Transition

MASK = (1 << 64) - 1


def mixed(word: int) -> int:
    """The mixing function of SplitMix64."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK
    return word ^ (word >> 31)


def time_of(name: str, time: Time, count: int, seed: int) -> Fraction:
    """The time of the firing with this number."""
    if isinstance(time, Traced):
        return Fraction(time.values[count % len(time.values)])
    if isinstance(time, Drawn):
        stream = int.from_bytes(
            blake2b(name.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest(), "little"
        )
        draw = mixed((stream + (count + 1) * 0x9E3779B97F4A7C15) & MASK)
        return Fraction(time.values[(draw >> 33) * len(time.values) >> 31])
    return Fraction(time.value)


@dataclass
class Plain:
    """A net that runs. `firings` holds (name, start, end) of all firings, in the order of their starts."""

    net: Net
    seed: int = 0
    now: Fraction = Fraction(0)
    tokens: dict[str, int] = field(init=False)
    most: int | None = None
    """It stops after so many firings, even at an instant that would never end."""
    running: list[tuple[Fraction, Transition]] = field(default_factory=list)
    firings: list[tuple[str, Fraction, Fraction]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = {place.name: place.tokens for place in self.net.places}
        self.counts = {transition.name: 0 for transition in self.net.transitions}
        self.order = [transition.name for transition in self.net.transitions]  # least recently fired first

    def enabled(self) -> list[Transition]:
        return [t for t in self.net.transitions if all(self.tokens[name] >= weight for name, weight in t.takes)]

    def give(self, transition: Transition) -> None:
        for name, weight in transition.gives:
            self.tokens[name] += weight

    def start(self, transition: Transition) -> None:
        time = time_of(transition.name, transition.time, self.counts[transition.name], self.seed)
        for name, weight in transition.takes:
            self.tokens[name] -= weight
        self.counts[transition.name] += 1
        self.order.remove(transition.name)
        self.order.append(transition.name)
        self.firings.append((transition.name, self.now, self.now + time))
        if time == 0:
            self.give(transition)
        else:
            self.running.append((self.now + time, transition))

    def instants(self) -> Iterator[Fraction]:
        """Run from instant to instant; each is told when all has started that can. It ends where nothing runs."""
        while True:
            while (enabled := self.enabled()) and len(self.firings) != self.most:
                self.start(min(enabled, key=lambda t: (t.priority, self.order.index(t.name))))
            yield self.now
            if not self.running:
                return
            self.now = min(end for end, _ in self.running)
            for end, transition in self.running:
                if end == self.now:
                    self.give(transition)
            self.running = [(end, transition) for end, transition in self.running if end > self.now]
