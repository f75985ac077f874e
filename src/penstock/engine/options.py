"""How a graph is run: what may be chosen, none of which changes the result."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Any

from penstock.engine.statistics import Statistics
from penstock.errors import GraphError
from penstock.graph.run_options import KNOWN, hint_of_option
from penstock.plan.node_profile import Profile

CONTEXTS = ("auto", "sparse", "dense", "lane")
CREDITS = ("queued", "balance")
POLICIES = ("downstream", "upstream", "random")
ON_ERROR = ("stop", "skip")
LARGEST = 1 << 48
SEED_BITS = 63
"""A seed is no larger, so that JSON and kernels take it as it is."""


def draw_seed() -> int:
    """A seed for hashes that nobody can foresee."""
    return secrets.randbits(SEED_BITS)


def _checked_by_default() -> bool:
    return os.environ.get("PENSTOCK_CHECK", "") not in ("", "0")


@dataclass(frozen=True)
class Options:
    """The options of a run, valid by construction.

    - `compile`: False interprets everything, so that a debugger can step into the functions.
    - `batch_items`: how many items of the source are taken at a time.
    - `fuse`: False makes every node a loop of its own, with a channel on every edge.
    - `width`: the most items that a node fires on. Unless said, a node takes all that the source gives at a time, and
      65,536 from a channel; fewer where the lists and arrays that it computes would not stay in the cache.
    - `capacity`, `capacity_signals`: how many items, and how many signals and boundaries of regions, a channel holds.
      Unless said, 64 times the width, but at most 131,072 or twice the width.
    - `memory`, `delay`: in place of `capacity`, how many bytes all channels may have together, and how many items may
      lie before one on its way to the results. The plan chooses capacities, and a width, within these.
    - `context`: how the regions travel on the channels, `sparse`, `dense`, `lane` or `auto`; or a dict from streams to
      these, for the channels that leave each of them.
    - `credit`: `queued` or `balance`; with the latter, `threshold` is how many items may be sent without credit.
    - `heartbeat`: where streams part and meet again, how many indices a node may go on by before it tells the next
      nodes how far it has come. Unless said, the plan chooses for each channel as many as are safe; 0 tells after each
      firing, and "never" leaves it out, so that a run may stop.
    - `cores`: on how many threads the nodes run, each on one of them: nodes that follow each other share one.
      `mapping` places them: a dict from streams, or from names of steps, to numbers of cores; or it is a profile of the
      graph, or the statistics of another run of it, and all cores get about as much to do.
    - `flexible`: a dict from streams, or from names of steps, to numbers of copies. Or "auto", which measures the first
      items of the source, unless `mapping` is a profile, places the nodes by that, and makes the node flexible that
      gains the most by it, if any gains something.
    - `block_items`: on several cores, how many items make a block: a node takes at most so many at a time, and what
      comes of them passes to the next core at once; the split before a flexible node shares out so many at a time.
      Small blocks pass sooner and are shared out evenly, large ones cost less. Unless said, the width.
    - `policy`: which of the nodes that may fire does: the nearest to the results (`downstream`) or to the source
      (`upstream`), or one at `random`, from `seed`.
    - `hash_seed`: what the hashes of keys come of. Drawn at random by default, so that nobody can choose keys whose
      hashes collide. A running stream takes that of its checkpoint.
    - `trace`: note every firing, and every signal that is handed to a node.
    - `on_error`: "stop" ends the run at the first item that fails; "skip" leaves such items out, with a letter each.
    - `check`: verify the invariants of all channels after every firing.
    - `clock`: where times are read; a `VirtualClock` makes the cores virtual too.
    """

    compile: bool = True
    batch_items: int | None = None
    fuse: bool = True
    width: int | None = None
    capacity: int | None = None
    capacity_signals: int | None = None
    memory: int | None = None
    delay: int | None = None
    context: str | Mapping[Any, str] = "auto"
    credit: str = "queued"
    threshold: int | None = None
    heartbeat: int | str | None = None
    cores: int = 1
    mapping: Mapping[Any, int] | Statistics | Profile | None = None
    flexible: str | Mapping[Any, int] | None = None
    block_items: int | None = None
    policy: str = "downstream"
    seed: int = 0
    hash_seed: int = field(default_factory=draw_seed)
    trace: bool = False
    on_error: str = "stop"
    check: bool = field(default_factory=_checked_by_default)
    clock: Callable[[], float] = time.perf_counter

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """The options of these names; an unknown one is refused."""
        known = [each.name for each in fields(cls)]
        for name in given:
            if name not in known:
                reason = "it is one of another call" if name in KNOWN else hint_of_option(name)
                raise GraphError(f"run: {name!r} is no option here; {reason}")
        return cls(**given)

    def __post_init__(self) -> None:
        for name in ("batch_items", "width", "capacity", "capacity_signals", "cores", "block_items", "memory", "delay"):
            self._whole(name, 1)
        if self.capacity is not None and (self.memory is not None or self.delay is not None):
            raise GraphError("run: give capacity=, or memory= and delay= for the plan to choose it, and not both")
        self._whole("threshold", 0)
        if self.heartbeat != "never":
            self._whole("heartbeat", 0)
        if self.threshold is not None and self.credit != "balance":
            raise GraphError(f"run: threshold= belongs to credit='balance'; got credit={self.credit!r}")
        contexts = self.context.values() if isinstance(self.context, Mapping) else [self.context]
        for context in contexts:
            _one_of("context", context, CONTEXTS)
        _one_of("credit", self.credit, CREDITS)
        _one_of("on_error", self.on_error, ON_ERROR)
        _one_of("policy", self.policy, POLICIES)
        if not isinstance(self.seed, int):
            raise GraphError(f"run: seed must be a whole number; got {self.seed!r}")
        if not isinstance(self.hash_seed, int) or not 0 <= self.hash_seed < 1 << SEED_BITS:
            raise GraphError(f"run: hash_seed must be a whole number from 0 up to 2**63; got {self.hash_seed!r}")
        for name in ("compile", "fuse", "trace", "check"):
            if not isinstance(getattr(self, name), bool):
                raise GraphError(f"run: {name} must be True or False; got {getattr(self, name)!r}")
        if not isinstance(self.mapping, (Mapping, Statistics, Profile, type(None))):
            raise GraphError(
                f"run: mapping must be a dict from streams to numbers of cores, the statistics of another run, or a "
                f"profile; got {self.mapping!r}"
            )
        if not isinstance(self.flexible, (Mapping, type(None))) and self.flexible != "auto":
            raise GraphError(f"run: flexible must be 'auto', or a dict from streams to copies; got {self.flexible!r}")
        if not callable(self.clock):
            raise GraphError(f"run: clock must be a function that gives seconds; got {self.clock!r}")

    def _whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value is None:
            return
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not is_whole or value < least:
            raise GraphError(f"run: {name} must be a whole number of at least {least}; got {value!r}")
        if value >= LARGEST:
            raise GraphError(f"run: {name} must be less than 2**48; got {value!r}")
        object.__setattr__(self, name, int(value))


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise GraphError(f"run: {name} must be one of {', '.join(map(repr, known))}; got {value!r}")
