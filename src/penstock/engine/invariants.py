"""What must hold of a channel between any two firings; the docstring of `Channel` says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.errors import InternalError
from penstock.kernels.credit import SIGNAL

if TYPE_CHECKING:
    from penstock.engine.channel import Channel


def check(channel: Channel) -> None:
    """Raise an `InternalError` where an invariant does not hold."""
    _check_bounds(channel)
    _check_credit(channel)
    _check_tables(channel)


def _check_bounds(channel: Channel) -> None:
    """Both queues, and the tables beside them, hold no more than their capacity; nothing was lost or made up."""
    queues: list[tuple[str, Any]] = [("items", channel.data), ("marks", channel.control)]
    queues += [(f"parents {depth}", rows) for depth, rows in enumerate(channel.parents)]
    queues += [(f"signals {number}", records) for number, records in enumerate(channel.records)]
    for name, queue in queues:
        if not 0 <= queue.start <= queue.stop <= queue.start + queue.capacity:
            raise InternalError(f"channel: {name} lie at {queue.start} to {queue.stop} of {queue.capacity}")
    sent, consumed, queued = channel.sent, channel.consumed, len(channel.data)
    if sent - consumed != queued:
        raise InternalError(f"channel: {sent} items sent, {consumed} consumed, {queued} queued")


def _check_credit(channel: Channel) -> None:
    """Every mark will come after just the items that were sent before it, and credit has an item to be spent on."""
    control, threshold, queued = channel.control, channel.form.bounds.threshold, len(channel.data)
    if channel.current < 0 or (channel.current > 0 and not queued):
        raise InternalError(f"channel: a credit of {channel.current} and {queued} items to spend it on")
    reached = channel.consumed + channel.current
    for at in range(control.start, control.stop):
        reached += int(control.credits[at])
        if control.credits[at] < 0 or reached != control.sent_at[at]:
            raise InternalError(
                f"channel: a mark would come after {reached} items, and was sent after {control.sent_at[at]}"
            )
    if reached > channel.sent:
        raise InternalError(f"channel: credit for {reached} items, and {channel.sent} were sent")
    if threshold is not None and reached + channel.since != channel.sent:
        raise InternalError(f"channel: credit for {reached} of {channel.sent} items, and {channel.since} without")
    if threshold is not None and channel.since > threshold:
        raise InternalError(f"channel: {channel.since} items without credit, beyond {threshold}")


def _check_tables(channel: Channel) -> None:
    """Every opening that is queued has its parent in the table, and every signal its record."""
    kinds = channel.control.kinds[channel.control.start : channel.control.stop]
    for depth, rows in enumerate(channel.parents):
        is_open, wanted = channel.is_open[depth], int(np.sum(kinds == 2 * depth)) + channel.is_open[depth]
        # With tags, there are parents whose opening is not queued as a mark.
        if is_open not in (0, 1) or wanted > len(rows) or (wanted < len(rows) and not channel.is_tagged):
            raise InternalError(f"channel: {wanted} regions at depth {depth} have {len(rows)} parents")
        closed = channel.opened[depth] - is_open
        if channel.regions[depth] - closed != len(rows):
            raise InternalError(
                f"channel: of {channel.regions[depth]} regions at depth {depth} {closed} are closed, and {len(rows)} "
                f"parents are left"
            )
    for number, records in enumerate(channel.records):
        wanted = int(np.sum(kinds == SIGNAL + number))
        if wanted != len(records):
            raise InternalError(f"channel: {wanted} signals of type {number} have {len(records)} records")
