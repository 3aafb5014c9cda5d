"""Opens files that another process named or may have replaced.

Invariant: only a regular file is opened, so no pipe lets this program wait, and no device is read.
"""

import errno
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO


def safe_open(
    path: Path | str, owners: Collection[int] | None = None, *, follow: bool = True
) -> BinaryIO:
    """The file, to be read. OSError if it is not regular, its owner is none of `owners`, or it is a
    symbolic link that is not to be followed."""
    at = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        status = os.fstat(at)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if owners is not None and status.st_uid not in owners:
            raise PermissionError(errno.EPERM, "it is another user's", str(path))
        return Path(f"/proc/self/fd/{at}").open("rb")  # the same file, whatever its name means now
    finally:
        os.close(at)
