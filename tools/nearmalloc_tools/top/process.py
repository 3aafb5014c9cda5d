"""Reads the memory of another process, without stopping it or running code in it.

A process under nearmalloc has the symbol `near_layout` in its library or in its program: a table of
names, numbers and addresses that says where the allocator's structures are (nearmalloc.h).
"""

import ctypes
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from nearmalloc_tools.errors import Refused
from nearmalloc_tools.safe_open import safe_open

LAYOUT_VERSION = 1
SYMBOL = "near_layout"
_ENTRY = 40  # bytes: a name of 24, a number and an address of 8 each
_MOST_ENTRIES = 96
_PART = 1 << 20  # bytes of a file that are read at once
_LARGEST = 16 << 30  # bytes of a file of code


class Ended(Refused):
    """There is no such process (any more)."""


def printable(text: str) -> str:
    """A process chooses its names: they must not move the cursor of a terminal, or worse."""
    return "".join(each if each.isprintable() else "?" for each in text)


class _Part(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


_libc = ctypes.CDLL(None, use_errno=True)
_libc.process_vm_readv.restype = ctypes.c_ssize_t
_libc.process_vm_readv.argtypes = [
    ctypes.c_int,
    ctypes.POINTER(_Part),
    ctypes.c_ulong,
    ctypes.POINTER(_Part),
    ctypes.c_ulong,
    ctypes.c_ulong,
]


@dataclass(frozen=True)
class Mapping:
    start: int
    offset: int
    path: str


class Process:
    """The memory of a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.name = printable(self.file("comm").strip())

    def file(self, name: str) -> str:
        """What the kernel says of the process in a file of /proc."""
        try:
            return Path(f"/proc/{self.pid}/{name}").read_text(encoding="utf-8", errors="replace")
        except PermissionError as error:
            raise self._forbidden() from error
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Ended(f"there is no process {self.pid}") from error

    def _forbidden(self) -> Refused:
        return Refused(
            f"the kernel refuses to let you read process {self.pid}: this needs the rights of "
            "ptrace: run as the same user, or as root with CAP_SYS_PTRACE (see "
            "/proc/sys/kernel/yama/ptrace_scope)"
        )

    def read(self, address: int, size: int) -> bytes:
        """Reads so many bytes; raises Refused if some are not mapped (any more)."""
        buffer = ctypes.create_string_buffer(size)
        done = 0
        while done < size:
            here = _Part(ctypes.addressof(buffer) + done, size - done)
            there = _Part(address + done, size - done)
            got = _libc.process_vm_readv(self.pid, here, 1, there, 1, 0)
            if got <= 0:
                raise self._reason(ctypes.get_errno(), address + done)
            done += got
        return buffer.raw

    def _reason(self, error: int, address: int) -> Refused:
        if error == 3:  # ESRCH
            return Ended(f"process {self.pid} has ended")
        if error == 1:  # EPERM
            return self._forbidden()
        return Refused(f"process {self.pid}: cannot read {address:#x}: {os.strerror(error)}")

    def number(self, address: int, size: int = 8) -> int:
        return int.from_bytes(self.read(address, size), "little")

    def numbers(self, address: int, count: int) -> list[int]:
        """An array of numbers of 8 bytes."""
        return memoryview(self.read(address, 8 * count)).cast("Q").tolist()

    def resident(self) -> int:
        """The resident bytes, as the kernel counts them."""
        return int(self.file("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def clock(self) -> float | None:
        """The process's monotonic clock in seconds; None if it stands still."""
        return time.monotonic()

    def threads(self) -> dict[int, int]:
        """The kernel's number of each thread, by the number that the process itself sees, which is
        another one if it lives in a container."""
        try:
            numbers = [int(each.name) for each in Path(f"/proc/{self.pid}/task").iterdir()]
        except OSError:  # it has ended
            return {}
        if len(self._seen_as(self.pid)) == 1:
            return {number: number for number in numbers}
        return {seen[-1]: number for number in numbers if (seen := self._seen_as(number))}

    def _seen_as(self, thread: int) -> list[int]:
        """A thread's number in each namespace, from this program's to its own."""
        try:
            status = self.file(f"task/{thread}/status").splitlines()
        except Refused:  # it has ended
            return []
        lines = [line for line in status if line.startswith("NSpid:")]
        return [int(each) for each in lines[0].split()[1:]] if lines else [thread]

    def name_of(self, thread: int) -> str | None:
        """The name of a thread by the kernel's number; None if it is not known."""
        try:
            return printable(self.file(f"task/{thread}/comm").removesuffix("\n"))
        except Refused:  # it has ended
            return None

    def prefixes(self) -> tuple[str, ...]:
        """What may stand before the names of its files: it may live in a container."""
        return (f"/proc/{self.pid}/root", "")

    def symbol(self, name: str, first: tuple[str, ...]) -> int | None:
        """The address of a symbol; files whose names begin so are searched first."""
        files = sorted(
            self.files(), key=lambda each: not each.path.rpartition("/")[2].startswith(first)
        )
        found = find_symbol(self, name, files)
        return found[0] if found else None

    def files(self) -> list[Mapping]:
        """The first mapping of each file that has code, those named after nearmalloc first."""
        first: dict[str, Mapping] = {}
        with_code: set[str] = set()
        for line in self.file("maps").splitlines():
            words = line.split(maxsplit=5)
            if len(words) < 6 or not words[5].startswith("/"):
                continue
            start, path = int(words[0].split("-")[0], 16), words[5].removesuffix(" (deleted)")
            first.setdefault(path, Mapping(start, int(words[2], 16), path))
            if "x" in words[1]:
                with_code.add(path)
        found = [mapping for path, mapping in first.items() if path in with_code]
        return sorted(found, key=lambda mapping: "nearmalloc" not in mapping.path)


def _contains(stream: BinaryIO, text: bytes) -> bool:
    """The file is not mapped: its owner could cut it, which would end this program by SIGBUS."""
    before = b""
    while part := stream.read(_PART):
        if text in before + part:
            return True
        before = (before + part)[-len(text) :]
    return False


def symbol_in(file: Path, mapping: Mapping, name: str) -> tuple[int, int] | None:
    """A symbol's address in the process, and its size; None if the file has no such symbol."""
    with safe_open(file) as stream:
        if os.fstat(stream.fileno()).st_size > _LARGEST:
            return None
        if not _contains(stream, f"{name}\0".encode()):  # it may end a longer name
            return None
        elf = ELFFile(stream)
        for section in (".dynsym", ".symtab"):
            table = elf.get_section_by_name(section)
            if not isinstance(table, SymbolTableSection):
                continue
            for symbol in table.get_symbol_by_name(name) or []:
                if symbol["st_shndx"] == "SHN_UNDEF":
                    continue
                page = os.sysconf("SC_PAGE_SIZE")
                lowest = min(
                    segment["p_vaddr"] - segment["p_offset"]
                    for segment in elf.iter_segments("PT_LOAD")
                )
                base = mapping.start - mapping.offset - lowest // page * page
                return int(base + symbol["st_value"]), int(symbol["st_size"])
    return None


def find_symbol(process: Process, name: str, files: list[Mapping]) -> tuple[int, int] | None:
    """The address and size of the first symbol of that name in files of the process."""
    for mapping in files:
        for prefix in process.prefixes():
            try:
                found = symbol_in(Path(prefix + mapping.path), mapping, name)
            except Exception:  # a process can run any file, so it can be cut or forged in any way
                continue
            if found is not None:
                return found
            break
    return None


class Layout:
    """The table `near_layout` of a process: offsets and sizes by name, and addresses."""

    def __init__(self, process: Process, address: int) -> None:
        self.numbers: dict[str, int] = {}
        self.addresses: dict[str, int] = {}
        raw = process.read(address, _ENTRY * _MOST_ENTRIES)
        for at in range(0, len(raw), _ENTRY):
            name = raw[at : at + 24].split(b"\0")[0].decode("ascii", errors="replace")
            if not name:
                break
            self.numbers[name] = int.from_bytes(raw[at + 24 : at + 32], "little")
            self.addresses[name] = int.from_bytes(raw[at + 32 : at + 40], "little")
        version = self.numbers.get("version")
        if version != LAYOUT_VERSION:
            raise Refused(
                f"process {process.pid} has another version of nearmalloc: its layout is number "
                f"{version}, and this program knows number {LAYOUT_VERSION}"
            )

    def __getitem__(self, name: str) -> int:
        return self.numbers[name]


def find_layout(process: Process) -> Layout:
    found = find_symbol(process, SYMBOL, process.files())
    if found is None:
        raise Refused(f"process {process.pid} ({process.name}) does not run on nearmalloc")
    return Layout(process, found[0])


def named(wanted: str) -> list[int]:
    """The processes that a number, or a name as in /proc/PID/comm, means."""
    if wanted.isdecimal():
        return [int(wanted)]
    name = os.fsencode(wanted)[:15]  # names are bytes, in any encoding, and the kernel cuts them
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and (folder / "comm").read_bytes() == name + b"\n":
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    if not found:
        raise Refused(f"there is no process named {wanted}")
    return sorted(found)
