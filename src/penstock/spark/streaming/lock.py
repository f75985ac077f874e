"""At most one query on a checkpoint."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket

from penstock.errors import CheckpointError

_NO_LOCKS = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK)


class Lock:
    """A lock on a file of a local filesystem, held by this process; the system releases it when the process ends.

    Another one on the same file is refused, in this process too, with an error that names the holder. Where the
    filesystem has no locks, nothing is refused.
    """

    def __init__(self, path: str, where: str) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self._holder()
            self.release()
            raise CheckpointError(
                f"{where} must be used by one query at a time; {holder} uses it; stop that one, or use another folder"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                self.release()
                raise
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode(), 0)

    def _holder(self) -> str:
        try:
            found = json.loads(os.pread(self.descriptor, 4096, 0))
            return f"the process {found['process']} on {found['host']}"
        except (ValueError, KeyError, TypeError):  # it holds the lock, and has not written its name yet
            return "another process"

    def release(self) -> None:
        """Let others have it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
