"""The first rows of a result as a table: text as PySpark prints it, and HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import pyarrow as pa

WIDEST = 20
"""How many characters of a value are shown."""


def as_text(table: pa.Table, *, has_more: bool = False) -> str:
    """A table of columns that are as wide as their widest value, aligned to the right."""
    names, rows = table.schema.names, _rows(table)
    widths = [max([len(name), *(len(row[at]) for row in rows)]) for at, name in enumerate(names)]
    line = "+" + "".join("-" * width + "+" for width in widths)
    body = ["|" + "".join(f"{value:>{width}}|" for value, width in zip(row, widths, strict=True)) for row in rows]
    (head,) = ["|" + "".join(f"{name:>{width}}|" for name, width in zip(names, widths, strict=True))]
    return "\n".join([line, head, line, *body, *([line] if body else []), *([_more(table)] if has_more else [])])


def as_html(table: pa.Table, *, has_more: bool = False) -> str:
    """The same for a notebook."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.schema.names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row)}</tr>" for row in _rows(table))
    note = f"<p>{escape(_more(table))}</p>" if has_more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _more(table: pa.Table) -> str:
    return f"only the first {table.num_rows} rows"


def _rows(table: pa.Table) -> list[list[str]]:
    return [[_shown(value) for value in row.values()] for row in table.to_pylist()]


def _shown(value: Any) -> str:
    text = str(value).replace("\n", "\\n")
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."
