"""Every kind of node has rules in a loop, or a reason why it never lies inside one."""

from __future__ import annotations

from typing import get_args

from penstock.codegen.aggregate_results import BUILTINS
from penstock.codegen.rules import RULES
from penstock.codegen.travel import MeetRules, Refusal, Rules
from penstock.graph import nodes
from penstock.graph.aggregate import AggregateKind
from penstock.plan.segment import CLEANING


def test_every_kind_of_node_has_rules_or_a_refusal() -> None:
    assert set(RULES) == {*nodes.KINDS, *nodes.STAGE_KINDS}


def test_what_stands_at_an_entry_is_refused_with_a_reason() -> None:
    refused = {kind: rules.reason for kind, rules in RULES.items() if isinstance(rules, Refusal)}
    assert set(refused) == {*CLEANING, nodes.Received, nodes.MapColumns}
    assert all(refused.values())


def test_streams_meet_by_rules_of_their_own() -> None:
    meets = {kind for kind, rules in RULES.items() if isinstance(rules, MeetRules)}
    assert meets == {kind for kind in RULES if issubclass(kind, nodes.Meet)}


def test_a_node_with_functions_has_a_guarded_rule() -> None:
    """Where failures are skipped, no function of an item is called without a guard; of an aggregate none may raise."""
    unguarded = {
        kind for kind, rules in RULES.items() if isinstance(rules, Rules) and rules.guarded is None and _calls(kind)
    }
    assert unguarded <= {nodes.Aggregate, nodes.EmitWatermark}


def _calls(kind: type[nodes.GraphNode]) -> bool:
    return kind.functions is not nodes.GraphNode.functions


def test_every_built_in_aggregate_is_written() -> None:
    assert set(BUILTINS) == set(get_args(AggregateKind))
