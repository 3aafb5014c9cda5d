"""A result on disk: JSON lines, written run by run, read back when an interrupted run goes on.

Invariant: what was written is never rewritten, and a line is whole or the last one: whoever is
ended in the middle of a line leaves a file that can be read, and the half line is cut off before
the next is written. A file that is being written is locked. Touched by: one driver at a time.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Self

_STAMP = "%Y%m%d-%H%M%S"
Record = dict


class JournalError(RuntimeError):
    """A result that cannot be gone on with, in one line."""


def read(path: Path) -> list[Record]:
    """All whole lines. Raises JournalError when one in the middle is none of ours."""
    lines = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            records.append(json.loads(line))
        except ValueError:
            raise JournalError(f"{path}: line {number} is not JSON") from None
    return records


def is_complete(records: list[Record]) -> bool:
    return bool(records) and records[-1].get("kind") == "end" and records[-1]["complete"]


def newest_unfinished(folder: Path, wanted: Callable[[Record], bool]) -> Path | None:
    """The newest unfinished result of the folder whose first line is the wanted one."""
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        try:
            records = read(path)
        except JournalError:
            continue
        if records and not is_complete(records) and wanted(records[0]):
            return path
    return None


class Journal:
    """A result that is being written."""

    def __init__(self, path: Path, mode: str):
        self.path = path
        self._file = path.open(mode)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise JournalError(f"{path} is being written by another run") from None

    @classmethod
    def create(cls, folder: Path) -> Self:
        """A new file named after this second; waits for the next one if that is taken."""
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                return cls(folder / f"{datetime.now().strftime(_STAMP)}.jsonl", "xb")
            except FileExistsError:
                time.sleep(0.1)

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Effect: a half line at the end is gone; what is written comes after the whole ones."""
        journal = cls(path, "r+b")
        whole = path.read_bytes().rfind(b"\n") + 1
        journal._file.truncate(whole)
        journal._file.seek(whole)
        return journal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self._file.close()

    def write(self, record: Record) -> None:
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
