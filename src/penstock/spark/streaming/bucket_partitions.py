"""Which buckets a running stream has, and the names by which Spark puts each into a partition of its own."""

from __future__ import annotations

from itertools import count

from penstock.plan.stages import Cut
from penstock.spark.driver.bucket_layout import BucketLayout

_MASK = 0xFFFFFFFF


def stream_layout(cut: Cut, buckets: int) -> BucketLayout:
    """Give every stage its buckets. Who sends what is seen by the receivers, so senders are not named."""
    targets, senders = {}, {}
    for stage in cut.stages[1:]:
        assert stage.reads is not None
        kind = stage.reads.kind
        targets[stage.number] = (0,) if kind == "order" else spread(buckets if kind == "key" else 1, buckets)
        senders[stage.number] = ()
    return BucketLayout(1, targets, senders, (buckets,) * (cut.levels - 1))


def spread(wanted: int, partitions: int) -> tuple[int, ...]:
    """So many numbers, of which each falls into a partition of its own where Spark shuffles by their hash.

    >>> spread(4, 4)
    (12, 6, 2, 1)
    """
    found = []
    for at in range(wanted):
        fitting = (each for each in count(1) if murmur3(each) % partitions == at % partitions and each not in found)
        found.append(next(fitting))
    return tuple(found)


def murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an integer, as a signed number.

    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    mixed = (value & _MASK) * 0xCC9E2D51 & _MASK
    mixed = _rotate(mixed, 15) * 0x1B873593 & _MASK
    state = _rotate(seed ^ mixed, 13) * 5 + 0xE6546B64 & _MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
