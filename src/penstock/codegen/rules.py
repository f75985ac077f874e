"""The rules of every kind of node in a loop, or why there are none."""

from __future__ import annotations

from penstock.codegen import guarded_rules as guarded
from penstock.codegen import item_rules as items
from penstock.codegen import join_rules as joins
from penstock.codegen import region_rules as regions
from penstock.codegen import signal_rules as signals
from penstock.codegen import window_rules as windows
from penstock.codegen.keyed_rules import key_by_item
from penstock.codegen.travel import MeetRules, Refusal, Rules, RuleTable
from penstock.codegen.traverse import send
from penstock.graph import nodes as n

_AT_SOURCE = Refusal("it cleans columns before they enter a loop")

RULES: RuleTable = {
    n.Source: Refusal("items enter a loop after it"),
    n.Received: Refusal("items enter a loop after it"),
    n.DropNulls: _AT_SOURCE,
    n.FillNull: _AT_SOURCE,
    n.MapColumns: Refusal("it takes whole columns, before a loop begins"),
    n.Map: Rules(items.map_item, guarded.map_item, signal=signals.handle_signal),
    n.Filter: Rules(items.filter_item, guarded.filter_item, signal=signals.handle_signal),
    n.FlatMap: Rules(
        items.flat_map_item, guarded.flat_map_item, close=items.flat_map_close, signal=signals.handle_signal
    ),
    n.Through: Rules(items.through_item, guarded.through_item, open=items.through_open, close=items.through_close),
    n.Select: Rules(items.select_item),
    n.Send: Rules(send),
    n.Enumerate: Rules(regions.enumerate_item, finds_faults=True),
    n.Regions: Rules(regions.regions_item, guarded.regions_item, close=regions.regions_close),
    n.Aggregate: Rules(regions.aggregate_item, open=regions.aggregate_open, close=regions.aggregate_close),
    n.Close: Rules(regions.close_item, open=regions.close_boundary, close=regions.close_boundary),
    n.KeyBy: Rules(key_by_item, finds_faults=True),
    n.KeyedAggregate: Rules(
        windows.keyed_aggregate_item,
        guarded.keyed_aggregate_item,
        close=windows.keyed_aggregate_close,
        signal=windows.keyed_aggregate_signal,
    ),
    n.LateItems: Rules(windows.late_item, guarded.timed_item, signal=windows.late_signal),
    n.EmitWatermark: Rules(windows.tide_item, finds_faults=True),
    n.Emit: Rules(signals.emit_item, guarded.emit_item),
    n.Join: MeetRules(joins.settle_join),
    n.Merge: MeetRules(joins.settle_merge),
}
