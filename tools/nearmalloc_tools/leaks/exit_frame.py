"""Where the stack of a thread that called exit() begins to be the program's own.

Below the caller of exit lie frames of the C library and of the allocator. They have gaps in which
old values remain, among them pointers to leaked blocks. Only the registers that exit saved for its
caller may hold pointers of the program.
"""

import platform

from nearmalloc_tools.errors import Refused
from nearmalloc_tools.top.process import Process, find_symbol

_RED_ZONE = 128  # bytes below the stack pointer that a function may use
_PAGE = 4096
_MOST = 65536  # bytes of stack that exit and its handlers use
# What __run_exit_handlers pushes next to the return address into exit, with glibc 2.36, the
# only one tried. On other processors the frames are searched as a whole.
_SAVED = {"x86_64": 6 * 8}


def begin(process: Process, pointer: int) -> tuple[int, bool]:
    """Where to search from: below the stack pointer, or above the frames of exit if it runs. And
    whether the thread's registers may hold pointers of the program: not while exit runs."""
    whole = (pointer - _RED_ZONE) & ~7
    saved = _SAVED.get(platform.machine())
    files = [each for each in process.files() if "/libc.so" in each.path]
    code = find_symbol(process, "exit", files) if saved and files else None
    if saved is None or code is None:
        return whole, True
    words = _words(process, pointer & ~7)
    for index, word in enumerate(words):
        if code[0] < word <= code[0] + code[1]:
            return (pointer & ~7) + 8 * index - saved, False
    return whole, True


def _words(process: Process, at: int) -> memoryview:
    """As much of the stack as there is: it may end on the next page."""
    parts, end = [], at + _MOST
    while at < end:
        size = _PAGE - at % _PAGE
        try:
            parts.append(process.read(at, size))
        except Refused:
            break
        at += size
    return memoryview(b"".join(parts)).cast("Q")
