"""The node kinds of a graph: frozen, and valid by construction.

A node knows the node before it, checks itself against that node's shape when it is made, and has a shape of its own:
the fields of its items, the regions they lie in, the key they are grouped by. There are no other kinds; each backend
has a rule for each of these.
"""

from penstock.graph.nodes.base import GraphNode, Region, Shape, Source, Step
from penstock.graph.nodes.cleaning import DropNulls, FillNull
from penstock.graph.nodes.items import Filter, FlatMap, Handler, Map, MapColumns, Select, Stateful
from penstock.graph.nodes.keyed import Emit, KeyBy
from penstock.graph.nodes.regions import Aggregate, Close, Enumerate, Folding, Regions, Through

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
    KeyBy,
    Emit,
    MapColumns,
    Select,
)
"""All node kinds. A backend has a rule for each of them; a test demands it."""

__all__ = [
    "KINDS",
    "Aggregate",
    "Close",
    "DropNulls",
    "Emit",
    "Enumerate",
    "FillNull",
    "Filter",
    "FlatMap",
    "Folding",
    "GraphNode",
    "Handler",
    "KeyBy",
    "Map",
    "MapColumns",
    "Region",
    "Regions",
    "Select",
    "Shape",
    "Source",
    "Stateful",
    "Step",
    "Through",
]
