"""Stops all threads of a process for as long as it is looked at, and reads their registers.

By ptrace(2): the process runs on when the `with` ends, or when this program does.
"""

import ctypes
import os
import platform
from pathlib import Path
from typing import Self

from nearmalloc_tools.errors import Refused

_SEIZE, _INTERRUPT, _DETACH, _GETREGSET = 0x4206, 0x4207, 17, 0x4204
_GENERAL, _FLOATING = 1, 2  # sets of registers
_WALL = 0x40000000
_SP = {"x86_64": 19, "aarch64": 31}  # index of the stack pointer among the general registers

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class _Vector(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class PtraceStop:
    """All threads of a process, stopped."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._threads: set[int] = set()

    def __enter__(self) -> Self:
        try:
            # A thread that is not stopped yet may make others.
            while new := self._listed() - self._threads:
                for thread in new:
                    self._stop(thread)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            _libc.ptrace(_DETACH, thread, None, None)

    def _listed(self) -> set[int]:
        return {int(path.name) for path in Path(f"/proc/{self.pid}/task").iterdir()}

    def _stop(self, thread: int) -> None:
        if _libc.ptrace(_SEIZE, thread, None, None) != 0:
            error = ctypes.get_errno()
            if error == 3:  # ESRCH: it has just ended
                return
            raise Refused(
                f"the kernel refuses to let you stop process {self.pid} ({os.strerror(error)}): "
                "this needs the rights of ptrace (see /proc/sys/kernel/yama/ptrace_scope)"
            )
        self._threads.add(thread)
        _libc.ptrace(_INTERRUPT, thread, None, None)
        _, status = os.waitpid(thread, _WALL)
        if not os.WIFSTOPPED(status):
            self._threads.discard(thread)

    def _set(self, thread: int, which: int) -> bytes:
        room = ctypes.create_string_buffer(4096)
        vector = _Vector(ctypes.addressof(room), len(room))
        if _libc.ptrace(_GETREGSET, thread, which, ctypes.addressof(vector)) != 0:
            return b""
        return room.raw[: vector.bytes]

    def registers(self) -> list[tuple[int, bytes]]:
        """For each thread its stack pointer, and all its registers in 8 bytes each."""
        out = []
        for thread in self._threads:
            general = self._set(thread, _GENERAL)
            if not general:
                continue
            at = 8 * _SP[platform.machine()]
            floating = self._set(thread, _FLOATING)
            whole = general + floating[: len(floating) // 8 * 8]
            out.append((int.from_bytes(general[at : at + 8], "little"), whole))
        return out
