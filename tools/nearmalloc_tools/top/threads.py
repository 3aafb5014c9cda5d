"""Which thread has a heap: the number by which the kernel knows it.

A heap has the address of its thread's control block (malloc/heap/heap.h). glibc keeps the thread's
number in that block, and says where by a symbol that it has for debuggers (libthread_db). With
another C library no thread is known.

Invariant: a number from the memory of the process counts only if the kernel says that the process
has a thread of that number.
"""

import struct

from nearmalloc_tools.errors import Refused
from nearmalloc_tools.top.process import Process

_SYMBOL = "_thread_db_pthread_tid"
_FILES = ("libc.so", "libc-2.", "libpthread")  # where glibc of any version has it
_DESCRIPTOR = struct.Struct("<3I")  # bits of a number, how many there are, and bytes before them


class Threads:
    """The threads of a process that have heaps."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._place = _place(process)
        self._known: dict[int, int] = {}

    def look(self) -> None:
        """Asks which threads the process has now."""
        self._known = {} if self._place is None else self._process.threads()

    def of(self, control_block: int) -> int | None:
        """The thread that has this control block, if the last look saw it."""
        if self._place is None or not self._known or control_block == 0:
            return None
        try:
            number = self._process.number(control_block + self._place, 4)
        except Refused:  # the thread has ended, and its stack is gone
            return None
        return self._known.get(number)


def _place(process: Process) -> int | None:
    """Where in a control block the number is."""
    address = process.symbol(_SYMBOL, _FILES)
    if address is None:
        return None
    try:
        bits, count, place = _DESCRIPTOR.unpack(process.read(address, _DESCRIPTOR.size))
    except Refused:
        return None
    return int(place) if (bits, count) == (32, 1) else None
