"""The node kinds of a graph: frozen, and valid by construction.

A node knows the node before it, or the nodes where streams meet, checks itself against their shapes when it is made,
and has a shape of its own: the fields of its items, the regions they lie in, the key they are grouped by. There are no
other kinds; each backend has a rule for each of these.
"""

from penstock.graph.nodes.base import GraphNode, Region, Shape, Source, Step, resolve
from penstock.graph.nodes.cleaning import DropNulls, FillNull
from penstock.graph.nodes.flexible import brings_together, flexible
from penstock.graph.nodes.folds import Folding
from penstock.graph.nodes.items import (
    Filter,
    FlatMap,
    Handler,
    ItemLimit,
    Map,
    MapColumns,
    Select,
    Stateful,
    can_have_copies,
    with_copies,
    with_title,
)
from penstock.graph.nodes.joins import Join, Meet, Merge, stem
from penstock.graph.nodes.keyed import Emit, KeyBy, key_by
from penstock.graph.nodes.keyed_aggregate import KeyedAggregate, KeyedRegions, keyed_aggregate
from penstock.graph.nodes.limit import is_global_limit, limit
from penstock.graph.nodes.regions import Aggregate, Close, Enumerate, Regions, Through
from penstock.graph.nodes.stage import PLACE, Received, Send
from penstock.graph.nodes.watermark_nodes import EmitWatermark, LateItems, late_items, timed_of

KINDS: tuple[type[GraphNode], ...] = (
    Source,
    DropNulls,
    FillNull,
    Map,
    Filter,
    FlatMap,
    Through,
    Enumerate,
    Regions,
    Aggregate,
    Close,
    KeyedAggregate,
    KeyBy,
    Emit,
    MapColumns,
    Select,
    Join,
    Merge,
    LateItems,
    EmitWatermark,
)
"""All node kinds of a graph that runs. A backend has a rule for each of them; a test demands it."""

STAGE_KINDS: tuple[type[GraphNode], ...] = (Received, Send)
"""The kinds that stand at the ends of a stage."""

__all__ = [
    "KINDS",
    "PLACE",
    "STAGE_KINDS",
    "Aggregate",
    "Close",
    "DropNulls",
    "Emit",
    "EmitWatermark",
    "Enumerate",
    "FillNull",
    "Filter",
    "FlatMap",
    "Folding",
    "GraphNode",
    "Handler",
    "ItemLimit",
    "Join",
    "KeyBy",
    "KeyedAggregate",
    "KeyedRegions",
    "LateItems",
    "Map",
    "MapColumns",
    "Meet",
    "Merge",
    "Received",
    "Region",
    "Regions",
    "Select",
    "Send",
    "Shape",
    "Source",
    "Stateful",
    "Step",
    "Through",
    "brings_together",
    "can_have_copies",
    "flexible",
    "is_global_limit",
    "key_by",
    "keyed_aggregate",
    "late_items",
    "limit",
    "resolve",
    "stem",
    "timed_of",
    "with_copies",
    "with_title",
]
