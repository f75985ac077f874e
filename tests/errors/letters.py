"""Dead letters as records, to be compared."""

from __future__ import annotations

import pyarrow as pa

from penstock.graph.letters import Letter


def letters_of(table: pa.Table) -> list[Letter]:
    """The letters in a table."""
    return [Letter(**row) for row in table.to_pylist()]
