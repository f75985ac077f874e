"""A path taken apart: its file system, what is fixed of it and what is a pattern, and how Spark writes the same."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import unquote

import pyarrow.fs as pf

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
OF_SPARK = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(//(?P<authority>[^/]*))?(?P<path>/.*|)", re.DOTALL)
"""A path of Hadoop, such as `file:/a b` or `s3a://bucket/a%b`: nothing in it is encoded."""

TOKEN = re.compile(r"(?P<wild>[*?]|\[!?\w(?:-?\w)*\])|(?P<odd>\[!?\]?[^\]]*\])|(?P<plain>.)", re.DOTALL)
SPECIAL = re.compile(r"([*?\[\]{}\\])")
ANY_FOLDERS = "**"


@dataclass(frozen=True, slots=True)
class PathPattern:
    """One path, which means the files at it or below it whose names fit the pattern.

    Invariant: `base` and `address` name the part before any wildcard, as the file system and as Spark write it;
    `pattern` is the rest, name by name.
    """

    given: str
    filesystem: pf.FileSystem
    base: str
    address: str
    pattern: tuple[str, ...]

    def below(self, path: str) -> list[str] | None:
        """The names of the folders and of the file that lead from the base to a path, as either side writes it.

        None where the path does not lie below.
        """
        said = OF_SPARK.fullmatch(path)
        inside, base = (said["path"], _inside(self.address)) if said else (path, self.base)
        start = base.rstrip("/") + "/"
        names = inside.removeprefix(start).split("/")
        return names if inside.startswith(start) and all(name not in ("", ".", "..") for name in names) else None

    def folder_and_names(self) -> tuple[str, str]:
        """The folder, or a glob of folders, and the glob of names in it, as Spark writes globs.

        They fit whatever the pattern fits: rarely more, since Spark knows fewer sets of characters.
        """
        folders = (SPECIAL.sub(r"\\\1", self.address).rstrip("/"), *map(_of_spark, self.pattern[:-1]))
        return "/".join(folders) or "/", _of_spark(self.pattern[-1]) if self.pattern else "*"


def _inside(address: str) -> str:
    match = OF_SPARK.fullmatch(address)
    return match["path"] if match else address


def _of_spark(pattern: str) -> str:
    """A pattern for one name in the language of Hadoop, where braces and backslashes have a meaning."""
    made = []
    for token in TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[0]
        made.append("?" if kind == "odd" else text if kind == "wild" else SPECIAL.sub(r"\\\1", text))
    return "".join(made)


def pattern_of(given: str) -> PathPattern:
    """A path taken apart. Raises errors of Arrow and of the system."""
    is_address = ADDRESS.match(given) is not None
    text, mark, options = given.partition("?") if is_address else (given, "", "")
    text = text.rstrip("/") if is_address else os.path.abspath(os.path.expanduser(text))
    names = text.split("/")
    wild = re.compile(r"[*\[]" if is_address else r"[*\[?]")
    fixed = next((at for at, name in enumerate(names) if wild.search(name)), len(names))
    if not is_address and os.path.lexists(text):  # a file may be called 'a[1].csv'
        fixed = len(names)
    start, pattern = "/".join(names[:fixed]), tuple(names[fixed:])
    if is_address:
        filesystem, base = pf.FileSystem.from_uri(start + mark + options)
    else:
        filesystem, base = pf.LocalFileSystem(), start or "/"
    is_local = isinstance(filesystem, pf.LocalFileSystem)
    return PathPattern(given, filesystem, base, f"file://{base}" if is_local else _address(start), pattern)


def _address(text: str) -> str:
    """An address for Spark: not encoded, without a password, and with the name that Hadoop has for S3."""
    match = OF_SPARK.fullmatch(text)
    if match is None:
        return text
    scheme, authority = match["scheme"], match["authority"] or ""
    if scheme == "s3":
        scheme, authority = "s3a", authority.rpartition("@")[2]
    return f"{scheme}://{authority}{unquote(match['path'])}"


def is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def matches(name: str, pattern: str) -> bool:
    """Whether a name fits a pattern for one name. A hidden one fits only a pattern that begins as such a name does."""
    return fnmatchcase(name, pattern) and (not is_hidden(name) or is_hidden(pattern))


def fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a file is meant: the names that lead to it fit a pattern, and all behind are not hidden.

    A folder stands for all files in it, and `**` for any number of folders.
    """
    if not pattern:
        return not any(map(is_hidden, names))
    if not names:
        return False
    if pattern[0] != ANY_FOLDERS:
        return matches(names[0], pattern[0]) and fits(names[1:], pattern[1:])
    return fits(names, pattern[1:] or ["*"]) or (not is_hidden(names[0]) and fits(names[1:], pattern))
