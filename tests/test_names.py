"""A name stands for one thing: no two files of the package have the same stem, and no two classes the same name.

Private classes count as well, without their underscore: a reader who searches for a name finds one thing.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "penstock"


def files(package: Path) -> list[Path]:
    return sorted(path for path in package.rglob("*.py") if not path.stem.startswith("__"))


def stems(package: Path) -> Iterator[tuple[str, str]]:
    for path in files(package):
        yield path.stem, path.relative_to(package).as_posix()


def classes(package: Path) -> Iterator[tuple[str, str]]:
    for path in files(package):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name.lstrip("_"), path.relative_to(package).as_posix()


def repeated(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that stand for several things, each with the files where they stand."""
    places = defaultdict(list)
    for name, file in names:
        places[name].append(file)
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def test_a_stem_names_one_file() -> None:
    assert repeated(stems(PACKAGE)) == {}


def test_a_class_name_names_one_class() -> None:
    assert repeated(classes(PACKAGE)) == {}


def test_a_repeated_name_is_found(tmp_path: Path) -> None:
    for folder, source in (("one", "class Layout: ..."), ("other", "class _Layout: ...")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(source, encoding="utf-8")
    assert repeated(stems(tmp_path)) == {"same": ["one/same.py", "other/same.py"]}
    assert repeated(classes(tmp_path)) == {"Layout": ["one/same.py", "other/same.py"]}
