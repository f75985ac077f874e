"""Letters as a loop notes them, and what they say: the fields of an item that failed, and why it did."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from inspect import isgenerator
from itertools import islice
from typing import Any

import numpy as np

from penstock.codegen.generated import GeneratedLoop, Guard, GuardForm
from penstock.codegen.outlets import WHICH, Sink
from penstock.codegen.site import cast
from penstock.engine.sinks import Inputs, ResultSink
from penstock.graph import nodes as n
from penstock.graph import types
from penstock.graph.function import Function
from penstock.graph.hidden import HiddenField
from penstock.graph.letters import Letter, fault_text, letter, reason
from penstock.graph.source import to_plain
from penstock.kernels import guard as guards

STATE = HiddenField.of("state")
"""The state before the item that failed."""
ROOM = 1024
"""How many letters a node holds before they are handed out."""
Caught = dict[int, deque[BaseException]]
"""What functions raised, by their numbers, of which letters are yet to be written."""
UNSEEN = "it raised in compiled code and not as plain Python: an integer beyond 64 bits on the way?"


class LetterSink(ResultSink):
    """The letters of one node in one loop."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.room = ROOM

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = super().arrays()
        if self.sink.saved is not None:
            arrays[self.sink.saved_array] = self.held.of(STATE, self.room, self.sink.saved.layout.dtype)
        return arrays

    def letters(self, code: GeneratedLoop, inputs: Inputs, used: int, caught: Caught | None) -> list[Letter]:
        """What was noted. `caught` is what functions raised, in this order, where it is known."""
        states = None if self.sink.saved is None else self.held.held[STATE][:used].copy()
        rows = self.batch(inputs, used, 0, 0)
        columns = {name: to_plain(rows.column(name)) for name in rows.schema.names}
        which, indices = columns.pop(WHICH), columns.pop(n.PLACE)
        made = []
        for at in range(used):
            fields = {name: column[at] for name, column in columns.items()}
            state = None if states is None else states[at]
            function, message = self._reason(code, which[at], fields, state, caught)
            made.append(letter(indices[at], self.sink.number, self.sink.node, function, message, fields))
        return made

    def _reason(
        self, code: GeneratedLoop, which: int, fields: Mapping[str, Any], state: Any, caught: Caught | None
    ) -> tuple[Function | None, str]:
        if which < 0:
            fault = code.faults[-which - 1]
            return fault.function, fault_text(fault.kind, fault.node, fault.what)
        function = code.functions[which]
        if caught is not None:
            return function, reason(caught[which].popleft())
        return function, _raised(self.sink, function, fields, state) or UNSEEN


def _raised(sink: Sink, function: Function, fields: Mapping[str, Any], state: Any) -> str | None:
    """What a function raises as plain Python, on the item and the record that it failed on."""
    node, scope = sink.node, dict(fields)
    if sink.saved is not None:
        name = "self" if isinstance(node, n.Through) else "state"
        scope[name] = sink.saved(*(state[field] for field in sink.saved.layout.initial))
    before = [each for _, each in node.outputs] if isinstance(node, n.Map) else [function]
    try:
        with np.errstate(all="ignore"):
            for each in before[: before.index(function) + 1]:
                _call(each, scope, getattr(node, "at_most", 0))
    except Exception as error:
        return reason(error)
    return None


def _call(function: Function, scope: Mapping[str, Any], most: int) -> None:
    returned = function.call(*function.arguments(scope))
    if isgenerator(returned):
        for each in islice(returned, most + 1):
            function.results(each)
    elif function.returns:
        function.results(returned)


# The functions that a guarded loop calls


def compiled_guards(code: GeneratedLoop, functions: Mapping[str, Any], scope: dict[str, Any]) -> dict[str, Any]:
    """The guards of a compiled loop, by the names that it calls them with."""
    made = {}
    for number, guard in code.guards.items():
        call, function, count = functions[f"f{number}"], guard.function, len(guard.function.parameters)
        if guard.form is GuardForm.RETURNS:
            casts = [cast(t) for t in function.returns]
            made[f"g{number}"] = guards.returning(call, count, casts, function.is_tuple, scope)
        else:
            most = guard.most if function.is_generator else None
            made[f"g{number}"] = guards.trying(call, count, _checks(function), most, scope)
    return made


def _checks(function: Function) -> list[str]:
    """What must be true of results that vary in length."""
    checks = []
    for at, t in enumerate(function.returns):
        part = f"found[{at}]" if function.is_tuple else "found"
        if types.is_array(t):
            checks.append(f"len({part}) == {t.list_size}")
        if types.is_string(t):
            checks.append(f"is_utf8({part})")
    return checks


def plain_guards(code: GeneratedLoop, functions: Mapping[str, Any], caught: Caught) -> dict[str, Any]:
    """The guards of a loop that runs as plain Python, and the functions that it calls again."""
    made: dict[str, Any] = {}
    for number, guard in code.guards.items():
        call, function = functions[f"f{number}"], guard.function
        raised = caught.setdefault(number, deque())
        if guard.form is GuardForm.RETURNS:
            casts = [_CASTS[cast(t)] for t in function.returns]
            made[f"g{number}"] = guards.plain_returning(call, casts, function.is_tuple, raised)
        else:
            trial = guards.PlainTrial(call, guard.most if function.is_generator else None, raised)
            made |= {f"g{number}": trial.attempt, f"f{number}": trial.give}
    return made


_CASTS: dict[str, Any] = {"as_int": int, "as_float": float, "as_bool": bool}


def identity_of(code: GeneratedLoop) -> list[Any]:
    """What compiled guards depend on beside the functions and the source of the loop."""
    return [(number, *_described(guard)) for number, guard in sorted(code.guards.items())]


def _described(guard: Guard) -> tuple[Any, ...]:
    return guard.form.value, [str(t) for t in guard.function.returns], guard.function.is_tuple, guard.most
