"""The memory of a dead process, from its core file and the files that it had mapped."""

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import NoteSegment

from nearmalloc_tools.errors import Refused
from nearmalloc_tools.top.process import (
    SYMBOL,
    Layout,
    Mapping,
    Process,
    find_symbol,
    printable,
)

_PRSTATUS_PID = slice(32, 36)  # where the note of a thread has its number


@dataclass(frozen=True)
class _Part:
    """Addresses whose content is in a file."""

    start: int
    end: int
    file: Path
    offset: int


class Core(Process):
    """A core file as a process that can be read."""

    def __init__(self, path: Path) -> None:
        self.pid, self.name = 0, path.name
        self._resident = 0
        self._mappings: list[Mapping] = []
        self._threads: dict[int, int] = {}
        dumped: list[_Part] = []
        mapped: list[_Part] = []
        try:
            with path.open("rb") as stream:
                elf = ELFFile(stream)
                if elf["e_type"] != "ET_CORE":
                    raise Refused(f"{path} is no core file")
                for segment in elf.iter_segments():
                    if segment["p_type"] == "PT_LOAD" and segment["p_filesz"] > 0:
                        start = segment["p_vaddr"]
                        end = start + segment["p_filesz"]
                        dumped.append(_Part(start, end, path, segment["p_offset"]))
                        self._resident += segment["p_filesz"]
                    elif isinstance(segment, NoteSegment):
                        for note in segment.iter_notes():
                            self._note(note, mapped)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from error
        except ELFError as error:
            raise Refused(f"{path} is no core file") from error
        self._dumped, self._mapped = sorted(dumped, key=_start), sorted(mapped, key=_start)

    def _note(self, note: Any, mapped: list[_Part]) -> None:
        if note["n_type"] == "NT_PRPSINFO":
            self.pid = note["n_desc"]["pr_pid"]
            name = note["n_desc"]["pr_fname"].split(b"\0")[0].decode(errors="replace")
            self.name = printable(name)
        if note["n_type"] == "NT_PRSTATUS":
            thread = int.from_bytes(note["n_descdata"][_PRSTATUS_PID], "little")
            if thread > 0:
                self._threads[thread] = thread
        if note["n_type"] != "NT_FILE":
            return
        files = note["n_desc"]
        page = files["page_size"]
        for each, name in zip(files["Elf_Nt_File_Entry"], files["filename"], strict=True):
            path, offset = name.decode(errors="replace"), each["page_offset"] * page
            mapped.append(_Part(each["vm_start"], each["vm_end"], Path(path), offset))
            if path not in {mapping.path for mapping in self._mappings}:
                self._mappings.append(Mapping(each["vm_start"], offset, path))

    def read(self, address: int, size: int) -> bytes:
        out = b""
        while size > 0:
            part = _find(self._dumped, address) or _find(self._mapped, address)
            if part is None:
                raise Refused(f"the core file does not have {address:#x}")
            length = min(size, part.end - address)
            try:
                with part.file.open("rb") as stream:
                    stream.seek(part.offset + address - part.start)
                    got = stream.read(length)
            except OSError as error:
                raise Refused(f"{part.file}: {error.strerror}") from error
            if len(got) != length:
                raise Refused(f"{part.file} is shorter than it was, or the core file is cut")
            out += got
            address, size = address + length, size - length
        return out

    def resident(self) -> int:
        return self._resident

    def clock(self) -> None:
        return None

    def threads(self) -> dict[int, int]:
        return self._threads

    def name_of(self, thread: int) -> None:
        return None

    def prefixes(self) -> tuple[str, ...]:
        return ("",)

    def files(self) -> list[Mapping]:
        return sorted(self._mappings, key=lambda mapping: "nearmalloc" not in mapping.path)


def _start(part: _Part) -> int:
    return part.start


def _find(parts: list[_Part], address: int) -> _Part | None:
    index = bisect_right(parts, address, key=_start) - 1
    return parts[index] if index >= 0 and address < parts[index].end else None


def layout_of(core: Core) -> Layout:
    found = find_symbol(core, SYMBOL, core.files())
    if found is not None:
        return Layout(core, found[0])
    raise Refused(
        f"process {core.pid} ({core.name}) did not run on nearmalloc, or its files are not here"
    )
