"""Folders that no other user can read or change, and files in them that no other user has made.

Code that is loaded from a folder runs with the rights of the one who loads it. So a folder is used only if nobody else
could have put anything there, or can replace it later: it is ours, with mode 0700, and every folder above it belongs to
us or to root and lets no others rename what is in it. Links are resolved once, before the look at the folders above;
the folder itself must not be one.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

_ROOT = 0


def private_folder(path: Path) -> Path | None:
    """The folder at a path without links, made where it is missing; None where it is not, or cannot be made, private.

    One of ours that others may read is closed to them. One that others may write is refused: what is in it may be
    theirs.
    """
    try:
        path = Path(os.path.realpath(path.parent), path.name)
        if not all(map(_is_guarded, _levels_above(path))):
            return None
        return path if _is_private(path) else None
    except OSError:
        return None


def is_guarded_folder(path: Path) -> bool:
    """Whether a folder that is there keeps what a user has in it from being renamed or removed by others."""
    try:
        path = Path(os.path.realpath(path))
        return all(map(_is_guarded, (*reversed(path.parents), path)))
    except OSError:
        return False


def is_own_file(path: Path) -> bool:
    """Whether a file is a plain one, no link, that we have made and others cannot write."""
    try:
        return _is_ours(path.lstat(), stat.S_ISREG)
    except OSError:
        return False


def read_own(path: Path) -> str | None:
    """The text of a file that is ours; None where there is none."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
            return file.read() if _is_ours(os.fstat(file.fileno()), stat.S_ISREG) else None
    except (OSError, ValueError):
        return None


def open_new(path: Path, mode: int = 0o600) -> int:
    """A descriptor of a file that was not there before, neither as a file nor as a link."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)


def _levels_above(path: Path) -> Iterator[Path]:
    """The folders above, from the root on; those that are missing are made, for us alone."""
    for level in reversed(path.parents):
        if not level.exists():
            with contextlib.suppress(FileExistsError):
                level.mkdir(0o700)
        yield level


def _is_private(path: Path) -> bool:
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(folder)
        if not _is_ours(status, stat.S_ISDIR):
            return False
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(folder, 0o700)
        return True
    finally:
        os.close(folder)


def _is_ours(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _is_guarded(folder: Path) -> bool:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (_ROOT, os.geteuid()):
        return False
    if status.st_mode & stat.S_ISVTX:  # each user can rename only what is his own
        return True
    return not status.st_mode & 0o002 and (not status.st_mode & 0o020 or _is_own_group(status.st_gid))


def _is_own_group(group: int) -> bool:
    """Whether a group is that of root, or one that only this user is in, as many systems make for every user."""
    import grp
    import pwd

    if group == _ROOT:
        return True
    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and members.gr_name == user.pw_name and set(members.gr_mem) <= {user.pw_name}
