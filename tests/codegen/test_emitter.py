"""Lines of source at depths, and lines that are known only later."""

from __future__ import annotations

from penstock.codegen.emitter import Emitter


def test_blocks_are_indented_and_never_empty() -> None:
    out = Emitter()
    with out.block("if a"), out.block("while b"):
        pass
    out.line("c = 1")
    assert out.render() == "if a:\n    while b:\n        pass\nc = 1\n"


def test_lines_written_apart_go_where_they_are_put() -> None:
    out = Emitter()
    with out.block("if a"):
        with out.aside() as lines, out.block("if b"):
            out.line("c = 1")
        out.line("d = 1")
        out.put(lines)
    assert out.render() == "if a:\n    d = 1\n    if b:\n        c = 1\n"


def test_what_is_known_later_is_written_at_its_depth() -> None:
    out, names = Emitter(), []
    with out.block("if a"):
        out.later(lambda: [f"saved = {name}" for name in names])
    names += ["b", "c"]
    assert out.render() == "if a:\n    saved = b\n    saved = c\n"


def test_names_are_used_once() -> None:
    out = Emitter()
    assert [out.fresh(), out.fresh("x"), out.fresh()] == ["v0", "x1", "v2"]
