"""The file system that a guest starts with: a cpio archive ("newc") made in memory.

Invariant: equal contents give equal bytes; a folder precedes its files; with a program comes
every library that the loader maps for it, at the path where the loader finds it.
"""

import re
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

_MAGIC = b"070701"
_END = "TRAILER!!!"
_LINE = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_LOST = re.compile(r"^\s+(\S+) => not found$", re.MULTILINE)


class InitramfsError(ValueError):
    """Contents that cannot be read, in one line."""


def libraries(program: Path) -> list[Path]:
    """The libraries that the loader maps for a program or a library, the loader included."""
    try:
        asked = subprocess.run(
            ["ldd", program], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise InitramfsError(f"{program}: ldd: {error.strerror}") from None
    if asked.returncode != 0:
        said = asked.stdout + asked.stderr
        if "not a dynamic executable" in said or "statically linked" in said:
            return []
        raise InitramfsError(f"{program}: ldd: {said.strip()[:200]}")
    if lost := _LOST.search(asked.stdout):
        raise InitramfsError(f"{program} needs {lost[1]}, which is not found")
    return [Path(path) for path in _LINE.findall(asked.stdout)]


class Archive:
    """Files by their path in the guest, without the leading slash."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, bytes]] = {}  # path: mode, contents

    def names(self) -> list[str]:
        return list(self._entries)

    def folder(self, path: str) -> None:
        """Adds the folder and those above it."""
        parts = Path(path.strip("/")).parts
        for count in range(1, len(parts) + 1):
            self._entries.setdefault("/".join(parts[:count]), (stat.S_IFDIR | 0o755, b""))

    def text(self, path: str, contents: str, executable: bool = False) -> None:
        self._add(path, stat.S_IFREG | (0o755 if executable else 0o644), contents.encode())

    def link(self, path: str, target: str) -> None:
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def file(self, path: str, source: Path) -> None:
        """Adds a copy of a file, executable if the source is."""
        try:
            mode = 0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644
            self._add(path, stat.S_IFREG | mode, source.read_bytes())
        except OSError as error:
            raise InitramfsError(f"{source}: {error.strerror}") from None

    def program(self, path: str, source: Path) -> None:
        """Adds a program or a library, with the libraries it needs."""
        self.file(path, source)
        for library in libraries(source):
            if str(library).strip("/") not in self._entries:
                self.file(str(library), library)

    def programs(self, folder: str, sources: Iterable[Path]) -> None:
        for source in sources:
            self.program(f"{folder}/{source.name}", source)

    def _add(self, path: str, mode: int, contents: bytes) -> None:
        path = path.strip("/")
        if "/" in path:
            self.folder(path.rpartition("/")[0])
        if path in self._entries and self._entries[path] != (mode, contents):
            raise InitramfsError(f"two files of the guest would be {path}")
        self._entries[path] = (mode, contents)

    def to_bytes(self) -> bytes:
        entries = [*self._entries.items(), (_END, (0, b""))]
        parts = [
            _entry(number, name, mode, contents)
            for number, (name, (mode, contents)) in enumerate(entries, 1)
        ]
        return _padded(b"".join(parts), 512)


def _entry(number: int, name: str, mode: int, contents: bytes) -> bytes:
    """One header with its name and contents, each padded to four bytes."""
    path = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    owner = group = time = 0
    device = (0, 0, 0, 0)  # major and minor of the file's device, and of the one it represents
    fields = (number, mode, owner, group, links, time, len(contents), *device, len(path), 0)
    head = _MAGIC + b"".join(b"%08X" % field for field in fields)
    return _padded(head + path, 4) + _padded(contents, 4)


def _padded(data: bytes, unit: int) -> bytes:
    return data + b"\0" * (-len(data) % unit)
