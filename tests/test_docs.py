"""The pages of the documentation: every example runs and gives what it shows, and every link leads somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LISTED = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "reference").glob("*.md"))]
PAGES = [ROOT / "README.md", *LISTED]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

FENCE = re.compile(r"\s*```(\w*)\s*$")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def python_only(text: str) -> str:
    """The lines in ```python fences, and an empty line for every other, so that line numbers stay."""
    kept, inside = [], ""
    for line in text.splitlines():
        fence = FENCE.match(line)
        if fence is not None:
            inside = "" if inside else fence[1] or "text"
        kept.append(line if inside == "python" and fence is None else "")
    return "\n".join(kept)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_examples(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    examples = doctest.DocTestParser().get_doctest(
        python_only(page.read_text(encoding="utf-8")), {"__name__": "__main__"}, name, name, 0
    )
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(examples, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not broken


def test_index_names_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    links = {link for link in LINK.findall(index) if "://" not in link}
    assert {page.relative_to(DOCS).as_posix() for page in LISTED} - {"index.md"} <= links


def test_an_example_that_fails_is_found() -> None:
    text = python_only("```python\n>>> 1 + 1\n3\n```\n")
    failing = doctest.DocTestParser().get_doctest(text, {}, "planted", "planted", 0)
    assert doctest.DocTestRunner().run(failing, out=lambda said: None).failed == 1


DESIGN = sorted((ROOT / "docs" / "design").glob("*.md"))
SOURCE_FILE = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")


@pytest.mark.parametrize("page", DESIGN, ids=[page.name for page in DESIGN])
def test_design_notes_name_files_that_exist(page: Path) -> None:
    files = SOURCE_FILE.findall(page.read_text(encoding="utf-8"))
    assert [file for file in files if not ((ROOT / "src" / "penstock" / file).exists() or (ROOT / file).exists())] == []
