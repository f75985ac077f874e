"""The rules of signals: nodes that emit them, and states that handle them."""

from __future__ import annotations

from penstock.codegen.key_records import state_array
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.site import Site, cast
from penstock.codegen.travel import SignalAt
from penstock.codegen.traverse import hand_on, send
from penstock.graph import nodes as n


def emit_item(loop: LoopContext, node: n.Emit, site: Site) -> None:
    """A signal that is emitted stands after its item."""
    send(loop, node, site)
    with loop.out.block(f"if {loop.calls.call(node.when, site, {})}"):
        inner, name = site.fork(aligned=False, is_behind=True), f"em{loop.number(node)}"
        loop.code.emitted[name] = node.first
        for field, function in node.values.items():
            value = f"{cast(function.returns[0])}({loop.calls.call(function, inner, {})})"
            loop.out.line(f'{name}["{field}"][0] = {value}')
        if node.signal in loop.signals:  # else nothing downstream handles it, and the run refuses the graph
            hand_on(loop, node, SignalAt(loop.signals.index(node.signal), name, "0"), inner)


def handle_signal(loop: LoopContext, node: n.Stateful, signal: SignalAt) -> None:
    """Every record handles the signal: of a key, of keys yet to come, and the one that new keys start from."""
    for handler in node.handlers:
        if handler.signal is not loop.signals[signal.number]:
            continue
        name, each = state_array(loop, node), loop.out.fresh("each")
        for array, count in ((name, f"len({name})"), (f"{name}_0", "1")):
            with loop.out.block(f"for {each} in range({count})"):
                _handle(loop, handler, array, each, signal)


def _handle(loop: LoopContext, handler: n.Handler, array: str, each: str, signal: SignalAt) -> None:
    records = {"state": f"{array}[{each}]", "signal": signal.record}
    call = loop.calls.call(handler.function, Site(({},)), records)
    if handler.field is not None:
        call = f'{array}["{handler.field}"][{each}] = {cast(handler.function.returns[0])}({call})'
    loop.out.line(call)
