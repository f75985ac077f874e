"""What lies in a channel, for people."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.channel import Channel
from penstock.graph.hidden import is_hidden
from penstock.kernels.credit import CREDIT, SIGNAL


def lines(channel: Channel, signals: Sequence[str]) -> list[str]:
    """Items by their first field, marks as their kind and the credit that they carry, and the receiver's credit."""
    data, control = channel.data, channel.control
    marks = range(control.start, control.stop)
    kinds = [f"{_kind(int(control.kinds[at]), signals)}({control.credits[at]})" for at in marks]
    return [
        f"items   {len(data)} of {data.capacity:,}  {' '.join(_items(channel))}".rstrip(),
        f"marks   {len(control)} of {control.capacity:,}  {' '.join(kinds)}".rstrip(),
        f"credit  {channel.current}",
    ]


def _items(channel: Channel) -> list[str]:
    data = channel.data
    field = next((name for name in data.stores if not is_hidden(name)), None)
    if field is None:
        return ["·"] * len(data)
    return [str(value) for value in data.stores[field].column(data.stop)[data.start :].to_pylist()]


def _kind(kind: int, signals: Sequence[str]) -> str:
    if kind == CREDIT:
        return "credit"
    if kind >= SIGNAL:
        return signals[kind - SIGNAL]
    return f"{'close' if kind % 2 else 'open'}{'' if kind < 2 else kind // 2 + 1}"
