"""The code of an aggregate: variables that begin with a region, take every item, and finish as fields."""

from __future__ import annotations

from penstock.codegen.aggregate_results import BUILTINS, OwnFold, ResultRule
from penstock.codegen.aggregate_store import VariableStore
from penstock.codegen.item_rules import keep
from penstock.codegen.loop_context import LoopContext
from penstock.codegen.site import Level, Site
from penstock.graph import nodes as n
from penstock.graph.aggregate import Builtin


class Accumulator:
    """All results of one aggregate node in one loop."""

    def __init__(self, loop: LoopContext, node: n.Aggregate | n.KeyedAggregate, store: VariableStore) -> None:
        self.node, self.store = node, store
        self.results: dict[str, ResultRule] = {}
        for at, (name, result) in enumerate(node.results.items()):
            kind = BUILTINS[result.kind] if isinstance(result, Builtin) else OwnFold
            self.results[name] = kind(loop, node, store, at, name, result)

    def begin(self, site: Site) -> None:
        for result in self.results.values():
            result.begin(site)

    def add(self, site: Site) -> None:
        for result in self.results.values():
            result.add(site)

    def finish(self, site: Site) -> Level:
        """The fields of the item that a region leaves behind."""
        own = keep(site.levels[-1], tuple(self.node.keep))
        own |= {name: result.finish(site) for name, result in self.results.items()}
        return own | {name: self.store.plain(own[name], self.node.shape.fields[name]) for name in self.results}
