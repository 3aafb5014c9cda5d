"""A result on disk: JSON lines, written run by run, found by name.

Invariant: written lines are never rewritten, and every line except the last is whole. A driver that
is killed in the middle of a line leaves a readable file; `reopen` cuts off the partial line before
the next is written. A file that is being written is locked, so it has one driver at a time.
"""

import fcntl
import json
import lzma
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from nearlab import places

FORMAT = 1
_STAMP = "%Y%m%d-%H%M%S"
Record = dict[str, Any]


class JournalError(RuntimeError):
    """A result that does not exist or cannot be read or resumed; the message is one line."""


def read(path: Path) -> list[Record]:
    """Returns all whole lines; a file .xz is compressed. Raises JournalError if one of them has
    another format."""
    try:
        data = path.read_bytes()
        lines = (lzma.decompress(data) if path.suffix == ".xz" else data).split(b"\n")
    except (OSError, lzma.LZMAError) as error:
        raise JournalError(f"{path}: cannot be read: {error}") from None
    return [_record(path, number, line) for number, line in enumerate(lines[:-1], 1)]


def _record(path: Path, number: int, line: bytes) -> Record:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict) or "kind" not in record:
        raise JournalError(f"{path}: line {number} is not a line of results")
    return record


def read_result(path: Path) -> list[Record]:
    """As `read`; it also raises if the first line is no plan of this format."""
    records = read(path)
    if not records or records[0]["kind"] != "plan" or records[0].get("format") != FORMAT:
        raise JournalError(f"{path}: no results file of format {FORMAT}")
    return records


def find(text: str = "") -> Path:
    """Returns a file by its path; or the newest result of the named plan, or of any plan; `~N`
    selects the Nth result before it."""
    if text and Path(text).is_file():
        return Path(text)
    plan, tilde, back = text.partition("~")
    if tilde and not back.isdecimal():
        raise JournalError(f"{text}: a number is wanted after ~")
    folder = places.plan_results()
    found = list((folder / plan).glob("*.jsonl") if plan else folder.glob("*/*.jsonl"))
    found.sort(key=lambda path: (path.stem, path), reverse=True)
    if not found:
        missing = f"{text}: neither a file nor a plan that has results" if text else "no results"
        raise JournalError(f"{missing} in {folder}")
    if int(back or 0) >= len(found):
        raise JournalError(f"{text}: there are {len(found)} results")
    return found[int(back or 0)]


def timelines_of(path: Path) -> Path:
    """The folder with the timelines of a result."""
    return path.with_suffix(".timelines")


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
        self._file = path.open(mode, buffering=0)  # a write that failed is not tried again
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise JournalError(f"{path} is being written by another run") from None

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Creates a file named after this second; if that name is taken, it waits for the next
        second."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            while True:
                try:
                    return cls(folder / f"{datetime.now().strftime(_STAMP)}.jsonl", "xb")
                except FileExistsError:
                    time.sleep(0.1)
        except OSError as error:
            raise JournalError(f"cannot write results to {folder}: {error.strerror}") from None

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Opens a file to continue it, and cuts off a partial line at its end."""
        journal = cls(path, "r+b")
        whole = path.read_bytes().rfind(b"\n") + 1
        journal._file.truncate(whole)
        journal._file.seek(whole)
        return journal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, record: Record) -> None:
        """Raises JournalError if it cannot: the disk is full. The file stays readable."""
        try:
            left = memoryview(json.dumps(record).encode() + b"\n")
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise JournalError(f"{self.path}: cannot be written: {error.strerror}") from None
