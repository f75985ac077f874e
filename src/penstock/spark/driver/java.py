"""Find a Java that runs Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import SessionError

OLDEST = 17
MODULE = "jdk.incubator.vector"  # Spark asks for it at start-up, and some trimmed builds have left it out


@dataclass(frozen=True, slots=True)
class Java:
    """A Java on this machine: the folder that holds ``bin/java``, its version, and whether it has Spark's module."""

    home: Path
    version: int
    has_module: bool

    @property
    def serves(self) -> bool:
        """Whether Spark runs on it."""
        return self.version >= OLDEST and self.has_module

    @property
    def fault(self) -> str:
        """Why it does not serve, for a message."""
        if self.version < OLDEST:
            return f"{self.home} is Java {self.version}"
        return f"{self.home} has no module {MODULE}"


def find_java() -> Java:
    """The first Java that serves: JAVA_HOME, then the one on PATH, then those that are installed for the machine."""
    seen = []
    for command in _commands():
        java = _describe(command)
        if java is not None and java.serves:
            return java
        seen.append(f"{command} does not run" if java is None else java.fault)
    was = "; ".join(dict.fromkeys(seen)) or "none was found"
    raise SessionError(
        f"session: Spark needs Java {OLDEST} or later with the module {MODULE}; {was}; install one (on Debian: "
        f"apt-get install openjdk-17-jre-headless) or set JAVA_HOME to the folder of one that you have"
    )


def _commands() -> Iterator[Path]:
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home:
        yield Path(home, "bin", "java")
    if on_path:
        yield Path(on_path)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    yield from sorted(Path("/Library/Java/JavaVirtualMachines").glob("*/Contents/Home/bin/java"))


def _describe(command: Path) -> Java | None:
    """What a java command is; None if it does not run.

    The file ``release`` in its folder tells at no cost. Where there is none (the command is a shim, or the build left
    it out), Java itself is asked, which takes a fraction of a second.
    """
    if not os.access(command, os.X_OK):
        return None
    home = command.resolve().parent.parent
    try:
        return _of_release(home, (home / "release").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return _ask(command)


def _of_release(home: Path, text: str) -> Java:
    """Raises ValueError if the file does not say all that is needed."""
    said = dict(re.findall(r'^(\w+)="(.*)"$', text, flags=re.MULTILINE))
    if "MODULES" not in said:
        raise ValueError("no list of modules")
    return Java(home, _major(said.get("JAVA_VERSION", "")), MODULE in said["MODULES"].split())


def _ask(command: Path) -> Java | None:
    for modules, has_module in (([f"--add-modules={MODULE}"], True), ([], False)):
        arguments = [str(command), *modules, "-XshowSettings:properties", "-version"]
        try:
            ran = subprocess.run(arguments, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        said = dict(re.findall(r"^ *(java\.\w+) = (.*)$", ran.stderr, flags=re.MULTILINE))
        if ran.returncode == 0 and "java.home" in said:
            return Java(Path(said["java.home"]), _major(said.get("java.version", "")), has_module)
    return None


def _major(version: str) -> int:
    """
    >>> _major("17.0.15"), _major("1.8.0_392"), _major("25-ea")
    (17, 8, 25)
    """
    found = re.match(r"(?:1\.)?(\d+)", version)
    if found is None:
        raise ValueError(f"not a version: {version!r}")
    return int(found[1])
